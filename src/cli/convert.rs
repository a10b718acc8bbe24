//! Converting.

use std::time::Instant;

use onnx2ncnn::error::Errors;
use onnx2ncnn::{Options, convert};

use super::arguments::{Arguments, input};
use super::destination::Destination;
use super::summary;

/// Converts and writes; the answer is what there is to say about it.
pub(super) fn convert_files(arguments: &Arguments) -> Result<String, Errors> {
    let start = Instant::now();
    let destination = Destination::of(arguments)?;
    let model = input(&arguments.model)?;
    let conversion = convert(&model, &options(arguments, &destination))?;
    let written = conversion.write(&destination.param, &destination.bin)?;
    Ok(summary::describe(&conversion, &written, &destination, start.elapsed(), arguments.report.verbose))
}

fn options(arguments: &Arguments, destination: &Destination) -> Options {
    Options {
        double_as_float: arguments.double_as_float,
        ncnn_version: arguments.ncnn_version,
        fp16: arguments.fp16,
        table: destination.table.clone(),
        quantization: arguments.quantization(),
        embedding: destination.embedding.clone(),
        emit_onnx: destination.onnx.clone(),
        check: arguments.check,
        ..arguments.source.options()
    }
}
