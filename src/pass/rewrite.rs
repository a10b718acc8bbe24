//! Rewritings of the graph that users know by name, and can switch off by it.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::ncnn::pass::NET_PASSES;
use crate::pass::dead;
use crate::pass::identity::remove_identities;
use crate::pass::infer::{self, Doubts};
use crate::pass::simplify::{affine, gemm, padding};

pub use crate::pass::fuse::FUSIONS;

/// Most rounds of all rewritings. Each leaves fewer or simpler nodes; networks need three or four.
const MAX_ROUNDS: usize = 16;

/// A rewriting of the whole graph.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// What users call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Does it wherever it can; the answer is whether anything changed. Nodes that nobody reads any more may be left behind, and
    /// values that are made need neither types nor shapes.
    pub apply: fn(&mut Graph) -> Result<bool>,
}

/// Those that keep ONNX's words: what is left can be written as ONNX.
pub const SIMPLIFICATIONS: &[Rewrite] = &[
    Rewrite {
        name: "eliminate_identity",
        about: "Identity itself",
        apply: |graph| remove_identities(graph, &["Identity"]),
    },
    Rewrite {
        name: "eliminate_nop_cast",
        about: "Cast and CastLike to the type that there is",
        apply: |graph| remove_identities(graph, &["Cast", "CastLike"]),
    },
    Rewrite {
        name: "eliminate_nop_concat",
        about: "Concat of one part with elements",
        apply: |graph| remove_identities(graph, &["Concat"]),
    },
    Rewrite {
        name: "eliminate_nop_dropout",
        about: "Dropout, as it is at inference",
        apply: |graph| remove_identities(graph, &["Dropout"]),
    },
    Rewrite {
        name: "eliminate_nop_expand",
        about: "Expand and Tile to the shape that there is",
        apply: |graph| remove_identities(graph, &["Expand", "Tile"]),
    },
    Rewrite {
        name: "eliminate_nop_flatten",
        about: "Flatten to the shape that there is",
        apply: |graph| remove_identities(graph, &["Flatten"]),
    },
    Rewrite {
        name: "eliminate_nop_pad",
        about: "Pad and CenterCropPad that add nothing",
        apply: |graph| remove_identities(graph, &["Pad", "CenterCropPad"]),
    },
    Rewrite {
        name: "eliminate_nop_pool",
        about: "poolings of windows of one element",
        apply: |graph| {
            remove_identities(graph, &["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"])
        },
    },
    Rewrite {
        name: "eliminate_nop_rearrange",
        about: "DepthToSpace and SpaceToDepth of blocks of one element",
        apply: |graph| remove_identities(graph, &["DepthToSpace", "SpaceToDepth"]),
    },
    Rewrite {
        name: "eliminate_nop_reduce",
        about: "reductions of nothing, or of axes of size 1 that are kept",
        apply: |graph| {
            remove_identities(graph, &["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"])
        },
    },
    Rewrite {
        name: "eliminate_nop_reshape",
        about: "Reshape, Squeeze and Unsqueeze to the shape that there is",
        apply: |graph| remove_identities(graph, &["Reshape", "Squeeze", "Unsqueeze"]),
    },
    Rewrite {
        name: "eliminate_nop_slice",
        about: "Slice that keeps all",
        apply: |graph| remove_identities(graph, &["Slice"]),
    },
    Rewrite {
        name: "eliminate_nop_split",
        about: "Split into one part",
        apply: |graph| remove_identities(graph, &["Split"]),
    },
    Rewrite {
        name: "eliminate_nop_transpose",
        about: "Transpose that moves no element",
        apply: |graph| remove_identities(graph, &["Transpose"]),
    },
    Rewrite {
        name: "eliminate_nop_where",
        about: "Where whose condition is the same everywhere",
        apply: |graph| remove_identities(graph, &["Where"]),
    },
    Rewrite {
        name: "eliminate_nop_with_unit",
        about: "sums with 0, products with 1 and the like, sums and extremes of one value",
        apply: |graph| {
            remove_identities(
                graph,
                &["Add", "And", "Div", "Max", "Mean", "Min", "Mul", "Or", "Pow", "Sub", "Sum"],
            )
        },
    },
    Rewrite {
        name: "fuse_bn_into_conv",
        about: "batch normalisations become part of the Conv, ConvTranspose or Gemm before them",
        apply: affine::fuse_batch_norms,
    },
    Rewrite {
        name: "fuse_scale_into_conv",
        about: "products and quotients with a constant a channel become part of the Conv, ConvTranspose or Gemm before them",
        apply: affine::fuse_scales,
    },
    Rewrite {
        name: "fuse_add_bias_into_conv",
        about: "sums and differences with a constant a channel become part of the Conv, ConvTranspose or Gemm before them",
        apply: affine::fuse_shifts,
    },
    Rewrite {
        name: "fuse_matmul_add_bias_into_gemm",
        about: "products of two matrices and the sum with a constant become Gemm",
        apply: gemm::fuse_matmul_add,
    },
    Rewrite {
        name: "fuse_pad_into_conv",
        about: "padding with zeros becomes that of the Conv after it",
        apply: padding::fuse_into_conv,
    },
    Rewrite {
        name: "fuse_pad_into_pool",
        about: "padding becomes that of the AveragePool or MaxPool after it, where that computes the same",
        apply: padding::fuse_into_pool,
    },
    Rewrite {
        name: "fuse_transpose_into_gemm",
        about: "transposed factors of Gemm become its attributes",
        apply: gemm::fuse_transposes,
    },
];

/// Applies rewritings until none finds anything to do. Types, shapes and constants are inferred after each change, and nodes that
/// nobody reads are removed. `after` is told of each change.
pub(crate) fn rewrite(
    graph: &mut Graph,
    rewritings: &[Rewrite],
    skip: &BTreeSet<String>,
    doubts: &mut Doubts,
    mut after: impl FnMut(&'static str, &Graph) -> Result<()>,
) -> Result<()> {
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for rewriting in rewritings.iter().filter(|rewriting| !skip.contains(rewriting.name)) {
            if !(rewriting.apply)(graph)? {
                continue;
            }
            changed = true;
            dead::remove_dead_nodes(graph);
            *doubts = infer::infer_and_fold(graph)?;
            after(rewriting.name, graph)?;
        }
        if !changed {
            break;
        }
    }
    Ok(())
}

/// Everything that can be left out, in the order in which it is tried: its name, and what it does.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rewritings = SIMPLIFICATIONS.iter().chain(FUSIONS).map(|rewriting| (rewriting.name, rewriting.about));
    rewritings.chain(NET_PASSES.iter().map(|pass| (pass.name, pass.about)))
}

/// Checks that rewritings of these names exist.
pub(crate) fn check_names(names: &BTreeSet<String>) -> Result<()> {
    let known: BTreeSet<&str> = all().map(|(name, _)| name).collect();
    match names.iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => {
            Err(Error::usage(format!("there is no pass \"{name}\""))
                .help("--list-passes lists those there are"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_that_may_hand_on_an_input_has_a_pass_that_removes_it() {
        let listed = include_str!("rewrite.rs");
        for op in crate::ops::all().filter(|op| op.identity.is_some()) {
            let name = format!("\"{}\"", op.name);
            assert_eq!(listed.matches(&name).count(), 1, "{name}");
        }
    }

    #[test]
    fn no_two_passes_have_one_name() {
        let names: Vec<&str> = SIMPLIFICATIONS.iter().chain(FUSIONS).map(|pass| pass.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
