// The options: the form, and the same in the address of the page.

import type { OptionInfo, Options, Report } from "onnx2ncnn";
import { byId, make, show } from "./dom.js";
import { CHINESE_OPTIONS, language, text, type Key } from "./text.js";

type Values = Record<string, unknown>;

/** An option that the user has set cannot be read. */
export class Invalid extends Error {}

/** The sizes of a shape: numbers, and names for free sizes. */
const sizes = (list: string): (number | string)[] =>
  list.replace(/^\s*\[|\]\s*$/g, "").split(",").map((size) => (/^\s*\d+\s*$/.test(size) ? Number(size) : size.trim()));

const words = (list: string): string[] => list.split(",").map((word) => word.trim()).filter(Boolean);

export class OptionForm {
  #table: OptionInfo[] = [];
  #inputs: { name: string; dtype: string; shape: string }[] = [];
  #values: Values = {};

  constructor(private readonly changed: () => void) {}

  /** The options that are set. */
  get options(): Options {
    return this.#values as Options;
  }

  /** Shows fields for the options of the converter, with those of the address. */
  show(table: OptionInfo[]): void {
    this.#table = table;
    this.readAddress();
  }

  /** Shows a row for each input of a model. */
  showInputs(report: Report): void {
    if (this.#inputs.length || !report.model) return;
    this.#inputs = report.model.inputs.map(({ name, dtype, shape }) => ({ name, dtype, shape: shape?.join(",") ?? "" }));
    this.draw();
  }

  /** Forgets the inputs, and the options that name values of a model. */
  forgetModel(): void {
    this.#inputs = [];
    for (const info of this.#table) {
      if (["name", "number", "shape", "array", "pair"].includes(info.kind)) delete this.#values[info.name];
    }
    this.#store();
    this.draw();
  }

  /** Sets options as if the user had. */
  set(values: Options): void {
    for (const [name, value] of Object.entries(values)) {
      const old = this.#values[name];
      const isMap = typeof value === "object" && !Array.isArray(value);
      this.#put(name, isMap ? { ...(old as object), ...value } : value);
    }
    this.#store();
    this.draw();
  }

  #put(name: string, value: unknown): void {
    const info = this.#table.find((info) => info.name === name);
    const isEmpty = value === false || value === undefined || value === "" ||
      (typeof value === "object" && value !== null && !Object.keys(value).length);
    if (isEmpty || !info) delete this.#values[name];
    else this.#values[name] = value;
    for (const other of this.#table) {
      const exclude = other.excludes === name || info?.excludes === other.name;
      if (exclude && !isEmpty) delete this.#values[other.name];
    }
  }

  /** Takes the options of the address; returns whether it has any. */
  readAddress(): boolean {
    this.#values = {};
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      try {
        this.#put(name, JSON.parse(value));
      } catch {
        this.#put(name, value);
      }
    }
    this.draw();
    return Object.keys(this.#values).length > 0;
  }

  #store(): void {
    const address = new URLSearchParams();
    for (const [name, value] of Object.entries(this.#values)) {
      address.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
    history.replaceState(null, "", `#${address}`);
  }

  #change(name: string, value: unknown): void {
    this.#put(name, value);
    this.#store();
    // What an option excludes is shown so.
    for (const field of document.querySelectorAll<HTMLInputElement>("#options input[type=checkbox]")) {
      field.checked = this.#values[field.name] === true;
    }
    this.changed();
  }

  /** Draws the form anew. */
  draw(): void {
    byId("inputs").replaceChildren(...(this.#inputs.length ? [this.#inputTable()] : []));
    const fields = (rare: boolean) => this.#table
      .filter((info) => info.rare === rare && !info.memory && !["shape", "array"].includes(info.kind))
      .map((info) => this.#field(info));
    byId("common").replaceChildren(...fields(false));
    byId("rare").replaceChildren(...fields(true));
  }

  #inputTable(): HTMLElement {
    const cell = (option: "input_shapes" | "set", name: string, label: string, hint: string, parse: (text: string) => unknown) => {
      const given = (this.#values[option] as Values | undefined)?.[name];
      const change = (event: Event) => {
        const field = event.target as HTMLInputElement;
        const { [name]: _, ...others } = (this.#values[option] as Values | undefined) ?? {};
        this.#check(field, label, (value) => this.#change(option, value ? { ...others, [name]: parse(value) } : others));
      };
      return make("td", { "data-label": label }, make("input", { type: "text", "aria-label": `${label}: ${name}`, placeholder: hint, onchange: change, autocomplete: "off",
        spellcheck: "false", value: given === undefined ? undefined : [given].flat().join(",") }));
    };
    const plain = (label: Key, content: string) => make("td", { "data-label": text(label) }, content);
    const rows = this.#inputs.map(({ name, dtype, shape }) => make("tr", {}, make("th", { scope: "row", "data-label": text("name") }, name), plain("type", dtype),
      plain("shape", `[${shape}]`), cell("input_shapes", name, text("newShape"), shape, sizes),
      cell("set", name, text("constant"), "", numbers)));
    const head = (["name", "type", "shape", "newShape", "constant"] as const).map((key) => make("th", { scope: "col" }, text(key)));
    return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": text("inputsTable") },
      make("table", {}, make("caption", {}, text("inputsTable")), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
  }

  #check(field: HTMLInputElement, name: string, use: (value: string) => void): void {
    field.removeAttribute("aria-invalid");
    field.setCustomValidity("");
    try {
      use(field.value.trim());
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      field.setAttribute("aria-invalid", "true");
      field.setCustomValidity(text("invalid", { name, text: show(field.value) }));
      field.reportValidity();
    }
  }

  #field(info: OptionInfo): HTMLElement {
    const { name, word, kind, help, details } = info;
    const value = this.#values[name];
    const label = (language() === "zh" && CHINESE_OPTIONS[name]) || help;
    const byDefault = kind === "flag" ? text("off") : info.values?.[0] ?? text("unset");
    // In English all that the command says; other languages have the first sentence.
    const sentences = [label, ...(label === help && details ? [details] : [])].map((sentence) => sentence.replace(/[.。]?$/, label === help ? "." : "。"));
    // Some options tell a default that depends on the model.
    const last = /default/i.test(sentences.join()) ? [] : [" ", text("default", { value: byDefault })];
    const about = make("span", { class: "about" }, make("span", { lang: label === help ? "en" : undefined }, sentences.join(" ")), ...last);
    const code = make("code", {}, `--${word}`);
    const change = (read: (field: HTMLInputElement) => unknown) => (event: Event) => {
      const field = event.target as HTMLInputElement;
      this.#check(field, `--${word}`, () => this.#change(name, read(field)));
    };
    if (kind === "flag") {
      const box = make("input", { type: "checkbox", name, checked: value === true, onchange: change((field) => field.checked) });
      return make("label", { class: "field flag" }, box, make("span", {}, code, " ", about));
    }
    if (info.values?.length) {
      const choices = info.values.map((choice, i) => make("option", { value: i ? choice : "", selected: value === choice }, choice));
      return make("label", { class: "field" }, make("span", {}, code, " ", about), make("select", { name, onchange: change((field) => field.value) }, ...choices));
    }
    const [shown, read, hint] = kind === "name" ? [(value as string[] | undefined)?.join(","), words, text("list")] as const
      : kind === "number" ? [(value as number[] | undefined)?.join(","), quotients, info.value] as const
      : kind === "pair" ? [pairsText(value as Record<string, string> | undefined), pairs, text("pairs")] as const
      : [value === undefined ? undefined : String(value), kind === "release" ? release : (word: string) => word, info.value] as const;
    const field = make("input", { type: "text", name, value: shown, placeholder: hint, autocomplete: "off", spellcheck: "false",
      inputmode: kind === "release" ? "numeric" : undefined, onchange: change((field) => read(field.value.trim())) });
    return make("label", { class: "field" }, make("span", {}, code, " ", about), field);
  }
}

/** Numbers and quotients with commas between them. */
function quotients(list: string): number[] {
  return list.split(",").filter(Boolean).map((word) => {
    const [above = NaN, below = 1, ...rest] = word.split("/").map(Number);
    const number = above / below;
    if (rest.length || !Number.isFinite(number)) throw new Invalid();
    return number;
  });
}

/** The elements of a constant: numbers, and names of free sizes. */
function numbers(list: string): unknown {
  const found = words(list).map((word) => {
    const number = { true: true, false: false }[word] ?? Number(word);
    return Number.isNaN(number) ? word : number;
  });
  if (!found.length) throw new Invalid();
  return found.length === 1 ? found[0] : found;
}

function release(word: string): number | undefined {
  if (!word) return undefined;
  if (!/^(1\.0\.)?20\d{6}$/.test(word)) throw new Invalid();
  return Number(word.replace(/^1\.0\./, ""));
}

const pairsText = (pairs: Record<string, string> | undefined) => pairs && Object.entries(pairs).map((pair) => pair.join("=")).join(",");

function pairs(list: string): Record<string, string> {
  return Object.fromEntries(words(list).map((word) => {
    const at = word.lastIndexOf("=");
    if (at <= 0 || at === word.length - 1) throw new Invalid();
    return [word.slice(0, at), word.slice(at + 1)];
  }));
}
