//! The built-in check of `verify`: the files are read back, and each window of the net is compared with the
//! model.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use onnx2ncnn::error::Error;
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::report::Distance;
use onnx2ncnn::{Conversion, Converter, Input, Proof, Refusal, State, WindowProof};

use crate::cli::net::read_net_by;
use crate::cli::terminal::{BAD, NOTICE, STRONG, labelled, list, printable};

/// The maximum number of listed names of a window, without -v.
const MAX_NAMES: usize = 12;
/// The maximum number of listed windows, without -v.
const MAX_ROWS: usize = 10;

/// Reads a net by the options of a conversion.
pub(super) fn read(conversion: &Conversion, (param, bin): (&Path, &Path)) -> Result<Net, Refusal> {
    read_net_by(param, bin, |param, bin| conversion.read_net(param, bin))
}

/// Compares a net with the model, at several sizes if some are free.
pub(super) fn prove(
    conversion: &Conversion,
    converter: &Converter,
    model: &Input,
    net: &Net,
) -> Result<Vec<Proof>, Refusal> {
    Ok(Proof::compared(conversion.prove(converter, model, net)?)?)
}

/// Notes whose fault the error of isolated layers is: the net's, or the runtime's, if by the meaning of their
/// params they compute the model.
pub(super) fn judge(row: &mut Distance, proofs: &[Proof]) {
    let mut windows = proofs.iter().flat_map(|proof| &proof.windows);
    let Some(window) = windows.find(|window| window.value == row.name) else { return };
    let verdict = match (window.state, window.error) {
        (State::Differs, _) => "a fault of the net: its layers are not the model's nodes".to_owned(),
        (State::NotCovered, _) => format!("by the net or the runtime: {}", window.reason),
        (_, error) => {
            let error = error.unwrap_or_default();
            format!("by the runtime's computation: these layers are the model's nodes within {error:.1e}")
        }
    };
    row.note = if row.note.is_empty() { verdict } else { format!("{}; {verdict}", row.note) };
}

/// Writes the first part that differs to a new folder.
///
/// # Errors
///
/// `Usage` if no part can be cut out; `Io` if a file cannot be written. Nothing is left then.
pub(super) fn reduce(proofs: &[Proof], folder: &Path) -> Result<(), Error> {
    let Some(reduced) = proofs.iter().find_map(|proof| proof.reduced.as_ref()) else {
        let message = "the part that differs cannot be cut out: its nodes read more than its layers";
        return Err(Error::usage(message));
    };
    let failed = |error| Error::io("the folder cannot be made", error).in_file(folder);
    let around = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let room = tempfile::tempdir_in(around).map_err(failed)?;
    let whole = room.path().join("reduced");
    fs::create_dir(&whole).map_err(failed)?;
    reduced.write(&whole)?;
    fs::rename(&whole, folder).map_err(failed)
}

/// Returns names, of which at most `most` are written out.
fn names(names: &[String], most: usize) -> String {
    let mut written: Vec<String> = names.iter().take(most).map(|name| printable(name)).collect();
    if names.len() > most {
        written.push(format!("and {} more", names.len() - most));
    }
    written.join(" ")
}

/// Describes proofs at several sizes: the windows that differ, those that are not covered, and a verdict.
pub(super) fn describe(proofs: &[Proof], verbose: bool) -> String {
    let mut text = String::new();
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    for (state, label) in [(State::Differs, "DIFFERS"), (State::NotCovered, "not covered")] {
        // A window at several sizes is listed at the first of them.
        let mut listed = BTreeSet::new();
        let windows = proofs.iter().flat_map(|proof| &proof.windows).filter(|window| window.state == state);
        let rows: Vec<&WindowProof> = windows.filter(|window| listed.insert(&window.value)).collect();
        list(&mut text, "", &rows, most, |text, window| {
            let value = printable(&window.value);
            let _ = writeln!(text, "{label} {STRONG}\"{value}\"{STRONG:#}: {}", printable(&window.reason));
            if !window.layers.is_empty() || !window.nodes.is_empty() {
                let most = if verbose { usize::MAX } else { MAX_NAMES };
                let (layers, nodes) = (names(&window.layers, most), names(&window.nodes, most));
                let _ = writeln!(text, "  layers {layers}; nodes {nodes}");
            }
        });
    }
    if let Some((first, further)) = proofs.first().and_then(|proof| proof.other_layers.split_first()) {
        let further = if further.is_empty() { String::new() } else { format!("; {} more", further.len()) };
        let message = "the net has other layers than a conversion with these options, so its weights are \
                       compared by their effect alone";
        labelled(&mut text, NOTICE, "note", &format!("{message}: {}{further}", printable(first)));
    }
    let verdict = Proof::verdict(proofs);
    match Proof::first_difference(proofs) {
        Some(_) => labelled(&mut text, BAD, "mismatch", &verdict),
        None => labelled(&mut text, STRONG, "verified", &verdict),
    }
    text
}
