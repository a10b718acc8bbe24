// The report of this page, and texts for its parts.

const nodeTitle = (node) => node.name || node.outputs.find((name) => name) || node.op_type;
const sizesOf = (shape) => shape ? "[" + shape.join(", ") + "]" : "?";
const axesOf = (axes) => ["w", "h", "d", "c"].filter((name) => name in axes).map((name) => name + "=" + axes[name]).join(" ");
const report = JSON.parse(document.getElementById("report").textContent);
const net = report.net;
const byId = (id) => document.getElementById(id);

// Names come from the model: characters that would reverse or hide text are replaced.
const show = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]/g, "\ufffd");

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = show(value);
    // A policy may forbid the attribute.
    else if (name === "style") element.style.cssText = value;
    else if (name === "click") element.addEventListener("click", value);
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const KINDS = [
  ["product", /^(Conv|Deconv|DeformableConv|DeformConv|InnerProduct|Gemm|MatMul|QLinear|Einsum|Embed|LSTM|GRU|RNN|Attention|MultiHeadAttention|SDPA)/],
  ["activation", /(Relu|^ReLU|^PReLU|[cs]?elu$|^S?C?ELU|^GELU|^GLU|Sigmoid|Swish|Tan[hH]$|Mish|HardS|[sS]oft|^Clip|^Threshold|^Shrink|BNLL|^Elu)/],
  ["norm", /(Norm|^LRN|^MVN|^Scale$|^Bias$)/],
  ["pool", /(Pool|^Reduc|^Interp|^Resize|^Upsample|^R[oO][iI]|^GridSample|^Cum|Spectrogram|^Arg|^TopK)/],
  ["arithmetic", /^(BinaryOp|UnaryOp|Eltwise|Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Abs|Neg|Erf|Min|Max|Sin|Cos|Where|Equal|Less|Greater|And|Or|Not|Rotary)/],
  ["end", /^(Input|Output|MemoryData|Constant)$/],
  ["move", /./],
];
const kindOf = (type) => KINDS.find(([, pattern]) => pattern.test(type))[0];

// A long text without its middle: both ends of a name are read.
function middle(text, most) {
  const chars = Array.from(text), end = Math.ceil((most - 1) / 2);
  return chars.length <= most ? text : chars.slice(0, most - 1 - end).join("") + "\u2026" + chars.slice(chars.length - end).join("");
}

const plural = (n, noun) => n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");

function scaled(n, units) {
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) { n /= 1000; unit++; }
  return (unit === 0 || n >= 100 ? Math.floor(n) : n >= 10 ? Math.floor(n * 10) / 10 : Math.floor(n * 100) / 100) + " " + units[unit];
}
const bytesOf = (n) => scaled(n, ["bytes", "KB", "MB", "GB", "TB"]);
const amountOf = (n) => n === null ? "?" : n === 0 ? "" : scaled(n, ["", "K", "M", "G", "T"]).trim();

// What distinguishes a layer from others of its type, in a few characters.
function summaryOf(layer) {
  const param = (name) => layer.params.find((param) => param.name === name)?.value;
  if (/^(Conv|Deconv|DeformableConv|Pooling)/.test(layer.type)) {
    if (param("global_pooling")) return "global";
    const w = param("kernel_w"), h = param("kernel_h") ?? w, s = param("stride_w") ?? 1;
    return w ? (/(1D)$/.test(layer.type) ? String(w) : w + "\u00d7" + h) + (s > 1 ? " /" + s : "") : "";
  }
  const op = param("op_type") ?? 0;
  if (layer.type === "BinaryOp") {
    return ["add", "sub", "mul", "div", "max", "min", "pow", "rsub", "rdiv", "rpow", "atan2", "ratan2"][op] ?? "op " + op;
  }
  if (layer.type === "UnaryOp") {
    return ["abs", "neg", "floor", "ceil", "square", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan",
      "reciprocal", "tanh", "log10", "round", "trunc"][op] ?? "op " + op;
  }
  if (layer.type === "Concat" || layer.type === "Slice" || layer.type === "Softmax") return "axis " + (param("axis") ?? 0);
  return "";
}

const weightSum = (layer, field) => layer.weights.reduce((sum, weight) => sum + weight[field], 0);

// What was measured of a blob of the net, or a value of the model, by its name.
const comparison = report.comparison ?? { outputs: [], layers: [] };
const measures = { layer: new Map(), node: new Map() };
for (const found of comparison.layers.concat(comparison.outputs)) {
  if (found.blob) measures.layer.set(found.blob, found);
  measures.node.set(found.name, found);
}
const measuresOf = (part, items) => items.flatMap((i) => part.items[i].tops.map((blob) => measures[part.noun].get(blob)).filter((found) => found));

// What colours boxes besides the kinds of layers: the largest error, or the time as a part of the whole. `share` is 0 for the least, and
// 1 for the largest.
const largest = (values) => values.length ? values.reduce((a, b) => Math.max(a, b)) : null;
const wholeTime = comparison.layers.reduce((sum, found) => sum + (found.seconds ?? 0), 0);
const numbersOf = (found, of) => found.map(of).filter((n) => n !== null && n !== undefined);
const timeText = (seconds) => seconds < 1 ? Number((1000 * seconds).toPrecision(3)) + " ms" : seconds.toPrecision(3) + " s";
const HEATS = [
  { name: "error", title: "Error", of: (found) => largest(numbersOf(found, (one) => one.alone ?? one.relative)), text: (n) => n ? n.toExponential(1) : "0",
    share: (n) => n > 0 ? (Math.log10(n) + 7) / 6 : 0, ends: ["1e-7", "0.1"] },
  { name: "time", title: "Time", of: (found) => found.some((one) => one.seconds) ? numbersOf(found, (one) => one.seconds).reduce((a, b) => a + b, 0) : null,
    text: timeText, share: (n) => n > 0 ? 1 + Math.log10(n / wholeTime) / 3 : 0, ends: ["0.1 %", "100 % of " + timeText(wholeTime)] },
].filter((heat) => heat.of(comparison.layers.concat(comparison.outputs)) !== null);
const HEAT_COLORS = [[26, 152, 80], [233, 176, 0], [215, 48, 39]];

function heatColor(share) {
  const at = 2 * Math.min(1, Math.max(0, share)), low = Math.min(1, Math.floor(at));
  return "rgb(" + HEAT_COLORS[low].map((n, i) => Math.round(n + (HEAT_COLORS[low + 1][i] - n) * (at - low))).join(" ") + ")";
}

// The boxes of a graph and the blobs, or values, between them: the layers of the net, or the inputs and nodes of the model.
class Part {
  constructor(noun, items, inputs, outputs) {
    this.noun = noun;
    this.items = items;
    this.inputs = inputs;
    this.outputs = outputs;
    this.producers = new Map();
    this.readers = new Map();
    items.forEach((item, i) => {
      item.tops.forEach((blob) => this.producers.set(blob, i));
      for (const blob of item.bottoms) {
        if (!this.readers.has(blob)) this.readers.set(blob, []);
        this.readers.get(blob).push(i);
      }
    });
    this.byName = new Map(items.map((item, i) => [item.name, i]));
    // What other boxes compute; an output may be a constant.
    this.ends = outputs.filter((port) => this.producers.has(port.blob));
    this.graph = null;
  }

  // The texts by which an item is found.
  textOf(i) {
    this.texts ??= this.items.map((item) => [item.name, item.type, ...item.bottoms, ...item.tops,
      ...item.nodes.flatMap((n) => [report.nodes[n].name, report.nodes[n].op_type, ...report.nodes[n].outputs])].join("\n").toLowerCase());
    return this.texts[i];
  }

  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter((word) => word);
    if (!words.length) return [];
    const names = this.items.map((item) => item.name.toLowerCase());
    const rank = (i) => (names[i] === words.join(" ") ? 0 : names[i].includes(words[0]) ? 1 : 2);
    const found = names.map((_, i) => i).filter((i) => words.every((word) => this.textOf(i).includes(word)));
    return found.sort((a, b) => rank(a) - rank(b) || a - b);
  }

  shapeOf(blob) {
    const item = this.items[this.producers.get(blob)];
    return item ? sizesOf(item.shapes[item.tops.indexOf(blob)]) : "";
  }
}

// The model: its nodes, after its inputs. `item.nodes` are the nodes whose work an item does.
function modelPart() {
  const bare = { params: [], weights: [], multiply_adds: 0 };
  const given = report.model.inputs.map((value) => ({
    ...bare, name: value.name, type: "Input", bottoms: [], tops: [value.name], shapes: [value.shape], nodes: [],
  }));
  const nodes = report.nodes.map((node, i) => ({
    ...bare, name: nodeTitle(node), type: node.op_type, bottoms: node.inputs.filter((name) => name), tops: node.outputs.filter((name) => name),
    shapes: node.shapes.filter((_, i) => node.outputs[i]), multiply_adds: node.operator_cost?.multiply_adds ?? 0, nodes: [i], node,
    refused: node.becomes === "refused", idle: node.becomes === "folded" || node.becomes === "nothing",
  }));
  const port = (value) => ({ ...value, blob: value.name, sizes: sizesOf(value.shape) });
  return new Part("node", given.concat(nodes), report.model.inputs.map(port), report.model.outputs.map(port));
}

function netPart() {
  const port = (port) => ({ ...port, sizes: axesOf(port.axes) });
  return new Part("layer", net.layers, net.inputs.map(port), net.outputs.map(port));
}

const layers = net ? netPart() : null, nodes = report.nodes.length ? modelPart() : null;
const main = layers ?? nodes;
const itemOfNode = (n) => n + report.model.inputs.length;

// The items of the other graph that belong to one of this.
function partners(part, i) {
  if (!layers || !nodes) return [];
  const item = part.items[i], known = (list) => list.filter((i) => i !== undefined);
  if (item.node) return known(item.node.layers.map((name) => layers.byName.get(name)));
  if (item.type !== "Input") return item.nodes.map(itemOfNode);
  const [own, key, other] = part === layers ? ["blob", "name", nodes] : ["name", "blob", layers];
  return known(net.inputs.filter((port) => item.tops.includes(port[own])).map((port) => other.producers.get(port[key])));
}

// A button that copies a text, beside it.
function copyButton(text, what) {
  const button = make("button", { type: "button", class: "copy", "aria-label": "Copy " + what, title: "Copy", click: async () => {
    const copied = await copy(text);
    say(copied ? "Copied " + what + "." : "The browser does not copy.");
    button.classList.toggle("done", copied);
    setTimeout(() => button.classList.remove("done"), 1200);
  } });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // In a frame of a notebook, only the older way is permitted.
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" }), focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return copied;
  }
}

function say(text) {
  byId("said").textContent = show(text);
}
