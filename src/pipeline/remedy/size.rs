//! Usual sizes of inputs.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Metadata;
use super::super::convert::free_inputs;
use super::{Remedy, Search};
use crate::tensor::{DType, Dim};

/// The sizes of a free axis, in the order of trials.
const PICTURE: [i64; 6] = [224, 640, 64, 256, 512, 8];
const SOUND: [i64; 6] = [16_000, 1_600, 512, 32_000, 64, 8];
const SEQUENCE: [i64; 6] = [64, 128, 16, 256, 512, 8];

/// The most free sizes of which each is tried by itself.
const MAX_SINGLE: usize = 3;

/// An input with free sizes.
#[derive(Debug)]
pub(crate) struct FreeInput {
    pub name: String,
    pub dtype: Option<DType>,
    pub shape: Vec<Dim>,
}

/// Returns shapes of inputs without free sizes, the most usual first.
pub(super) fn usual(free: &[FreeInput], metadata: &Metadata) -> Vec<Vec<(String, Vec<Dim>)>> {
    let mut sizes: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for input in free {
        for (axis, size) in input.shape.iter().enumerate() {
            let mut names = BTreeSet::new();
            size.collect_symbols(&mut names);
            for name in names {
                sizes.entry(name).or_insert_with(|| usual_of(input, axis, metadata));
            }
        }
    }
    let rounds = sizes.values().map(Vec::len).max().unwrap_or(0);
    let mut tried: Vec<Vec<(String, Vec<Dim>)>> = Vec::new();
    for round in 0..rounds {
        let chosen: BTreeMap<String, Dim> = sizes
            .iter()
            .filter_map(|(name, sizes)| Some((name.clone(), Dim::from(*sizes.get(round).or(sizes.last())?))))
            .collect();
        // Some sizes have one valid value, which a conversion finds if the others are known.
        let single = chosen.iter().filter(|_| (2..=MAX_SINGLE).contains(&chosen.len()));
        let single =
            single.map(|(name, size)| BTreeMap::from([(name.clone(), size.clone())])).collect::<Vec<_>>();
        for chosen in std::iter::once(chosen).chain(single) {
            let shapes = fixed(free, &chosen);
            if !shapes.is_empty() && !tried.contains(&shapes) {
                tried.push(shapes);
            }
        }
    }
    tried
}

/// Returns shapes of inputs in which a size that one input of integers alone has, such as the length of a
/// mask, is the sum of two others.
pub(super) fn tied(free: &[FreeInput]) -> Vec<Vec<(String, Vec<Dim>)>> {
    let names = |input: &FreeInput| {
        let mut names = BTreeSet::new();
        input.shape.iter().for_each(|size| size.collect_symbols(&mut names));
        names
    };
    let mut readers: BTreeMap<String, usize> = BTreeMap::new();
    for name in free.iter().flat_map(names) {
        *readers.entry(name).or_default() += 1;
    }
    let integers = free.iter().filter(|input| input.dtype.is_some_and(DType::is_int));
    let single = integers.flat_map(|input| input.shape.iter().filter_map(Dim::symbol_name));
    let single: BTreeSet<&str> = single.filter(|name| readers.get(*name) == Some(&1)).collect();
    let mut shapes = Vec::new();
    for name in single {
        let others: Vec<Dim> =
            readers.keys().filter(|other| *other != name).map(|other| Dim::symbol(other)).collect();
        for (index, first) in others.iter().enumerate() {
            let sums = others.iter().skip(index + 1).map(|second| first + second);
            shapes.extend(sums.map(|sum| fixed(free, &BTreeMap::from([(name.to_owned(), sum)]))));
        }
    }
    shapes.retain(|shapes| !shapes.is_empty());
    shapes
}

/// Returns the shapes of the inputs of which these values of symbols fix sizes, without those that cannot be
/// written.
fn fixed(free: &[FreeInput], chosen: &BTreeMap<String, Dim>) -> Vec<(String, Vec<Dim>)> {
    let fixed = |input: &FreeInput| {
        let shape: Vec<Dim> = input.shape.iter().map(|size| size.substitute(chosen)).collect();
        let is_written = |size: &Dim| size.to_string().parse::<Dim>().is_ok_and(|read| read == *size);
        (shape != input.shape && shape.iter().all(is_written)).then(|| (input.name.clone(), shape))
    };
    free.iter().filter_map(fixed).collect()
}

/// Returns usual sizes of an axis.
fn usual_of(input: &FreeInput, axis: usize, metadata: &Metadata) -> Vec<i64> {
    let rank = input.shape.len();
    if axis == 0 && rank > 1 {
        return vec![1];
    }
    let is_channel =
        |axis: usize| input.shape.get(axis).is_some_and(|size| [1, 3, 4].iter().any(|n| size.is(*n)));
    let is_float = input.dtype.is_none_or(DType::is_float);
    let is_integer_picture = input.dtype == Some(DType::U8);
    let picture = (is_float || is_integer_picture) && rank == 4;
    let with = |first: Option<i64>, usual: &[i64]| first.into_iter().chain(usual.iter().copied()).collect();
    if picture {
        let last = !is_channel(1) && is_channel(3);
        return match (axis, last) {
            (1, false) | (3, true) => vec![3, 1],
            (1, true) | (2, false) => with(metadata.image_size.map(|[height, _]| height), &PICTURE),
            _ => with(metadata.image_size.map(|[_, width]| width), &PICTURE),
        };
    }
    match (is_float, rank) {
        (true, 1 | 2) => with(metadata.sample_rate, &SOUND),
        _ => SEQUENCE.to_vec(),
    }
}

impl Search<'_> {
    /// Tries sums of sizes as the length of a mask: a cache of the runtime needs one that grows with it.
    pub(super) fn tie_sizes(&mut self) {
        if !self.options.kv_cache {
            return;
        }
        let Ok(free) = free_inputs(self.sources, &self.base.apply(&self.options)) else {
            return;
        };
        self.set_shapes(tied(&free), true);
    }

    /// Tries sizes instead of free ones.
    pub(super) fn set_sizes(&mut self) {
        let Ok(free) = free_inputs(self.sources, &self.base.apply(&self.options)) else {
            return;
        };
        self.set_shapes(usual(&free, &self.metadata), false);
    }

    /// Tries shapes of inputs until one is converted.
    fn set_shapes(&mut self, tried: Vec<Vec<(String, Vec<Dim>)>>, is_tied: bool) {
        for input_shapes in tried {
            let remedy = Remedy { input_shapes, is_tied, ..self.base.clone() };
            match self.attempt(&remedy) {
                Some(Ok(_)) => return self.found.push(remedy),
                Some(Err(errors)) if self.sized.is_none() => self.sized = Some((remedy, errors)),
                Some(Err(_)) => {}
                None => return,
            }
        }
    }

    /// Tries parts of the model at fixed sizes that avoid its errors, though others follow.
    pub(super) fn cut_at_sizes(&mut self) {
        if let Some((remedy, errors)) = self.sized.take()
            && self.rebase(remedy, &errors)
        {
            self.cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(inputs: &[(&str, Option<DType>, &str)], entries: &[(&str, &str)]) -> Vec<String> {
        let size = |text: &str| text.parse::<Dim>().unwrap();
        let free: Vec<FreeInput> = inputs
            .iter()
            .map(|(name, dtype, shape)| FreeInput {
                name: (*name).to_owned(),
                dtype: *dtype,
                shape: shape.split(' ').map(size).collect(),
            })
            .collect();
        let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let shape = |(name, shape): &(String, Vec<Dim>)| {
            format!("{name}:{}", shape.iter().map(Dim::to_string).collect::<Vec<_>>().join(","))
        };
        let tried = usual(&free, &Metadata::of(entries.collect()));
        tried.iter().map(|shapes| shapes.iter().map(shape).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn sizes_are_those_of_the_metadata_and_then_usual_ones() {
        let (float, int) = (Some(DType::F32), Some(DType::I64));
        for (inputs, entries, first) in [
            (&[("x", float, "1 3 H W")][..], &[][..], ["x:1,3,224,224", "x:1,3,640,640"]),
            (&[("x", float, "N 3 H W")], &[("imgsz", "[480, 640]")], ["x:1,3,480,640", "x:1,3,224,224"]),
            (&[("x", float, "1 H W 3")], &[], ["x:1,224,224,3", "x:1,640,640,3"]),
            (
                &[("ids", int, "1 S"), ("mask", int, "1 P+S")],
                &[],
                ["ids:1,64 mask:1,128", "ids:1,128 mask:1,256"],
            ),
            (&[("x", float, "1 T")], &[("sample_rate", "8000")], ["x:1,8000", "x:1,16000"]),
            (&[("x", float, "1 80 T")], &[], ["x:1,80,64", "x:1,80,128"]),
        ] {
            let shown = shown(inputs, entries);
            assert!(shown[0] == first[0] && shown.contains(&first[1].to_owned()), "{inputs:?} {shown:?}");
        }
        assert!(shown(&[], &[]).is_empty());
    }

    #[test]
    fn the_length_of_a_mask_is_a_sum() {
        let input = |name: &str, dtype, shape: &str| FreeInput {
            name: name.to_owned(),
            dtype: Some(dtype),
            shape: shape.split(' ').map(|size| size.parse().unwrap()).collect(),
        };
        let free = [
            input("ids", DType::I64, "1 S"),
            input("mask", DType::I64, "1 M"),
            input("cache", DType::F32, "1 P 8"),
            input("keys", DType::F32, "1 S 8"),
        ];
        let sum: Dim = "P+S".parse().unwrap();
        assert_eq!(tied(&free), [[("mask".to_owned(), vec![Dim::ONE, sum])]]);
    }
}
