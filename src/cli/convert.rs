//! The conversion of one model.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use onnx2ncnn::Converter;
use onnx2ncnn::Refusal;

use super::arguments::{Arguments, MessageFormat, input};
use super::batch::{ANSWER, Answer, diagnostics};
use super::destination::Destination;
use super::summary::{self, Files, Summary};

/// Converts and writes a model, and returns the summary.
pub(super) fn convert_files(arguments: &Arguments) -> Result<Summary, Refusal> {
    let start = Instant::now();
    let destination = Destination::of(arguments)?;
    let answers = std::env::var_os(ANSWER).is_some();
    let model = input(&arguments.model).map_err(Refusal::from);
    let done = model.and_then(|model| converter(arguments, &destination).convert(&model));
    let done = done.and_then(|conversion| {
        let written = match arguments.dry_run {
            true => conversion.write_to(io::sink(), io::sink())?,
            false => destination.places.write(|| conversion.write(&destination.param, &destination.bin))?,
        };
        Ok((conversion, written))
    });
    let (conversion, written) = match done {
        Ok(done) => done,
        Err(errors) => {
            let errors = if arguments.dry_run { errors } else { report_refusal(errors, &destination) };
            if answers {
                answer(&diagnostics(&errors));
            }
            return Err(errors);
        }
    };
    if answers {
        answer(&serde_json::to_string(&Answer::of(&conversion, &written)).unwrap_or_default());
    }
    let files = Files { destination: &destination, written: &written, dry_run: arguments.dry_run };
    let summary = match arguments.format.message_format {
        MessageFormat::Human => {
            summary::describe(&conversion, &files, start.elapsed(), arguments.report.verbose)
        }
        MessageFormat::Json => summary::to_json(&conversion, &files)?,
    };
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
    let written =
        destination.places.write_some(json.into_iter().chain(html), || errors.report().write(json, html));
    match written {
        Ok(()) => errors,
        Err(error) => errors.and(error),
    }
}

/// Requests a further file.
type Ask = fn(Converter, &Path) -> Converter;

fn converter(arguments: &Arguments, destination: &Destination) -> Converter {
    let converter = arguments.choices.apply(arguments.source.converter());
    if arguments.dry_run {
        return converter;
    }
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
