// What to do with a net: lines that load it, compare it and convert it again, for this model.

import type { Distance, OptionInfo, PortPart, Report } from "onnx2ncnn";
import { make } from "./dom.js";
import type { Shown } from "./result.js";
import { text } from "./text.js";

/** The documents of next steps, and their names. */
const PAGES = [["programs", "programs"], ["inputs-and-outputs", "aboutPorts"], ["verify", "aboutVerify"], ["half-precision", "aboutHalf"], ["python", "aboutPython"]] as const;

/** The size of a free axis in an example. */
const ANY = 224;

/** The steps, each with lines to copy. */
export function nextSteps({ report, model, files, table }: Shown): HTMLElement[] {
  const { net } = report;
  const [param, bin] = files.map(({ name }) => name);
  if (!net || !param || !bin) return [];
  const checked = report.comparison ? text("checked", { result: compared(report.comparison.outputs) }) : text("notChecked");
  return [make("h3", {}, text("next")), make("div", { class: "next" },
    lines(text("inPython"), ["pip install ncnn numpy", "", ...python(net, param, bin)], false),
    lines(text("inCpp"), cpp(net, param, bin), false),
    make("p", { class: "checked" }, checked),
    lines(text("verify"), [`onnx2ncnn verify ${quoted(model)} ${quoted(param)} ${quoted(bin)} --runtime${argumentsOf(report, table)}`], true),
    lines(text("byCommand"), [`onnx2ncnn ${quoted(model)}${argumentsOf(report, table)}`], true),
    make("p", {}, text("readMore"), ...PAGES.flatMap(([page, key], i) => [i ? ", " : " ", make("a", { href: `./documents/docs/${page}.html` }, text(key))])))];
}

/** The result of a comparison in a few words. */
function compared(outputs: Distance[]): string {
  const wrong = outputs.filter(({ same }) => !same).map(({ name }) => name);
  const error = Math.max(0, ...outputs.map(({ relative }) => relative ?? 0)).toExponential(1);
  return wrong.length ? text("differs", { names: wrong.join(", ") }) : text("same", { error });
}

/** Lines with a button that copies them. */
function lines(title: string, code: string[], isOpen: boolean): HTMLElement {
  const shown = code.join("\n");
  const button = make("button", { type: "button", class: "copy", onclick: async () => {
    await navigator.clipboard.writeText(shown);
    button.textContent = text("copied");
    setTimeout(() => (button.textContent = text("copy")), 2000);
  } }, text("copy"));
  const content = make("div", { class: "lines" }, make("pre", { tabindex: "0", role: "region", "aria-label": title, lang: "en" }), button);
  content.querySelector("pre")!.textContent = shown;
  return make("details", { open: isOpen }, make("summary", {}, title), content);
}

/** The sizes of a blob, the outermost first; free ones have a value. */
const sizes = (port: PortPart) => (["c", "d", "h", "w"] as const).filter((axis) => axis in port.axes).map((axis) => port.axes[axis]!)
  .map((size) => (typeof size === "number" ? size : ANY));
const isFree = (port: PortPart) => Object.values(port.axes).some((size) => typeof size !== "number");
const quote = (name: string) => JSON.stringify(name);

type Net = NonNullable<Report["net"]>;
/** A cache is given by the runtime. */
const given = (net: Net) => net.inputs.filter((port) => !port.cache);

function python(net: Net, param: string, bin: string): string[] {
  const inputs = given(net).flatMap((port, i) => [
    `    x${i} = np.zeros((${sizes(port).join(", ")}${sizes(port).length === 1 ? "," : ""}), np.${port.int32 ? "int32" : "float32"})${isFree(port) ? "  # free sizes: yours" : ""}`,
    `    extractor.input(${quote(port.blob)}, ncnn.Mat(x${i}).clone())`,
  ]);
  const outputs = net.outputs.filter((port) => !port.cache).map((port, i) => `    code, y${i} = extractor.extract(${quote(port.blob)})`);
  return ["import ncnn", "import numpy as np", "", "net = ncnn.Net()", `net.load_param(${quote(param)})`, `net.load_model(${quote(bin)})`,
    "with net.create_extractor() as extractor:", ...inputs, ...outputs, "    print(np.array(y0).shape)"];
}

function cpp(net: Net, param: string, bin: string): string[] {
  const inputs = given(net).flatMap((port, i) => [
    `ncnn::Mat x${i}(${sizes(port).reverse().join(", ")});${isFree(port) ? "  // free sizes: yours" : ""}`,
    `x${i}.fill(${port.int32 ? "0" : "0.f"});`,
    `extractor.input(${quote(port.blob)}, x${i});`,
  ]);
  const outputs = net.outputs.filter((port) => !port.cache).flatMap((port, i) => [`ncnn::Mat y${i};`, `extractor.extract(${quote(port.blob)}, y${i});`]);
  return ["#include <ncnn/net.h>", "", "ncnn::Net net;", `net.load_param(${quote(param)});`, `net.load_model(${quote(bin)});`,
    "ncnn::Extractor extractor = net.create_extractor();", ...inputs, ...outputs];
}

/** A word of a command line, in quotes if it needs any. */
const quoted = (word: string) => (/^[\w\-./:=,@+]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

/** The options of the conversion as words of the command. */
function argumentsOf(report: Report, table: OptionInfo[]): string {
  const words = Object.entries(report.options).flatMap(([name, value]) => {
    const info = table.find((info) => info.name === name);
    if (!info || value === false || value === null) return [];
    const word = `--${info.word}`, list = (value: unknown) => [value].flat(9).join(",");
    if (info.kind === "flag") return [word];
    const named = { shape: ":", array: "=", pair: "=" }[info.kind as string];
    if (named) return Object.entries(value as Record<string, unknown>).flatMap(([key, value]) => [word, quoted(`${key}${named}${list(value)}`)]);
    return [word, quoted(list(value))];
  });
  return words.map((word) => ` ${word}`).join("");
}
