#!/usr/bin/env node
// The command: `onnx2ncnn model.onnx out.param out.bin`, with the options of the conversion.

import { closeSync, existsSync, openSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { describe, openFile, options as optionTable, Refused, verifyFiles, version } from "./node.js";
import type { Conversion, OptionInfo, Options, PortPart, Proof, Report } from "./node.js";

const USAGE = `Usage: onnx2ncnn MODEL.onnx [OUT.param [OUT.bin]] [OPTIONS]
       onnx2ncnn inspect MODEL.onnx [OPTIONS]
       onnx2ncnn simplify MODEL.onnx OUT.onnx [OPTIONS]
       onnx2ncnn verify MODEL.onnx [IN.param [IN.bin]] [OPTIONS]

Converts an ONNX model to the files that ncnn loads, by default MODEL.ncnn.param and MODEL.ncnn.bin.
verify compares the files with the model, with the options of the conversion.

Options:`;

const FILES: Record<string, string> = {
  "report": "Write a report as JSON, also if the model is refused",
  "html": "Write a report as an HTML page with a drawing of the network, also if the model is refused",
  "emit-onnx": "Also write the simplified model as ONNX",
};

/** The command line is wrong. */
class Usage extends Error {}

interface Arguments {
  words: string[];
  options: Options;
  files: Record<string, string>;
}

/** The options of the command line. */
const shown = () => optionTable().filter(({ memory }) => !memory);

function parse(words: string[]): Arguments {
  const table = new Map(shown().map((info) => [info.word, info]));
  const parsed: Arguments = { words: [], options: {}, files: {} };
  const rest = [...words];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (!word.startsWith("--")) {
      if (word.startsWith("-") && word !== "-") throw new Usage(`unknown option ${word}`);
      parsed.words.push(word);
      continue;
    }
    const equals = word.indexOf("=");
    const name = word.slice(2, equals < 0 ? undefined : equals);
    const value = () => {
      const found = equals < 0 ? rest.shift() : word.slice(equals + 1);
      if (found === undefined) throw new Usage(`--${name} needs a value`);
      return found;
    };
    const info = table.get(name);
    if (info) add(parsed.options as Record<string, unknown>, info, value);
    else if (name in FILES) parsed.files[name] = value();
    else throw new Usage(`unknown option --${name}`);
  }
  return parsed;
}

function add(options: Record<string, unknown>, { name, word, kind }: OptionInfo, value: () => string): void {
  const entry = (key: string, of: unknown) => (options[name] = { ...(options[name] as object), [key]: of });
  const pair = () => {
    const text = value();
    const at = text.lastIndexOf("=");
    if (at <= 0) throw new Usage(`--${word} takes a name, =, and a value`);
    return [text.slice(0, at), text.slice(at + 1)] as const;
  };
  switch (kind) {
    case "flag":
      options[name] = true;
      break;
    case "name":
      options[name] = [...((options[name] as string[]) ?? []), ...value().split(",")];
      break;
    case "release":
      options[name] = Number(value().replace(/^1\.0\./, ""));
      break;
    case "shape": {
      const text = value();
      const at = text.lastIndexOf(":");
      entry(at < 0 ? "" : text.slice(0, at), sizes(text.slice(at + 1)));
      break;
    }
    case "array": {
      const [key, numbers] = pair();
      entry(key, numbers.split(",").map((text) => {
        const word = text.trim();
        if (word === "") throw new Usage(`--set ${key} has an empty element`);
        const number = { true: true, false: false }[word] ?? Number(word);
        return Number.isNaN(number) ? word : number;
      }));
      break;
    }
    case "pair":
      entry(...pair());
      break;
    default:
      options[name] = value();
  }
}

/** The sizes of a shape: numbers, and names for free sizes. */
const sizes = (text: string) =>
  text.replace(/^\[|\]$/g, "").split(",").map((size) => (/^\d+$/.test(size.trim()) ? Number(size) : size.trim()));

/** Names come from the model: control characters are not printed. */
const printable = (text: string) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069]/g, "\ufffd");
const say = (text: string) => process.stderr.write(`${printable(text)}\n`);

function help(): void {
  const rows = shown().map(({ word, value, help }) => [`--${word} ${value}`, help]);
  rows.push(...Object.entries(FILES).map(([word, about]) => [`--${word} FILE`, about]));
  const lines = rows.map(([left = "", right]) => `  ${left.padEnd(32)} ${right}`);
  process.stdout.write(`${USAGE}\n${lines.join("\n")}\n  --help\n  --version\n`);
}

function rowsOf(kind: string, ports: PortPart[]): void {
  const axes = (port: PortPart) => (["w", "h", "d", "c"] as const).filter((axis) => axis in port.axes)
    .map((axis) => `${axis}=${port.axes[axis]}`).join(" ");
  for (const port of ports) say(`${kind}  "${port.name}"  ${port.dtype}  [${port.shape.join(", ")}]  ->  ${axes(port)}`);
}

/** A word as shells read it; undefined if they interpret some of its characters between quotes, too. */
const quoted = (word: string) =>
  /^[\w\-./:=,]+$/.test(word) ? word : /["$`\\!%\p{Cc}]/u.test(word) ? undefined : `"${word}"`;

function tell(report: Report): void {
  const { net } = report;
  if (net) {
    rowsOf("input ", net.inputs);
    rowsOf("output", net.outputs);
  }
  for (const found of report.diagnostics) {
    say(describe(found));
    if (found.help) say(`  help: ${found.help}`);
  }
  for (const { words, percent, counted } of report.remedies) {
    const line = words.map(quoted);
    if (line.includes(undefined)) continue;
    say(percent === 100 ? "help: this converts the whole model" : `help: this converts a part with ${percent} % of the ${counted}`);
    say(`  ${line.join(" ")}`);
  }
  if (net) say(`loads in ncnn ${net.oldest_ncnn} and later`);
}

/** Prints the windows that differ or are not covered, and the verdict; returns the exit code. */
function tellProof({ same, verdict, windows }: Proof): number {
  for (const [state, label] of [["differs", "DIFFERS"], ["not_covered", "not covered"]] as const) {
    for (const window of windows.filter((window) => window.state === state)) {
      say(`${label} "${window.value}": ${window.reason}`);
      say(`  layers ${window.layers.join(" ")}; nodes ${window.nodes.join(" ")}`);
    }
  }
  process.stdout.write(`${same ? "verified" : "mismatch"}: ${verdict}\n`);
  return same ? 0 : 4;
}

/** Writes files beside their places, and puts them there when all are complete. */
class Results {
  #staged: [string, string][] = [];

  write(path: string, content: string | Uint8Array | ((file: number) => void)): void {
    const beside = `${path}.${process.pid}.tmp`;
    this.#staged.push([beside, path]);
    if (typeof content !== "function") return writeFileSync(beside, content);
    const file = openSync(beside, "w");
    try {
      content(file);
    } finally {
      closeSync(file);
    }
  }

  put(): void {
    for (const [beside, path] of this.#staged.splice(0)) renameSync(beside, path);
  }

  drop(): void {
    for (const [beside] of this.#staged) rmSync(beside, { force: true });
  }
}

async function run({ words, options, files }: Arguments, results: Results): Promise<number> {
  const verb = ["convert", "inspect", "simplify", "verify"].includes(words[0] ?? "") ? words.shift() : "convert";
  const [model, ...places] = words;
  if (model === undefined || places.length > 2) throw new Usage("expected a model, and at most two results");
  if (!existsSync(model)) throw new Usage(`${model} cannot be opened`);
  const stem = model.replace(/\.onnx$/, ".ncnn");
  const param = places[0] ?? `${stem}.param`;
  const bin = places[1] ?? (places[0] === undefined ? `${stem}.bin` : `${param.replace(/\.param$/, "")}.bin`);
  if (verb === "verify") return tellProof(await verifyFiles(model, param, bin, options));
  const opened = await openFile(model);
  if (verb === "inspect") {
    process.stdout.write(`${JSON.stringify(opened.inspect(options), null, 2)}\n`);
    return 0;
  }
  if (verb === "simplify") {
    if (places[0] === undefined || places.length > 1) throw new Usage("expected a model and a result");
    results.write(places[0], opened.simplify(options));
    results.put();
    return 0;
  }
  try {
    const converted = opened.convert({ ...options, keep_onnx: "emit-onnx" in files });
    results.write(param, converted.param);
    results.write(bin, (file) => converted.writeBin((part) => writeAll(file, part)));
    writeFurther(converted, files, results);
    results.put();
    tell(converted.report);
    return 0;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    results.drop();
    if (files.report) results.write(files.report, `${JSON.stringify(error.report, null, 2)}\n`);
    if (files.html) results.write(files.html, error.html());
    results.put();
    tell(error.report);
    say("error: nothing was written");
    return error.report.status === "failed" ? 2 : 1;
  }
}

function writeFurther(converted: Conversion, files: Record<string, string>, results: Results): void {
  if (files.report) results.write(files.report, converted.json);
  if (files.html) results.write(files.html, converted.html);
  if (files["emit-onnx"]) results.write(files["emit-onnx"], converted.onnx);
}

function writeAll(file: number, part: Uint8Array): void {
  for (let at = 0; at < part.length; ) at += writeSync(file, part, at);
}

const words = process.argv.slice(2);
const results = new Results();
try {
  if (words.includes("--help") || words.includes("-h") || !words.length) help();
  else if (words.includes("--version")) process.stdout.write(`onnx2ncnn ${version()}\n`);
  else process.exitCode = await run(parse(words), results);
} catch (error) {
  results.drop();
  say(`error: ${error instanceof WebAssembly.RuntimeError ? "out of memory, or a fault of the converter" : (error as Error).message}`);
  process.exitCode = error instanceof Usage || (error as NodeJS.ErrnoException).code ? 2 : 1;
}
