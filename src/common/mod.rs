//! Facilities that depend on no other room but errors: typed indices, groups, fixpoints, limits, files.

pub(crate) mod count;
pub(crate) mod fixpoint;
pub(crate) mod groups;
pub(crate) mod index;
pub(crate) mod int;
pub(crate) mod intern;
pub(crate) mod limits;
pub(crate) mod near;
pub(crate) mod output;

/// The name and the version of the program, in what it writes.
pub(crate) const GENERATOR: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
