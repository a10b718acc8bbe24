// Blocks: items whose names have a common beginning, such as "/model.3/", and that follow each other in an order of execution.
// Each can be shown as one box.

const BLOCKS = { least: 2, deepest: 24, from: 300, few: 12, many: 200 };

const newScope = (label, parent) => ({ label, parent, depth: parent ? parent.depth + 1 : 0, inner: new Map(), ready: [], count: 0 });

// The scopes of items as a tree, by the parts of their names. The name of an operator at the end of a scope is no part of the network.
function findScopes(part) {
  const root = newScope("", null);
  const scopes = [];
  const isSplit = (item) => part === layers && item.type === "Split";
  part.items.forEach((item, i) => {
    const types = [item.type, ...item.nodes.map((n) => report.nodes[n].op_type)].map((type) => type.toLowerCase());
    const name = isSplit(item) ? "" : item.name.split(";")[0];
    const pieces = (name.match(/[/.]*[^/.]+/g) ?? []).slice(0, -1).slice(0, BLOCKS.deepest);
    while (pieces.length && types.includes(pieces[pieces.length - 1].replace(/^[/.]+/, "").toLowerCase())) pieces.pop();
    let scope = root;
    for (const piece of pieces) {
      if (!scope.inner.has(piece)) scope.inner.set(piece, newScope(scope.label + piece, scope));
      scope = scope.inner.get(piece);
    }
    scopes.push(scope);
  });
  // What has no scope of its own is in that which its neighbours share, a Split where its input is computed.
  part.items.forEach((item, i) => {
    if (scopes[i] !== root) return;
    const before = item.bottoms.map((blob) => part.producers.get(blob)).filter((other) => other !== undefined);
    const after = isSplit(item) ? [] : item.tops.flatMap((blob) => part.readers.get(blob) ?? []);
    if (before.length && (after.length || isSplit(item))) scopes[i] = before.concat(after).map((other) => scopes[other]).reduce(commonScope);
  });
  return { root, scopes };
}

function commonScope(a, b) {
  while (a !== b) {
    if (a.depth >= b.depth) a = a.parent; else b = b.parent;
  }
  return a;
}

// An order of execution in which items of a scope stand together if they can, and constants stand before their first reader.
function orderItems(part, root, scopes) {
  const { items, producers, readers } = part, order = [], done = items.map(() => false);
  const sources = items.map((item, i) => [...new Set(item.bottoms.map((blob) => producers.get(blob)))].filter((from) => from < i));
  const given = items.map((item) => item.type === "Input");
  items.forEach((item, i) => { given[i] ||= item.node?.becomes !== "folded" && sources[i].some((from) => given[from]); });
  if (!given.includes(true)) given.fill(true);
  const missing = sources.map((list) => list.filter((from) => given[from]).length);
  const count = (scope, change) => { for (; scope; scope = scope.parent) scope.count += change; };
  const makeReady = (i) => { scopes[i].ready.push(i); count(scopes[i], 1); };
  const emit = (last) => {
    const stack = [last];
    while (stack.length) {
      const i = stack[stack.length - 1], before = done[i] ? undefined : sources[i].find((from) => !done[from]);
      if (before !== undefined) {
        // What is constant is where it is read first; a node is a block with its constants.
        if (!given[before]) {
          if (part === nodes && given[i] && scopes[i].of !== i) scopes[i] = { ...newScope(items[i].name, scopes[i]), of: i };
          scopes[before] = scopes[i];
        }
        stack.push(before);
        continue;
      }
      stack.pop();
      if (done[i]) continue;
      done[i] = true;
      order.push(i);
      for (const to of given[i] ? new Set(items[i].tops.flatMap((blob) => readers.get(blob) ?? [])) : []) {
        if (given[to] && to > i && --missing[to] === 0 && !done[to]) makeReady(to);
      }
    }
  };
  items.forEach((_, i) => { if (given[i] && !missing[i]) makeReady(i); });
  let scope = root, next = 0;
  for (;;) {
    while (scope !== root && !scope.count) scope = scope.parent;
    let i;
    if (scope === root) {
      while (next < items.length && (done[next] || !given[next])) next++;
      if (next === items.length) break;
      i = next;
      scope = scopes[i];
      scope.ready.splice(scope.ready.indexOf(i), 1);
    } else {
      while (!scope.ready.length) scope = [...scope.inner.values()].find((inner) => inner.count);
      i = scope.ready.shift();
    }
    count(scope, -1);
    emit(i);
  }
  items.forEach((_, i) => emit(i));
  return order;
}

// The blocks as a tree `{label, parts, items, of, outer, open}`; `parts` has items and further blocks, `of` is the item whose constants are in it.
function findBlocks(part) {
  const { root, scopes } = findScopes(part), order = orderItems(part, root, scopes);
  const at = (i, depth) => {
    let scope = scopes[i];
    while (scope.depth > depth) scope = scope.parent;
    return scope.depth === depth ? scope : null;
  };
  const split = (from, to, depth) => {
    const parts = [];
    for (let start = from, end; start < to; start = end) {
      const scope = at(order[start], depth);
      for (end = start + 1; scope && end < to && at(order[end], depth) === scope;) end++;
      if (end - start < BLOCKS.least) { parts.push(order[start]); continue; }
      const inner = split(start, end, depth + 1);
      // A block that only holds another is one with it.
      if (inner.length === 1) parts.push(inner[0]);
      else {
        const block = { label: scope.label, of: scope.of, parts: inner, items: order.slice(start, end), outer: null, open: true };
        for (const one of inner) if (typeof one !== "number") one.outer = block;
        parts.push(block);
      }
    }
    return parts;
  };
  return split(0, order.length, 1);
}

const blocksIn = (parts) => parts.filter((one) => typeof one !== "number");

// Opens blocks, level by level, as long as at most `most` boxes result, or fewer than `few` are there without; constants only with all blocks.
function openBlocks(parts, most, few = BLOCKS.few) {
  const size = (list) => list.reduce((n, one) => n + (typeof one !== "number" && one.open ? size(one.parts) : 1), 0);
  const close = (list) => blocksIn(list).forEach((block) => { block.open = false; close(block.parts); });
  close(parts);
  for (let level = blocksIn(parts); level.length; level = level.flatMap((block) => blocksIn(block.parts))) {
    const before = size(parts);
    level.forEach((block) => { block.open = block.of === undefined || most === Infinity; });
    if (size(parts) > most && before >= few) {
      level.forEach((block) => { block.open = false; });
      return;
    }
  }
}
