//! Shapes of the graph inputs: those that the user gives, and sizes that conditions leave.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::tensor::{Dim, Shape, SizeCondition, Tensor, display_shape};

/// Sets the shapes that the user gives, and substitutes the symbols of free sizes in all values.
///
/// # Errors
///
/// If an input does not exist, has another rank, or occurs twice.
pub fn set_input_shapes(graph: &mut Graph, shapes: &[(String, Vec<Dim>)]) -> Result<()> {
    let mut requested = BTreeMap::new();
    let mut symbols: BTreeMap<String, Dim> = BTreeMap::new();
    let mut contradicts = false;
    let by_name: BTreeMap<String, ValueId> =
        graph.inputs.iter().rev().map(|id| (graph.value(*id).name.clone(), *id)).collect();
    for (name, shape) in shapes {
        let id = by_name.get(name).map_or_else(|| find_input(graph, name), |id| Ok(*id))?;
        let value = graph.value(id);
        for (old, new) in value.shape.iter().flatten().zip(shape) {
            contradicts |= match old.known() {
                Some(_) => old != new,
                None => symbols.insert(old.to_string(), new.clone()).is_some_and(|other| other != *new),
            };
        }
        if let Some(old) = value.shape.as_ref().filter(|old| old.len() != shape.len()) {
            let error = Error::usage(format!(
                "the input \"{}\" has the shape {}, but the option states {}",
                value.name,
                display_shape(old),
                display_shape(shape)
            ));
            let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
            return Err(match old.len() == shape.len() + 1 {
                true => error.help(format!("with the batch: --input-shape 1,{}", sizes.join(","))),
                false => error,
            });
        }
        if requested.insert(id, shape.clone()).is_some() {
            return Err(Error::usage(format!("the shape of the input \"{}\" is set twice", value.name)));
        }
    }
    if contradicts {
        forget_shapes(graph)?;
    }
    substitute_symbols(graph, &symbols)?;
    // Last, since a symbol in a requested shape may name another size in the model.
    for (id, shape) in requested {
        graph.value_mut(id)?.shape = Some(shape.into());
    }
    Ok(())
}

/// Replaces sizes of inputs whose names are expressions of those of others, such as `past + sequence` and
/// `n - 1`: exporters name the length of a mask so.
pub fn resolve_names(graph: &mut Graph) -> Result<()> {
    let shapes = graph.inputs.iter().filter_map(|id| graph.value(*id).shape.as_deref());
    let names: BTreeSet<String> =
        shapes.flatten().filter_map(|size| Some(size.symbol_name()?.to_owned())).collect();
    let plain = |name: &str| names.contains(name).then(|| Dim::symbol(name));
    let sizes = names.iter().filter_map(|name| {
        let size = Dim::read(name, plain)?;
        (SizeCondition::at_least(&size, 1).is_ok() && size != Dim::symbol(name)).then(|| (name.clone(), size))
    });
    substitute_symbols(graph, &sizes.collect())
}

/// Removes the declared shapes of computed values, which belong to other input shapes.
fn forget_shapes(graph: &mut Graph) -> Result<()> {
    for id in graph.value_ids() {
        if graph.value(id).producer.is_some() {
            graph.value_mut(id)?.shape = None;
        }
    }
    Ok(())
}

/// Sets free sizes that have one valid value, and replaces those that are equal to another one. Returns
/// whether there are any.
///
/// # Errors
///
/// If no sizes meet all conditions.
pub fn fix_sizes(graph: &mut Graph, warnings: &mut Vec<String>) -> Result<bool> {
    let mut is_fixed = false;
    loop {
        let replaced = graph.conditions.iter().find_map(SizeCondition::fixed);
        let replaced =
            replaced.map_or_else(|| SizeCondition::determined(&graph.conditions), |one| Ok(Some(one)));
        let Some((name, value)) = replaced? else { return Ok(is_fixed) };
        let symbols = BTreeMap::from([(name, value)]);
        let conditions =
            graph.conditions.iter().filter_map(|condition| condition.substitute(&symbols).transpose());
        graph.conditions = conditions.collect::<Result<_>>()?;
        set_sizes(graph, &symbols, warnings)?;
        is_fixed = true;
    }
}

/// Replaces free sizes by their only valid values. Warns of those that restrict the inputs; two equal sizes
/// that only computed values have do not.
pub fn set_sizes(graph: &mut Graph, sizes: &BTreeMap<String, Dim>, warnings: &mut Vec<String>) -> Result<()> {
    let free = graph.input_symbols();
    substitute_symbols(graph, sizes)?;
    let told = sizes.iter().filter(|(name, value)| value.known().is_some() || free.contains(*name));
    warnings.extend(told.map(|(name, value)| match value.known() {
        Some(_) => format!("the free size \"{name}\" is set to {value}, its only valid value"),
        None => format!("the free size \"{name}\" is that of \"{value}\": no other one is valid"),
    }));
    Ok(())
}

/// Returns the sizes of inputs along the axes to which nodes append computed values, as sizes that may be 0:
/// the first call of a decoder has an empty cache.
pub fn cache_lengths(graph: &Graph) -> BTreeMap<String, Dim> {
    let mut symbols = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let Some(appends) = crate::op::find(node).and_then(|op| op.appends) else { continue };
        for (index, axis) in appends(graph, node) {
            let input = node.input(index).filter(|input| graph.inputs.contains(input));
            let shape = input.and_then(|input| graph.value(input).shape.as_deref());
            if let Some(name) = shape.and_then(|shape| shape.get(axis)?.symbol_name()) {
                symbols.insert(name.to_owned(), Dim::length(name));
            }
        }
    }
    symbols
}

/// Makes inputs without elements constants: ncnn has no empty blobs.
pub fn finalize_empty_inputs(graph: &mut Graph, warnings: &mut Vec<String>) -> Result<()> {
    for id in graph.inputs.clone() {
        let value = graph.value(id);
        let (Some(dtype), Some(shape)) = (value.dtype, &value.shape) else { continue };
        let Some(constant) = Tensor::without_elements(dtype, shape)? else { continue };
        warnings.push(format!("the input \"{}\" has no elements and is left out of the net", value.name));
        graph.value_mut(id)?.constant = Some(constant);
    }
    Ok(())
}

pub(super) fn find_input(graph: &Graph, name: &str) -> Result<ValueId> {
    let help = || {
        let names: Vec<String> =
            graph.inputs.iter().map(|id| format!("\"{}\"", graph.value(*id).name)).collect();
        format!("the inputs are {}", names.join(", "))
    };
    match (name, graph.inputs.as_slice()) {
        ("", [only]) => Ok(*only),
        ("", inputs) => {
            let message = format!("the model has {} inputs: the shape needs the name of one", inputs.len());
            Err(Error::usage(message).help(help()))
        }
        _ => {
            let found = graph.inputs.iter().copied().find(|id| graph.value(*id).name == name);
            found.ok_or_else(|| Error::usage(format!("the model has no input \"{name}\"")).help(help()))
        }
    }
}

pub fn substitute_symbols(graph: &mut Graph, symbols: &BTreeMap<String, Dim>) -> Result<()> {
    if symbols.is_empty() {
        return Ok(());
    }
    for id in graph.value_ids() {
        let Some(shape) = graph.value(id).shape.clone() else { continue };
        let shape: Result<Shape> = shape.iter().map(|size| size.substitute(symbols).checked()).collect();
        let elements = graph.value(id).elements.as_ref().map(|elements| elements.substitute(symbols));
        let elements = elements.transpose()?;
        let value = graph.value_mut(id)?;
        value.shape = Some(shape?);
        value.elements = elements.map(Box::new);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::graph::Value;
    use crate::pass::first_axis::{Counts, fix_batch};

    fn shape(sizes: &str) -> Vec<Dim> {
        sizes.split(' ').map(|size| size.parse().map_or_else(|_| Dim::symbol(size), Dim::Known)).collect()
    }

    /// The shapes of two inputs and a computed value after `requested`.
    fn shapes_after(model: [&str; 3], requested: &[(&str, &str)]) -> Vec<String> {
        let mut graph = Graph::default();
        for (name, sizes) in ["x", "y"].iter().zip(model) {
            let id = graph.add_value(Value {
                name: (*name).to_owned(),
                shape: Some(shape(sizes).into()),
                ..Value::default()
            });
            graph.inputs.push(id);
        }
        let computed = graph.add_value(Value { shape: Some(shape(model[2]).into()), ..Value::default() });
        graph.add_node(crate::graph::Node { outputs: smallvec![Some(computed)], ..Default::default() });
        let requested: Vec<_> =
            requested.iter().map(|(name, sizes)| ((*name).to_owned(), shape(sizes))).collect();
        set_input_shapes(&mut graph, &requested).unwrap();
        fix_batch(&mut graph, Counts::Free, &BTreeSet::new(), &BTreeSet::new(), &mut Vec::new()).unwrap();
        let shown = |id| graph.value(id).shape.as_deref().map_or("?".to_owned(), display_shape);
        graph.value_ids().map(shown).collect()
    }

    #[test]
    fn names_that_are_expressions_are_replaced() {
        let mut graph = Graph::default();
        for size in ["P", "S", "P + S", "S+1", "P+Q", "S - 1"] {
            let shape = Some(vec![Dim::symbol(size)].into());
            let id = graph.add_value(Value { shape, ..Value::default() });
            graph.inputs.push(id);
        }
        resolve_names(&mut graph).unwrap();
        let shown = |id| graph.value(id).shape.as_deref().map_or("?".to_owned(), display_shape);
        let found: Vec<String> = graph.value_ids().map(shown).collect();
        assert_eq!(found, ["[P]", "[S]", "[P+S]", "[S+1]", "[P+Q]", "[S-1]"]);
        let sum = Dim::symbol("P") + Dim::symbol("S");
        let third = graph.value_ids().nth(2).and_then(|id| graph.value(id).shape.clone());
        assert!(third.is_some_and(|shape| shape.first() == Some(&sum)));
    }

    #[test]
    fn caches_may_be_empty() {
        let mut graph = Graph::default();
        let past = graph.add_value(Value { shape: Some(shape("1 P 4").into()), ..Value::default() });
        let x = graph.add_value(Value { shape: Some(shape("1 S 4").into()), ..Value::default() });
        let [new, all] = [(); 2].map(|()| graph.add_value(Value::default()));
        graph.inputs = vec![past, x];
        let node = |op_type: &str, inputs: &[ValueId], output| crate::graph::Node {
            op_type: op_type.into(),
            version: 13,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: smallvec![Some(output)],
            attributes: [("axis".into(), crate::graph::Attribute::Int(1))].into_iter().collect(),
            ..Default::default()
        };
        graph.add_node(node("Relu", &[x], new));
        graph.add_node(node("Concat", &[past, new], all));
        crate::ops::register();
        let lengths = cache_lengths(&graph);
        substitute_symbols(&mut graph, &lengths).unwrap();
        let least = |id| graph.value(id).shape.as_deref().and_then(|shape| shape.get(1)?.lower_bound());
        assert_eq!((least(past), least(x)), (Some(0), Some(1)));
    }

    #[test]
    fn requested_sizes_are_substituted_in_all_values() {
        for (model, requested, after) in [
            (["N H W", "N 3", "N H"], &[("x", "1 4 5")][..], ["[1, 4, 5]", "[1, 3]", "[1, 4]"]),
            (["N H W", "N 3", "N H"], &[("x", "1 4 H")], ["[1, 4, H]", "[1, 3]", "[1, 4]"]),
            (["N H W", "N 3", "W H"], &[("x", "1 A H")], ["[1, A, H]", "[1, 3]", "[H, A]"]),
            (["N 3", "M 4", "N 7"], &[], ["[1, 3]", "[1, 4]", "[1, 7]"]),
            (["S S", "N 4", "S 7"], &[], ["[S, S]", "[1, 4]", "[S, 7]"]),
            (["batch T", "2 batch", "batch 7"], &[], ["[1, T]", "[2, 1]", "[1, 7]"]),
            (
                ["num_nodes 3", "num_batches 4", "num_nodes 7"],
                &[],
                ["[num_nodes, 3]", "[1, 4]", "[num_nodes, 7]"],
            ),
            (["num_images 3 H W", "num_images 4", "H W"], &[], ["[1, 3, H, W]", "[1, 4]", "[H, W]"]),
            (
                ["seq_len N 3", "Points_count 2", "N 7"],
                &[],
                ["[seq_len, N, 3]", "[Points_count, 2]", "[N, 7]"],
            ),
            (["1 3 8", "1 3", "1 8"], &[("x", "1 3 9")], ["[1, 3, 9]", "[1, 3]", "?"]),
            (["N 3", "N 4", "N 7"], &[("x", "2 3"), ("y", "5 4")], ["[2, 3]", "[5, 4]", "?"]),
        ] {
            assert_eq!(shapes_after(model, requested), after, "{model:?} {requested:?}");
        }
    }
}
