//! The conversion of one model.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use onnx2ncnn::Converter;
use onnx2ncnn::Refusal;

use super::arguments::{Arguments, input};
use super::batch::{Answer, diagnostics};
use super::destination::Destination;
use super::summary;

/// Converts and writes a model, and returns the summary.
pub(super) fn convert_files(arguments: &Arguments) -> Result<String, Refusal> {
    let start = Instant::now();
    let destination = Destination::of(arguments)?;
    let model = input(&arguments.model).map_err(Refusal::from);
    let done = model.and_then(|model| converter(arguments, &destination).convert(&model));
    let done = done.and_then(|conversion| {
        let written = conversion.write(&destination.param, &destination.bin)?;
        Ok((conversion, written))
    });
    let (conversion, written) = match done {
        Ok(done) => done,
        Err(errors) => {
            let errors = report_refusal(errors, &destination);
            if arguments.answer {
                answer(&diagnostics(&errors));
            }
            return Err(errors);
        }
    };
    if arguments.answer {
        answer(&serde_json::to_string(&Answer::of(&conversion, &written)).unwrap_or_default());
    }
    let summary =
        summary::describe(&conversion, &written, &destination, start.elapsed(), arguments.report.verbose);
    // Exits without destructors: freeing a large graph takes time.
    std::mem::forget(conversion);
    Ok(summary)
}

/// Prints the answer for a batch.
fn answer(text: &str) {
    // A closed pipe is not an error.
    let _ = anstream::stdout().write_all(text.as_bytes());
}

/// Writes the report of a model that was not converted. A failure adds an error.
fn report_refusal(errors: Refusal, destination: &Destination) -> Refusal {
    let (json, html) = (destination.report.as_deref(), destination.html.as_deref());
    match errors.report().write(json, html) {
        Ok(()) => errors,
        Err(error) => errors.and(error),
    }
}

/// Requests a further file.
type Ask = fn(Converter, &Path) -> Converter;

fn converter(arguments: &Arguments, destination: &Destination) -> Converter {
    let converter = arguments.choices.apply(arguments.source.converter());
    let further: [(&Option<PathBuf>, Ask); 7] = [
        (&destination.onnx, |converter, path| converter.emit_onnx(path)),
        (&destination.table, |converter, path| converter.table(path)),
        (&destination.report, |converter, path| converter.report(path)),
        (&destination.html, |converter, path| converter.html(path)),
        (&destination.param_bin, |converter, path| converter.param_bin(path)),
        (&destination.id_header, |converter, path| converter.id_header(path)),
        (&destination.mem_header, |converter, path| converter.mem_header(path)),
    ];
    further.into_iter().fold(converter, |converter, (path, add)| match path {
        Some(path) => add(converter, path),
        None => converter,
    })
}
