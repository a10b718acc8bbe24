//! Removal of reshapes of the states of recurrent layers.

use smallvec::smallvec;

use super::super::{BlobId, Layer, Net};
use super::wiring::{Edits, known};
use super::{Wiring, view};
use crate::error::Result;

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
            if let Some(bottom) = layer.bottoms.get_mut(index) {
                *bottom = source;
            }
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
    let place = wiring.only_reader(*joined)?;
    let (_, top) = view::view_of(net, net.layers.get(place)?)?;
    let (from, to) = (known(&net.blob(*joined).shape)?, known(&net.blob(top).shape)?);
    let ([n, h], [n_top, 1, h_top]) = (from.as_slice(), to.as_slice()) else { return None };
    if layer.axis != 0 || n != n_top || h != h_top {
        return None;
    }
    let states = concat.bottoms.iter().map(|blob| state_of(net, wiring, *blob, *h)).collect::<Option<_>>()?;
    Some((states, place, top))
}

fn state_of(net: &Net, wiring: &Wiring, blob: BlobId, size: i32) -> Option<State> {
    wiring.only_reader(blob)?;
    let place = wiring.producer(blob)?;
    let layer = net.layers.get(place)?;
    let direction = match &layer.layer {
        Layer::LSTM(layer) => layer.direction,
        Layer::GRU(layer) => layer.direction,
        Layer::RNN(layer) => layer.direction,
        _ => return None,
    };
    let index = layer.tops.iter().position(|top| *top == blob).filter(|index| *index > 0)?;
    let given = *layer.bottoms.get(index)?;
    wiring.only_reader(given)?;
    let view = net.layers.get(wiring.producer(given)?)?;
    let (source, _) = view::view_of(net, view)?;
    let keeps = known(&net.blob(source).shape)? == [1, 1, size] && known(&net.blob(blob).shape)? == [1, size];
    // Of two directions each reads a row of the state.
    (direction != 2 && keeps).then_some(State { layer: place, index, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::{Concat, GRU, Slice};
    use crate::ncnn::pass::wiring::apply;

    /// Returns the layers of two stacked GRU layers with initial and final states `[2, 1, 4]`.
    fn stacked(direction: i32) -> Vec<&'static str> {
        let mut net = Net::default();
        let (mut x, given) = (net.push_input("x", &[3, 4]), net.push_input("h", &[2, 1, 4]));
        let slice = Slice { slices: vec![1, 1], ..Slice::default() };
        let first = net.push("slice", slice, &[given], &[1, 1, 4]);
        let second = net.push("second", crate::ncnn::layer::AbsVal {}, &[first], &[1, 1, 4]);
        let mut computed = Vec::new();
        for part in [first, second] {
            let row = net.push("row", view::reshape_to(&[1, 4]).unwrap(), &[part], &[1, 4]);
            let gru = GRU { num_output: 4, direction, ..GRU::default() };
            x = net.push("gru", gru, &[x, row], &[3, 4]);
            let state = net.push("state", crate::ncnn::layer::Noop {}, &[], &[1, 4]);
            net.layers.pop();
            if let Some(layer) = net.layers.last_mut() {
                layer.tops.push(state);
            }
            computed.push(state);
        }
        let joined = net.push("joined", Concat { axis: 0 }, &computed, &[2, 4]);
        let top = net.push("top", view::reshape_to(&[2, 1, 4]).unwrap(), &[joined], &[2, 1, 4]);
        net.push_output("y", x);
        net.push_output("top", top);
        apply(keep_state_forms, &mut net).unwrap();
        net.remove_unread();
        assert_eq!(known(&net.blob(top).shape).unwrap(), [2, 1, 4]);
        net.layers.iter().skip(4).map(|layer| layer.layer.type_name()).collect()
    }

    #[test]
    fn states_keep_their_axis() {
        assert_eq!(stacked(0), ["GRU", "GRU", "Concat"]);
    }

    #[test]
    fn states_of_two_directions_are_reshaped() {
        assert_eq!(stacked(2), ["Reshape", "GRU", "Reshape", "GRU", "Concat", "Reshape"]);
    }
}
