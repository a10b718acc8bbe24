// The comparison of the files with the model: a button, and what it found.

import type { Proof, WindowProof } from "onnx2ncnn";
import { make } from "./dom.js";
import type { Checked, Subject } from "./messages.js";
import { text } from "./text.js";

/** The windows that are listed of each state. */
const MOST = 20;

type State = { is: "open" | "running" } | Checked;

export class Check {
  #worker: Worker | undefined;
  #state: State = { is: "open" };
  #room: HTMLElement | undefined;

  constructor(private readonly subject: Subject) {}

  /** Returns an element that shows what is known. */
  show(): HTMLElement {
    // What changes in it is told by screen readers.
    this.#room = make("div", { class: "check", role: "status", tabindex: "-1" });
    this.#draw();
    return this.#room;
  }

  /** Ends what runs. */
  stop(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    if (this.#state.is === "running") this.#become({ is: "open" });
  }

  #start(): void {
    this.#become({ is: "running" });
    this.#worker = new Worker(new URL("./verify.ts", import.meta.url), { type: "module" });
    this.#worker.addEventListener("message", ({ data }: MessageEvent<Checked>) => this.#end(data));
    this.#worker.addEventListener("error", (event) => this.#end({ is: "failed", message: event.message ?? "" }));
    this.#worker.postMessage(this.subject);
  }

  #end(checked: Checked): void {
    this.#become(checked);
    this.stop();
  }

  #become(state: State): void {
    this.#state = state;
    // The button that had the focus is gone.
    const hadFocus = this.#room?.contains(document.activeElement);
    this.#draw();
    if (hadFocus) this.#room?.focus({ preventScroll: true });
  }

  #draw(): void {
    this.#room?.replaceChildren(...this.#content());
  }

  #content(): HTMLElement[] {
    const state = this.#state;
    switch (state.is) {
      case "open":
        return [make("p", {}, text("checkHelp")), this.#button()];
      case "running":
        return [make("label", { for: "check-bar" }, text("checking")), make("progress", { id: "check-bar" }),
          make("button", { type: "button", onclick: () => this.stop() }, text("cancel"))];
      case "failed":
        return [verdict("message error", text("checkFailed"), state.message), this.#button()];
      case "verified":
        return found(state.proof);
    }
  }

  #button(): HTMLElement {
    return make("button", { type: "button", class: "advice", onclick: () => this.#start() }, text("check"));
  }
}

const verdict = (name: string, label: string, words: string) =>
  make("p", { class: name }, make("strong", {}, label), " ", make("span", { lang: "en" }, words));

function found({ same, verdict: words, windows }: Proof): HTMLElement[] {
  const of = (state: WindowProof["state"]) => windows.filter((window) => window.state === state);
  const open = of("not_covered");
  const more = make("details", {}, make("summary", {}, text("notCovered")), list(open, ""));
  return [
    same ? verdict("message same", text("verified"), words) : verdict("message error", text("mismatch"), words),
    ...(same ? [] : [list(of("differs"), "error")]),
    ...(open.length ? [more] : []),
  ];
}

function list(windows: WindowProof[], kind: string): HTMLElement {
  const items = windows.slice(0, MOST).map(({ value, reason, layers, nodes }) => make("li", { class: `message ${kind}`, lang: "en" },
    make("strong", {}, `"${value}"`), `: ${reason}`, make("div", { class: "place" }, `layers ${layers.join(" ")}; nodes ${nodes.join(" ")}`)));
  return make("ul", { class: "plain" }, ...items);
}
