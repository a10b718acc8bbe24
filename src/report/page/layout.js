// The layout of the graph: each box is below those that it reads, in rows, with few crossings and straight long edges.

const LAYOUT = {
  rowGap: 30, thinGap: 14, boxGap: 26, wireGap: 12,
  // Edges over too many rows are drawn straight, without intermediate points.
  mostPlaces: 300000, longest: 48,
  orderSweeps: 8, placeSweeps: 16, mostCounted: 8000,
};

// The row of each box: one below the last of those that it reads. Boxes that depend only on constants are above their first reader.
function findRows(boxes, edges) {
  const row = new Array(boxes.length).fill(0);
  const given = boxes.map((box) => box.given);
  const readers = boxes.map(() => []);
  for (const [from, to] of edges) {
    row[to] = Math.max(row[to], row[from] + 1);
    given[to] = given[to] || given[from];
    readers[from].push(to);
  }
  for (let i = boxes.length - 1; i >= 0; i--) {
    if (!given[i] && readers[i].length) row[i] = Math.max(row[i], Math.min(...readers[i].map((to) => row[to])) - 1);
  }
  return row;
}

// Boxes, and the points of edges in rows, as `items`.
function makeItems(boxes, edges, row) {
  const items = boxes.map((box, i) => ({ row: row[i], w: box.w, h: box.h, box: i, up: [], down: [] }));
  let places = 0;
  const farthest = new Map();
  for (const [from, to] of edges) farthest.set(from, Math.max(farthest.get(from) ?? 0, row[to] - row[from]));
  for (const span of farthest.values()) places += Math.max(0, span - 1);
  const longest = places > LAYOUT.mostPlaces ? LAYOUT.longest : Infinity;
  const trunks = new Map();
  const wires = [];
  const paths = edges.map(([from, to]) => {
    const path = [];
    let last = from;
    const step = (next) => {
      const key = last + " " + next;
      if (!wires.seen) wires.seen = new Map();
      if (!wires.seen.has(key)) {
        wires.seen.set(key, wires.length);
        wires.push([last, next]);
        items[last].down.push(next);
        items[next].up.push(last);
      }
      path.push(wires.seen.get(key));
      last = next;
    };
    if (row[to] - row[from] <= longest) {
      // A value with several distant readers has one common edge to them.
      for (let at = row[from] + 1; at < row[to]; at++) {
        const key = from + " " + at;
        if (!trunks.has(key)) {
          trunks.set(key, items.length);
          items.push({ row: at, w: 1, h: 0, box: -1, up: [], down: [] });
        }
        step(trunks.get(key));
      }
    }
    step(to);
    return path;
  });
  return { items, wires, paths };
}

// Crossings between two rows: pairs of wires whose ends are in opposite order.
function crossings(items, upper, place) {
  let count = 0;
  const ends = [];
  for (const id of upper) {
    const downs = items[id].down.filter((to) => items[to].row === items[id].row + 1).map((to) => place[to]);
    ends.push(...downs.sort((a, b) => a - b));
  }
  const tree = new Array((ends.length ? Math.max(...ends) : 0) + 2).fill(0);
  ends.forEach((end, seen) => {
    let below = 0;
    for (let i = end + 1; i > 0; i -= i & -i) below += tree[i];
    count += seen - below;
    for (let i = end + 1; i < tree.length; i += i & -i) tree[i]++;
  });
  return count;
}

// The order in each row: neighbours of neighbours become adjacent.
function orderRows(items, rows) {
  const place = new Array(items.length).fill(0);
  const number = (row) => row.forEach((id, i) => { place[id] = i; });
  rows.forEach(number);
  const countAll = () => items.length > LAYOUT.mostCounted ? 0 : rows.reduce((n, row) => n + crossings(items, row, place), 0);
  let best = countAll();
  let kept = rows.map((row) => row.slice());
  for (let sweep = 0; sweep < LAYOUT.orderSweeps; sweep++) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[down ? i : rows.length - 1 - i];
      const wanted = new Map(row.map((id) => {
        const near = down ? items[id].up : items[id].down;
        const sum = near.reduce((n, other) => n + place[other] / (rows[items[other].row].length || 1), 0);
        return [id, near.length ? sum / near.length : place[id] / row.length];
      }));
      row.sort((a, b) => wanted.get(a) - wanted.get(b) || place[a] - place[b]);
      number(row);
    }
    const count = countAll();
    if (count <= best) {
      best = count;
      kept = rows.map((row) => row.slice());
    }
  }
  kept.forEach((row, i) => { rows[i] = row; number(row); });
}

// The x of each item of a row nearest to the desired ones, with the gaps kept: neighbours with the same desired position share it.
function spread(row, items, wanted, weight, x) {
  const blocks = [];
  let offset = 0;
  row.forEach((id, i) => {
    if (i > 0) {
      const before = items[row[i - 1]], own = items[id];
      const gap = before.box < 0 || own.box < 0 ? LAYOUT.wireGap : LAYOUT.boxGap;
      offset += (before.w + own.w) / 2 + gap;
    }
    let block = { sum: (wanted[i] - offset) * weight[i], weight: weight[i], ids: [[id, offset]] };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight > block.sum / block.weight) {
      const before = blocks.pop();
      for (const entry of block.ids) before.ids.push(entry);
      block = { sum: before.sum + block.sum, weight: before.weight + block.weight, ids: before.ids };
    }
    blocks.push(block);
  });
  for (const block of blocks) {
    for (const [id, off] of block.ids) x[id] = block.sum / block.weight + off;
  }
}

function placeRows(items, rows) {
  const x = new Array(items.length).fill(0);
  for (const row of rows) {
    let at = 0;
    const width = row.reduce((sum, id) => sum + items[id].w + LAYOUT.boxGap, 0);
    for (const id of row) {
      x[id] = at + items[id].w / 2 - width / 2;
      at += items[id].w + LAYOUT.boxGap;
    }
  }
  // An edge between two intermediate points should be straight; one between boxes may bend.
  const pull = (a, b) => a.box < 0 && b.box < 0 ? 8 : a.box < 0 || b.box < 0 ? 2 : 1;
  for (let sweep = 0; sweep < LAYOUT.placeSweeps; sweep++) {
    // In the end each box is below its input, so that chains are straight.
    const last = sweep >= LAYOUT.placeSweeps - 2, down = last || sweep % 2 === 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[down ? i : rows.length - 1 - i];
      const wanted = [], weight = [];
      for (const id of row) {
        const own = items[id];
        let near = down ? own.up : own.down;
        if (!near.length) near = own.up.concat(own.down);
        let sum = 0, pulls = 0;
        for (const other of near) {
          const p = pull(own, items[other]);
          sum += x[other] * p;
          pulls += p;
        }
        wanted.push(pulls ? sum / pulls : x[id]);
        weight.push(own.box < 0 ? 4 : 1);
      }
      spread(row, items, wanted, weight, x);
    }
  }
  return x;
}

// Boxes `{w, h, given}`, `given` those of the inputs, and edges `[from, to]` with `from` before `to`: the middle of each box, the rows from top to bottom, the wires
// from row to row, and which of them each edge consists of.
function layOut(boxes, edges) {
  const row = findRows(boxes, edges);
  const { items, wires, paths } = makeItems(boxes, edges, row);
  const rows = Array.from({ length: items.reduce((n, item) => Math.max(n, item.row + 1), 0) }, () => []);
  items.forEach((item, id) => rows[item.row].push(id));
  orderRows(items, rows);
  const x = placeRows(items, rows);
  let y = 0;
  const bands = rows.map((ids) => {
    const height = ids.reduce((h, id) => Math.max(h, items[id].h), 0);
    const band = { top: y, bottom: y + height, boxes: ids.filter((id) => items[id].box >= 0).map((id) => items[id].box), wires: [] };
    y = band.bottom + (height < 20 ? LAYOUT.thinGap : LAYOUT.rowGap);
    return band;
  });
  const middle = (id) => (bands[items[id].row].top + bands[items[id].row].bottom) / 2;
  const lines = wires.map(([from, to], i) => {
    const a = items[from], b = items[to];
    // A wire leaves a box at its edge, and passes through a row in a straight line.
    const y0 = a.box < 0 ? bands[a.row].bottom : middle(from) + a.h / 2;
    const y1 = b.box < 0 ? bands[b.row].top : middle(to) - b.h / 2;
    const through = b.box < 0 ? bands[b.row].bottom : y1;
    bands[a.row].wires.push(i);
    return { x0: x[from], y0, x1: x[to], y1, through };
  });
  const centers = boxes.map((_, id) => ({ x: x[id], y: middle(id) }));
  let left = Infinity, right = -Infinity;
  items.forEach((item, id) => { left = Math.min(left, x[id] - item.w / 2); right = Math.max(right, x[id] + item.w / 2); });
  return { centers, bands, lines, paths, row, left: boxes.length ? left : 0, right: boxes.length ? right : 0, bottom: y };
}
