// The check of nets, in a module of its own: the engine that computes the nodes of models is large.

import * as native from "../wasm/onnx2ncnn_verify.js";
import type { NetFiles, Proof, WindowProof } from "./core.js";
import type { Options } from "./options.js";
import { hold, read, sourceOf, type Bytes, type Reading, type Source } from "./reading.js";

export { default as start, initSync } from "../wasm/onnx2ncnn_verify.js";

/** Compares a net with its model; the module must have been started. */
export async function prove(model: Bytes | Source, net: NetFiles | undefined, options: Options, reading: Reading): Promise<Proof> {
  const { opened } = await read(native, model, reading);
  try {
    const bin = net && (await hold(native, sourceOf(net.bin)));
    const found = JSON.parse(opened.verify(JSON.stringify(options), net?.param, bin)) as { verdict: string; proofs: { windows: WindowProof[] }[] };
    const windows = found.proofs.flatMap((proof) => proof.windows);
    return { same: windows.every(({ state }) => state !== "differs"), verdict: found.verdict, windows };
  } finally {
    opened.free();
  }
}
