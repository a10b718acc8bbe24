//! Names, types, inputs and versions of the main graph.

use super::*;
use crate::tensor::display_shape;

#[test]
fn nodes_are_sorted() {
    let main = graph(vec![node("Relu", &["z"], &["y"]), node("Neg", &["x"], &["z"])]);
    let read = read_model(&model(main)).unwrap();
    assert_eq!(lines(&read.graph), [": Neg-21(x) -> z", ": Relu-21(z) -> y"]);
    let cycle = graph(vec![node("Add", &["x", "y"], &["z"]), node("Neg", &["z"], &["y"])]);
    refused(&model(cycle), ErrorKind::Invalid, "its own output");
}

#[test]
fn every_value_is_defined_once() {
    let twice = graph(vec![node("Neg", &["x"], &["y"]), node("Abs", &["x"], &["y"])]);
    refused(&model(twice), ErrorKind::Invalid, "node 1 Abs-21: \"y\" is defined twice");
    refused(&model(graph(vec![node("Split", &["x"], &["y", "y"])])), ErrorKind::Invalid, "defined twice");
    refused(
        &model(graph(vec![node("Neg", &["w"], &["y"])])),
        ErrorKind::Invalid,
        "node 0 Neg-21: it reads \"w\"",
    );
    refused(&model(graph(vec![node("Neg", &["x"], &["x"])])), ErrorKind::Invalid, "defined twice");
    refused(&model(graph(vec![])), ErrorKind::Invalid, "output \"y\" is not computed");

    let mut main = graph(vec![node("Neg", &["x"], &["y"])]);
    main.initializer = vec![raw("c", DType::U8, &[1], &[1]), raw("c", DType::U8, &[1], &[2])];
    refused(&model(main.clone()), ErrorKind::Invalid, "\"c\" is defined twice");
    main.initializer = vec![raw("", DType::U8, &[1], &[1])];
    refused(&model(main.clone()), ErrorKind::Invalid, "has no name");
    main.initializer.clear();
    main.input.push(info("x", vec![]));
    refused(&model(main), ErrorKind::Invalid, "listed twice");
}

#[test]
fn nodes_may_have_one_name_or_none() {
    let same = |op, input, output| NodeProto { name: text("n"), ..node(op, &[input], &[output]) };
    let read = read_model(&model(graph(vec![same("Neg", "x", "z"), same("Abs", "z", "y")]))).unwrap();
    assert_eq!(read.graph.node_count(), 2);
}

#[test]
fn names_that_are_empty_are_left_out() {
    let main = graph(vec![node("Clip", &["x", "", ""], &["y", ""])]);
    assert_eq!(lines(&read_model(&model(main)).unwrap().graph), [": Clip-21(x, -, -) -> y, -"]);
}

#[test]
fn an_input_with_an_initializer_is_a_constant() {
    let mut main = graph(vec![node("Add", &["x", "c"], &["y"])]);
    main.input.push(info("c", vec![dimension(1)]));
    main.initializer = vec![raw("c", DType::F32, &[1], &[0; 4]), raw("unused", DType::U8, &[1], &[2])];
    let read = read_model(&model(main.clone())).unwrap();
    let name = |id: &crate::graph::ValueId| read.graph.value(*id).name.clone();
    assert_eq!(read.graph.inputs.iter().map(name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(read.defaulted_inputs.iter().map(name).collect::<Vec<_>>(), ["c"]);

    main.initializer[0] = raw("c", DType::F32, &[2], &[0; 8]);
    refused(&model(main.clone()), ErrorKind::Invalid, "type or shape of its initializer differs");
    main.initializer[0] = raw("c", DType::I32, &[1], &[0; 4]);
    refused(&model(main), ErrorKind::Invalid, "type or shape of its initializer differs");
}

#[test]
fn inputs_and_constants_may_be_outputs() {
    let mut main = graph(vec![node("Neg", &["x"], &["y"])]);
    main.output.extend([info("x", vec![dimension(2)]), info("c", vec![dimension(1)]), info("y", vec![])]);
    main.initializer.push(raw("c", DType::F32, &[1], &[0; 4]));
    assert_eq!(read_model(&model(main)).unwrap().graph.outputs.len(), 4);
}

#[test]
fn axes_have_sizes_and_names() {
    let unknown = tensor_shape_proto::Dimension::default;
    let mut main = graph(vec![node("Add", &["x", "w"], &["y"])]);
    let axes = vec![
        named_dimension("N"),
        dimension(3),
        dimension(-1),
        unknown(),
        named_dimension("?"),
        dimension(0),
        named_dimension("64"),
        named_dimension("-1"),
    ];
    main.input = vec![info("x", axes), info("w", vec![named_dimension("N"), unknown(), named_dimension("")])];
    main.output = vec![info("y", vec![unknown(), named_dimension("N")])];
    let read = read_model(&model(main)).unwrap();
    let shape = |id| display_shape(read.graph.value(id).shape.as_ref().unwrap());
    assert_eq!(shape(read.graph.inputs[0]), "[N, 3, x[2], x[3], x[4], 0, 64, x[7]]");
    assert_eq!(shape(read.graph.inputs[1]), "[N, w[1], w[2]]");
    assert_eq!(shape(read.graph.outputs[0]), "[y[0], N]");
}

#[test]
fn a_type_may_be_left_out() {
    let mut main = graph(vec![node("Neg", &["x"], &["y"])]);
    main.output = vec![ValueInfoProto { name: text("y"), ..Default::default() }];
    let read = read_model(&model(main)).unwrap();
    assert!(read.graph.value(read.graph.outputs[0]).dtype.is_none());
}

#[test]
fn types_that_are_no_tensors_are_kept() {
    let mut main = graph(vec![node("Neg", &["x"], &["y"])]);
    let value = Some(type_proto::Value::SequenceType(Default::default()));
    let sequence = Some(TypeProto { value, ..Default::default() });
    main.input[0].r#type = sequence.clone();
    main.output[0].r#type = sequence;
    let read = read_model(&model(main)).unwrap();
    for id in read.graph.inputs.iter().chain(&read.graph.outputs) {
        assert_eq!(read.graph.value(*id).other_type.as_ref().unwrap().kind, "sequence");
    }
}

#[test]
fn domains_have_versions() {
    let custom = NodeProto { domain: text("com.example"), ..node("Op", &["x"], &["z"]) };
    let spelled = NodeProto { domain: text("ai.onnx"), ..node("Neg", &["z"], &["y"]) };
    let mut both = model(graph(vec![custom, spelled]));
    refused(&both, ErrorKind::Invalid, "domain \"com.example\" is imported");
    both.opset_import = vec![opset("com.example", 3), opset("ai.onnx", 9)];
    let read = read_model(&both).unwrap();
    assert_eq!(lines(&read.graph), [": com.example.Op-3(x) -> z", ": Neg-9(z) -> y"]);

    both.opset_import.push(opset("", 9));
    assert!(read_model(&both).is_ok());
    both.opset_import.push(opset("", 10));
    refused(&both, ErrorKind::Invalid, "two operator sets");
    both.opset_import = vec![opset("", 0)];
    refused(&both, ErrorKind::Invalid, "operator set 0");
}

#[test]
fn the_oldest_models_import_nothing() {
    let mut old = model(graph(vec![node("Neg", &["x"], &["y"])]));
    old.opset_import.clear();
    refused(&old, ErrorKind::Invalid, "no operator set");
    old.ir_version = Some(2);
    assert_eq!(lines(&read_model(&old).unwrap().graph), [": Neg-1(x) -> y"]);
    old.ir_version = None;
    refused(&old, ErrorKind::Invalid, "no ir_version");
    old.ir_version = Some(15);
    refused(&old, ErrorKind::Unsupported, "ir_version 15 is newer");
}

#[test]
fn the_kind_of_an_attribute_follows_from_its_field_in_the_oldest_models() {
    let plain = |name: &str| AttributeProto { name: text(name), ..Default::default() };
    let attribute = vec![
        AttributeProto { f: Some(1.0), ..plain("f") },
        AttributeProto { ints: vec![1], ..plain("ints") },
        AttributeProto { s: Some(bytes::Bytes::from_static(b"s")), ..plain("s") },
    ];
    let mut op = NodeProto { attribute, ..node("Op", &["x"], &["y"]) };
    let read = read_model(&model(graph(vec![op.clone()]))).unwrap();
    let (_, found) = read.graph.nodes().next().unwrap();
    let kinds: Vec<&str> = found.attributes.values().map(|a| a.kind()).collect();
    assert_eq!(kinds, ["FLOAT", "INTS", "STRING"]);

    op.attribute = vec![plain("nothing")];
    refused(&model(graph(vec![op.clone()])), ErrorKind::Invalid, "attribute nothing: its type is missing");
    op.attribute = vec![AttributeProto { r#type: Some(77), ..plain("odd") }];
    refused(&model(graph(vec![op.clone()])), ErrorKind::Invalid, "type 77");
    op.attribute = vec![int_attribute("a", 1), int_attribute("a", 2)];
    refused(&model(graph(vec![op])), ErrorKind::Invalid, "attribute a: it occurs twice");
}

#[test]
fn a_zero_may_be_left_out() {
    let attribute = vec![AttributeProto { i: None, ..int_attribute("axis", 0) }];
    let read =
        read_model(&model(graph(vec![NodeProto { attribute, ..node("Op", &["x"], &["y"]) }]))).unwrap();
    let (_, found) = read.graph.nodes().next().unwrap();
    assert!(matches!(found.attributes[&"axis".into()], crate::graph::Attribute::Int(0)));
}

#[test]
fn the_model_says_who_made_it() {
    let mut made = model(graph(vec![node("Neg", &["x"], &["y"])]));
    made.producer_name = text("pytorch");
    made.producer_version = text("2.9");
    made.metadata_props = vec![StringStringEntryProto { key: text("names"), value: text("cat") }];
    let read = read_model(&made).unwrap();
    assert_eq!((read.producer.as_str(), read.ir_version), ("pytorch 2.9", 10));
    assert_eq!(read.metadata["names"], "cat");
}
