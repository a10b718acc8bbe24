// The selected layer, beside the graph.

const details = byId("details");

function say(text) {
  byId("said").textContent = text;
}

const pairs = (rows) => make("dl", { class: "pairs" }, ...rows.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]));

function linkTo(layer, text) {
  return make("button", { type: "button", class: "link name", text: text ?? layers[layer].name, click: () => { openView("graph"); choose(layer, true); } });
}

function blobList(blobs, ends, shapeOf) {
  return make("ul", { class: "plain" }, ...blobs.map((blob, i) => {
    const item = make("li", {}, make("span", { class: "name", text: blob }), " ", make("small", { class: "hint", text: shapeOf(blob, i) }));
    for (const end of ends(blob)) item.append(make("br"), "\u2192 ", linkTo(end));
    return item;
  }));
}

function shapeOfBlob(blob) {
  const layer = layers[producers.get(blob)];
  return layer ? sizesOf(layer.shapes[layer.tops.indexOf(blob)]) : "";
}

function valueText(value) {
  const text = Array.isArray(value) ? "[" + value.join(", ") + "]" : String(value);
  return text.length > 300 ? text.slice(0, 300) + "\u2026" : text;
}

function describeLayer(layer, index) {
  const parts = [make("h2", {}, make("span", { class: "swatch", style: "background: var(--" + kindOf(layer.type) + ")" }), show(layer.type)),
    make("p", { class: "name", text: layer.name })];
  const facts = [["place", index + 1 + " of " + layers.length]];
  if (layer.multiply_adds !== 0) facts.push(["multiply-adds", amountOf(layer.multiply_adds)]);
  if (layer.weights.length) facts.push(["parameters", amountOf(weightSum(layer, "elements"))]);
  parts.push(pairs(facts));
  const section = (title, body) => parts.push(make("h3", { text: title }), body);
  if (layer.bottoms.length) section("Reads", blobList(layer.bottoms, (blob) => producers.has(blob) ? [producers.get(blob)] : [], shapeOfBlob));
  section("Computes", blobList(layer.tops, (blob) => readers.get(blob) ?? [], shapeOfBlob));
  if (layer.params.length) section("Params", pairs(layer.params.map((param) => [param.id + " " + param.name, valueText(param.value)])));
  if (layer.weights.length) {
    section("Weights", pairs(layer.weights.map((weight) => [weight.name, weight.dtype + " \u00d7 " + weight.elements.toLocaleString("en") + ", " + bytesOf(weight.bytes) + (weight.error === undefined ? "" : ", error " + weight.error.toPrecision(2))])));
  }
  const reasons = layer.refused ? report.diagnostics.filter((found) => found.at.node?.index === report.nodes[layer.nodes[0]].index) : [];
  for (const found of reasons) parts.splice(2, 0, make("div", { class: "card error" }, make("span", { class: "kind", text: found.kind }), " " + show(found.reason), ...(found.help ? [make("p", { text: "Help: " + found.help })] : [])));
  if (net && layer.nodes.length) {
    section("Nodes of the model", make("ul", { class: "plain" }, ...layer.nodes.map((n) => {
      const node = report.nodes[n];
      return make("li", {}, show(node.op_type) + " ", make("span", { class: "name", text: nodeTitle(node) }));
    })));
  }
  return parts;
}

// Selects a box of the graph; layers have the indices of their boxes.
function choose(id, center) {
  chosen = id;
  const layer = layers[id], port = id >= layers.length ? outputs.filter((port) => producers.has(port.blob))[id - layers.length] : null;
  if (layer) details.replaceChildren(...describeLayer(layer, id));
  else if (port) details.replaceChildren(make("h2", { text: "Output" }), make("p", { class: "name", text: port.blob }), ...portFacts(port));
  else details.replaceChildren(...overview());
  canvas.dataset.chosen = layer ? layer.name : "";
  details.scrollTop = 0;
  if (layer) say(layer.type + " " + show(layer.name) + ", " + layer.shapes.map(sizesOf).join(" "));
  if (drawing && center && id >= 0) centerOn(id); else redraw();
  refreshTables();
}

const portFacts = (port) => [pairs([["in the model", port.dtype + " " + sizesOf(port.shape)], ...(net ? [["in ncnn", port.cache ? "a cache of the runtime, with " + port.cache : port.sizes + (port.int32 ? " as int32" : "")]] : []),
  ...(port.name === port.blob ? [] : [["name in the model", port.name]])])];

// The content without a selection.
function overview() {
  const parts = [make("h2", { text: "Interface" })];
  for (const [title, ports] of [["Inputs", inputs], ["Outputs", outputs]]) {
    parts.push(make("h3", { text: title }));
    for (const port of ports.slice(0, 50)) {
      parts.push(producers.has(port.blob) ? make("div", {}, linkTo(producers.get(port.blob), port.blob)) : make("div", { class: "name", text: port.blob }), ...portFacts(port));
    }
  }
  const types = new Map();
  for (const layer of layers) types.set(layer.type, (types.get(layer.type) ?? 0) + 1);
  const counted = [...types].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  parts.push(make("h3", { text: net ? "Layers" : "Operators" }), pairs(counted.map(([type, n]) => [type, n])));
  return parts;
}
