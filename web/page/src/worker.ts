// Converts models beside the page, which stays responsive and can end this worker.

import { load, Model, open, options, Refused, version, type Conversion } from "onnx2ncnn";
import { find } from "./files.js";
import { messageOf, type Answer, type Phase, type Request } from "./messages.js";

/** The bytes that are kept in memory before they become a Blob, which the browser may keep on the disk. */
const KEPT = 1 << 26;

let model: Model | undefined;
let last: Conversion | Refused | undefined;

const tell = (answer: Answer) => postMessage(answer);

function progress(phase: Phase, done: number, of: number): void {
  tell({ is: "progress", phase, done, of });
}

/** Collects bytes to a Blob. */
class Collected {
  #blobs: Blob[] = [];
  #parts: Uint8Array<ArrayBuffer>[] = [];
  #kept = 0;
  bytes = 0;

  add = (part: Uint8Array) => {
    this.#parts.push(part as Uint8Array<ArrayBuffer>);
    this.#kept += part.length;
    this.bytes += part.length;
    if (this.#kept >= KEPT) this.#flush();
  };

  #flush(): void {
    this.#blobs.push(new Blob(this.#parts));
    this.#parts = [];
    this.#kept = 0;
  }

  blob(): Blob {
    this.#flush();
    return new Blob(this.#blobs, { type: "application/octet-stream" });
  }
}

async function answer(request: Request): Promise<void> {
  if (request.do === "open") {
    forget();
    model?.free();
    const { model: main, data } = request;
    model = await open(main.file, {
      name: main.path,
      data: (location) => find(data, location),
      progress: (read, of) => progress("reading", read, of),
    });
    return tell({ is: "opened", missing: model.missing });
  }
  if (request.do === "html") {
    const page = last instanceof Refused ? last.html() : (last?.html ?? "");
    return tell({ is: "html", page });
  }
  if (request.do === "program") {
    if (!last || last instanceof Refused) throw new Error("no net is open");
    return tell({ is: "program", files: last.program(request.name, request.param, request.bin) });
  }
  if (!model) throw new Error("no model is open");
  if (request.do === "ultralytics") {
    const net = model.convert({ ...request.options, numbered: true });
    try {
      const bin = new Collected();
      net.writeBin(bin.add);
      return tell({ is: "ultralytics", param: net.param, bin: bin.blob(), metadata: net.metadata ?? "" });
    } finally {
      net.free();
    }
  }
  progress("converting", 0, 0);
  if (request.do === "simplify") {
    const simplified = new Collected();
    simplified.add(model.simplify(request.options));
    return tell({ is: "simplified", model: simplified.blob() });
  }
  if (request.do === "inspect") {
    return tell({ is: "inspected", report: JSON.stringify(model.inspect(request.options)) });
  }
  forget();
  try {
    const converted = model.convert(request.options);
    last = converted;
    const of = converted.binBytes ?? 0;
    const bin = new Collected();
    converted.writeBin((part) => {
      bin.add(part);
      progress("writing", bin.bytes, of);
    });
    tell({ is: "converted", param: converted.param, bin: bin.blob(), report: converted.json, onePicture: converted.metadata !== undefined });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    last = error;
    tell({ is: "refused", report: JSON.stringify(error.report) });
  }
}

function forget(): void {
  if (last && !(last instanceof Refused)) last.free();
  last = undefined;
}

// If the module cannot be loaded, the page hears of it as an error of the worker.
let queue = load().then(() => tell({ is: "ready", options: options(), version: version() }));
queue.catch((error: unknown) => setTimeout(() => {
  throw error;
}));
addEventListener("message", ({ data }: MessageEvent<Request>) => {
  queue = queue.then(() => answer(data)).catch((error: unknown) => tell({ is: "failed", message: messageOf(error) }));
});
