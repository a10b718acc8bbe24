//! The messages of `proto/onnx.proto`, compiled by `build.rs`.

#![allow(missing_docs, dead_code, clippy::all, clippy::as_conversions)]

include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
