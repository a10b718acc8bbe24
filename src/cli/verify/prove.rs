//! The built-in check of `verify`: the files are read back, and each window of the net is compared with the
//! model.

use std::fmt::Write as _;
use std::path::Path;

use onnx2ncnn::{Conversion, Converter, Input, Proof, Refusal, State, WindowProof};

use crate::cli::net::read_net;
use crate::cli::terminal::{BAD, STRONG, labelled, list, printable};

/// The maximum number of listed windows, without -v.
const MAX_ROWS: usize = 10;

/// Compares the net of these files with the model, at several sizes if some are free.
pub(super) fn prove(
    conversion: &Conversion,
    converter: &Converter,
    model: &Input,
    (param, bin): (&Path, &Path),
) -> Result<Vec<Proof>, Refusal> {
    let net = read_net(param, bin)?;
    Ok(conversion.prove(converter, model, &net)?)
}

/// Describes proofs at several sizes: the windows that differ, those that are not covered, and a verdict.
pub(super) fn describe(proofs: &[Proof], verbose: bool) -> String {
    let mut text = String::new();
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    for (state, label) in [(State::Differs, "DIFFERS"), (State::NotCovered, "not covered")] {
        let rows: Vec<&WindowProof> =
            proofs.iter().flat_map(|proof| &proof.windows).filter(|window| window.state == state).collect();
        list(&mut text, "", &rows, most, |text, window| {
            let layers: Vec<String> = window.layers.iter().map(|layer| printable(layer)).collect();
            let value = printable(&window.value);
            let _ = writeln!(text, "{label} {STRONG}\"{value}\"{STRONG:#}: {}", printable(&window.reason));
            let _ = writeln!(text, "  layers {}; nodes {}", layers.join(" "), window.nodes.join(" "));
        });
    }
    let verdict = Proof::verdict(proofs);
    match Proof::first_difference(proofs) {
        Some(_) => labelled(&mut text, BAD, "mismatch", &verdict),
        None => labelled(&mut text, STRONG, "verified", &verdict),
    }
    text
}
