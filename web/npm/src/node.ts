// For Node: the module is read from its file, and models may be given by their paths.

import { closeSync, existsSync, openSync, readFileSync, readSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, sep } from "node:path";
import { initSync } from "../wasm/onnx2ncnn.js";
import { Model, type Bytes, type NetFiles, type Proof, type Reading, type Source } from "./core.js";
import type { Options } from "./options.js";

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

let checking: Promise<typeof import("./verify.js")> | undefined;

/** Loads the module that verifies. `verify` does so when it is first called. */
export function loadVerify(): Promise<unknown> {
  return (checking ??= startVerify());
}

async function startVerify(): Promise<typeof import("./verify.js")> {
  const module = await import("./verify.js");
  module.initSync({ module: readFileSync(new URL("../wasm/onnx2ncnn_verify_bg.wasm", import.meta.url)) });
  return module;
}

/**
 * Compares each part of a net with its model, without a runtime. Repeat the options of the conversion. Without a net, the model is
 * converted.
 */
export async function verify(model: Bytes | Source, net?: NetFiles, options: Options = {}, reading: Reading = {}): Promise<Proof> {
  const module = await (checking ??= startVerify());
  return module.prove(model, net, options, reading);
}

/** `verify` for files. External data are read from beside the model. */
export async function verifyFiles(model: string, param: string, bin: string, options: Options = {}, reading: Reading = {}): Promise<Proof> {
  const net = { param: readFileSync(param, "utf8"), bin: fileSource(bin) };
  return verify(fileSource(model), net, options, { name: model, data: (location) => beside(model, location), ...reading });
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
