//! Removal of layers and tops that nothing reads.
//!
//! The runtime computes all tops of a layer, and takes each blob without a reader for an output of the net
//! (`Net::output_names` in `net.cpp`).

use smallvec::smallvec;

use super::super::layer::{Crop, EXPRESSIONS, REST, Slice};
use super::super::text::{is_readable, letter};
use super::super::{BlobId, Layer, Net, NetLayer};
use crate::common::index::IndexSet;
use crate::error::{Error, Result};
use crate::tensor::Dim;

impl Net {
    /// Removes layers whose tops have no readers.
    pub(crate) fn remove_unread(&mut self) {
        let mut read: IndexSet<_> = self.outputs.iter().map(|output| output.blob).collect();
        let is_needed = |layer: &NetLayer, read: &IndexSet<_>| {
            matches!(layer.layer, Layer::Input(_)) || layer.tops.iter().any(|top| read.contains(*top))
        };
        for layer in self.layers.iter().rev() {
            if is_needed(layer, &read) {
                read.extend(layer.bottoms.iter().copied());
            }
        }
        self.layers.retain(|layer| is_needed(layer, &read));
    }

    /// Replaces layers of which nothing reads some tops by layers without these tops, as far as their params
    /// allow. It follows the other passes, which could bring readers or remove them.
    pub(crate) fn drop_unread_tops(&mut self) {
        let read = self.read_blobs();
        if self.layers.iter().all(|layer| are_read(layer, &read)) {
            return;
        }
        let layers = Vec::with_capacity(self.layers.len());
        for layer in std::mem::replace(&mut self.layers, layers) {
            match self.narrowed(&layer, &read) {
                Some(layers) => self.layers.extend(layers),
                None => self.layers.push(layer),
            }
        }
    }

    /// Checks that all blobs without a reader are outputs, but for inputs and for tops that the params of a
    /// layer cannot leave out.
    pub(in crate::ncnn) fn check_read(&self) -> Result<()> {
        let read = self.read_blobs();
        for layer in self.layers.iter().filter(|layer| !are_read(layer, &read)) {
            let has_fixed_tops = match &layer.layer {
                Layer::Input(_) | Layer::SDPA(_) | Layer::Slice(_) => true,
                other => other.facts().direction().is_some(),
            };
            if !has_fixed_tops || self.narrowed(layer, &read).is_some() {
                let top = layer.tops.iter().find(|top| !read.contains(**top)).map(|top| self.blob(*top));
                let (name, top) = (&layer.name, top.map_or("", |blob| &blob.name));
                return Err(Error::internal(format!("nothing reads \"{top}\" of layer \"{name}\"")));
            }
        }
        Ok(())
    }

    /// Returns the blobs that layers read, and the outputs.
    fn read_blobs(&self) -> IndexSet<BlobId> {
        let bottoms = self.layers.iter().flat_map(|layer| &layer.bottoms).copied();
        bottoms.chain(self.outputs.iter().map(|output| output.blob)).collect()
    }

    /// Returns layers with fewer unread tops that do the work of a layer; `None` if there are none.
    fn narrowed(&self, layer: &NetLayer, read: &IndexSet<BlobId>) -> Option<Vec<NetLayer>> {
        if are_read(layer, read) {
            return None;
        }
        match &layer.layer {
            Layer::Slice(slice) => self.crops(layer, slice, read),
            other => self.without_states(layer, other.facts().direction()?, read),
        }
    }

    /// Returns a Crop for each part of a Slice that is read; `None` if the release cannot compute where one
    /// begins.
    fn crops(&self, layer: &NetLayer, slice: &Slice, read: &IndexSet<BlobId>) -> Option<Vec<NetLayer>> {
        let tops = layer.tops.iter().enumerate().filter(|(_, top)| read.contains(**top));
        let crop = |(index, top): (usize, &BlobId)| {
            Some(NetLayer {
                name: self.blob(*top).name.clone(),
                layer: self.part(layer, slice, index)?.into(),
                tops: smallvec![*top],
                ..layer.clone()
            })
        };
        tops.map(crop).collect()
    }

    /// Returns the Crop that does the work of a Slice for one of its tops.
    fn part(&self, layer: &NetLayer, slice: &Slice, index: usize) -> Option<Crop> {
        let axis = usize::try_from(slice.axis).ok()?;
        let shape = &self.blob(*layer.bottoms.first()?).shape;
        let sizes: Vec<&Dim> =
            layer.tops.iter().map(|top| self.blob(*top).shape.get(axis)).collect::<Option<_>>()?;
        let fixed = sizes.iter().map_while(|size| i32::try_from(size.known()?).ok());
        let fixed: Vec<i32> = fixed.collect();
        let start: i32 = fixed.iter().take(index).sum();
        if let Some(size) = fixed.get(index) {
            return Some(along(slice.axis, start, start + size));
        }
        // Parts of free size are equal parts of the rest.
        let (size, parts) = (sizes.get(index)?, sizes.len() - fixed.len());
        let rest = shape.get(axis)? - start;
        let is_equal = *size * parts == rest
            && sizes.iter().skip(fixed.len()).all(|other| other == size)
            && slice.slices.iter().skip(fixed.len()).all(|size| *size == REST);
        if !is_equal {
            return None;
        }
        if parts == 1 {
            return Some(along(slice.axis, start, REST));
        }
        let whole = format!("0{}", letter(axis, shape.len())?);
        let rest = if start == 0 { whole.clone() } else { format!("-({whole},{start})") };
        let bound = |number: usize| match number {
            0 => start.to_string(),
            number if number == parts => whole.clone(),
            number if start == 0 => format!("//(*({rest},{number}),{parts})"),
            number => format!("+(//(*({rest},{number}),{parts}),{start})"),
        };
        let number = index - fixed.len();
        let (starts_expr, ends_expr) = (bound(number), bound(number + 1));
        let is_known = self.release >= EXPRESSIONS && is_readable(&starts_expr) && is_readable(&ends_expr);
        let axes_expr = slice.axis.to_string();
        is_known.then(|| Crop { starts_expr, ends_expr, axes_expr, ..Crop::default() })
    }

    /// Returns a recurrent layer without states, and for the hidden state, if it is read, the row of the
    /// sequence that was computed last. `None` for the cell state, and for states of two directions or with
    /// a separate axis.
    fn without_states(
        &self,
        layer: &NetLayer,
        direction: i32,
        read: &IndexSet<BlobId>,
    ) -> Option<Vec<NetLayer>> {
        let [sequence, hidden, others @ ..] = layer.tops.as_slice() else { return None };
        if others.iter().any(|top| read.contains(*top)) {
            return None;
        }
        let stateless = NetLayer { tops: smallvec![*sequence], ..layer.clone() };
        if !read.contains(*hidden) {
            return Some(vec![stateless]);
        }
        let row = match direction {
            0 => along(0, -1, REST),
            1 => along(0, 0, 1),
            _ => return None,
        };
        let state = self.blob(*hidden);
        (state.shape.len() == 2).then(|| {
            let (name, bottoms) = (state.name.clone(), smallvec![*sequence]);
            let row =
                NetLayer { name, layer: row.into(), bottoms, tops: smallvec![*hidden], ..layer.clone() };
            vec![stateless, row]
        })
    }
}

/// Returns whether all tops of a layer are read.
fn are_read(layer: &NetLayer, read: &IndexSet<BlobId>) -> bool {
    layer.tops.iter().all(|top| read.contains(*top))
}

/// Returns the Crop between two positions of an axis.
fn along(axis: i32, start: i32, end: i32) -> Crop {
    Crop { starts: vec![start], ends: vec![end], axes: vec![axis], ..Crop::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::example::sizes;
    use crate::ncnn::layer::{GRU, LSTM};

    /// Returns the layers after the input, with their params, of a net whose first layer has tops of these
    /// shapes, of which those at `read` are outputs.
    fn narrowed(bottom: &[&str], layer: impl Into<Layer>, tops: &[&[&str]], read: &[usize]) -> Vec<String> {
        let mut net = Net { release: EXPRESSIONS, ..Net::default() };
        let x = net.push_input("x", &[1]);
        let first = net.push("0", layer, &[x], &[1]);
        let others = (1..tops.len()).map(|index| {
            let blob = crate::ncnn::Blob { name: index.to_string(), ..net.blob(first).clone() };
            net.add_blob(blob)
        });
        let others: Vec<BlobId> = others.collect();
        let ids: Vec<BlobId> = [x, first].into_iter().chain(others).collect();
        net.layers[1].tops = ids.iter().skip(1).copied().collect();
        for (id, shape) in ids.iter().zip([bottom].iter().chain(tops)) {
            net.blob_mut(*id).unwrap().shape = sizes(shape);
        }
        for index in read {
            net.push_output(&index.to_string(), ids[index + 1]);
        }
        net.drop_unread_tops();
        net.split();
        net.name(&[], std::iter::empty()).unwrap();
        net.check_flow().unwrap();
        net.check_read().unwrap();
        let line = |layer: &NetLayer| {
            let mut text = String::new();
            net.push_line(&mut text, layer, false);
            let words: Vec<&str> = text.split_whitespace().collect();
            let tops = &words[4 + layer.bottoms.len()..];
            format!("{} {}", words[0], tops.join(" "))
        };
        net.layers.iter().skip(1).filter(|layer| !matches!(layer.layer, Layer::Split(_))).map(line).collect()
    }

    #[test]
    fn read_parts_are_crops() {
        let slice = |slices: &[i32]| Slice { slices: slices.to_vec(), axis: 1, ..Slice::default() };
        let tops: [&[&str]; 3] = [&["2", "3"], &["2", "4"], &["2", "5"]];
        let fixed = |read: &[usize]| narrowed(&["2", "12"], slice(&[3, 4, 5]), &tops, read);
        assert_eq!(fixed(&[1]), ["Crop 1 -23309=1,3 -23310=1,7 -23311=1,1"]);
        assert_eq!(fixed(&[0, 2]).len(), 2);
        assert_eq!(fixed(&[0, 1, 2]), ["Slice 0 1 2 -23300=3,3,4,5 1=1"]);
        let tops: [&[&str]; 2] = [&["2", "3"], &["2", "N"]];
        let rest = narrowed(&["2", "N + 3"], slice(&[3, REST]), &tops, &[1]);
        assert_eq!(rest, ["Crop 1 -23309=1,3 -23310=1,-233 -23311=1,1"]);
        let tops: [&[&str]; 3] = [&["2", "N"]; 3];
        let equal = |read: &[usize]| narrowed(&["2", "3*N"], slice(&[REST; 3]), &tops, read);
        assert_eq!(equal(&[1]), ["Crop 1 19=\"//(*(0w,1),3)\" 20=\"//(*(0w,2),3)\" 21=\"1\""]);
        assert_eq!(equal(&[2]), ["Crop 2 19=\"//(*(0w,2),3)\" 20=\"0w\" 21=\"1\""]);
        let tops: [&[&str]; 3] = [&["2", "5"], &["2", "N"], &["2", "N"]];
        let equal = narrowed(&["2", "2*N + 5"], slice(&[5, REST, REST]), &tops, &[0, 1]);
        assert_eq!(
            equal,
            [
                "Crop 0 -23309=1,0 -23310=1,5 -23311=1,1",
                "Crop 1 19=\"5\" 20=\"+(//(*(-(0w,5),1),2),5)\" 21=\"1\""
            ]
        );
    }

    #[test]
    fn hidden_state_is_a_row_of_the_sequence() {
        let tops: [&[&str]; 3] = [&["T", "4"], &["1", "4"], &["1", "4"]];
        let lstm = |direction: i32, read: &[usize]| {
            let layer = LSTM { num_output: 4, hidden_size: 4, direction, ..LSTM::default() };
            let lines = narrowed(&["T", "3"], layer, &tops, read);
            lines.iter().map(|line| line.split(" 0=").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(lstm(0, &[0]), ["LSTM 0"]);
        assert_eq!(lstm(0, &[0, 1]), ["LSTM 0_1", "Crop 1 -23309=1,-1 -23310=1,-233 -23311=1,0"]);
        assert_eq!(lstm(1, &[1]), ["LSTM 0", "Crop 1 -23309=1,0 -23310=1,1 -23311=1,0"]);
        // The cell state is not a row of the sequence.
        assert_eq!(lstm(0, &[0, 2]), ["LSTM 0 1 2"]);
        let gru = GRU { num_output: 4, ..GRU::default() };
        assert_eq!(narrowed(&["T", "3"], gru, &tops[..2], &[1]).len(), 2);
    }
}
