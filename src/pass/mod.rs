//! Passes: algorithms over the whole graph. Only those that match patterns name operators.

pub(crate) mod batch;
pub mod blocks;
pub(crate) mod builder;
pub(crate) mod channels;
pub mod cut;
pub mod dead;
pub(crate) mod declared;
pub(crate) mod definition;
pub(crate) mod expand;
pub(crate) mod fuse;
pub mod identity;
pub mod infer;
pub mod input_shape;
pub mod input_value;
pub mod kv_cache;
pub mod passes;
pub(crate) mod pattern;
pub mod pixels;
pub(crate) mod progression;
pub mod quantized;
pub mod random;
pub mod rewrite;
pub mod rounding;
pub(crate) mod share;
pub(crate) mod simplify;
pub mod unfold;
