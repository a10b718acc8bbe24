// The page: files come in, a worker converts them, the result is shown.

import "./style.css";
import exampleAddress from "../../../fixtures/network/convolutional/model.onnx?url";
import type { OptionInfo, Options, Report } from "onnx2ncnn";
import { Check } from "./check.js";
import { byId, make, show } from "./dom.js";
import { chosen, dropped, modelOf } from "./files.js";
import { OptionForm } from "./form.js";
import type { Answer, Given, Request } from "./messages.js";
import { showResult, showSimplified, type Shown } from "./result.js";
import { fillTexts, setLanguage, text, type Key } from "./text.js";

let worker: Worker;
let table: OptionInfo[] = [];
let files: Given[] = [];
let missing: string[] = [];
let busy = false;
/** Whether the worker has read the model. */
let isOpen = false;
type Verb = "convert" | "simplify" | "inspect";
/** What to do with the model when it has been read. */
let next: Verb = "convert";
let drawn: (() => void) | undefined;
/** The comparison of the net that is shown. */
let check: Check | undefined;
/** Those who wait for a page or a program, in the order in which they asked. */
let waiting: ((answer: Answer) => void)[] = [];

const form = new OptionForm(() => undefined);
const ask = (request: Request) => worker.postMessage(request);
const answerTo = (request: Request) => new Promise<Answer>((done) => {
  waiting.push(done);
  ask(request);
});

function start(): void {
  worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => receive(data));
  worker.addEventListener("error", (event) => {
    // Not again: what cannot be loaded fails each time.
    setBusy(false);
    say(text("failedStart") + (event.message ?? ""));
  });
}

function setBusy(now: boolean): void {
  busy = now;
  byId("progress").hidden = !now;
  byId("cancel").hidden = !now;
  for (const id of ["convert", "simplify", "inspect"]) byId<HTMLButtonElement>(id).disabled = now;
  document.body.ariaBusy = String(now);
}

function say(words: string): void {
  byId("status").textContent = show(words);
}

function showPhase(key: Key, done: number, of: number): void {
  const bar = byId<HTMLProgressElement>("bar");
  byId("phase").textContent = text(key);
  if (of) [bar.max, bar.value] = [of, done];
  else bar.removeAttribute("value");
}

const stem = () => (modelOf(files)?.file.name ?? "model").replace(/\.onnx$/i, "");

function receive(answer: Answer): void {
  switch (answer.is) {
    case "ready":
      if (table.length) return;
      table = answer.options;
      byId("version").textContent = `onnx2ncnn ${answer.version}`;
      form.show(table);
      document.documentElement.dataset.ready = "true";
      return;
    case "progress":
      return showPhase(answer.phase, answer.done, answer.of);
    case "opened":
      ({ missing } = answer);
      isOpen = true;
      showMissing();
      if (missing.length) {
        setBusy(false);
        return say(`${text("missing")} ${missing.slice(0, 5).join(", ")}`);
      }
      return request(next);
    case "html":
    case "program":
    case "ultralytics":
      return waiting.shift()?.(answer);
    case "simplified":
      setBusy(false);
      say(text("simplified"));
      drawn = () => showSimplified({ name: `${stem()}.simplified.onnx`, content: answer.model });
      return drawn();
    case "failed":
      // After a panic the module is not usable.
      restart();
      setBusy(false);
      byId("result").hidden = true;
      return say(`${text("failed")}: ${answer.message}`);
    default:
      return showReport(answer);
  }
}

function showReport(answer: Extract<Answer, { report: string }>): void {
  setBusy(false);
  const report = JSON.parse(answer.report) as Report;
  form.showInputs(report);
  say(text(report.status as Key));
  const nets = answer.is === "converted"
    ? [{ name: `${stem()}.ncnn.param`, content: new Blob([answer.param], { type: "text/plain" }) }, { name: `${stem()}.ncnn.bin`, content: answer.bin }]
    : [];
  let page: Promise<string> | undefined;
  const { options } = form;
  const model = modelOf(files);
  check?.stop();
  check = answer.is === "converted" && model
    ? new Check({ model, data: files.filter((given) => given !== model), options: { ...options }, param: answer.param, bin: answer.bin })
    : undefined;
  const shown: Shown = {
    report, files: nets, check, table, convert, stem: stem(), model: model?.file.name ?? "model.onnx",
    // The command writes this folder of whole models alone.
    forUltralytics: answer.is === "converted" && answer.onePicture && Boolean(report.model?.metadata.task)
      && !options.inputs && !options.outputs && !options.auto_cut,
    ultralytics: async () => {
      const answer = await answerTo({ do: "ultralytics", options });
      if (answer.is !== "ultralytics") return [];
      return [["model.ncnn.param", answer.param], ["model.ncnn.bin", answer.bin], ["metadata.yaml", answer.metadata]].map(([name, content]) =>
        ({ name: `${stem()}_ncnn_model/${name}`, content: new Blob([content!]) }));
    },
    json: answer.is === "converted" ? answer.report : `${JSON.stringify(report, null, 2)}\n`,
    page: () => (page ??= answerTo({ do: "html" }).then((answer) => (answer.is === "html" ? answer.page : ""))),
    program: async (ending) => {
      const [param, bin] = nets.map(({ name }) => name) as [string, string];
      const answer = await answerTo({ do: "program", name: `${stem()}.${ending}`, param, bin });
      return answer.is === "program" ? Object.entries(answer.files).map(([name, content]) => ({ name, content: new Blob([content]) })) : [];
    },
  };
  drawn = () => showResult(shown);
  drawn();
}

function showMissing(): void {
  const list = byId("missing");
  const items = missing.slice(0, 20).map((location) => make("li", {}, make("code", {}, location)));
  list.replaceChildren(...(items.length ? [make("li", {}, text("missing")), ...items] : []));
}

function take(given: Given[]): void {
  if (!given.length) return;
  const isModel = given.some(({ path }) => /\.onnx$/i.test(path));
  // Data that were missing are added to the files that there are.
  const isNew = isModel || !missing.length;
  files = isNew ? given : [...files, ...given];
  const model = modelOf(files);
  if (!model) return;
  if (isNew && !byId("work").hidden) form.forgetModel();
  check?.stop();
  byId("model-name").textContent = show(model.path);
  byId("work").hidden = false;
  byId("result").hidden = true;
  drawn = undefined;
  if (busy) restart();
  next = "convert";
  open(model);
}

function open(model: Given): void {
  isOpen = false;
  setBusy(true);
  say("");
  showPhase("reading", 0, 1);
  ask({ do: "open", model, data: files.filter((given) => given !== model) });
}

function convert(options: Options = {}): void {
  form.set(options);
  request("convert");
}

function request(verb: Verb): void {
  const model = modelOf(files);
  next = verb;
  if (!isOpen && model) return open(model);
  setBusy(true);
  say("");
  showPhase("converting", 0, 0);
  ask({ do: verb, options: form.options });
}

function restart(): void {
  worker.terminate();
  waiting = [];
  isOpen = false;
  start();
}

function cancel(): void {
  restart();
  setBusy(false);
  say(text("cancelled"));
  drawn = undefined;
  byId("result").hidden = true;
  byId("convert").focus();
}

async function example(): Promise<void> {
  const bytes = await (await fetch(exampleAddress)).blob();
  take([{ path: "example.onnx", file: new File([bytes], "example.onnx") }]);
}

function listen(): void {
  const drop = byId("drop");
  for (const name of ["dragenter", "dragover"]) {
    addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer) void dropped(event.dataTransfer).then(take);
  });
  for (const [button, input] of [["choose", "files"], ["choose-folder", "folder"]] as const) {
    const field = byId<HTMLInputElement>(input);
    byId(button).addEventListener("click", () => field.click());
    field.addEventListener("change", () => {
      if (field.files) take(chosen(field.files));
      field.value = "";
    });
  }
  byId("example").addEventListener("click", () => void example());
  byId("options").addEventListener("submit", (event) => {
    event.preventDefault();
    convert();
  });
  byId("simplify").addEventListener("click", () => request("simplify"));
  byId("inspect").addEventListener("click", () => request("inspect"));
  byId("cancel").addEventListener("click", cancel);
  addEventListener("hashchange", () => {
    if (form.readAddress()) say(text("shared"));
  });
  const language = byId<HTMLSelectElement>("language");
  language.addEventListener("change", () => {
    setLanguage(language.value);
    remember(language.value);
    fillTexts();
    form.draw();
    showMissing();
    drawn?.();
    language.focus();
  });
}

// A browser may refuse to store anything.
function remember(language: string): void {
  try {
    localStorage.setItem("language", language);
  } catch {
    return;
  }
}

function remembered(): string | null {
  try {
    return localStorage.getItem("language");
  } catch {
    return null;
  }
}

setLanguage(remembered() ?? navigator.language);
byId<HTMLSelectElement>("language").value = document.documentElement.lang === "en" ? "en" : "zh";
fillTexts();
listen();
start();
