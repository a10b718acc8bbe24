// The result: table of inputs and outputs, messages with their advice, downloads, and the graph.

import type { Diagnostic, OptionInfo, Options, PortPart, Report } from "onnx2ncnn";
import type { Check } from "./check.js";
import { byId, bytes, make } from "./dom.js";
import { nextSteps } from "./next.js";
import { text, type Key } from "./text.js";
import { zip } from "./zip.js";

export interface Shown {
  report: Report;
  /** The name of the file of the model, and that without its ending. */
  model: string;
  stem: string;
  json: string;
  files: { name: string; content: Blob }[];
  /** The comparison of the files with the model. */
  check: Check | undefined;
  table: OptionInfo[];
  /** Converts again with further options. */
  convert(options: Options): void;
  /** Returns the report as a page. */
  page(): Promise<string>;
  /** Whether ultralytics can run the net, and the files of the folder that it reads. */
  forUltralytics: boolean;
  ultralytics(): Promise<{ name: string; content: Blob }[]>;
  /** Returns a program that runs the net, in the language of an ending, with the files that it needs beside it. */
  program(ending: string): Promise<{ name: string; content: Blob }[]>;
}

/** The languages of programs, by the endings of their files. */
const LANGUAGES = { py: "Python", cpp: "C++", kt: "Kotlin" };

/** The messages that are listed; the report has all. */
const MOST = 200;

let addresses: string[] = [];

/** Shows the result instead of the last one. */
export function showResult(shown: Shown): void {
  for (const address of addresses.splice(0)) URL.revokeObjectURL(address);
  const { report } = shown;
  const room = byId("result");
  const title = make("h2", { id: "result-title" }, make("span", { class: `badge ${report.status}` }, text(report.status as Key)), ` ${summary(report)}`);
  // What is wrong comes first, then what there is.
  const parts = [ports(report), [messages(shown)]];
  const told = report.net ? [downloads(shown), checked(shown), nextSteps(shown), ...parts] : [...parts.reverse(), downloads(shown)];
  room.replaceChildren(title, ...advice(shown), ...told.flat(), ...graph(shown));
  room.hidden = false;
  room.focus({ preventScroll: true });
  room.scrollIntoView({ block: "start" });
}

/** Shows a simplified model. */
export function showSimplified(file: { name: string; content: Blob }): void {
  const room = byId("result");
  room.replaceChildren(make("h2", { id: "result-title" }, make("span", { class: "badge converted" }, text("simplified"))),
    make("div", { class: "row" }, link(file.name, file.content)));
  room.hidden = false;
  room.focus();
}

function summary(report: Report): string {
  const { net, model } = report;
  if (net) return text("summary", { layers: net.layers.length, bytes: bytes(net.param_bytes + net.bin_bytes), since: net.oldest_ncnn });
  if (report.status === "convertible" && model) {
    const number = (n: number) => n.toLocaleString("en");
    return text("contents", { nodes: number(model.nodes), parameters: number(model.parameters), macs: number(model.multiply_adds) });
  }
  return text("refusedSummary");
}

/** Buttons for what can be converted instead of the model, and for options that messages name. */
function advice({ report, table, convert }: Shown): HTMLElement[] {
  const buttons: HTMLElement[] = [];
  const button = (label: string, options: Options) =>
    buttons.push(make("button", { type: "button", class: "advice", onclick: () => convert(options) }, label));
  for (const { options, words, percent } of report.remedies) {
    // The page makes one net.
    if ("split_at" in options) continue;
    button(text(percent === 100 ? "wholeRemedy" : "remedy", { options: words.join(" "), percent: String(percent) }), options as Options);
  }
  const named = new Set(report.diagnostics.flatMap(({ help }) => help?.match(/--[a-z0-9-]+/g) ?? []));
  for (const { name, word, kind } of report.status === "refused" ? table : []) {
    if (kind === "flag" && named.has(`--${word}`)) button(text("setFlag", { option: `--${word}` }), { [name]: true });
  }
  return buttons.length ? [make("h3", {}, text("advice")), make("div", { class: "row" }, ...buttons)] : [];
}

function link(name: string, content: Blob, label = name): HTMLElement {
  const address = URL.createObjectURL(content);
  addresses.push(address);
  return make("a", { class: "button", href: address, download: name }, `${label} (${bytes(content.size)})`);
}

function downloads({ report, json, files, page, program, stem, forUltralytics, ultralytics }: Shown): HTMLElement[] {
  const save = (name: string, content: Blob) => {
    const address = URL.createObjectURL(content);
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  const jsonFile = new Blob([json], { type: "application/json" });
  const html = async () => new Blob([await page()], { type: "text/html" });
  const items: HTMLElement[] = files.map(({ name, content }) => link(name, content));
  if (files.length) {
    const all = async () => save(`${stem}.zip`, await zip([...files, { name: `${stem}.report.json`, content: jsonFile }, { name: `${stem}.report.html`, content: await html() }]));
    items.push(make("button", { type: "button", id: "zip", onclick: () => void all() }, text("all")));
    if (forUltralytics) {
      const folder = async () => save(`${stem}_ncnn_model.zip`, await zip(await ultralytics()));
      items.push(make("button", { type: "button", onclick: () => void folder() }, text("ultralytics")));
    }
    for (const [ending, language] of Object.entries(LANGUAGES)) {
      const run = async () => {
        const [main, ...beside] = await program(ending);
        if (!main) return;
        if (beside.length) save(`${stem}.${ending}.zip`, await zip([main, ...beside]));
        else save(main.name, main.content);
      };
      items.push(make("button", { type: "button", onclick: () => void run() }, text("program", { language })));
    }
  }
  items.push(link(`${stem}.report.json`, jsonFile, text("report")));
  if (report.status !== "convertible") items.push(make("button", { type: "button", onclick: async () => save(`${stem}.report.html`, await html()) }, text("page")));
  return [make("h3", {}, text("downloads")), make("div", { class: "row" }, ...items)];
}

function checked({ check }: Shown): HTMLElement[] {
  return check ? [make("h3", {}, text("check")), check.show()] : [];
}

function ports(report: Report): HTMLElement[] {
  const { net, model } = report;
  if (!net && !model) return [];
  const axes = (port: PortPart) => (["w", "h", "d", "c"] as const).filter((axis) => axis in port.axes).map((axis) => `${axis}=${port.axes[axis]}`).join(" ");
  // A narrow page shows the label of each cell instead of the head.
  const cell = (label: Key, content: string) => make("td", { "data-label": text(label) }, content);
  const row = (kind: Key, name: string, dtype: string, shape: string, blob?: string) => make("tr", {},
    cell("kind", text(kind)), make("th", { scope: "row", "data-label": text("name") }, name), cell("type", dtype), cell("shape", shape), ...(net ? [cell("blob", blob ?? "")] : []));
  const rows = (["input", "output"] as const).flatMap((kind) => net
    ? net[`${kind}s`].map((port) => row(kind, port.name, port.dtype, `[${port.shape.join(", ")}]`, `${port.blob === port.name ? "" : `${port.blob} `}${axes(port)}`))
    : model![`${kind}s`].map((value) => row(kind, value.name, value.dtype, value.shape ? `[${value.shape.join(", ")}]` : "?")));
  const heads: Key[] = ["kind", "name", "type", "shape", ...(net ? (["blob"] as const) : [])];
  return [make("div", { class: "table", tabindex: "0", role: "region", "aria-label": text("ports") }, make("table", {}, make("caption", {}, text("ports")),
    make("thead", {}, make("tr", {}, ...heads.map((key) => make("th", { scope: "col" }, text(key))))), make("tbody", {}, ...rows)))];
}

function messages({ report }: Shown): HTMLElement {
  const found = report.diagnostics;
  const items = found.slice(0, MOST).map(message);
  return make("div", {}, make("h3", {}, text("messages")),
    found.length ? make("ul", { class: "plain messages" }, ...items) : make("p", {}, text("none")));
}

function message(found: Diagnostic): HTMLElement {
  const { node, part, graph, file } = found.at;
  const place = [file, ...graph, node && `node ${node.index} ${node.name && `"${node.name}" `}${node.op_type}-${node.version}`, part].filter(Boolean).join(", ");
  return make("li", { class: `message ${found.severity}` },
    make("strong", {}, text(found.severity)), ...(found.code ? [" ", make("code", {}, found.code)] : []), " ",
    make("span", { lang: "en" }, [found.reason, ...found.causes].join(": ")),
    ...(place ? [make("div", { class: "place", lang: "en" }, place)] : []),
    ...(found.help ? [make("div", { class: "help" }, text("help"), make("span", { lang: "en" }, found.help))] : []));
}

/** The report in a frame. It is the page of the command; the policy of this page permits its script by a hash. */
function graph({ report, page }: Shown): HTMLElement[] {
  if (!report.nodes.length && !report.net) return [];
  const frame = make("iframe", { id: "graph", title: text("graph") });
  const box = make("details", { class: "graph", ontoggle: async () => {
    if (box.open && !frame.isConnected) {
      frame.srcdoc = await page();
      box.append(frame);
    }
  } }, make("summary", {}, text("showGraph")));
  return [box];
}
