//! Random numbers times zero.

use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::replacement_of;
use crate::pass::pattern::{ints, scalar};
use crate::tensor::DType;

use super::only_output;

/// Operators of random numbers that are finite.
const RANDOM: [&str; 4] = ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];
/// Operators that move elements.
const MOVES: [&str; 6] = ["Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];
/// The most nodes from a product to a random factor.
const MAX_DEPTH: usize = 8;

/// Replaces random factors of products with zero by zeros. Other factors stay, because infinity times zero is
/// NaN.
pub(crate) fn eliminate_noise_of_zero(graph: &mut Graph) -> Result<bool> {
    graph.replace_nodes(read, |graph, node, Product { random, moves, others }| {
        replacement_of(graph, node, node.version, |made| {
            let value = only_output(&random).map(|output| made.graph.value(output));
            let dtype = value.and_then(|value| value.dtype).unwrap_or(DType::F32);
            let zero = made.number(0.0, dtype);
            let shape = match (random.input(0), ints(&random, "shape")) {
                (Some(like), _) => made.value(like).shape(),
                (None, shape) => made.ints(shape.unwrap_or_default()),
            };
            let mut product = zero.broadcast_to(shape);
            for moving in moves {
                product = made.copy_with(&moving, 0, product)?;
            }
            Ok(Some(others.into_iter().fold(product, |product, other| product * made.value(other))))
        })
    })
}

/// A product of zero, random numbers and other factors.
struct Product {
    /// The node of the random numbers.
    random: Node,
    /// The nodes that move them, the first one first.
    moves: Vec<Node>,
    others: Vec<ValueId>,
}

fn read(graph: &Graph, node: &Node) -> Option<Product> {
    let is_float = |id: ValueId| matches!(graph.value(id).dtype, Some(DType::F32 | DType::F64));
    // Expand and broadcasting exist since then.
    if !node.is("Mul") || node.version < 8 || !is_float(only_output(node)?) {
        return None;
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    [(a, b), (b, a)].into_iter().find_map(|(product, zero)| {
        if scalar(graph, zero) != Some(0.0) {
            return None;
        }
        let mut others = vec![zero];
        let (random, moves) = factors(graph, product, &mut others, MAX_DEPTH)?;
        Some(Product { random, moves, others })
    })
}

/// Collects the factors of a value but a random one, which it returns.
fn factors(
    graph: &Graph,
    value: ValueId,
    others: &mut Vec<ValueId>,
    depth: usize,
) -> Option<(Node, Vec<Node>)> {
    if let Some(found) = random(graph, value) {
        return Some(found);
    }
    let node = graph.producer(value);
    let node = node.filter(|node| node.is("Mul") && depth > 0)?;
    let (a, b) = (node.input(0)?, node.input(1)?);
    [(a, b), (b, a)].into_iter().find_map(|(product, other)| {
        let found = factors(graph, product, others, depth - 1)?;
        others.push(other);
        Some(found)
    })
}

/// Returns the node of random numbers of which a value consists, and those that move them.
fn random(graph: &Graph, mut value: ValueId) -> Option<(Node, Vec<Node>)> {
    let mut moves = Vec::new();
    for _ in 0..=MAX_DEPTH {
        let node = graph.producer(value)?;
        if node.is_one_of(&RANDOM) {
            moves.reverse();
            return Some((node.clone(), moves));
        }
        value = node.input(0).filter(|_| node.is_one_of(&MOVES))?;
        moves.push(node.clone());
    }
    None
}
