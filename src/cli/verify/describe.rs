//! The texts of comparisons with the runtimes.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::Path;

use onnx2ncnn::report::Distance;

use crate::cli::next::{is_harmless, quoted};
use crate::cli::python::{Comparison, Magnitude};
use crate::cli::terminal::{BAD, HELP, STRONG, labelled, list, printable};
use crate::common::count::count;

/// The maximum number of listed outputs or nodes, without -v.
const MAX_ROWS: usize = 40;

/// Returns the rows of the largest errors, in their order.
fn worst_of(rows: &[Distance], most: usize) -> Vec<&Distance> {
    // Those without an error have no numbers, so they come first.
    let error = |row: &Distance| row.alone.or(row.relative).unwrap_or(f64::INFINITY);
    let mut ordered: Vec<(usize, &Distance)> = rows.iter().enumerate().collect();
    ordered.sort_by(|(_, one), (_, other)| error(other).total_cmp(&error(one)));
    ordered.truncate(most);
    ordered.sort_by_key(|(index, _)| *index);
    ordered.into_iter().map(|(_, row)| row).collect()
}

/// Describes a comparison: inner blobs, outputs, and what differs.
pub(super) fn describe(comparison: &Comparison, verbose: bool) -> String {
    let mut text = String::new();
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    let inner = worst_of(&comparison.layers, most);
    let outputs: Vec<&Distance> = comparison.outputs.iter().collect();
    let width = inner.iter().chain(&outputs).map(|row| row.name.chars().count() + 2).max().unwrap_or(0);
    let describe = |text: &mut String, row: &&Distance| {
        let name = format!("\"{}\"", printable(&row.name));
        let mark = if row.same { "same  " } else { "DIFFERS" };
        let _ = writeln!(text, "{STRONG}{name:width$}{STRONG:#}  {mark:7}  {}", printable(&row.describe()));
    };
    list(&mut text, "", &inner, usize::MAX, describe);
    if inner.len() < comparison.layers.len() {
        let (shown, all) = (inner.len(), comparison.layers.len());
        let _ = writeln!(text, "the {shown} blobs inside of the largest errors, of {all}: -v lists all");
    }
    list(&mut text, "", &outputs, most, describe);
    if let Some(first) = comparison.layers.iter().find(|layer| !layer.same) {
        let blob = format!("\"{}\": {}", printable(&first.name), printable(&first.describe()));
        labelled(&mut text, BAD, "first blob that differs", &blob);
        let has_error = |row: &&Distance| row.alone.is_some();
        let largest = comparison
            .layers
            .iter()
            .filter(has_error)
            .max_by(|one, other| one.alone.partial_cmp(&other.alone).unwrap_or(Ordering::Equal));
        if let Some(row) = largest {
            let blob = format!("\"{}\": {}", printable(&row.name), printable(&row.describe()));
            labelled(&mut text, STRONG, "largest error alone", &blob);
        }
    } else if !comparison.layers.is_empty() {
        let are = if comparison.layers.len() == 1 { "is" } else { "are" };
        let _ = writeln!(text, "{} inside {are} the same", count(comparison.layers.len(), "blob"));
    }
    let differing = |rows: &[Distance]| rows.iter().filter(|row| !row.same).count();
    let bad = differing(&comparison.recorded);
    if bad > 0 {
        let _ = writeln!(text, "the distances of onnxruntime's outputs from the recorded ones:");
        list(&mut text, "", &comparison.recorded.iter().collect::<Vec<_>>(), most, describe);
        let recorded = count(comparison.recorded.len(), "recorded output");
        labelled(
            &mut text,
            BAD,
            "the export differs",
            &format!("onnxruntime computes {bad} of {recorded} differently"),
        );
    } else if !comparison.recorded.is_empty() {
        let _ = writeln!(text, "the recording and onnxruntime agree: the export is right for these inputs");
    }
    let bad = differing(&comparison.outputs);
    if bad == 0 {
        let processor = if comparison.seconds.is_some() { " on the device" } else { "" };
        let _ = writeln!(text, "the same in onnxruntime and ncnn{processor}");
    } else {
        let differing = format!("{} of {} differ", bad, count(comparison.outputs.len(), "output"));
        labelled(&mut text, BAD, "mismatch", &differing);
    }
    if let Some(seconds) = comparison.seconds {
        labelled(&mut text, STRONG, "time on the device", &format!("{:.3} ms", 1e3 * seconds));
    }
    text
}

/// Adds the nodes whose results are too large for float16. The option that keeps them in float32 also names
/// the nodes that the conversion kept.
pub(super) fn describe_magnitudes(
    text: &mut String,
    magnitudes: &[Magnitude],
    kept: &[String],
    verbose: bool,
) {
    if magnitudes.is_empty() {
        let _ = writeln!(text, "no result is too large for float16");
        return;
    }
    let values = count(magnitudes.len(), "value");
    labelled(
        text,
        STRONG,
        "too large for float16",
        &format!("{values} above 16376, with the largest magnitudes, by their nodes"),
    );
    list(text, "  ", magnitudes, if verbose { usize::MAX } else { MAX_ROWS }, |text, row| {
        let _ = writeln!(text, "  {:.3e}  {}", row.magnitude, printable(&row.name));
    });
    let names: Vec<&str> =
        kept.iter().map(String::as_str).chain(magnitudes.iter().map(|row| row.name.as_str())).collect();
    let option = match names.iter().all(|name| is_harmless(name)) {
        // Nobody pastes more names.
        _ if names.len() > MAX_ROWS => {
            "--data and samples of the inputs, which finds all that needs float32".into()
        }
        true => format!("--float32 \"{}\"", names.join(",")),
        false => "--float32 with these names".to_owned(),
    };
    labelled(text, HELP, "help", &format!("convert with {option}"));
}

/// Adds the commands that choose the int8 layers of a quantized model by samples.
pub(super) fn advise_int8(text: &mut String, model: &Path) {
    labelled(text, HELP, "help", "these commands keep the layers in float that lose most, by your samples");
    let model = model.to_str().and_then(quoted).unwrap_or_else(|| "model.onnx".to_owned());
    let tool = env!("CARGO_PKG_NAME");
    let _ = writeln!(text, "  {tool} {model} --dequantize --emit-onnx float.onnx");
    let _ = writeln!(text, "  {tool} quantize float.onnx --data samples --max-loss 0.01");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_beyond_float16_are_not_listed_in_an_option() {
        for (nodes, option) in [(2, "convert with --float32 \"n0,n1\""), (41, "convert with --data")] {
            let magnitudes: Vec<Magnitude> =
                (0..nodes).map(|node| Magnitude { name: format!("n{node}"), magnitude: 1e5 }).collect();
            let mut text = String::new();
            describe_magnitudes(&mut text, &magnitudes, &[], false);
            assert!(text.contains(option), "{text}");
        }
    }
}
