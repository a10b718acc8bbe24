// The interface of the package, over the classes of the WebAssembly module.

import * as native from "../wasm/onnx2ncnn.js";
import type { Options } from "./options.js";
import { read, type Bytes, type Reading, type Source } from "./reading.js";
import type { Diagnostic, Report } from "./report.js";

export type { Options, OptionInfo } from "./options.js";
export type { Bytes, Progress, Reading, Source } from "./reading.js";
export type * from "./report.js";

/** Receives the next bytes of a file. */
export type Receive = (part: Uint8Array) => void;

/** The model was not converted: a diagnostic for each node that cannot be, and why. */
export class Refused extends Error {
  override name = "Refused";

  constructor(
    /** The report, with what can be converted instead. */
    readonly report: Report,
    /** The report as a page. */
    readonly html: () => string,
  ) {
    super(report.diagnostics.map(describe).join("\n") || "the model was refused");
  }

  get diagnostics(): Diagnostic[] {
    return this.report.diagnostics;
  }
}

/** The first words of diagnostics that are not errors, as the command prints them. */
const LABELS = { warning: "warning", assumption: "assumed", expectation: "expected", condition: "valid if" };

/** A diagnostic as one line. */
export function describe(found: Diagnostic): string {
  const node = found.at.node && `node ${found.at.node.index} ${found.at.node.name && `"${found.at.node.name}" `}${found.at.node.op_type}`;
  const place = [found.at.file, ...found.at.graph, node, found.at.part].filter(Boolean).join(", ");
  const causes = found.causes.map((cause) => `: ${cause}`).join("");
  const label = found.severity === "error" ? (found.kind ?? "error") : LABELS[found.severity];
  return `${label}: ${found.reason}${causes}${place && ` (${place})`}`;
}

/** A net. */
export class Conversion {
  #native: native.Conversion;
  #bin: Uint8Array | undefined;

  constructor(converted: native.Conversion) {
    this.#native = converted;
  }

  /** The text of the `.param` file. */
  get param(): string {
    return this.#native.param();
  }

  /** The bytes of the `.bin` file, if they are known before it is written. */
  get binBytes(): number | undefined {
    const bytes = this.#native.binBytes();
    return bytes === undefined ? undefined : Number(bytes);
  }

  /** The bytes of the `.bin` file. */
  get bin(): Uint8Array {
    return (this.#bin ??= collect((receive) => this.#native.writeBin(receive)));
  }

  /** Passes the bytes of the `.bin` file on in parts, so that they are never in memory together. */
  writeBin(receive: Receive): void {
    this.#native.writeBin(receive);
  }

  /** The simplified model as ONNX, with the option `keep_onnx`. */
  get onnx(): Uint8Array {
    return collect((receive) => this.#native.writeOnnx(receive));
  }

  /** The report. */
  get report(): Report {
    return JSON.parse(this.#native.report());
  }

  /** The warnings, assumed facts, and conditions on free sizes. */
  get diagnostics(): Diagnostic[] {
    return this.report.diagnostics;
  }

  /** The report as JSON, as the command writes it. */
  get json(): string {
    return this.#native.report();
  }

  /** The report as a page with a drawing of the network. */
  get html(): string {
    return this.#native.html();
  }

  /**
   * A program that runs the net, and the files that it needs beside it: texts by names. The ending of `name` is that of its
   * language: `.py`, `.cpp` or `.kt`.
   */
  program(name: string, param = "model.ncnn.param", bin = "model.ncnn.bin"): Record<string, string> {
    return JSON.parse(this.#native.program(name, param, bin));
  }

  /**
   * What the model says about its use, as YAML. Ultralytics reads it as `metadata.yaml` beside `model.ncnn.param` and `model.ncnn.bin` of a
   * net with the option `numbered`. Undefined if the net does not read one picture, and nothing else.
   */
  get metadata(): string | undefined {
    return this.#native.metadata();
  }

  /** Frees the memory, which is otherwise freed some time after the last use. */
  free(): void {
    this.#native.free();
  }
}

/** A part of a model: a net, or the part itself as ONNX if it cannot be converted. */
export interface Step {
  /** The names of the inputs in the model. */
  inputs: string[];
  outputs: string[];
  net?: Conversion;
  onnx?: Uint8Array;
  /** The reasons why the part is left to onnxruntime. */
  reasons: string[];
}

/** A model as a chain of nets. */
export class Chain {
  #native: native.Chain;

  /** The parts in order. Each reads inputs of the model and outputs of earlier parts, by their names. */
  readonly steps: Step[];

  constructor(chain: native.Chain) {
    this.#native = chain;
    this.steps = (JSON.parse(chain.steps()) as Omit<Step, "net" | "onnx">[]).map((step, index) => {
      const net = chain.net(index);
      if (net) return { ...step, net: new Conversion(net) };
      const rest = chain.rest(index)!;
      try {
        return { ...step, onnx: collect((receive) => rest.write(receive)) };
      } finally {
        rest.free();
      }
    });
  }

  /** The list of the parts as the command writes it: for `net.param` and `net.bin`, the files are `net.1.param` and so on. */
  list(param = "model.ncnn.param", bin = "model.ncnn.bin"): string {
    return this.#native.list(param, bin);
  }

  /** Frees the memory of all parts. */
  free(): void {
    for (const step of this.steps) step.net?.free();
    this.#native.free();
  }
}

/** A model in memory. */
export class Model {
  #native: native.Model;

  /** The locations of the external data to which the model refers and which were not given. */
  readonly missing: string[];

  private constructor(model: native.Model, missing: string[]) {
    this.#native = model;
    this.missing = missing;
  }

  /** Reads a model and those external data that are given. */
  static async open(model: Bytes | Source, reading: Reading = {}): Promise<Model> {
    const { opened, missing } = await read(native, model, reading);
    return new Model(opened, missing);
  }

  /** Converts the model, or throws `Refused`. */
  convert(options: Options = {}): Conversion {
    const result = this.#native.convert(JSON.stringify(options));
    if (result.done) return new Conversion(result);
    throw new Refused(JSON.parse(result.report()), () => result.html());
  }

  /**
   * Converts the model as a chain of nets, which is cut at these values: the names of each cut. A value of which the model states no type has one
   * after its name, such as `ids:int64[1,S]`.
   */
  convertChain(cuts: string[][], options: Options = {}): Chain {
    return new Chain(this.#native.convertChain(JSON.stringify(cuts), JSON.stringify(options)));
  }

  /** Returns the simplified model as ONNX. */
  simplify(options: Options = {}): Uint8Array {
    const simplified = this.#native.simplify(JSON.stringify(options));
    try {
      return collect((receive) => simplified.write(receive));
    } finally {
      simplified.free();
    }
  }

  /** Returns the contents of the model, and whether it can be converted. */
  inspect(options: Options = {}): Report {
    return JSON.parse(this.#native.inspect(JSON.stringify(options)));
  }

  /** Frees the memory, which is otherwise freed some time after the last use. */
  free(): void {
    this.#native.free();
  }
}

/** A part of a net between blobs with the elements of values of the model, up to one of them. */
export interface WindowProof {
  /** The name of the value at its end, and that of its blob. */
  value: string;
  blob: string;
  /** The names of its layers, and the nodes of the model that compute the same. */
  layers: string[];
  nodes: string[];
  /**
   * What is known of it: both sides move each element to the same place; they are equal within the rounding of float32; one side cannot
   * be computed; an element differs.
   */
  state: "proved" | "tested" | "not_covered" | "differs";
  /**
   * What computed its nodes, the least independent of the conversion: an engine, the code that computes constants in a conversion, or
   * simpler nodes that define the operator; null if nothing was computed.
   */
  evaluator: "engine" | "folding" | "definition" | null;
  /** The largest error, relative to the largest magnitude of the value; null if it is infinite, or nothing was compared. */
  error: number | null;
  /** What differs, or why the window is not covered. */
  reason: string;
}

/** The comparison of each window of a net with its model. */
export interface Proof {
  /** Whether no window differs. */
  same: boolean;
  /** The verdict in one line, as the command prints it. */
  verdict: string;
  /** The windows in the order of their last layers; with free sizes, those of each size in turn. */
  windows: WindowProof[];
}

/** The files of a net. */
export interface NetFiles {
  param: string;
  bin: Bytes | Source;
}

/** A net in memory. */
export interface Net {
  param: string;
  bin: Uint8Array;
  report: Report;
  diagnostics: Diagnostic[];
}

/** Converts a model in memory, or throws `Refused`. */
export async function convert(model: Bytes | Source, options: Options = {}, reading: Reading = {}): Promise<Net> {
  return using(model, reading, (opened) => {
    const converted = opened.convert(options);
    try {
      const { param, bin, report } = converted;
      return { param, bin, report, diagnostics: report.diagnostics };
    } finally {
      converted.free();
    }
  });
}

/** Returns a simplified model as ONNX. */
export async function simplify(model: Bytes | Source, options: Options = {}, reading: Reading = {}): Promise<Uint8Array> {
  return using(model, reading, (opened) => opened.simplify(options));
}

/** Returns the contents of a model, and whether it can be converted. */
export async function inspect(model: Bytes | Source, options: Options = {}, reading: Reading = {}): Promise<Report> {
  return using(model, reading, (opened) => opened.inspect(options));
}

async function using<T>(model: Bytes | Source, reading: Reading, use: (opened: Model) => T): Promise<T> {
  const opened = await Model.open(model, reading);
  try {
    return use(opened);
  } finally {
    opened.free();
  }
}

function collect(write: (receive: Receive) => void): Uint8Array {
  const parts: Uint8Array[] = [];
  write((part) => parts.push(part));
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The version of the library. */
export const version = (): string => native.version();
