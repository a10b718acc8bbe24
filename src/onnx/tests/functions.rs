//! Model-local functions, inlined.

use super::*;

fn call(name: &str, input: &[&str], output: &[&str]) -> NodeProto {
    NodeProto { domain: text("local"), ..node(name, input, output) }
}

fn function(name: &str, input: &[&str], output: &[&str], node: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: text(name),
        domain: text("local"),
        input: texts(input),
        output: texts(output),
        node,
        opset_import: vec![opset("", 21), opset("local", 1)],
        ..Default::default()
    }
}

fn with(functions: Vec<FunctionProto>, nodes: Vec<NodeProto>) -> ModelProto {
    ModelProto { functions, ..model(graph(nodes)) }
}

fn reference(name: &str, argument: &str) -> AttributeProto {
    AttributeProto {
        name: text(name),
        ref_attr_name: text(argument),
        r#type: Some(AttributeType::Int.into()),
        ..Default::default()
    }
}

fn inlined(model: &ModelProto) -> Vec<String> {
    lines(&read_model(model).unwrap().graph)
}

#[test]
fn a_call_becomes_the_nodes_of_the_function() {
    let f = function("F", &["a"], &["b"], vec![node("Neg", &["a"], &["t"]), node("Relu", &["t"], &["b"])]);
    let nodes =
        vec![NodeProto { name: text("first"), ..call("F", &["x"], &["h"]) }, call("F", &["h"], &["y"])];
    let read = read_model(&with(vec![f], nodes)).unwrap();
    assert_eq!(
        lines(&read.graph),
        [
            ": Neg-21(x) -> first/t",
            ": Relu-21(first/t) -> h",
            ": Neg-21(h) -> F_2/t",
            ": Relu-21(F_2/t) -> y",
        ]
    );
    assert_eq!(read.graph.nodes().map(|(_, node)| node.index).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn a_function_has_separate_operator_sets() {
    let f = FunctionProto {
        opset_import: vec![opset("ai.onnx", 12)],
        ..function("F", &["a"], &["b"], vec![node("Softmax", &["a"], &["b"])])
    };
    assert_eq!(inlined(&with(vec![f], vec![call("F", &["x"], &["y"])])), [": Softmax-12(x) -> y"]);
}

#[test]
fn attributes_come_from_the_call_or_the_function() {
    let body = NodeProto {
        attribute: vec![reference("p", "stated"), reference("q", "default"), reference("r", "absent")],
        ..node("Op", &["a"], &["b"])
    };
    let f = FunctionProto {
        attribute: texts(&["stated", "absent"]),
        attribute_proto: vec![int_attribute("stated", 0), int_attribute("default", 2)],
        ..function("F", &["a"], &["b"], vec![body])
    };
    let caller = NodeProto { attribute: vec![int_attribute("stated", 1)], ..call("F", &["x"], &["y"]) };
    let read = read_model(&with(vec![f], vec![caller])).unwrap();
    let (_, node) = read.graph.nodes().next().unwrap();
    let attributes: Vec<String> = node.attributes.iter().map(|(name, a)| format!("{name} {a:?}")).collect();
    assert_eq!(attributes, ["p Int(1)", "q Int(2)"]);
}

#[test]
fn inputs_and_outputs_may_be_left_out() {
    let f = function("F", &["a", "o"], &["b", "c"], vec![node("Op", &["a", "o"], &["b", "c"])]);
    assert_eq!(
        inlined(&with(vec![f.clone()], vec![call("F", &["x"], &["y"])])),
        [": Op-21(x, -) -> y, F_1/c"]
    );
    assert_eq!(
        inlined(&with(vec![f.clone()], vec![call("F", &["x", ""], &["", "y"])])),
        [": Op-21(x, -) -> F_1/b, y"]
    );
    refused(
        &with(vec![f.clone()], vec![call("F", &["x", "x", "x"], &["y"])]),
        ErrorKind::Invalid,
        "3 inputs",
    );
    refused(&with(vec![f], vec![call("F", &["x"], &["y", "z", "w"])]), ErrorKind::Invalid, "3 outputs");
}

#[test]
fn outputs_that_are_not_computed_are_copied() {
    let f = function("F", &["a"], &["a", "b", "b"], vec![node("Neg", &["a"], &["b"])]);
    let mut with_it =
        with(vec![f], vec![call("F", &["x"], &["s", "t", "u"]), node("Sum", &["s", "t", "u"], &["y"])]);
    assert_eq!(
        inlined(&with_it),
        [
            ": Neg-21(x) -> t",
            "F_1/a: Identity-21(x) -> s",
            "F_1/b: Identity-21(t) -> u",
            ": Sum-21(s, t, u) -> y",
        ]
    );
    with_it.functions = vec![function("F", &["a"], &["a", "b", "c"], vec![node("Neg", &["a"], &["b"])])];
    refused(&with_it, ErrorKind::Invalid, "\"c\" of the function is not computed");
}

#[test]
fn functions_call_functions() {
    let g = function("G", &["a"], &["b"], vec![node("Neg", &["a"], &["b"])]);
    let f = function("F", &["a"], &["b"], vec![call("G", &["a"], &["t"]), call("G", &["t"], &["b"])]);
    let caller = NodeProto { name: text("n"), ..call("F", &["x"], &["y"]) };
    assert_eq!(inlined(&with(vec![f, g], vec![caller])), [": Neg-21(x) -> n/t", ": Neg-21(n/t) -> y"]);
}

#[test]
fn overloads_distinguish_functions() {
    let overload = |name: &str, op: &str| FunctionProto {
        overload: text(name),
        ..function("F", &["a"], &["b"], vec![node(op, &["a"], &["b"])])
    };
    let caller = NodeProto { overload: text("2"), ..call("F", &["x"], &["y"]) };
    let both = vec![overload("1", "Neg"), overload("2", "Relu")];
    assert_eq!(inlined(&with(both, vec![caller])), [": Relu-21(x) -> y"]);
    let twice = vec![overload("1", "Neg"), overload("1", "Relu")];
    refused(&with(twice, vec![]), ErrorKind::Invalid, "defined twice");
}

#[test]
fn bodies_in_functions_see_its_scope() {
    let body = GraphProto {
        node: vec![NodeProto {
            attribute: vec![reference("axis", "axis")],
            ..node("Op", &["a", "o", "t"], &["z"])
        }],
        output: vec![info("z", vec![])],
        ..Default::default()
    };
    let branch = NodeProto { attribute: vec![body_attribute("body", body)], ..node("If", &["a"], &["b"]) };
    let f = function("F", &["a", "o"], &["b"], vec![branch, node("Neg", &["a"], &["t"])]);
    let caller =
        NodeProto { name: text("n"), attribute: vec![int_attribute("axis", 3)], ..call("F", &["x"], &["y"]) };
    let read = read_model(&with(vec![f], vec![caller])).unwrap();
    assert_eq!(lines(&read.graph), [": Neg-21(x) -> n/t", ": If-21(x) -> y"]);
    let (_, node) = read.graph.nodes().nth(1).unwrap();
    let [body] = node.attributes[&"body".into()].graphs() else { panic!("{node:?}") };
    assert_eq!(lines(body), [": Op-21(a, -, t) -> n/z"]);
    let (_, inner) = body.nodes().next().unwrap();
    assert!(matches!(inner.attributes[&"axis".into()], crate::graph::Attribute::Int(3)));
    let outer: Vec<&str> = body.captures.iter().map(|c| &*read.graph.value(c.outer).name).collect();
    assert_eq!(outer, ["x", "n/t"]);
}

#[test]
fn names_outside_a_function_are_refused() {
    let f = function("F", &["a"], &["b"], vec![node("Neg", &["x"], &["b"])]);
    refused(
        &with(vec![f], vec![call("F", &["x"], &["y"])]),
        ErrorKind::Invalid,
        "\"x\", which is not defined",
    );
    let outside = NodeProto { attribute: vec![reference("p", "q")], ..node("Neg", &["x"], &["y"]) };
    refused(&with(vec![], vec![outside]), ErrorKind::Invalid, "outside of a function");
}

#[test]
fn endless_recursion_is_refused() {
    let f = function("F", &["a"], &["b"], vec![call("G", &["a"], &["b"])]);
    let g = function("G", &["a"], &["b"], vec![call("F", &["a"], &["b"])]);
    let twice = with(vec![f, g], vec![call("F", &["x"], &["y"])]);
    refused(&twice, ErrorKind::Invalid, "calls itself");

    // Each function calls the next one twice: 2^40 nodes.
    let name = |i: usize| format!("F{i}");
    let chain = |last: usize, calls: &[[&str; 2]]| -> Vec<FunctionProto> {
        let body = |i: usize| match i == last {
            true => vec![node("Neg", &["a"], &["b"])],
            false => calls.iter().map(|[from, to]| call(&name(i + 1), &[from], &[to])).collect(),
        };
        (0..=last).map(|i| function(&name(i), &["a"], &["b"], body(i))).collect()
    };
    let wide = chain(40, &[["a", "t"], ["t", "b"]]);
    refused(&with(wide, vec![call("F0", &["x"], &["y"])]), ErrorKind::Limit, "too large");
    let deep = chain(1000, &[["a", "b"]]);
    refused(&with(deep, vec![call("F0", &["x"], &["y"])]), ErrorKind::Limit, "nested deeper");
}

#[test]
fn constants_of_a_function_are_kept_once() {
    let value = AttributeProto {
        name: text("value"),
        r#type: Some(AttributeType::Tensor.into()),
        t: Some(Box::new(TensorProto { float_data: vec![1.0; 4], ..tensor("", DType::F32, &[4]) })),
        ..Default::default()
    };
    let constant = NodeProto { attribute: vec![value], ..node("Constant", &[], &["c"]) };
    let f = function("F", &["a"], &["b"], vec![constant, node("Add", &["a", "c"], &["b"])]);
    let nodes = vec![call("F", &["x"], &["h"]), call("F", &["h"], &["y"])];
    let read = read_model(&with(vec![f], nodes)).unwrap();
    let starts: Vec<*const u8> = read
        .graph
        .nodes()
        .filter_map(|(_, node)| match node.attributes.get("value") {
            Some(crate::graph::Attribute::Tensor(tensor)) => Some(tensor.raw_bytes().unwrap().as_ptr()),
            _ => None,
        })
        .collect();
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[0], starts[1]);
}

#[test]
fn operators_of_onnx_are_not_replaced() {
    let f = FunctionProto {
        domain: text("ai.onnx"),
        ..function("Relu", &["a"], &["b"], vec![node("Neg", &["a"], &["b"])])
    };
    assert_eq!(inlined(&with(vec![f], vec![node("Relu", &["x"], &["y"])])), [": Relu-21(x) -> y"]);
}
