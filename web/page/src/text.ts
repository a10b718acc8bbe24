// The texts of the page in English and Chinese. Messages of the converter are English.

const ENGLISH = {
  skip: "Skip to the content",
  purpose: "Converts ONNX models to the files that ncnn loads: right, or refused with a reason.",
  language: "Language",
  drop: "Drop a model here",
  dropHelp: "A .onnx file, together with its external data if it has any, as files or as their folder.",
  choose: "Choose files",
  chooseFolder: "Choose a folder",
  example: "Try an example",
  private: "Nothing leaves this machine: the conversion runs in this page, which can open no connection to others.",
  options: "Options",
  more: "Rarely needed options",
  convert: "Convert",
  simplify: "Simplify",
  inspect: "Inspect",
  cancel: "Cancel",
  footer: "Models, results and options stay in the browser. The address of this page has the options, to share them.",
  reading: "Reading the model",
  converting: "Converting",
  writing: "Writing the weights",
  cancelled: "Cancelled.",
  missing: "Missing external data; drop it here, or together with the model:",
  converted: "Converted",
  convertible: "Can be converted",
  refused: "Refused",
  failed: "Failed",
  failedStart: "The converter cannot be started: ",
  simplified: "Simplified",
  summary: "{layers} layers, {bytes}; loads in ncnn {since} and later.",
  refusedSummary: "The messages say why. Nothing was written.",
  contents: "{nodes} nodes, {parameters} parameters, {macs} multiply-adds.",
  ports: "Inputs and outputs",
  kind: "Kind",
  name: "Name",
  type: "Type",
  shape: "Shape in the model",
  blob: "Blob in ncnn",
  input: "input",
  output: "output",
  newShape: "Shape to convert with",
  constant: "Constant value",
  inputsTable: "Inputs of the model",
  messages: "Messages",
  none: "There are none.",
  error: "error",
  warning: "warning",
  assumption: "assumed",
  expectation: "expected",
  condition: "valid if",
  help: "Help: ",
  advice: "What can be converted",
  remedy: "Convert {percent} % with {options}",
  wholeRemedy: "Convert the whole model with {options}",
  setFlag: "Convert with {option}",
  downloads: "Downloads",
  all: "all as .zip",
  program: "program in {language}",
  report: "report (.json)",
  page: "report (.html)",
  graph: "Graph and report",
  showGraph: "Show the graph",
  operators: "Operators",
  shared: "The options of the address were set.",
  list: "names, with commas between them",
  pairs: "old=new, with commas between them",
  invalid: "{name}: {text} is not valid here",
};

export type Key = keyof typeof ENGLISH;

const CHINESE: Record<Key, string> = {
  skip: "跳到内容",
  purpose: "将 ONNX 模型转换为 ncnn 可加载的文件：要么结果正确，要么说明拒绝的原因。",
  language: "语言",
  drop: "将模型拖放到此处",
  dropHelp: "一个 .onnx 文件；如有外部数据，请一并拖放（文件或所在文件夹）。",
  choose: "选择文件",
  chooseFolder: "选择文件夹",
  example: "试用示例",
  private: "数据不会离开本机：转换在本页面中进行，页面无法连接其他网站。",
  options: "选项",
  more: "较少使用的选项",
  convert: "转换",
  simplify: "简化",
  inspect: "查看",
  cancel: "取消",
  footer: "模型、结果和选项都留在浏览器中。本页地址包含选项，可以分享。",
  reading: "正在读取模型",
  converting: "正在转换",
  writing: "正在写入权重",
  cancelled: "已取消。",
  missing: "缺少外部数据；请拖放到此处，或与模型一起拖放：",
  converted: "已转换",
  convertible: "可以转换",
  refused: "已拒绝",
  failed: "失败",
  failedStart: "无法启动转换器：",
  simplified: "已简化",
  summary: "{layers} 层，{bytes}；ncnn {since} 及更新版本可加载。",
  refusedSummary: "消息说明了原因。没有写入任何文件。",
  contents: "{nodes} 个节点，{parameters} 个参数，{macs} 次乘加。",
  ports: "输入与输出",
  kind: "类别",
  name: "名称",
  type: "类型",
  shape: "模型中的形状",
  blob: "ncnn 中的 blob",
  input: "输入",
  output: "输出",
  newShape: "转换所用形状",
  constant: "常量值",
  inputsTable: "模型的输入",
  messages: "消息",
  none: "没有。",
  error: "错误",
  warning: "警告",
  assumption: "假设",
  expectation: "预期",
  condition: "成立条件",
  help: "帮助：",
  advice: "可以转换的部分",
  remedy: "使用 {options} 转换 {percent} %",
  wholeRemedy: "使用 {options} 转换整个模型",
  setFlag: "使用 {option} 转换",
  downloads: "下载",
  all: "全部打包为 .zip",
  program: "{language} 程序",
  report: "报告（.json）",
  page: "报告（.html）",
  graph: "网络图与报告",
  showGraph: "显示网络图",
  operators: "算子",
  shared: "已设置地址中的选项。",
  list: "名称，以逗号分隔",
  pairs: "旧名=新名，以逗号分隔",
  invalid: "{name}：{text} 在此处无效",
};

/** Descriptions of options; in English the library has them. */
export const CHINESE_OPTIONS: Record<string, string> = {
  inputs: "只保留这些值之后的节点，它们成为输入",
  outputs: "只保留这些值之前的节点，它们成为输出",
  auto_cut: "转换无法整体转换的模型的最大部分",
  random_as_input: "将随机数作为输入",
  skip: "跳过这些优化步骤",
  double_as_float: "将 float64 输入转换为 float32（ncnn 唯一的精度）",
  scale: "像素的系数，例如 1/255：网络直接接收像素，模型读取 (像素 * scale - mean) * norm",
  mean: "在 scale 之后从像素中减去的数",
  norm: "在 mean 之后的系数，例如 1/0.229,1/0.224,1/0.225",
  bgr: "图像通道按相反顺序输入：模型读取 RGB 时输入 BGR",
  chw: "模型按通道在后的顺序读取图像时，改为按通道平面输入，即 ncnn 由像素生成的布局",
  fp16: "以 float16 写入权重",
  weights: "矩阵乘法与查找表的权重类型",
  precise: "在以 float16 计算的处理器上，所有层以 float32 计算",
  careful: "在以 float16 计算的处理器上，避免误差最大的 Winograd 卷积变换",
  float32: "在以 float16 计算的处理器上，这些节点的结果保持 float32",
  kv_cache: "由运行时保存解码器的缓存（ncnn 20260113 及以上）",
  int8: "按模型中的比例，用 int8 层计算量化模型",
  dequantize: "去除量化模型的舍入，以 float32 计算",
  ncnn_version: "结果必须能在其中加载的最旧 ncnn 版本（日期）",
  strict: "如果网络依赖对数值的假设，则拒绝模型",
  rename: "重命名输入、输出或中间值的 blob",
  numbered: "像 pnnx 一样，将输入命名为 in0、in1……，输出命名为 out0……",
  check: "在每个步骤之后检查图",
};

const LANGUAGES = { en: ENGLISH, zh: CHINESE };
export type Language = keyof typeof LANGUAGES;

let current: Language = "en";

/** The language of the page; the default is that of the browser. */
export const language = (): Language => current;

export function setLanguage(next: string): void {
  current = next.toLowerCase().startsWith("zh") ? "zh" : "en";
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
}

/** A text, in which `{name}` is replaced. */
export function text(key: Key, values: Record<string, string | number> = {}): string {
  return LANGUAGES[current][key].replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}

/** Fills the elements that name a text. */
export function fillTexts(): void {
  for (const element of document.querySelectorAll<HTMLElement>("[data-text]")) {
    element.textContent = text(element.dataset.text as Key);
  }
}
