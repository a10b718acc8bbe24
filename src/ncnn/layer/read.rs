//! The params of a layer as they stand in a file, and how fields read them.

use std::collections::BTreeMap;

use super::Param;
use crate::error::{Result, invalid};
use crate::ncnn::check::MAX_PARAMS;
use crate::tensor::Tensor;

/// The params of a layer by their ids, as a file states them.
#[derive(Clone, Debug, Default)]
pub(in crate::ncnn) struct StatedParams(BTreeMap<i32, Stated>);

/// A param as a file states it.
#[derive(Clone, Debug)]
pub(in crate::ncnn) enum Stated {
    /// A param of the text, which tells its type.
    Typed(Param),
    /// The words of a param of the binary form: integers, or the bits of floats.
    Words(Vec<i32>),
}

/// A field that a param sets.
pub(in crate::ncnn) trait ReadParam: Sized {
    /// What the runtime reads, for messages.
    const KIND: &'static str;

    /// Returns the value that the runtime reads; `None` if it misreads the param.
    fn read(param: &Stated) -> Option<Self>;
}

impl StatedParams {
    /// Adds a param.
    ///
    /// # Errors
    ///
    /// `Invalid` if the runtime does not read the id, or if it occurs twice.
    pub fn add(&mut self, id: i32, param: Stated) -> Result<()> {
        if !(0..MAX_PARAMS).contains(&id) {
            invalid!("param {id} is beyond those that the runtime reads");
        }
        if self.0.insert(id, param).is_some() {
            invalid!("param {id} occurs twice");
        }
        Ok(())
    }

    /// Removes a param that every layer may have, and returns it.
    pub fn take<T: ReadParam + Default>(&mut self, id: i32) -> Result<Option<T>> {
        let mut value = T::default();
        self.put(id, &mut value)?;
        Ok(self.0.remove(&id).map(|_| value))
    }

    /// Sets a field if the param is present.
    pub fn put<T: ReadParam>(&self, id: i32, field: &mut T) -> Result<()> {
        if let Some(param) = self.0.get(&id) {
            match T::read(param) {
                Some(value) => *field = value,
                None => invalid!("param {id} is {}, and the runtime reads {}", describe(param), T::KIND),
            }
        }
        Ok(())
    }

    /// Returns an integer, or the default if the param is absent.
    pub fn int(&self, id: i32, default: i32) -> Result<i32> {
        let mut value = default;
        self.put(id, &mut value)?;
        Ok(value)
    }

    /// Checks that the table of the layer has all ids.
    pub fn check_known(&self, known: &[i32]) -> Result<()> {
        match self.0.keys().find(|id| !known.contains(id)) {
            Some(id) => invalid!("param {id} is not known"),
            None => Ok(()),
        }
    }
}

fn describe(param: &Stated) -> String {
    match param {
        Stated::Typed(Param::Int(value)) => format!("the integer {value}"),
        Stated::Typed(Param::Float(value)) => format!("the float {value}"),
        Stated::Typed(Param::Ints(values)) => format!("a list of {} integers", values.len()),
        Stated::Typed(Param::Floats(values)) => format!("a list of {} floats", values.len()),
        Stated::Typed(Param::Text(text)) => format!("the text \"{text}\""),
        Stated::Words(words) => format!("{} words", words.len()),
    }
}

fn float_of(bits: i32) -> f32 {
    f32::from_bits(bits.cast_unsigned())
}

// The runtime reads the bits of a number of the other type: those of 0 are equal.

impl ReadParam for i32 {
    const KIND: &'static str = "an integer";

    fn read(param: &Stated) -> Option<i32> {
        match param {
            Stated::Typed(Param::Int(value)) => Some(*value),
            Stated::Typed(Param::Float(value)) => (value.to_bits() == 0).then_some(0),
            Stated::Words(words) => words.first().copied().filter(|_| words.len() == 1),
            Stated::Typed(_) => None,
        }
    }
}

impl ReadParam for f32 {
    const KIND: &'static str = "a float with a point or an exponent";

    fn read(param: &Stated) -> Option<f32> {
        match param {
            Stated::Typed(Param::Float(value)) => Some(*value),
            Stated::Typed(Param::Int(value)) => (*value == 0).then_some(0.0),
            Stated::Words(words) => words.first().copied().filter(|_| words.len() == 1).map(float_of),
            Stated::Typed(_) => None,
        }
    }
}

impl ReadParam for Vec<i32> {
    const KIND: &'static str = "a list of integers";

    fn read(param: &Stated) -> Option<Vec<i32>> {
        match param {
            Stated::Typed(Param::Ints(values)) | Stated::Words(values) => Some(values.clone()),
            Stated::Typed(Param::Floats(values)) => {
                values.iter().map(|value| (value.to_bits() == 0).then_some(0)).collect()
            }
            Stated::Typed(_) => None,
        }
    }
}

impl ReadParam for Vec<f32> {
    const KIND: &'static str = "a list of floats";

    fn read(param: &Stated) -> Option<Vec<f32>> {
        match param {
            Stated::Typed(Param::Floats(values)) => Some(values.clone()),
            Stated::Typed(Param::Ints(values)) => {
                values.iter().map(|value| (*value == 0).then_some(0.0)).collect()
            }
            Stated::Words(words) => Some(words.iter().copied().map(float_of).collect()),
            Stated::Typed(_) => None,
        }
    }
}

impl ReadParam for String {
    const KIND: &'static str = "text";

    fn read(param: &Stated) -> Option<String> {
        match param {
            Stated::Typed(Param::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }
}

/// Sets the params and weights of a layer from a file.
pub(in crate::ncnn) trait Settable {
    /// Sets the params.
    ///
    /// # Errors
    ///
    /// `Invalid` if a param is not known, or of another type.
    fn set(&mut self, params: &StatedParams) -> Result<()>;

    /// Sets a weight by its name.
    fn set_weight(&mut self, name: &str, weight: Tensor) -> Result<()>;
}
