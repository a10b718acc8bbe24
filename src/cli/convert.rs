//! The conversion of one model.

use std::io::{self, Write as _};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use onnx2ncnn::error::Error;
use onnx2ncnn::ncnn::Written;
use onnx2ncnn::{Conversion, Converter, OptionValue, Proof, Refusal};

use super::arguments::Arguments;
use super::batch::{ANSWER, Answer, Reasons};
use super::bundle::convert_to_bundle;
use super::destination::Destination;
use super::location::input;
use super::message::{MessageFormat, Report};
use super::process::end_with_parent;
use super::sampled::Sampled;
use super::split::convert_chain;
use super::summary::{self, Files, Stream, Summary};
use super::terminal::{STRONG, Waiting, labelled, shows_bars};
use super::variant::convert_variants;

/// Converts and writes a model, and returns the summary.
pub(super) fn convert_files(arguments: &Arguments) -> Result<Summary, Refusal> {
    if let Some(to) = arguments.net.out.as_deref().filter(|_| arguments.model.is_dir()) {
        return convert_to_bundle(arguments, to);
    }
    if !arguments.split_at.is_empty() {
        return convert_chain(arguments);
    }
    if !arguments.variant.is_empty() {
        return convert_variants(arguments);
    }
    let start = Instant::now();
    let (net, further) = arguments.results();
    let destination = Destination::of(&arguments.model, &net, &further)?;
    let answers = std::env::var_os(ANSWER).is_some();
    if answers {
        end_with_parent();
    }
    let model = input(&arguments.model).map_err(Refusal::from);
    let mut chosen = String::new();
    // The files of a rounded model are read until the net is written.
    let mut kept = None;
    let done = model.and_then(|model| {
        let data = arguments.half.data.as_ref();
        let waiting =
            data.map(|_| Waiting::for_work("the model and its net run on the samples", arguments.report));
        let sampled = kept.insert(Sampled::of(arguments, &model)?);
        let model = sampled.input().unwrap_or(model);
        let converter = converter(arguments, sampled, &destination)?;
        chosen = sampled.describe();
        let (mut conversion, converter) = match arguments.half.choose(arguments, sampled, &model)? {
            Some(choice) => {
                let converter = choice.apply(converter)?;
                let conversion = converter.convert(&model)?;
                chosen += &choice.describe(&conversion, arguments, sampled)?;
                (conversion, converter)
            }
            None => (converter.convert(&model)?, converter),
        };
        drop(waiting);
        conversion.warnings.splice(..0, sampled.warnings().iter().cloned());
        Ok((conversion, converter, model))
    });
    let mut proofs = Vec::new();
    let done = done.and_then(|(conversion, converter, model)| {
        if arguments.ultralytics.is_some() && !conversion.reads_one_picture() {
            let message = "ultralytics gives a net one picture, of the shape [1, 3, H, W], and nothing else";
            return Err(Error::usage(message).help("write the net without --ultralytics").into());
        }
        let written = match arguments.dry_run {
            true => conversion.write_to(io::sink(), io::sink())?,
            false if arguments.verify => {
                let files = (destination.param.as_path(), destination.bin.as_path());
                let write = || conversion.write_proved(&converter, &model, files);
                let (written, all) = destination.outputs.write(write)?;
                proofs = all;
                written
            }
            false => destination.outputs.write(|| write(&conversion, &destination, arguments.report))?,
        };
        Ok((conversion, written))
    });
    let (conversion, written) = match done {
        Ok(done) => done,
        Err(errors) => {
            let errors = if arguments.dry_run { errors } else { report_refusal(errors, &destination) };
            if answers {
                answer(&serde_json::to_string(&Reasons::of(&errors)).unwrap_or_default());
            }
            return Err(errors);
        }
    };
    if answers {
        answer(&serde_json::to_string(&Answer::of(&conversion, &written)).unwrap_or_default());
    }
    let files = Files { destination: &destination, written: &written, dry_run: arguments.dry_run };
    let mut summary = match arguments.format.message_format {
        MessageFormat::Human => {
            summary::describe(&conversion, &files, start.elapsed(), arguments.report.verbose)
        }
        MessageFormat::Json => summary::to_json(&conversion, &files)?,
    };
    if arguments.format.message_format == MessageFormat::Human && !chosen.is_empty() {
        summary.add(Stream::Error, chosen);
    }
    if arguments.format.message_format == MessageFormat::Human && !proofs.is_empty() {
        let mut text = String::new();
        labelled(&mut text, STRONG, "verified", &Proof::verdict(&proofs));
        summary.add(Stream::Error, text);
    }
    // Exits without destructors: freeing a large graph takes time.
    std::mem::forget(conversion);
    Ok(summary)
}

/// The bytes of a model from which a bar shows the progress.
const LARGE: u64 = 256_000_000;

/// Writes the files, with a bar on a terminal if the model is large.
fn write(conversion: &Conversion, to: &Destination, report: Report) -> onnx2ncnn::error::Result<Written> {
    let bytes: u64 =
        conversion.sources().iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum();
    let style =
        ProgressStyle::with_template("{bar:32} {percent} % of the weights in {elapsed}, about {eta} to go");
    match style.ok().filter(|_| bytes > LARGE && shows_bars(report)) {
        Some(style) => {
            let bar = ProgressBar::new(0).with_style(style);
            let watch = |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            };
            let written = conversion.write_watched(&to.param, &to.bin, watch);
            bar.finish_and_clear();
            written
        }
        None => conversion.write(&to.param, &to.bin),
    }
}

/// Prints the answer for a batch.
fn answer(text: &str) {
    // A closed pipe is not an error.
    let _ = anstream::stdout().write_all(text.as_bytes());
}

/// Writes the report of a model that was not converted. A failure adds an error.
fn report_refusal(errors: Refusal, destination: &Destination) -> Refusal {
    let (json, html) = (destination.file("report"), destination.file("html"));
    let written =
        destination.outputs.write_some(json.into_iter().chain(html), || errors.report().write(json, html));
    match written {
        Ok(()) => errors,
        Err(error) => errors.and(error),
    }
}

fn converter(
    arguments: &Arguments,
    sampled: &Sampled,
    destination: &Destination,
) -> Result<Converter, Error> {
    let converter = sampled.converter()?;
    let converter = match arguments.ultralytics {
        Some(_) => converter.numbered(true),
        None => converter,
    };
    let mut further = destination.further.iter().filter(|_| !arguments.dry_run);
    further.try_fold(converter, |converter, (info, _, path)| {
        converter.with(info.name, OptionValue::Path(path.clone()))
    })
}
