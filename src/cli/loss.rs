//! The smallest net of which the loss at the outputs is at most a given one: the most sensitive nodes stay in float.

use std::fmt::Write as _;

use onnx2ncnn::Refusal;

use super::terminal::{STRONG, labelled};

/// What is measured of a net.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// The bytes of the weights.
    pub bytes: u64,
    /// The time of a run on one thread of this processor.
    pub seconds: f64,
    /// One minus the least cosine of an output.
    pub loss: f64,
}

/// A quantized net.
#[derive(Debug)]
pub(super) struct Trial<T> {
    /// The number of nodes that stay in float although they could be int8 layers.
    pub in_float: usize,
    pub figures: Figures,
    pub net: T,
}

/// Tries nets with the first of the nodes in float, the most sensitive first, and returns all trials, that of the fewest
/// such nodes whose loss is at most `most` last, if there is one.
pub(super) fn search<T>(
    nodes: &[String],
    most: f64,
    attempt: impl Fn(&[String]) -> Result<Trial<T>, Refusal>,
) -> Result<Vec<Trial<T>>, Refusal> {
    let of = |count: usize| attempt(nodes.get(..count).unwrap_or(nodes));
    let mut trials = vec![of(0)?];
    let holds = |trials: &[Trial<T>]| trials.last().is_some_and(|trial| trial.figures.loss <= most);
    let mut failed = 0;
    // One node stays in int8 at least.
    let last = nodes.len().saturating_sub(1);
    while !holds(&trials) && failed < last {
        let next = (2 * failed).clamp(1, last);
        trials.push(of(next)?);
        if !holds(&trials) {
            failed = next;
        }
    }
    if !holds(&trials) {
        return Ok(trials);
    }
    let Some(mut best) = trials.pop() else { return Ok(trials) };
    while best.in_float > failed + 1 {
        let middle = failed.midpoint(best.in_float);
        let trial = of(middle)?;
        if trial.figures.loss <= most {
            trials.push(std::mem::replace(&mut best, trial));
        } else {
            failed = middle;
            trials.push(trial);
        }
    }
    trials.push(best);
    Ok(trials)
}

/// Adds a table of the trials by the numbers of nodes in float, and of the net in float.
pub(super) fn describe<T>(text: &mut String, trials: &[Trial<T>], whole: Figures) {
    let mut rows: Vec<_> = trials.iter().map(|trial| (trial.in_float, trial.figures)).collect();
    rows.sort_by_key(|(in_float, _)| *in_float);
    let rows = rows.into_iter().map(|(in_float, figures)| (in_float.to_string(), figures));
    labelled(text, STRONG, "nets", "nodes in float, bytes of weights, milliseconds, loss");
    for (in_float, Figures { bytes, seconds, loss }) in rows.chain([("all".to_owned(), whole)]) {
        let _ = writeln!(text, "  {in_float:>6}  {bytes:>10}  {:8.2}  {loss:.2e}", seconds * 1e3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of nodes in float that are tried if `enough` of 20 suffice.
    fn tried(enough: usize) -> Vec<usize> {
        let nodes: Vec<String> = (0..20).map(|node| node.to_string()).collect();
        let attempt = |kept: &[String]| {
            let loss = if kept.len() >= enough { 0.0 } else { 1.0 };
            Ok(Trial { in_float: kept.len(), figures: Figures { bytes: 0, seconds: 0.0, loss }, net: () })
        };
        search(&nodes, 0.5, attempt).unwrap().into_iter().map(|trial| trial.in_float).collect()
    }

    #[test]
    fn the_fewest_nodes_are_found() {
        assert_eq!(tried(0), [0]);
        assert_eq!(tried(1), [0, 1]);
        assert_eq!(tried(7), [0, 1, 2, 4, 6, 8, 7]);
        assert_eq!(tried(19).last(), Some(&19));
    }

    #[test]
    fn a_node_stays_in_int8() {
        assert_eq!(tried(20), [0, 1, 2, 4, 8, 16, 19]);
    }
}
