//! Inputs that become constants, with the values that the user gives.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;

use super::input_shape::{find_input, substitute_symbols};
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr, opset};
use crate::tensor::{Array, DType, Dim, Elements, Shape, Tensor, display_shape};

/// Makes inputs constants.
///
/// # Errors
///
/// If an input does not exist, or the value does not fit its type or shape.
pub fn set_inputs(graph: &mut Graph, values: &[(String, Array)]) -> Result<()> {
    let mut names = BTreeSet::new();
    for (name, array_of_input) in values {
        if !names.insert(name) {
            return Err(Error::usage(format!("the input \"{name}\" is set twice")));
        }
        let id = find_input(graph, name)?;
        let misfit = |error: Error| error.at_part(format!("the value of input \"{}\"", graph.value(id).name));
        let value = graph.value(id);
        let dtype = value.dtype.unwrap_or(array_of_input.dtype());
        let declared = value.shape.as_deref();
        let shape = fitting_shape(declared, array_of_input).map_err(misfit)?;
        let array = typed(graph, array_of_input, dtype).map_err(misfit)?;
        let array = match array.len() {
            1 => array.reshape(&vec![1; shape.len()])?.broadcast(&shape)?,
            _ => array.reshape(&shape)?,
        };
        let tensor = match array.elements() {
            Elements::Dim(_) => None,
            _ => Some(Tensor::from_array(&array)?),
        };
        let shape = Shape::from(shape.as_slice());
        let mut symbols = BTreeMap::new();
        for (size, n) in declared.unwrap_or_default().iter().zip(shape.iter()) {
            if let Some(symbol) = size.symbol_name()
                && symbols.insert(symbol.to_owned(), n.clone()).is_some_and(|other| other != *n)
            {
                return Err(misfit(Error::usage(format!("two sizes for \"{symbol}\""))));
            }
        }
        substitute_symbols(graph, &symbols)?;
        let value = graph.value_mut(id)?;
        value.dtype = Some(dtype);
        value.shape = Some(shape);
        value.constant = tensor;
        graph.inputs.retain(|input| *input != id);
        if let Elements::Dim(sizes) = array.elements() {
            let nodes = size_nodes(graph, id, sizes)?;
            if nodes.is_empty() {
                graph.value_mut(id)?.elements = Some(Box::new(array));
            }
            graph.prepend(nodes);
        }
    }
    Ok(())
}

/// Returns nodes that compute a value whose elements are sizes of inputs; none if an element is computed from
/// several sizes.
fn size_nodes(graph: &mut Graph, id: ValueId, sizes: &ArrayD<Dim>) -> Result<Vec<Node>> {
    let value = graph.value(id);
    let dtype = value.dtype;
    let shape: Option<Vec<i64>> = Dim::known_sizes(value.shape.iter().flatten());
    let made = Builder::of_version(graph, opset(graph));
    let part = |size: &Dim| {
        if let Some(size) = size.known() {
            return Some(made.ints(&[size]));
        }
        let shapes = graph.inputs.iter().filter_map(|id| Some((*id, graph.value(*id).shape.as_deref()?)));
        let found =
            shapes.filter_map(|(id, shape)| Some((id, shape.iter().position(|of_input| of_input == size)?)));
        let (input, axis) = found.into_iter().next()?;
        let shape = made.op("Shape", [made.value(input)], []);
        Some(made.op("Gather", [shape, made.ints(&[axis])], [("axis", 0.into())]))
    };
    let parts: Option<Vec<Expr>> = sizes.iter().map(part).collect();
    let (Some(parts), Some(shape), Some(dtype)) = (parts, shape, dtype) else { return Ok(Vec::new()) };
    let value = made.concat(&parts, 0).reshape(&shape);
    made.give(if dtype == DType::I64 { value } else { value.cast(dtype) }, id);
    made.finish()?.add_to(graph, &Node::default())
}

/// Returns the shape of an input with this value: that of the array, or the declared one if the number of
/// elements determines it or the array has one element.
fn fitting_shape(declared: Option<&[Dim]>, input: &Array) -> Result<Vec<usize>> {
    let Some(declared) = declared else { return Ok(input.shape().to_vec()) };
    let sizes: Vec<Option<usize>> =
        declared.iter().map(|size| size.known().and_then(|size| usize::try_from(size).ok())).collect();
    let fits = |(size, n): (&Option<usize>, &usize)| size.is_none_or(|size| size == *n);
    if sizes.len() == input.shape().len() && sizes.iter().zip(input.shape()).all(fits) {
        return Ok(input.shape().to_vec());
    }
    let known: usize = sizes.iter().flatten().product();
    let free = sizes.iter().filter(|size| size.is_none()).count();
    let rest = match free {
        0 if known == input.len() || input.len() == 1 => Some(1),
        1 if input.len().checked_rem(known) == Some(0) => input.len().checked_div(known),
        _ => None,
    };
    let rest = rest.ok_or_else(|| {
        let (found, declared) = (input.shape(), display_shape(declared));
        Error::usage(format!("shape {found:?}, but the input has the shape {declared}"))
    })?;
    Ok(sizes.into_iter().map(|size| size.unwrap_or(rest)).collect())
}

/// Converts the elements to a type that represents them. Floats are rounded to narrower floats. Names are
/// free sizes of inputs.
fn typed(graph: &Graph, input: &Array, dtype: DType) -> Result<Array> {
    let shape = IxDyn(input.shape());
    if let Elements::Dim(sizes) = input.elements() {
        let mut names = BTreeSet::new();
        sizes.iter().for_each(|size| size.collect_symbols(&mut names));
        if let Some(name) = names.difference(&graph.input_symbols()).next() {
            return Err(Error::usage(format!("no input has a free size \"{name}\"")));
        }
        if !dtype.is_int() {
            return Err(Error::usage(format!("a size is not a value of type {dtype}")));
        }
        return Ok(Array::new(dtype, input.elements().clone()));
    }
    if input.dtype() == dtype {
        return Ok(input.clone());
    }
    let refuse = |x: &dyn std::fmt::Display| Error::usage(format!("{x} is not a value of type {dtype}"));
    let elements = if let Some((least, most)) = dtype.int_range() {
        let integers: Result<Vec<i64>> = match input.elements() {
            Elements::I64(array) => {
                let check =
                    |x: &i64| if (least..=most).contains(&i128::from(*x)) { Ok(*x) } else { Err(refuse(x)) };
                array.iter().map(check).collect()
            }
            _ => {
                let check = |x: f64| {
                    let integer: i128 = x.as_();
                    let fits = x.fract() == 0.0 && (least..=most).contains(&integer);
                    i64::try_from(integer).ok().filter(|_| fits).ok_or_else(|| refuse(&x))
                };
                input.to_f64()?.iter().map(|x| check(*x)).collect()
            }
        };
        Elements::I64(ArrayD::from_shape_vec(shape, integers?)?)
    } else if dtype.is_float() {
        let wide = input.to_f64()?;
        if dtype == DType::F64 {
            Elements::F64(wide)
        } else {
            let narrow = wide.mapv(|x| -> f32 { x.as_() });
            if let Some(lost) = wide.iter().zip(&narrow).find(|(x, y)| x.is_finite() && !y.is_finite()) {
                return Err(refuse(lost.0));
            }
            Elements::F32(narrow)
        }
    } else {
        return Err(Error::usage(format!("an input of type {dtype} cannot be set")));
    };
    Ok(Array::new(dtype, elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Value;
    use crate::tensor::dims;

    fn graph(dtype: DType, sizes: &[Dim]) -> Graph {
        let mut graph = Graph::default();
        for name in ["x", "y"] {
            let shape = Some(sizes.iter().cloned().collect());
            let value = Value { name: name.to_owned(), dtype: Some(dtype), shape, ..Value::default() };
            let id = graph.add_value(value);
            graph.inputs.push(id);
        }
        graph
    }

    /// Returns shape and elements of an input after it is set, and the shape of the other input.
    fn set(dtype: DType, sizes: &[Dim], input: &Array) -> Result<String> {
        let mut graph = graph(dtype, sizes);
        let id = *graph.inputs.first().unwrap();
        set_inputs(&mut graph, &[("x".to_owned(), input.clone())])?;
        let other = graph.value(*graph.inputs.first().unwrap()).shape.clone().unwrap();
        let array = graph.value(id).constant.as_ref().unwrap().load()?;
        let elements: Vec<f64> = array.to_f64()?.iter().copied().collect();
        Ok(format!("{:?} {elements:?}; {}", array.shape(), display_shape(&other)))
    }

    fn ints(elements: &[i64]) -> Array {
        Array::i64(ArrayD::from_shape_vec(IxDyn(&[elements.len()]), elements.to_vec()).unwrap())
    }

    fn floats(elements: &[f64]) -> Array {
        let elements = ArrayD::from_shape_vec(IxDyn(&[elements.len()]), elements.to_vec()).unwrap();
        Array::new(DType::F64, Elements::F64(elements))
    }

    #[test]
    fn values_take_type_and_shape_of_the_input() {
        let (n, one) = (Dim::symbol("N"), Dim::ONE);
        for (dtype, shape, input, expected) in [
            (DType::I64, dims(&[]), ints(&[16000]), Some("[] [16000.0]; []")),
            (DType::I64, dims(&[1]), ints(&[16000]), Some("[1] [16000.0]; [1]")),
            (DType::F32, dims(&[2, 2]), ints(&[1]), Some("[2, 2] [1.0, 1.0, 1.0, 1.0]; [2, 2]")),
            (
                DType::F32,
                dims(&[2, 2]),
                floats(&[1.0, 0.5, 2.0, 3.0]),
                Some("[2, 2] [1.0, 0.5, 2.0, 3.0]; [2, 2]"),
            ),
            (DType::F32, vec![one.clone(), n.clone()], ints(&[3, 4]), Some("[1, 2] [3.0, 4.0]; [1, 2]")),
            (DType::F32, vec![n.clone(), n.clone()], ints(&[3, 4]), None),
            (DType::F32, dims(&[3]), ints(&[3, 4]), None),
            (DType::Bool, dims(&[1]), ints(&[1]), Some("[1] [1.0]; [1]")),
            (DType::Bool, dims(&[1]), ints(&[2]), None),
            (DType::U8, dims(&[1]), ints(&[256]), None),
            (DType::I64, dims(&[1]), floats(&[0.5]), None),
            (DType::I64, dims(&[1]), floats(&[2.0]), Some("[1] [2.0]; [1]")),
            (DType::F32, dims(&[1]), floats(&[1e300]), None),
            (DType::String, dims(&[1]), ints(&[1]), None),
        ] {
            assert_eq!(
                set(dtype, &shape, &input).ok().as_deref(),
                expected,
                "{dtype} {}",
                display_shape(&shape)
            );
        }
    }

    #[test]
    fn an_unknown_input_is_an_error() {
        let input = [("z".to_owned(), ints(&[1]))];
        assert!(set_inputs(&mut graph(DType::F32, &[]), &input).is_err());
    }
}
