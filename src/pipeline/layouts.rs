//! The evaluation of each operator does not depend on how its inputs lie in memory.
//!
//! The nodes of the fixtures are evaluated on arrays of their shapes: in standard layout, and with the same
//! elements in reversed order of axes or with negative strides, as slices and transposes of large constants
//! are.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, Axis};
use smallvec::smallvec;

use crate::common::int::Int;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::onnx::{Input, ReadOptions, Sources};
use crate::op::{self, Op};
use crate::ops;
use crate::pass::infer::infer_and_fold;
use crate::tensor::{Array, DType, Dim, Elements, move_elements};

/// The maximum number of elements of an input.
const MAX: usize = 1 << 14;

/// Operators of only scalars.
const UNSEEN: &[&str] = &["Range"];

fn models() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let families = std::fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
    let cases = families.filter(|path| path.is_dir()).flat_map(|family| std::fs::read_dir(family).unwrap());
    let models = cases.map(|entry| entry.unwrap().path().join("model.onnx"));
    let mut models: Vec<PathBuf> = models.filter(|path| path.exists()).collect();
    models.sort();
    models
}

/// Returns the nodes of a model, and its graph with the facts of all values.
fn inferred(path: &Path) -> Option<(Vec<Node>, Graph)> {
    let sources = Sources::open(&Input::Path(path.to_owned()), &ReadOptions::default()).ok()?;
    let mut graph = sources.read().ok()?.graph;
    let nodes = graph.nodes().map(|(_, node)| node.clone()).collect();
    infer_and_fold(&mut graph).ok()?;
    Some((nodes, graph))
}

/// Returns the elements of a constant, or small numbers of the type and shape of a value.
fn array(graph: &Graph, id: ValueId) -> Option<Array> {
    let value = graph.value(id);
    if let Some(constant) = &value.constant {
        return constant.load_listed().ok().filter(|array| array.len() <= MAX).map(Cow::into_owned);
    }
    if let Some(elements) = &value.elements {
        return Some(elements.as_ref().clone());
    }
    let sizes: Option<Vec<usize>> =
        value.shape.as_deref()?.iter().map(|size| usize::try_from(size.known().unwrap_or(3)).ok()).collect();
    let (sizes, dtype) = (sizes?, value.dtype?);
    let count: usize = sizes.iter().product();
    if count > MAX || dtype == DType::String {
        return None;
    }
    let most = if dtype.is_float() { 5 } else { 2 };
    let elements = (0..count).map(|i| (i * 7 / 3 % most).int()).collect();
    Array::i64(ArrayD::from_shape_vec(sizes, elements).unwrap()).cast(dtype).ok()
}

/// The same elements with the strides of the reversed order of axes.
fn transposed(array: &Array) -> Array {
    move_elements!(array, a => a.t().as_standard_layout().into_owned().reversed_axes())
}

/// The same elements with negative strides.
fn reversed(array: &Array) -> Array {
    move_elements!(array, a => {
        let mut a = a.clone();
        for axis in 0..a.ndim() {
            a.invert_axis(Axis(axis));
        }
        let mut a = a.as_standard_layout().into_owned();
        for axis in 0..a.ndim() {
            a.invert_axis(Axis(axis));
        }
        a
    })
}

fn evaluate(node: &Node, op: &Op, inputs: &[Option<Array>]) -> Result<Vec<Array>, String> {
    op.evaluate(node, inputs.to_vec()).map_err(|error| error.to_string())
}

fn is_same(a: &Array, b: &Array) -> bool {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return false;
    }
    if let (Elements::Dim(_), _) | (_, Elements::Dim(_)) = (a.elements(), b.elements()) {
        let dims = |array: &Array| array.to_dims().unwrap().iter().cloned().collect::<Vec<Dim>>();
        return dims(a) == dims(b);
    }
    let (a, b) = (a.to_f64().unwrap(), b.to_f64().unwrap());
    a.iter().zip(&b).all(|(a, b)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 * b.abs())
}

/// Nodes of operators whose fixtures have narrow arrays: with attributes that some of them read, over arrays
/// of two or four axes with a list or a scalar.
fn further(op: &Op) -> Vec<(Node, Vec<Option<Array>>)> {
    let attributes = [
        ("axis", Attribute::Int(0)),
        ("direction", Attribute::String(b"LEFT".as_slice().into())),
        ("group", Attribute::Int(2)),
        ("to", Attribute::Int(i64::from(DType::I32.to_onnx()))),
    ];
    let node = Node {
        domain: op.schema.domain.into(),
        op_type: op.schema.name.into(),
        version: *op.schema.since.last().unwrap(),
        attributes: attributes.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        ..Node::default()
    };
    let of = |dtype: DType, sizes: &[usize]| {
        let count: usize = sizes.iter().product();
        let elements = (0..count).map(|i| (i % 2).int()).collect();
        Array::i64(ArrayD::from_shape_vec(sizes, elements).unwrap()).cast(dtype).unwrap()
    };
    let mut made = Vec::new();
    for (dtype, sizes) in [
        (DType::F32, &[3, 4][..]),
        (DType::F32, &[1, 4, 2, 3]),
        (DType::I32, &[3, 4]),
        (DType::U8, &[3, 4]),
        (DType::Bool, &[3, 4]),
    ] {
        let wide = of(dtype, sizes);
        for others in [vec![], vec![wide.clone()], vec![of(DType::Bool, &[3])], vec![of(DType::I64, &[])]] {
            let inputs: Vec<Option<Array>> = std::iter::once(wide.clone()).chain(others).map(Some).collect();
            made.push((Node { inputs: smallvec![None; inputs.len()], ..node.clone() }, inputs));
        }
    }
    made
}

/// Asserts that the evaluation of a node is the same in each layout. Returns whether it succeeds on an array
/// with more than one axis of several elements.
fn check(name: &str, node: &Node, op: &Op, inputs: &[Option<Array>]) -> bool {
    let expected = evaluate(node, op, inputs);
    for layout in [transposed, reversed] {
        for moved_index in [None, Some(0), Some(1)] {
            let stays = |index: usize| moved_index.is_some_and(|moved_index| moved_index != index);
            let moved = |(index, input): (usize, &Option<Array>)| {
                input.as_ref().map(|input| if stays(index) { input.clone() } else { layout(input) })
            };
            let moved: Vec<Option<Array>> = inputs.iter().enumerate().map(moved).collect();
            let found = evaluate(node, op, &moved);
            let same = match (&found, &expected) {
                (Ok(found), Ok(expected)) => {
                    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| is_same(a, b))
                }
                (Err(found), Err(expected)) => found == expected,
                _ => false,
            };
            assert!(same, "{name}: {}: {found:?} for {expected:?}", node.op_type);
        }
    }
    let is_wide = |array: &Array| array.shape().iter().filter(|size| **size > 1).count() > 1;
    expected.is_ok() && inputs.iter().flatten().any(is_wide)
}

#[test]
fn evaluation_does_not_depend_on_the_layout_of_inputs() {
    ops::register();
    let mut seen = BTreeSet::new();
    for path in models() {
        let Some((nodes, graph)) = inferred(&path) else { continue };
        for node in nodes {
            let Some(op) = op::find(&node).filter(|op| op.fold.is_some()) else { continue };
            let inputs: Option<Vec<Option<Array>>> = (node.inputs.iter())
                .map(|id| id.map_or(Some(None), |id| array(&graph, id).map(Some)))
                .collect();
            let Some(inputs) = inputs else { continue };
            if check(&path.display().to_string(), &node, op, &inputs) {
                seen.insert((op.schema.domain, op.schema.name));
            }
        }
    }
    let mut unseen = Vec::new();
    for op in ops::rows().map(|row| &row.op).filter(|op| op.fold.is_some()) {
        let is_seen = seen.contains(&(op.schema.domain, op.schema.name));
        if !is_seen && !further(op).iter().any(|(node, inputs)| check("further", node, op, inputs)) {
            unseen.push(op.schema.name);
        }
    }
    assert_eq!(unseen, UNSEEN);
}
