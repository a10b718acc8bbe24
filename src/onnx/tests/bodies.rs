//! Graphs in attributes.

use super::*;
use crate::graph::Attribute;

fn body(node: Vec<NodeProto>, output: &str) -> GraphProto {
    GraphProto { name: text("body"), node, output: vec![info(output, vec![])], ..Default::default() }
}

fn holder(name: &str, input: &[&str], output: &[&str], body: GraphProto) -> NodeProto {
    NodeProto { name: text(name), attribute: vec![body_attribute("body", body)], ..node("If", input, output) }
}

fn body_of(graph: &Graph, op_type: &str) -> Graph {
    let (_, node) = graph.nodes().find(|(_, node)| *node.op_type == *op_type).unwrap();
    let Attribute::Graph(body) = &node.attributes[&"body".into()] else { panic!("{node:?}") };
    body.as_ref().clone()
}

fn captures(outer: &Graph, body: &Graph) -> Vec<(String, String)> {
    let names =
        |c: &crate::graph::Capture| (outer.value(c.outer).name.clone(), body.value(c.inner).name.clone());
    body.captures.iter().map(names).collect()
}

#[test]
fn bodies_capture_values() {
    let inner = body(vec![node("Add", &["x", "c"], &["z"]), node("Mul", &["z", "x"], &["w"])], "w");
    let mut main = graph(vec![holder("n", &["x"], &["y"], inner)]);
    main.initializer.push(raw("c", DType::F32, &[1], &[0; 4]));
    let read = read_model(&model(main)).unwrap();
    let inner = body_of(&read.graph, "If");
    assert_eq!(lines(&inner), [": Add-21(x, c) -> z", ": Mul-21(z, x) -> w"]);
    let pair = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(captures(&read.graph, &inner), [pair("c"), pair("x")]);
    let c = inner.captures.iter().find(|c| inner.value(c.inner).name == "c").unwrap();
    assert!(inner.value(c.inner).constant.is_some());
    inner.check().unwrap();
}

#[test]
fn captures_go_through_the_graphs_between() {
    let innermost = body(vec![node("Neg", &["late"], &["p"])], "p");
    let middle = body(vec![holder("m", &[], &["q"], innermost)], "q");
    let main = graph(vec![holder("n", &["x"], &["y"], middle), node("Abs", &["x"], &["late"])]);
    let read = read_model(&model(main)).unwrap();
    // The node that the body reads comes first, though the model lists it last.
    assert_eq!(lines(&read.graph), [": Abs-21(x) -> late", "n: If-21(x) -> y"]);
    let middle = body_of(&read.graph, "If");
    let innermost = body_of(&middle, "If");
    let pair = || vec![("late".to_owned(), "late".to_owned())];
    assert_eq!(captures(&read.graph, &middle), pair());
    assert_eq!(captures(&middle, &innermost), pair());
}

#[test]
fn a_body_may_return_a_captured_value() {
    let main = graph(vec![holder("n", &["x"], &["y"], body(vec![], "x"))]);
    let read = read_model(&model(main)).unwrap();
    let inner = body_of(&read.graph, "If");
    assert_eq!(inner.outputs, [inner.captures[0].inner]);
}

#[test]
fn names_of_a_body_are_local() {
    let main = graph(vec![
        holder("n", &["x"], &["h"], body(vec![node("Neg", &["x"], &["z"])], "z")),
        holder("m", &["h"], &["y"], body(vec![node("Abs", &["x"], &["z"])], "z")),
    ]);
    assert_eq!(read_model(&model(main)).unwrap().graph.node_count(), 2);
    let main = graph(vec![
        holder("n", &["x"], &["h"], body(vec![node("Neg", &["x"], &["z"])], "z")),
        node("Abs", &["z"], &["y"]),
    ]);
    refused(&model(main), ErrorKind::Invalid, "\"z\", which is not defined");
}

#[test]
fn errors_in_bodies_have_a_location() {
    let main = graph(vec![holder("n", &["x"], &["y"], body(vec![node("Neg", &["w"], &["z"])], "z"))]);
    refused(&model(main), ErrorKind::Invalid, "n.body: node 0 Neg-21: it reads \"w\", which is not defined");
    let main = graph(vec![holder("n", &["x"], &["y"], body(vec![], "w"))]);
    refused(&model(main), ErrorKind::Invalid, "\"w\" is not computed");
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| {
        let mut inner = body(vec![node("Neg", &["x"], &["z"])], "z");
        for _ in 0..depth {
            inner = body(vec![holder("", &["x"], &["z"], inner)], "z");
        }
        model(graph(vec![holder("n", &["x"], &["y"], inner)]))
    };
    assert!(read_model(&nested(20)).is_ok());
    refused(&nested(60), ErrorKind::Limit, "nested deeper");
}
