//! The interface of the library: a [`Converter`] takes options and models; a [`Conversion`] or a
//! [`Simplified`] model writes files; a [`Refusal`] gives the reasons why a model is not converted.

mod chain;
mod conversion;
mod converter;
mod free_size;
mod half_blob;
mod index_limit;
mod program;
#[cfg(feature = "verify")]
mod proof;
mod refusal;
mod simplified;
mod supported;
mod variants;

pub use crate::pipeline::Conversion;
pub use chain::{Chain, Part, Step};
pub use converter::Converter;
pub use free_size::InnerBlob;
pub use half_blob::HalfBlob;
pub use refusal::Refusal;
pub use simplified::Simplified;
pub use supported::{Supported, supported};
pub use variants::{InputShapes, Variant, Variants};
