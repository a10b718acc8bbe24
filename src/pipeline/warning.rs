//! Warnings of a conversion.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::common::limits;
use crate::error::{Error, Result};
use crate::graph::{Graph, Value};
use crate::ncnn::{BLOCKS_SINCE, Changes, Layer, Net, Renamed};
use crate::onnx::{FIRST_IR_WITH_CONSTANTS, Model};
use crate::op::NCNN_DOMAIN;
use crate::pass::blocks::Weights;
use crate::pass::pattern::int;
use crate::tensor::Tensor;

/// The bytes of the stack that the runtime takes for a layer of a path on ARM64, where it takes more than
/// elsewhere.
const STACK_OF_LAYER: usize = 208;

/// Warns of inputs with a constant value. Models of older versions list every constant as an input, and get
/// no warning.
pub(super) fn defaulted_inputs(model: &Model) -> Option<String> {
    let mut names = model.defaulted_inputs.iter().map(|id| model.graph.value(*id).name.as_str());
    let first = names.next().filter(|_| model.ir_version >= FIRST_IR_WITH_CONSTANTS)?;
    let count = 1 + names.count();
    Some(format!("inputs with a value in the model keep that value: {count} such as \"{first}\""))
}

/// What the warning of [`declared_instead`] says of a constant.
const UNFIT: &str = "does not fit its input, and the result has its declared shape";

/// The maximum number of elements of a constant in a warning.
const MAX_ELEMENTS: usize = 8;

/// Returns whether a warning is one of [`declared_instead`].
pub(super) fn is_of_unfit_constant(warning: &str) -> bool {
    warning.contains(UNFIT)
}

/// Warns of nodes whose results have their declared shapes, because the constants that should give them do
/// not fit: runtimes of ONNX refuse the model.
pub(super) fn declared_instead(graph: &Graph) -> impl Iterator<Item = String> {
    graph.replaced_by_sizes.iter().filter_map(|(id, at)| {
        let Value { name, constant, .. } = graph.value(*id);
        let elements = display_elements(constant.as_ref()?);
        let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        Some(format!("{at}: its constant{name}{elements} {UNFIT}: runtimes of ONNX refuse the model"))
    })
}

/// Returns the elements of a short constant, as the end of a clause.
fn display_elements(constant: &Tensor) -> String {
    let array = Some(constant).filter(|constant| constant.len() <= MAX_ELEMENTS);
    let numbers = array.and_then(|constant| constant.load_listed().ok()?.to_i64().ok());
    numbers.map_or_else(String::new, |numbers| format!(" = {:?}", numbers.iter().collect::<Vec<_>>()))
}

/// The longest name that is an example.
const MAX_NAME: usize = 100;

/// Warns of names that the runtime cannot read.
pub(super) fn changed_names(changes: &Changes) -> Vec<String> {
    let describe = |Renamed { from, to }: &Renamed| format!("\"{from}\" is renamed to \"{to}\" in the net");
    let mut warnings: Vec<String> = changes.ends.iter().map(describe).collect();
    let shortest = changes.inside.iter().min_by_key(|renamed| renamed.from.len());
    let example = shortest.filter(|renamed| renamed.from.len() <= MAX_NAME).map(describe);
    warnings.extend(match (changes.inside.len(), example) {
        (0, _) => None,
        (1, Some(one)) => Some(one),
        (many, Some(one)) => Some(format!("{many} blobs are renamed: {one}, and so on")),
        (1, None) => {
            Some("a blob inside has a shorter name: the runtime reads at most 255 characters".to_owned())
        }
        (many, None) => {
            Some(format!("{many} blobs inside have shorter names: the runtime reads at most 255 characters"))
        }
    });
    warnings
}

/// Warns of layers without scales in the table.
pub(super) fn without_scales(left_out: &[String]) -> Option<String> {
    let (first, rest) = left_out.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(", and {} more like it", rest.len()) };
    Some(format!("the table of scales omits \"{first}\"{more}: ncnn2int8 would misread it"))
}

/// Warns of a net that needs a large stack.
///
/// # Errors
///
/// If the stack of a main thread is too small for it.
pub(super) fn deep_net(net: &Net) -> Result<Option<String>> {
    let depth = net.depth();
    if depth > limits::NET_DEPTH {
        return Err(Error::limit(format!(
            "a path of {depth} layers: the runtime recurses over them, and its stack takes about {}",
            limits::NET_DEPTH
        ))
        .help("keep loops of many iterations outside the net"));
    }
    let needed = depth.saturating_mul(STACK_OF_LAYER).div_ceil(1 << 10);
    let warning =
        || format!("a path of {depth} layers takes {needed} KB of the stack of the thread that runs the net");
    Ok((depth > limits::SAFE_NET_DEPTH).then(warning))
}

/// Warns of layers of the user, of which nothing is checked.
pub(super) fn custom_layers(net: &Net) -> Option<String> {
    let types: BTreeSet<&str> = net.custom_layers().map(|(_, custom)| custom.type_name).collect();
    let types: Vec<&str> = types.into_iter().collect();
    let help = "a program registers them before it loads the net";
    (!types.is_empty())
        .then(|| format!("layers of your own, declared and not checked: {}; {help}", types.join(", ")))
}

/// Warns that another release may not read weights in blocks, or that no weights are in blocks although they
/// were asked for.
pub(super) fn weights_in_blocks(net: &Net, options: &Options) -> Option<String> {
    if options.weights == Weights::Float {
        return None;
    }
    let is_table = |layer: &Layer| matches!(layer, Layer::Embed(_)) && !layer.int8_weights().is_empty();
    let layers = net.layers.iter().map(|layer| &layer.layer);
    let products = layers.clone().filter(|layer| layer.block_weight().is_some()).count();
    let tables = layers.filter(|layer| is_table(layer)).count();
    let counted = |count: usize, kind: &str| {
        if count == 1 { format!("1 {kind}") } else { format!("{count} {kind}s") }
    };
    let (named_products, named_tables) = (counted(products, "product"), counted(tables, "table"));
    Some(match (products, tables) {
        (0, 0) => "no weights are in blocks".to_owned(),
        (0, _) => format!("the weights of {named_tables} are in blocks"),
        _ => format!(
            "the weights of {named_products} and {named_tables} are in blocks, in the layout of ncnn {BLOCKS_SINCE}: \
             another release may read them incorrectly"
        ),
    })
}

/// Warns of experts that are computed although a token does not choose them, with the cost.
pub(super) fn unchosen_experts(graph: &Graph) -> Vec<String> {
    // By the numbers of experts and choices: the number of mixtures, and their multiply-adds for a token.
    let mut mixtures: BTreeMap<(i64, i64), (usize, i64)> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        if node.domain != NCNN_DOMAIN || node.op_type.as_str() != "ExpertWeights" {
            continue;
        }
        let choices = node.input(0).and_then(|indices| graph.value(indices).shape.as_ref()?.last()?.known());
        let (Some(experts), Some(choices)) = (int(node, "experts"), choices) else { continue };
        let (count, multiply_adds) = mixtures.entry((experts, choices)).or_default();
        *count += 1;
        *multiply_adds = multiply_adds.saturating_add(int(node, "multiply_adds").unwrap_or(0));
    }
    let describe = |((experts, choices), (count, all)): ((i64, i64), (usize, i64))| {
        let chosen = all.saturating_mul(choices).checked_div(experts).unwrap_or(all);
        let layers = if count == 1 { "a mixture".to_owned() } else { format!("{count} mixtures") };
        format!(
            "{layers} of {experts} experts, of which a token chooses {choices}: all are computed, with {all} multiply-adds \
             for a token instead of {chosen}, and those that are not chosen have to be finite"
        )
    };
    mixtures.into_iter().filter(|((experts, choices), _)| choices < experts).map(describe).collect()
}
