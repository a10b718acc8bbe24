// For Node: the module is read from its file, and models may be given by their paths.

import { closeSync, existsSync, openSync, readFileSync, readSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, sep } from "node:path";
import { initSync } from "../wasm/onnx2ncnn.js";
import { Model, type Reading, type Source } from "./core.js";

export * from "./core.js";
export { options } from "./options.js";

initSync({ module: readFileSync(new URL("../wasm/onnx2ncnn_bg.wasm", import.meta.url)) });

/** Nothing is left to load in Node. */
export async function load(): Promise<void> {}

/** Opens a model in memory. */
export const open = Model.open;

/** Opens a model file and the external data beside it, which are read in parts. */
export async function openFile(path: string, reading: Reading = {}): Promise<Model> {
  return Model.open(fileSource(path), { name: path, data: (location) => beside(path, location), ...reading });
}

/** The external data at a location. A model must not make the program read files that its user did not pass. */
function beside(path: string, location: string): Source | undefined {
  const folder = realpathSync(dirname(path));
  const place = join(folder, location);
  if (isAbsolute(location) || !existsSync(place)) return undefined;
  return realpathSync(place).startsWith(folder + sep) ? fileSource(place) : undefined;
}

/** A file, which is read in parts. */
export function fileSource(path: string): Source {
  const { size } = statSync(path);
  return { size, parts: () => partsOf(path) };
}

/** The bytes that are read at a time. */
const PART = 1 << 24;

function* partsOf(path: string): Iterable<Uint8Array> {
  const file = openSync(path, "r");
  try {
    const part = new Uint8Array(PART);
    for (let read = readSync(file, part); read > 0; read = readSync(file, part)) yield part.subarray(0, read);
  } finally {
    closeSync(file);
  }
}
