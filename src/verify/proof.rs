//! The result of a proof.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::reduce::{Example, Reduced};
use super::{Evaluator, Pair};
use crate::common::count::count;
use crate::error::{Error, Result};
use crate::ncnn::{Deviations, Net};

/// What is known of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// An element differs.
    Differs,
    /// One side cannot be computed.
    NotCovered,
    /// Both sides are equal on random elements, within the rounding of float32.
    Tested,
    /// Both sides move each element to the same index, at these sizes.
    Proved,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Differs => "differs",
            State::NotCovered => "not covered",
            State::Tested => "tested",
            State::Proved => "proved",
        })
    }
}

/// A part of a net between blobs with the elements of values of the model, up to one of them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WindowProof {
    /// The name of the value at its end.
    pub value: String,
    /// The name of the blob.
    pub blob: String,
    /// The names of its layers.
    pub layers: Vec<String>,
    /// The nodes of the model that compute the same.
    pub nodes: Vec<String>,
    /// What is known of it.
    pub state: State,
    /// What evaluated its nodes; of several evaluators, the one least independent of the conversion.
    pub evaluator: Option<Evaluator>,
    /// The largest error, relative to the largest magnitude of the value.
    pub error: Option<f64>,
    /// What differs, or why the window is not covered.
    pub reason: String,
    /// Elements for which it differs.
    #[serde(skip)]
    pub(super) example: Option<Example>,
}

impl WindowProof {
    /// The window of a blob that the net lacks.
    pub(super) fn missing(pair: &Pair) -> WindowProof {
        let (value, blob) = (pair.value.clone(), pair.blob.clone());
        WindowProof::without_layers(value, blob, State::Differs, "the net has no such blob")
    }

    /// Returns whether the net lacks the blob.
    fn is_missing(&self) -> bool {
        self.state == State::Differs && self.layers.is_empty()
    }

    /// The window of an output that is no value of the model.
    pub(super) fn unknown(pair: &Pair) -> WindowProof {
        let (value, blob) = (pair.value.clone(), pair.blob.clone());
        WindowProof::without_layers(value, blob, State::NotCovered, "the model has no value of this name")
    }

    fn without_layers(value: String, blob: String, state: State, reason: &str) -> WindowProof {
        WindowProof {
            value,
            blob,
            layers: Vec::new(),
            nodes: Vec::new(),
            state,
            evaluator: None,
            error: None,
            reason: reason.to_owned(),
            example: None,
        }
    }
}

/// The comparison of all windows of a net with its model.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Proof {
    /// The windows in the order of their last layers.
    pub windows: Vec<WindowProof>,
    /// The names of layers in no window.
    pub loose_layers: Vec<String>,
    /// Layers, wiring and params that a conversion with the same options has otherwise. If there are any, the
    /// weights are compared by their effect alone, and else with those of the conversion, too.
    pub other_layers: Vec<String>,
    /// The first window that differs, if its nodes can be cut out of the model.
    #[serde(skip)]
    pub reduced: Option<Reduced>,
}

impl Proof {
    pub(super) fn new(net: &Net, windows: Vec<WindowProof>, reduced: Option<Reduced>) -> Proof {
        let covered: BTreeSet<&str> =
            windows.iter().flat_map(|window| &window.layers).map(String::as_str).collect();
        let is_loose = |name: &&str| !covered.contains(name);
        let computed = net.layers.iter().filter(|layer| !layer.bottoms.is_empty());
        let loose = computed.map(|layer| layer.name.as_str()).filter(is_loose).map(str::to_owned);
        Proof { loose_layers: loose.collect(), other_layers: Vec::new(), windows, reduced }
    }

    /// Adds what the net has instead of the params and weights of a conversion.
    pub(crate) fn add(&mut self, deviations: Deviations) {
        let Deviations { weights, layers } = deviations;
        for (layer, change) in weights {
            let reason = format!("layer \"{layer}\": {change}");
            let has_layer = |window: &&mut WindowProof| window.layers.contains(&layer);
            match self.windows.iter_mut().find(has_layer) {
                Some(window) if window.state == State::Differs => {}
                Some(window) => (window.state, window.reason) = (State::Differs, reason),
                None => self.windows.push(WindowProof {
                    layers: vec![layer.clone()],
                    ..WindowProof::without_layers(layer, String::new(), State::Differs, &reason)
                }),
            }
        }
        self.other_layers = layers;
    }

    /// Returns the number of windows of a state.
    pub fn count(&self, state: State) -> usize {
        self.windows.iter().filter(|window| window.state == state).count()
    }

    /// Returns whether no window differs.
    pub fn is_right(&self) -> bool {
        self.count(State::Differs) == 0
    }

    /// Returns the first window of proofs at several sizes that differs.
    pub fn first_difference(proofs: &[Proof]) -> Option<&WindowProof> {
        proofs.iter().flat_map(|proof| &proof.windows).find(|window| window.state == State::Differs)
    }

    /// Returns the proofs, unless none of their windows was compared: that says nothing of the net.
    ///
    /// # Errors
    ///
    /// `Usage`: the net has no blob of a window; or none could be computed, with the reason of the first.
    pub fn compared(proofs: Vec<Proof>) -> Result<Vec<Proof>> {
        let windows = || proofs.iter().flat_map(|proof| &proof.windows);
        if windows().next().is_some() && windows().all(WindowProof::is_missing) {
            let message = "the net has no blob with the name of a value of the model";
            return Err(Error::usage(message).help("is it the net of another model, or of other options?"));
        }
        let mut windows = windows();
        let first = windows.next().filter(|first| first.state == State::NotCovered);
        match first.filter(|_| windows.all(|window| window.state == State::NotCovered)) {
            Some(first) => {
                let message =
                    format!("no part of the net could be compared: \"{}\": {}", first.value, first.reason);
                Err(Error::usage(message).help("verify it in the runtimes, by --runtime or runtime=True"))
            }
            None => Ok(proofs),
        }
    }

    /// Returns the verdict on proofs at several sizes in one line, as the command prints it: how many windows
    /// differ, or else how many were compared, and the largest error.
    pub fn verdict(proofs: &[Proof]) -> String {
        let total = |state| proofs.iter().map(|proof| proof.count(state)).sum::<usize>();
        let all = proofs.iter().map(|proof| proof.windows.len()).sum();
        let windows = count(all, "window");
        let differs = total(State::Differs);
        if differs > 0 {
            return format!("{differs} of {windows} differ");
        }
        let (open, proved) = (total(State::NotCovered), total(State::Proved));
        let error = proofs.iter().map(Proof::error).fold(0.0, f64::max);
        let sizes = if proofs.len() > 1 { format!(" at {} sizes", proofs.len()) } else { String::new() };
        format!(
            "{} of {windows}{sizes}, {proved} proved, largest error {error:.1e}; not covered: {open}",
            all - open
        )
    }

    /// Returns the largest error of a window that does not differ, relative to the largest magnitude of its
    /// value.
    pub fn error(&self) -> f64 {
        let same = self.windows.iter().filter(|window| window.state != State::Differs);
        same.filter_map(|window| window.error).fold(0.0, f64::max)
    }
}
