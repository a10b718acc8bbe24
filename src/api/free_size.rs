//! The free sizes of a converted model: values for which the net is valid, and the sizes of its inputs.

use std::collections::{BTreeMap, BTreeSet};

use super::Conversion;
use crate::error::{Error, Result};
use crate::ncnn::{Blob, Element};
use crate::pipeline::Port;
use crate::tensor::{Dim, Found, SizeCondition, display_shape};

/// The blob of an intermediate value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InnerBlob {
    /// The name of the value in the model.
    pub value: String,
    /// The name of the blob.
    pub blob: String,
    /// Whether the elements are 32-bit integers.
    pub int32: bool,
}

impl Conversion {
    /// Returns shapes of the inputs by their names, without free sizes: those of
    /// [`Conversion::sizes_at`].
    ///
    /// # Errors
    ///
    /// The size of an input is too large.
    pub fn shapes_at(&self, size: i64) -> Result<Option<BTreeMap<String, Vec<i64>>>> {
        self.shapes_with(size, &BTreeMap::new())
    }

    /// Returns shapes of the inputs of two calls in turn of a net whose caches the runtime keeps: the first
    /// one has empty caches. Other free sizes are as by [`Conversion::shapes_at`]. Empty without such caches,
    /// or if conditions are not met.
    ///
    /// # Errors
    ///
    /// The size of an input is too large.
    pub fn calls_at(&self, size: i64) -> Result<Vec<BTreeMap<String, Vec<i64>>>> {
        let before = self.inputs.iter().filter(|port| port.cache.is_some());
        let mut lengths: BTreeMap<String, Dim> = BTreeMap::new();
        for length in before.flat_map(|port| &port.shape) {
            lengths.extend(length.symbol_name().map(|name| (name.to_owned(), Dim::ZERO)));
        }
        if lengths.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.shapes_with(size, &lengths)?;
        let Some(sizes) = self.sizes_with(size, &lengths) else { return Ok(Vec::new()) };
        let mut grown = BTreeMap::new();
        for (input, output) in self.inputs.iter().filter_map(|port| Some((port, self.continued(port)?))) {
            for (before, after) in
                input.shape.iter().zip(&output.shape).filter(|(before, after)| before != after)
            {
                let after = after.substitute(&sizes);
                grown.extend(before.symbol_name().map(|name| (name.to_owned(), after)));
            }
        }
        let calls = first.zip(self.shapes_with(size, &grown)?);
        Ok(calls.map_or_else(Vec::new, |(first, second)| vec![first, second]))
    }

    /// Returns the output that continues a cache.
    fn continued(&self, input: &Port) -> Option<&Port> {
        let blob = input.cache.as_ref()?;
        self.outputs.iter().find(|output| output.blob == *blob)
    }

    /// Returns values of all free sizes for which the net is valid, each from `size` on where there is one;
    /// `None` if none are found.
    pub fn sizes_at(&self, size: i64) -> Option<BTreeMap<String, Dim>> {
        self.sizes_with(size, &BTreeMap::new())
    }

    /// Returns values of all free sizes for which the net is valid, with these values of some of them.
    pub(super) fn sizes_with(
        &self,
        size: i64,
        values: &BTreeMap<String, Dim>,
    ) -> Option<BTreeMap<String, Dim>> {
        let mut names = BTreeSet::new();
        for size in self.inputs.iter().flat_map(|port| &port.shape) {
            size.collect_symbols(&mut names);
        }
        names.retain(|name| !values.contains_key(name));
        let left = self.conditions.iter().filter_map(|condition| condition.substitute(values).transpose());
        match SizeCondition::sizes_from(&left.collect::<Result<Vec<_>>>().ok()?, &names, size) {
            Found::Sizes(mut sizes) => {
                sizes.extend(values.clone());
                Some(sizes)
            }
            Found::Nothing | Found::Unknown => None,
        }
    }

    /// Returns shapes of the inputs with these values of some free sizes.
    fn shapes_with(
        &self,
        size: i64,
        values: &BTreeMap<String, Dim>,
    ) -> Result<Option<BTreeMap<String, Vec<i64>>>> {
        let Some(sizes) = self.sizes_with(size, values) else { return Ok(None) };
        self.input_shapes(&sizes).map(Some)
    }

    /// Returns the shapes of the inputs, by their names, with these values of all free sizes.
    ///
    /// # Errors
    ///
    /// A size is too large.
    pub(super) fn input_shapes<T: TryFrom<i64>>(
        &self,
        sizes: &BTreeMap<String, Dim>,
    ) -> Result<BTreeMap<String, Vec<T>>> {
        let shape = |port: &Port| Ok((port.name.clone(), known_shape(&port.shape, sizes)?));
        self.inputs.iter().map(shape).collect()
    }

    /// Returns the free sizes, by name, of inputs with these shapes.
    ///
    /// # Errors
    ///
    /// `Usage` if a shape is missing, does not fit its input, or violates a condition.
    pub fn free_sizes(&self, shapes: &BTreeMap<String, Vec<i64>>) -> Result<BTreeMap<String, Dim>> {
        let mut sizes = BTreeMap::new();
        let mut found = Vec::new();
        for port in &self.inputs {
            let missing = || Error::usage(format!("the input \"{}\" is missing", port.name));
            let shape = shapes.get(&port.name).ok_or_else(missing)?;
            let is_less = |(number, size): (&i64, &Dim)| *number < i64::from(!size.has_length());
            if shape.len() != port.shape.len() || shape.iter().zip(&port.shape).any(is_less) {
                return Err(misfit(port, shape));
            }
            for (size, number) in port.shape.iter().zip(shape) {
                if let Some(name) = size.symbol_name() {
                    sizes.entry(name.to_owned()).or_insert(Dim::from(*number));
                }
            }
            found.push((port, shape));
        }
        for (port, shape) in found {
            for (size, number) in port.shape.iter().zip(shape) {
                if !size.substitute(&sizes).is(*number) {
                    return Err(misfit(port, shape));
                }
            }
        }
        match self.conditions.iter().find(|condition| !condition.is_met(&sizes)) {
            Some(condition) => {
                let text = match condition.below_multiple() {
                    Some((name, most, of)) => format!("{name} is at most {most} below a multiple of {of}"),
                    None => condition.to_string(),
                };
                Err(Error::usage(format!("the net is valid only if {text}")))
            }
            None => Ok(sizes),
        }
    }

    /// Returns the blobs of intermediate values, in the order of the layers. Values are named as before
    /// [`Converter::rename`](crate::Converter::rename).
    pub fn inner_blobs(&self) -> Vec<InnerBlob> {
        let known: BTreeSet<&str> =
            self.inputs.iter().chain(&self.outputs).map(|port| port.blob.as_str()).collect();
        let tops = self.net.layers.iter().flat_map(|layer| layer.tops.iter());
        // Integers of 8 bits are not the values themselves.
        let is_inside = |blob: &&Blob| !known.contains(blob.name.as_str()) && blob.element != Element::I8;
        let blobs = tops.map(|top| self.net.blob(*top)).filter(is_inside);
        blobs
            .map(|blob| InnerBlob {
                value: self.value_of(&blob.name).to_owned(),
                blob: blob.name.clone(),
                int32: blob.element == Element::I32,
            })
            .collect()
    }

    /// Returns the name of a blob as before [`Converter::rename`](crate::Converter::rename).
    pub(super) fn value_of<'a>(&'a self, blob: &'a str) -> &'a str {
        let renames = &self.options.rename;
        renames.iter().find(|(_, new)| new == blob).map_or(blob, |(old, _)| old)
    }
}

/// Returns a shape with these values of its free sizes, without sizes that still are not known.
///
/// # Errors
///
/// A size is too large.
pub(super) fn known_shape<T: TryFrom<i64>>(shape: &[Dim], sizes: &BTreeMap<String, Dim>) -> Result<Vec<T>> {
    let size =
        |size: &Dim| Ok(size.substitute(sizes).checked()?.known().and_then(|size| T::try_from(size).ok()));
    shape.iter().filter_map(|dim| size(dim).transpose()).collect()
}

fn misfit(port: &Port, shape: &[i64]) -> Error {
    let Port { name, shape: expected, .. } = port;
    Error::usage(format!("the input \"{name}\" has shape {shape:?} instead of {}", display_shape(expected)))
}
