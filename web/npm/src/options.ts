// The options of a conversion, by the names of the Python package.

import * as native from "../wasm/onnx2ncnn.js";
import type { Size } from "./report.js";

type Numbers = number | boolean | string | Numbers[];

/** None is required. `BLESS=1 web/test.sh` writes their types from the table of the library. */
export interface Options {
  /** Shapes of inputs, instead of the declared ones: numbers, and names for free sizes. The empty name is the only input. */
  input_shapes?: Record<string, Size[]>;
  /** Inputs that become constants: numbers, and names of free sizes. */
  set?: Record<string, Numbers>;
  /** Factors of pixels, one for each channel or one for all: the net is given pixels, and the model reads `(pixel * scale - mean) * norm`. */
  scale?: number[];
  /** What is subtracted from pixels after `scale`. */
  mean?: number[];
  /** Factors of pixels after `mean`. */
  norm?: number[];
  /** Takes the channels of pictures in the reverse order. */
  bgr?: boolean;
  /** Takes pictures as planes of channels, as ncnn makes them of pixels, where the model reads channels last. */
  chw?: boolean;
  /** Keeps only the nodes after these values, which become the inputs. */
  inputs?: string[];
  /** Keeps only the nodes before these values, which become the outputs. */
  outputs?: string[];
  /** Converts the largest part of a refused model. */
  auto_cut?: boolean;
  /** Makes random numbers inputs. */
  random_as_input?: boolean;
  /** Passes to skip. */
  skip?: string[];
  /** Converts inputs of float64 to float32. */
  double_as_float?: boolean;
  /** Writes weights in float16. */
  fp16?: boolean;
  /** The weights of matrix products and tables. */
  weights?: "float" | "keep" | "int8" | "int6" | "int4";
  /** Lets all layers compute in float32 on processors that compute in float16. */
  precise?: boolean;
  /** Avoids the least exact transform of convolutions on such processors. */
  careful?: boolean;
  /** Keeps the results of these nodes in float32 on such processors. */
  float32?: string[];
  /** Lets the runtime keep the caches of a decoder. */
  kv_cache?: boolean;
  /** Computes a quantized model with int8 layers. */
  int8?: boolean;
  /** Removes the rounding of a quantized model. */
  dequantize?: boolean;
  /** The oldest release of ncnn that must load the result, by its date. */
  ncnn_version?: number;
  /** Refuses a model if its net relies on assumed facts of values. */
  strict?: boolean;
  /** New names of blobs. */
  rename?: Record<string, string>;
  /** Names the inputs `in0`, `in1`, ... and the outputs `out0`, ..., as pnnx does. */
  numbered?: boolean;
  /** Checks the graph after every pass, for developers of the library. */
  check?: boolean;
  /** Keeps the simplified model. */
  keep_onnx?: boolean;
}

/** What is known of an option. */
export interface OptionInfo {
  name: keyof Options;
  /** The name on the command line, without its hyphens. */
  word: string;
  kind: "flag" | "name" | "number" | "release" | "weights" | "shape" | "array" | "pair";
  /** Whether it has any number of values. */
  list: boolean;
  /** A sign for its value; empty for flags. */
  value: string;
  /** The possible values, if there are few. */
  values: string[];
  help: string;
  details: string;
  /** Whether few users need it. */
  rare: boolean;
  /** Whether it concerns what a program gets in memory. */
  memory: boolean;
  /** The option that it excludes. */
  excludes: keyof Options | null;
}

/** Returns the options. */
export const options = (): OptionInfo[] => JSON.parse(native.options());
