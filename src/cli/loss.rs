//! The smallest net with a loss at the outputs of at most a maximum: the most sensitive nodes stay in
//! float, except nodes that the loss tolerates.

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
    /// The nodes that stay in float although they could be int8 layers.
    pub in_float: Vec<String>,
    pub figures: Figures,
    pub net: T,
}

/// Tries nets with the first of the nodes in float, the most sensitive first, until the loss is at most
/// `most`, and then without parts of these. Returns all trials, the one with the fewest such nodes last, if
/// there is one.
pub(super) fn search<T>(
    nodes: &[String],
    most: f64,
    attempt: impl Fn(&[String]) -> Result<Trial<T>, Refusal>,
) -> Result<Vec<Trial<T>>, Refusal> {
    let of = |count: usize| attempt(nodes.get(..count).unwrap_or(nodes));
    let mut trials = vec![of(0)?];
    let is_met = |trials: &[Trial<T>]| trials.last().is_some_and(|trial| trial.figures.loss <= most);
    let mut failed = 0;
    // One node stays in int8 at least.
    let last = nodes.len().saturating_sub(1);
    while !is_met(&trials) && failed < last {
        let next = (2 * failed).clamp(1, last);
        trials.push(of(next)?);
        if !is_met(&trials) {
            failed = next;
        }
    }
    if !is_met(&trials) {
        return Ok(trials);
    }
    let Some(mut best) = trials.pop() else { return Ok(trials) };
    // Sensitive nodes need not be those that matter together: halves of them become int8 layers again, then
    // quarters.
    let mut size = best.in_float.len().div_ceil(2);
    while size > 0 {
        let mut end = best.in_float.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let fewer = [best.in_float.get(..start), best.in_float.get(end..)]
                .map(Option::unwrap_or_default)
                .concat();
            end = start;
            // All of them are in int8 in the first trial.
            if fewer.is_empty() {
                continue;
            }
            let trial = attempt(&fewer)?;
            if trial.figures.loss <= most {
                trials.push(std::mem::replace(&mut best, trial));
            } else {
                trials.push(trial);
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    trials.push(best);
    Ok(trials)
}

/// Adds a table of the trials by the numbers of nodes in float, and of the net in float.
pub(super) fn describe<T>(text: &mut String, trials: &[Trial<T>], whole: Figures) {
    let mut rows: Vec<_> = trials.iter().map(|trial| (trial.in_float.len(), trial.figures)).collect();
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

    /// The nodes in float of all trials if the loss is met with these of 20.
    fn tried(needed: &[usize]) -> Vec<Vec<String>> {
        let nodes: Vec<String> = (0..20).map(|node| node.to_string()).collect();
        let attempt = |kept: &[String]| {
            let is_met = needed.iter().all(|node| kept.contains(&node.to_string()));
            let figures = Figures { bytes: 0, seconds: 0.0, loss: if is_met { 0.0 } else { 1.0 } };
            Ok(Trial { in_float: kept.to_vec(), figures, net: () })
        };
        search(&nodes, 0.5, attempt).unwrap().into_iter().map(|trial| trial.in_float).collect()
    }

    #[test]
    fn only_nodes_that_are_needed_stay() {
        assert_eq!(tried(&[]), [[""; 0]]);
        assert_eq!(tried(&[0]), [&[][..], &["0"]]);
        let found = tried(&[2, 6]);
        assert_eq!(found.last().unwrap(), &["2", "6"]);
        assert!(found.len() < 16, "{found:?}");
        assert_eq!(tried(&[18]).last().unwrap(), &["18"]);
    }

    #[test]
    fn a_node_stays_in_int8() {
        let counts: Vec<usize> = tried(&[19]).iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 1, 2, 4, 8, 16, 19]);
    }
}
