// The chosen box, beside the graph.

const details = byId("details");
const BECOMES = { layers: "layers of its own", fused: "part of a layer", folded: "known before the net runs", nothing: "nothing", refused: "refused" };

const pairs = (rows) => make("dl", { class: "pairs" }, ...rows.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]));

function linkTo(part, i, text, most = Infinity) {
  const whole = show(text ?? part.items[i].name), short = middle(whole, most);
  return make("button", { type: "button", class: "link name", text: short, title: short === whole ? null : whole, click: () => goTo(part, i) });
}

// A name of what it says, to be copied.
const nameOf = (text, what) => [make("span", { class: "name", text }), copyButton(text, what + " " + show(text))];

function countedTypes(items) {
  const types = new Map();
  for (const item of items) types.set(item.type, (types.get(item.type) ?? 0) + 1);
  return [...types].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

function blobList(part, blobs, ends) {
  const what = part === layers ? "blob" : "value";
  return make("ul", { class: "plain" }, ...blobs.map((blob) => {
    const item = make("li", {}, ...nameOf(blob, what), " ", make("small", { class: "hint", text: part.shapeOf(blob) }));
    for (const end of ends(blob).slice(0, 50)) item.append(make("br"), "\u2192 ", linkTo(part, end));
    return item;
  }));
}

function valueText(value) {
  const text = Array.isArray(value) ? "[" + value.join(", ") + "]" : String(value);
  return text.length > 300 ? text.slice(0, 300) + "\u2026" : text;
}

// The blocks around an item or a block, the innermost first, with buttons that close them.
function describeBlocks(graph, block) {
  const list = make("ul", { class: "plain" });
  for (; block; block = block.outer) {
    const own = block;
    const close = () => { graph.setOpen(own, false); graph.canvas.focus(); };
    list.append(make("li", {}, make("span", { class: "name", text: own.label }), " ",
      make("small", { class: "hint", text: "\u00d7 " + own.items.length.toLocaleString("en") }), " ",
      make("button", { type: "button", class: "link", text: "close", "aria-label": "close the block " + show(own.label), click: close })));
  }
  return list;
}

function describeItem(part, i) {
  const item = part.items[i], { node } = item, what = item.type === "Input" && part === nodes ? "input" : part.noun;
  const swatch = make("span", { class: "swatch", style: "background: var(--" + kindOf(item.type) + ")" });
  const parts = [make("h2", {}, swatch, show(item.type)), make("p", {}, ...nameOf(item.name, what))];
  const facts = [];
  if (part === layers) facts.push(["place", i + 1 + " of " + part.items.length]);
  if (node) {
    facts.push(["place", "node " + node.index], ["operator set", node.version]);
    if (node.becomes) facts.push(["becomes", BECOMES[node.becomes]]);
  }
  if (item.multiply_adds !== 0) facts.push(["multiply-adds", amountOf(item.multiply_adds)]);
  if (item.weights.length) facts.push(["parameters", amountOf(weightSum(item, "elements"))]);
  parts.push(pairs(facts));
  const section = (title, body) => parts.push(make("h3", { text: title }), body);
  const reasons = item.refused ? report.diagnostics.filter((found) => found.at.node?.index === node.index) : [];
  for (const found of reasons) {
    const help = found.help ? [make("p", { text: "Help: " + found.help })] : [];
    parts.push(make("div", { class: "card error" }, make("span", { class: "kind", text: found.kind }), " " + show(found.reason), ...help));
  }
  if (item.bottoms.length) section("Reads", blobList(part, item.bottoms, (blob) => part.producers.has(blob) ? [part.producers.get(blob)] : []));
  if (item.tops.length) section("Computes", blobList(part, item.tops, (blob) => part.readers.get(blob) ?? []));
  if (item.params.length) section("Params", pairs(item.params.map((param) => [param.id + " " + param.name, valueText(param.value)])));
  if (item.weights.length) {
    const error = (weight) => weight.error === undefined ? "" : ", error " + weight.error.toPrecision(2);
    const stored = (weight) => weight.dtype + " \u00d7 " + weight.elements.toLocaleString("en") + ", " + bytesOf(weight.bytes) + error(weight);
    section("Weights", pairs(item.weights.map((weight) => [weight.name, stored(weight)])));
  }
  const compared = measuresOf(part, [i]);
  if (compared.length) section("Compared with the model", make("div", {}, ...compared.map(measurePairs)));
  const others = partners(part, i), other = part === layers ? nodes : layers;
  if (others.length) {
    const list = others.slice(0, 200).map((i) => {
      const { name, type } = other.items[i];
      return make("li", {}, show(type) + " ", linkTo(other, i), copyButton(name, other.noun + " " + show(name)));
    });
    section(other === nodes ? "In the model" : "In the net", make("ul", { class: "plain" }, ...list));
  }
  const around = part.graph?.drawing && part.graph.blockAround(i);
  if (around) section("Blocks around it", describeBlocks(part.graph, around));
  return parts;
}

// What a comparison measured of a value.
function measurePairs(found) {
  const rows = [["value", found.name]], add = (name, n, text) => { if (n !== null && n !== undefined) rows.push([name, text(n)]); };
  add("relative error", found.relative, (n) => n.toExponential(2));
  add("of these layers alone", found.alone, (n) => n.toExponential(2));
  add("largest difference", found.max_abs, (n) => n.toExponential(2));
  add("cosine", found.cosine, (n) => n.toFixed(6));
  add("time", found.seconds, timeText);
  for (const text of [found.why, found.note]) if (text) rows.push(["note", text]);
  return pairs(rows);
}

function describeBlock(graph, block) {
  const { part } = graph, items = block.items.map((i) => part.items[i]);
  const open = make("button", { type: "button", class: "button", text: "Open the block", click: () => { graph.setOpen(block, true); graph.canvas.focus(); } });
  const parts = [make("h2", { text: plural(items.length, part.noun) }), make("p", {}, ...nameOf(block.label, "block")), make("p", {}, open)];
  const weights = items.reduce((n, item) => n + weightSum(item, "elements"), 0), adds = items.reduce((n, item) => n + (item.multiply_adds ?? 0), 0);
  const facts = [];
  if (adds) facts.push(["multiply-adds", amountOf(adds)]);
  if (weights) facts.push(["parameters", amountOf(weights)]);
  if (facts.length) parts.push(pairs(facts));
  const section = (title, body) => parts.push(make("h3", { text: title }), body);
  section(part === layers ? "Layers" : "Operators", pairs(countedTypes(items)));
  section("Its " + part.noun + "s", make("ul", { class: "plain" }, ...block.items.slice(0, 100).map((i) => make("li", {}, linkTo(part, i)))));
  if (block.outer) section("Blocks around it", describeBlocks(graph, block.outer));
  return parts;
}

// Chooses a box of a graph, or none, and marks what belongs to it in the other one.
function choose(graph, box, center) {
  const { part } = graph, item = box?.item, block = box?.block, i = item ?? block?.items[0];
  chosen = item === undefined ? null : { part, i: item };
  const other = (part === layers ? nodes : layers)?.graph;
  graph.chosen = box;
  graph.linked = [];
  if (other) {
    other.chosen = null;
    other.linked = item !== undefined ? partners(part, item) : block ? [...new Set(block.items.flatMap((i) => partners(part, i)))] : [];
    other.mark();
    if (other.drawing && !other.stage.hidden) other.bring(other.linked);
    other.redraw();
  }
  graph.mark();
  if (item !== undefined) details.replaceChildren(...describeItem(part, item));
  else if (block) details.replaceChildren(...describeBlock(graph, block));
  else if (box) details.replaceChildren(make("h2", { text: "Output" }), make("p", {}, ...nameOf(box.port.blob, part === layers ? "blob" : "value")), portFacts(part, box.port));
  else details.replaceChildren(...overview(part));
  graph.canvas.dataset.chosen = item !== undefined ? part.items[item].name : block ? block.label : "";
  details.scrollTop = 0;
  const marked = other?.linked.length ? ", " + plural(other.linked.length, other.part.noun) + (other.part === nodes ? " of the model" : " of the net") : "";
  if (item !== undefined) say(part.items[item].type + " " + part.items[item].name + ", " + part.items[item].shapes.map(sizesOf).join(" ") + marked);
  else if (block) say("Block " + block.label + " of " + plural(block.items.length, part.noun) + marked + ". Enter opens it.");
  else if (box) say("Output " + box.port.blob);
  if (center && box) {
    graph.moved = true;
    graph.centerOn(box.at);
  } else graph.redraw();
  refreshTables();
}

function portFacts(part, port) {
  const rows = [["in the model", port.dtype + " " + sizesOf(port.shape)]];
  if (part === layers) rows.push(["in ncnn", port.cache ? "a cache of the runtime, with " + port.cache : port.sizes + (port.int32 ? " as int32" : "")]);
  if (port.name !== port.blob) rows.push(["name in the model", port.name]);
  return pairs(rows);
}

// The content without a choice.
function overview(part) {
  const parts = [make("h2", { text: "Interface" })];
  for (const [title, ports] of [["Inputs", part.inputs], ["Outputs", part.outputs]]) {
    parts.push(make("h3", { text: title }));
    for (const port of ports.slice(0, 50)) {
      const i = part.producers.get(port.blob), name = i === undefined ? make("span", { class: "name", text: port.blob }) : linkTo(part, i, port.blob);
      parts.push(make("div", {}, name, copyButton(port.blob, title.toLowerCase().slice(0, -1) + " " + show(port.blob))), portFacts(part, port));
    }
  }
  parts.push(make("h3", { text: part === layers ? "Layers" : "Operators" }), pairs(countedTypes(part.items)));
  return parts;
}
