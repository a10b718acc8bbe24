//! Removal of reshapes of the states of recurrent layers.

use smallvec::smallvec;

use super::super::{BlobId, Layer, Net};
use super::wiring::{Edits, known};
use super::{Wiring, view};
use crate::error::{At, Result};

/// A state of a recurrent layer of one direction.
struct State {
    /// The index of the layer.
    layer: usize,
    /// The index of the state among the bottoms and the tops.
    index: usize,
    /// The initial state with an additional outer axis of size 1.
    source: BlobId,
}

/// Lets layers keep the additional axis of their initial states if it is restored after a Concat of the final
/// ones. A final state has the form of the initial one (`lstm.cpp`, `gru.cpp`, `rnn.cpp`).
pub(super) fn keep_state_forms(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some((states, view, top)) = states_of(net, wiring, index) else { continue };
        for State { layer, index, source } in states {
            let shape = net.blob(source).shape.clone();
            let Some(layer) = net.layers.get_mut(layer) else { continue };
            let computed = layer.tops.get(index).copied();
            layer.bottoms.put(index, source);
            if let Some(blob) = computed.and_then(|top| net.blob_mut(top)) {
                blob.shape = shape;
            }
        }
        edits.remove(view, Some(index));
        if let Some(concat) = net.layers.get_mut(index) {
            concat.tops = smallvec![top];
        }
    }
    Ok(edits.apply(net))
}

/// Returns the states that the Concat at `index` joins, the index of the view of its top, and the top of the
/// view.
fn states_of(net: &Net, wiring: &Wiring, index: usize) -> Option<(Vec<State>, usize, BlobId)> {
    let concat = net.layers.get(index)?;
    let (Layer::Concat(layer), [joined]) = (&concat.layer, concat.tops.as_slice()) else { return None };
    let reader = wiring.only_reader(*joined)?;
    let (_, top) = view::view_of(net, reader)?;
    let (from, to) = (known(&net.blob(*joined).shape)?, known(&net.blob(top).shape)?);
    let ([n, h], [n_top, 1, h_top]) = (from.as_slice(), to.as_slice()) else { return None };
    if layer.axis != 0 || n != n_top || h != h_top {
        return None;
    }
    let states = concat.bottoms.iter().map(|blob| state_of(net, wiring, *blob, *h)).collect::<Option<_>>()?;
    Some((states, reader, top))
}

fn state_of(net: &Net, wiring: &Wiring, blob: BlobId, size: i32) -> Option<State> {
    wiring.only_reader(blob)?;
    let producer = wiring.producer(blob)?;
    let layer = net.layers.get(producer)?;
    let direction = layer.layer.facts().direction()?;
    let index = layer.tops.iter().position(|top| *top == blob).filter(|index| *index > 0)?;
    let previous = *layer.bottoms.get(index)?;
    wiring.only_reader(previous)?;
    let (source, _) = view::view_of(net, wiring.producer(previous)?)?;
    let keeps = known(&net.blob(source).shape)? == [1, 1, size] && known(&net.blob(blob).shape)? == [1, size];
    // Of two directions each reads a row of the state.
    (direction != 2 && keeps).then_some(State { layer: producer, index, source })
}
