// What the page and its worker tell each other.

import type { OptionInfo, Options, Proof } from "onnx2ncnn";

/** A file that the user gave, with its path in the folder that was dropped. */
export interface Given {
  path: string;
  file: File;
}

export type Request =
  | { do: "open"; model: Given; data: Given[] }
  | { do: "convert" | "simplify" | "inspect"; options: Options }
  | { do: "html" }
  | { do: "ultralytics"; options: Options }
  | { do: "program"; name: string; param: string; bin: string };

export type Phase = "reading" | "converting" | "writing";

export type Answer =
  | { is: "ready"; options: OptionInfo[]; version: string }
  | { is: "progress"; phase: Phase; done: number; of: number }
  | { is: "opened"; missing: string[] }
  | { is: "converted"; param: string; bin: Blob; report: string; onePicture: boolean }
  | { is: "refused" | "inspected"; report: string }
  | { is: "simplified"; model: Blob }
  | { is: "html"; page: string }
  | { is: "ultralytics"; param: string; bin: Blob; metadata: string }
  | { is: "program"; files: Record<string, string> }
  | { is: "failed"; message: string };

/** A net to verify: the model, the options of its conversion, and the files. */
export interface Subject {
  model: Given;
  data: Given[];
  options: Options;
  param: string;
  bin: Blob;
}

export type Checked = { is: "verified"; proof: Proof } | { is: "failed"; message: string };

/** What an error says. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return error instanceof WebAssembly.RuntimeError ? `out of memory, or a fault of the converter: ${message}` : message;
}
