// For browsers and bundlers, which find the module by its address beside the script.

import start from "../wasm/onnx2ncnn.js";
import * as core from "./core.js";
import type { Options } from "./options.js";

export * from "./core.js";
export { options } from "./options.js";

let started: Promise<unknown> | undefined;

/** Loads the WebAssembly module, by default from its place in the package. The other functions wait for it. */
export function load(wasm?: URL | Response | BufferSource | WebAssembly.Module): Promise<unknown> {
  return (started ??= start({ module_or_path: wasm ?? new URL("../wasm/onnx2ncnn_bg.wasm", import.meta.url) }));
}

/** Opens a model. */
export async function open(model: core.Bytes | core.Source, reading?: core.Reading): Promise<core.Model> {
  await load();
  return core.Model.open(model, reading);
}

/** Converts a model in memory, or throws `Refused`. */
export async function convert(model: core.Bytes, options?: Options, reading?: core.Reading): Promise<core.Net> {
  await load();
  return core.convert(model, options, reading);
}

/** Returns a simplified model as ONNX. */
export async function simplify(model: core.Bytes, options?: Options, reading?: core.Reading): Promise<Uint8Array> {
  await load();
  return core.simplify(model, options, reading);
}

/** Returns the contents of a model, and whether it can be converted. */
export async function inspect(model: core.Bytes, options?: Options, reading?: core.Reading): Promise<core.Report> {
  await load();
  return core.inspect(model, options, reading);
}

let checking: Promise<typeof import("./verify.js")> | undefined;

/** Loads the module that verifies, by default from its place in the package. `verify` does so when it is first called. */
export function loadVerify(wasm?: URL | Response | BufferSource | WebAssembly.Module): Promise<unknown> {
  return (checking ??= startVerify(wasm));
}

async function startVerify(wasm?: URL | Response | BufferSource | WebAssembly.Module): Promise<typeof import("./verify.js")> {
  try {
    const module = await import("./verify.js");
    await module.start({ module_or_path: wasm ?? new URL("../wasm/onnx2ncnn_verify_bg.wasm", import.meta.url) });
    return module;
  } catch (error) {
    // What cannot be loaded now may be later.
    checking = undefined;
    throw error;
  }
}

/**
 * Compares each part of a net with its model, without a runtime. Repeat the options of the conversion. Without a net, the model is
 * converted.
 */
export async function verify(model: core.Bytes | core.Source, net?: core.NetFiles, options: Options = {}, reading: core.Reading = {}): Promise<core.Proof> {
  const module = await (checking ??= startVerify());
  return module.prove(model, net, options, reading);
}
