// The report that this page is about, and words for what is in it.

const report = JSON.parse(document.getElementById("report").textContent);
const net = report.net;
const layers = net ? net.layers : [];
const byId = (id) => document.getElementById(id);

// Names come from the model: what would reverse or hide text is shown as a sign.
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
  ["product", /^(Convolution|Deconvolution|DeformableConv|InnerProduct|Gemm|MatMul|Einsum|Embed|LSTM|GRU|RNN|MultiHeadAttention|SDPA)/],
  ["activation", /^(ReLU|PReLU|ELU|CELU|SELU|GELU|GLU|Sigmoid|Swish|HardS|TanH|Mish|Softmax|Softplus|Clip|Threshold|Shrink|BNLL)/],
  ["norm", /(Norm|^LRN|^MVN|^Normalize|^Scale$|^Bias$)/],
  ["pool", /^(Pooling|Reduction|Interp|ROI|GridSample|CumulativeSum|Spectrogram|InverseSpectrogram)/],
  ["arithmetic", /^(BinaryOp|UnaryOp|Eltwise|Exp$|Log$|Power|AbsVal|Erf|RotaryEmbed)/],
  ["end", /^(Input|Output|MemoryData)$/],
  ["move", /./],
];
const kindOf = (type) => KINDS.find(([, pattern]) => pattern.test(type))[0];

const sizesOf = (shape) => shape ? "[" + shape.join(", ") + "]" : "?";
const axesOf = (axes) => ["w", "h", "d", "c"].filter((name) => name in axes).map((name) => name + "=" + axes[name]).join(" ");
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

const nodeTitle = (node) => node.name || node.outputs.find((name) => name) || node.op_type;
const weightSum = (layer, field) => layer.weights.reduce((sum, weight) => sum + weight[field], 0);

// Who computes and who reads each blob.
const producers = new Map(), readers = new Map();
layers.forEach((layer, i) => {
  layer.tops.forEach((blob) => producers.set(blob, i));
  layer.bottoms.forEach((blob) => readers.set(blob, (readers.get(blob) ?? []).concat(i)));
});
const layerByName = new Map(layers.map((layer, i) => [layer.name, i]));

// All that a layer is found by.
const haystacks = layers.map((layer) => [layer.name, layer.type, ...layer.bottoms, ...layer.tops,
  ...layer.nodes.flatMap((n) => [report.nodes[n].name, report.nodes[n].op_type, ...report.nodes[n].outputs])].join("\n").toLowerCase());
function findLayers(text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word);
  if (!words.length) return [];
  const rank = (i) => (layers[i].name.toLowerCase() === words.join(" ") ? 0 : layers[i].name.toLowerCase().includes(words[0]) ? 1 : 2);
  const found = layers.map((_, i) => i).filter((i) => words.every((word) => haystacks[i].includes(word)));
  return found.sort((a, b) => rank(a) - rank(b) || a - b);
}
