//! Converting.

use std::path::{Path, PathBuf};
use std::time::Instant;

use onnx2ncnn::Converter;
use onnx2ncnn::error::Errors;

use super::arguments::{Arguments, input};
use super::destination::Destination;
use super::summary;

/// Converts and writes; the answer is what there is to say about it.
pub(super) fn convert_files(arguments: &Arguments) -> Result<String, Errors> {
    let start = Instant::now();
    let destination = Destination::of(arguments)?;
    let model = input(&arguments.model)?;
    let conversion = converter(arguments, &destination).convert(&model)?;
    let written = conversion.write(&destination.param, &destination.bin)?;
    Ok(summary::describe(&conversion, &written, &destination, start.elapsed(), arguments.report.verbose))
}

fn converter(arguments: &Arguments, destination: &Destination) -> Converter {
    let mut converter = arguments
        .source
        .converter()
        .double_as_float(arguments.double_as_float)
        .fp16(arguments.fp16)
        .quantization(arguments.quantization())
        .check(arguments.check);
    if let Some(release) = arguments.ncnn_version {
        converter = converter.ncnn_version(release);
    }
    let further: [(&Option<PathBuf>, fn(Converter, &Path) -> Converter); 5] = [
        (&destination.onnx, |converter, path| converter.emit_onnx(path)),
        (&destination.table, |converter, path| converter.table(path)),
        (&destination.param_bin, |converter, path| converter.param_bin(path)),
        (&destination.id_header, |converter, path| converter.id_header(path)),
        (&destination.mem_header, |converter, path| converter.mem_header(path)),
    ];
    further.into_iter().fold(converter, |converter, (path, add)| match path {
        Some(path) => add(converter, path),
        None => converter,
    })
}
