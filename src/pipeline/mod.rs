//! The steps from a model to a net, and from a model to a simplified model.

mod composition;
mod conversion;
mod convert;
mod float32;
mod graph_steps;
mod inspect;
#[cfg(test)]
mod layouts;
mod metadata;
mod net_steps;
mod options;
mod port;
mod progress;
mod reading;
mod remedy;
mod rest;
mod simplify;
mod warning;

pub(crate) use crate::pass::pixels::Pixels;
pub use composition::Composition;
pub(crate) use composition::operator_cost;
pub use conversion::Conversion;
pub use inspect::{Described, Inspection};
pub(crate) use inspect::{infer_model, inspect};
pub use metadata::Metadata;
pub(crate) use options::for_each_option;
pub use options::{FileInfo, OptionInfo, OptionKind, OptionValue, Options, Purpose, options};
pub use port::Port;
pub use progress::Pass;
pub(crate) use reading::convert;
pub use remedy::Remedy;
pub use remedy::chain::Link;
pub(crate) use remedy::chain::links;
pub(crate) use remedy::{largest_part, remedies};
pub(crate) use rest::{Argument, Computed, FunctionCall, Omitted, Rest, RestInput, Statement, rest};
pub(crate) use simplify::{SimplifiedModel, expose, simplify};
