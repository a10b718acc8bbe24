// The report of this page, and texts for its parts.

const nodeTitle = (node) => node.name || node.outputs.find((name) => name) || node.op_type;
const sizesOf = (shape) => shape ? "[" + shape.join(", ") + "]" : "?";
const axesOf = (axes) => ["w", "h", "d", "c"].filter((name) => name in axes).map((name) => name + "=" + axes[name]).join(" ");
const report = JSON.parse(document.getElementById("report").textContent);
const net = report.net;
// The boxes of the graph: the layers of the net, or the nodes of a refused model, after its inputs.
const bare = { params: [], weights: [], multiply_adds: 0 };
const layers = net ? net.layers : (report.nodes.length ? report.model.inputs : []).map((value) => ({ ...bare, name: value.name, type: "Input", bottoms: [], tops: [value.name],
  shapes: [value.shape], nodes: [] })).concat(report.nodes.map((node, i) => ({ ...bare, name: nodeTitle(node), type: node.op_type,
  bottoms: node.inputs.filter((name) => name), tops: node.outputs.filter((name) => name), shapes: node.shapes.filter((_, i) => node.outputs[i]),
  nodes: [i], refused: node.becomes === "refused" })));
// The interface: blobs of the net, or values of the model.
const portOf = (port) => net ? { ...port, sizes: axesOf(port.axes) } : { ...port, blob: port.name, sizes: sizesOf(port.shape) };
const inputs = (net ?? report.model ?? { inputs: [] }).inputs.map(portOf), outputs = (net ?? report.model ?? { outputs: [] }).outputs.map(portOf);
const byId = (id) => document.getElementById(id);

// Names come from the model: characters that would reverse or hide text are replaced.
const show = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = show(value);
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

// The producer and the readers of each blob.
const producers = new Map(), readers = new Map();
layers.forEach((layer, i) => {
  layer.tops.forEach((blob) => producers.set(blob, i));
  layer.bottoms.forEach((blob) => readers.set(blob, (readers.get(blob) ?? []).concat(i)));
});
const layerByName = new Map(layers.map((layer, i) => [layer.name, i]));

// The texts by which a layer is found.
const haystacks = layers.map((layer) => [layer.name, layer.type, ...layer.bottoms, ...layer.tops,
  ...layer.nodes.flatMap((n) => [report.nodes[n].name, report.nodes[n].op_type, ...report.nodes[n].outputs])].join("\n").toLowerCase());
function findLayers(text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word);
  if (!words.length) return [];
  const rank = (i) => (layers[i].name.toLowerCase() === words.join(" ") ? 0 : layers[i].name.toLowerCase().includes(words[0]) ? 1 : 2);
  const found = layers.map((_, i) => i).filter((i) => words.every((word) => haystacks[i].includes(word)));
  return found.sort((a, b) => rank(a) - rank(b) || a - b);
}
