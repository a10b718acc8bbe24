// The report of a conversion; docs/report.md of the repository describes the fields.

/** A size: a number, or an expression over free sizes. */
export type Size = number | string;

export interface Report {
  report_version: number;
  generator: string;
  status: "converted" | "convertible" | "refused" | "failed";
  /** The options of a conversion, without those for further files. */
  options: Record<string, unknown>;
  model: ModelPart | null;
  net: NetPart | null;
  nodes: NodePart[];
  passes: PassPart[];
  diagnostics: Diagnostic[];
  remedies: { options: Record<string, unknown>; words: string[]; percent: number; counted: "weights" | "weights and nodes" }[];
  /** The comparison of the net with the model, which needs ncnn and onnxruntime. */
  comparison?: { outputs: Distance[]; layers: Distance[]; seconds?: number };
}

/** The distance of a value in the net from that of the model. */
export interface Distance {
  name: string;
  blob?: string;
  same: boolean;
  relative: number | null;
  [further: string]: unknown;
}

export interface ModelPart {
  file: string;
  data_files: string[];
  producer: string;
  /** What the model says about its use, such as the task of the network. */
  metadata: { task: string | null; [further: string]: unknown };
  ir_version: number;
  opsets: Record<string, number>;
  inputs: ValuePart[];
  outputs: ValuePart[];
  nodes: number;
  operators: Record<string, number>;
  parameters: number;
  parameter_bytes: number;
  multiply_adds: number;
  uncounted: number;
}

export interface ValuePart {
  name: string;
  dtype: string;
  shape: Size[] | null;
}

export interface PortPart {
  name: string;
  dtype: string;
  shape: Size[];
  blob: string;
  axes: Partial<Record<"w" | "h" | "d" | "c", Size>>;
  [further: string]: unknown;
}

export interface NetPart {
  oldest_ncnn: number;
  inputs: PortPart[];
  outputs: PortPart[];
  layers: Record<string, unknown>[];
  param_bytes: number;
  bin_bytes: number;
  multiply_adds: number;
  [further: string]: unknown;
}

export interface NodePart {
  name: string;
  op_type: string;
  inputs: string[];
  outputs: string[];
  becomes: "layers" | "fused" | "nothing" | "refused" | null;
  [further: string]: unknown;
}

export interface PassPart {
  name: string;
  of: "nodes" | "layers";
  before: number | null;
  after: number;
}

export interface Diagnostic {
  severity: "error" | "warning" | "assumption" | "expectation" | "condition";
  kind: string | null;
  code: string | null;
  reason: string;
  causes: string[];
  help: string | null;
  at: {
    file: string | null;
    graph: string[];
    node: { index: number; name: string; op_type: string; version: number } | null;
    part: string | null;
  };
}
