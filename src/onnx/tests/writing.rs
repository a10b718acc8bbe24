//! Models written back.

use std::fs;
use std::path::Path;

use super::*;
use crate::common::output;
use crate::error::Result;
use crate::graph::{Node, Value};
use crate::onnx::version::Since;
use crate::onnx::write::{stage, stage_limited};
use crate::onnx::{ExternalData, Storage};
use crate::tensor::{Array, Dim, Tensor};

const NOTHING_KNOWN: Since = &|_, _| None;

fn write(model: &Model, path: &Path, storage: &Storage, since: Since) -> Result<()> {
    output::put_all(stage(model, path, storage, since)?)
}

fn written(model: &Model) -> ModelProto {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.onnx");
    write(model, &path, &Storage::Inline, NOTHING_KNOWN).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    ModelProto::decode(fs::read(path).unwrap().as_slice()).unwrap()
}

/// Reads what is written: the same lines, and the message.
fn round_trip(model: &Model) -> ModelProto {
    let proto = written(model);
    let again = read_model(&proto).unwrap();
    assert_eq!(lines(&again.graph), lines(&model.graph));
    proto
}

fn full_graph() -> GraphProto {
    let attribute = vec![
        int_attribute("axis", -1),
        AttributeProto {
            name: text("scales"),
            r#type: Some(AttributeType::Floats.into()),
            floats: vec![0.5, 2.0],
            ..Default::default()
        },
        AttributeProto {
            name: text("value"),
            r#type: Some(AttributeType::Tensor.into()),
            t: Some(Box::new(raw("", DType::I4, &[3], &[0x21, 3]))),
            ..Default::default()
        },
    ];
    let mut main = graph(vec![
        NodeProto { name: text("first"), attribute, ..node("Op", &["x", "", "c"], &["z", ""]) },
        node("Relu", &["z"], &["y"]),
    ]);
    main.input = vec![info("x", vec![named_dimension("N"), dimension(3)])];
    main.initializer =
        vec![raw("c", DType::F32, &[2], &[1, 2, 3, 4, 5, 6, 7, 8]), raw("unused", DType::U8, &[1], &[0])];
    main
}

#[test]
fn models_round_trip() {
    let mut proto = model(full_graph());
    proto.metadata_props = vec![StringStringEntryProto { key: text("k"), value: text("v") }];
    let again = round_trip(&read_model(&proto).unwrap());
    let main = again.graph.unwrap();
    assert_eq!(main.input, proto.graph.as_ref().unwrap().input);
    assert_eq!(main.output, proto.graph.as_ref().unwrap().output);
    assert_eq!(main.initializer, proto.graph.as_ref().unwrap().initializer[..1]);
    assert_eq!(main.node[0].attribute.len(), 3);
    assert_eq!(main.node[0].attribute[2].t.as_ref().unwrap().raw_data.as_deref(), Some(&[0x21, 3][..]));
    assert_eq!((again.ir_version, again.metadata_props), (Some(10), proto.metadata_props));
    assert_eq!(again.opset_import, [opset("", 21), opset("local", 1)]);
}

#[test]
fn bodies_keep_what_they_capture() {
    let inner = GraphProto {
        node: vec![node("Add", &["x", "c"], &["z"])],
        initializer: vec![raw("own", DType::F32, &[1], &[9; 4])],
        output: vec![
            info("z", vec![dimension(2)]),
            info("x", vec![dimension(2)]),
            info("own", vec![dimension(1)]),
        ],
        ..Default::default()
    };
    let both = vec![body_attribute("then_branch", inner.clone()), body_attribute("else_branch", inner)];
    let mut main = graph(vec![NodeProto { attribute: both, ..node("If", &["x"], &["y", "u", "v"]) }]);
    main.initializer.push(raw("c", DType::F32, &[2], &[0; 8]));
    let proto = round_trip(&read_model(&model(main)).unwrap()).graph.unwrap();
    let bodies: Vec<&GraphProto> = proto.node[0].attribute.iter().map(|a| a.g.as_deref().unwrap()).collect();
    assert_eq!(proto.initializer.len(), 1);
    for body in &bodies {
        assert_eq!(body.node[0].input, ["x", "c"]);
        assert_eq!(body.initializer.len(), 1);
        // The captured value is returned through a copy.
        assert_eq!((body.node[1].op_type(), &body.node[1].input[..]), ("Identity", &["x".to_owned()][..]));
        assert_eq!(body.output[1].name(), body.node[1].output[0]);
    }
    assert_ne!(bodies[0].output[0].name(), bodies[1].output[0].name());
}

#[test]
fn every_value_gets_a_unique_name() {
    let mut read = read_model(&model(graph(vec![node("Neg", &["x"], &["y"])]))).unwrap();
    let (x, y) = (read.graph.inputs[0], read.graph.outputs[0]);
    let old = read.graph.nodes().next().unwrap().1.clone();
    let named = |name: &str| Value { name: name.to_owned(), ..Value::default() };
    let (a, b, c) =
        (read.graph.add_value(named("y")), read.graph.add_value(named("")), read.graph.add_value(named("")));
    let next = |from, to| Node { inputs: smallvec![Some(from)], outputs: smallvec![Some(to)], ..old.clone() };
    let chain = [next(x, a), next(a, b), next(b, c), next(c, y)];
    read.graph.rewrite_nodes(|_, _| Ok(Some(chain.to_vec()))).unwrap();
    let proto = written(&read).graph.unwrap();
    let names: Vec<&str> = proto.node.iter().map(|node| node.output[0].as_str()).collect();
    assert_eq!(names, ["y_1", "value", "value_1", "y"]);
    read_model(&written(&read)).unwrap();
}

#[test]
fn computed_constants_and_expressions_are_written() {
    let mut read = read_model(&model(full_graph())).unwrap();
    let c = read.graph.value_ids().find(|id| read.graph.value(*id).name == "c").unwrap();
    let constant = read.graph.value(c).constant.clone().unwrap();
    let twice = Tensor::deferred(DType::F32, vec![2], vec![constant], |inputs| {
        Ok(Array::f32(inputs[0].to_f32()?.mapv(|x| 2.0 * x)))
    });
    read.graph.value_mut(c).unwrap().constant = Some(twice.unwrap());
    let y = read.graph.outputs[0];
    let n = Dim::symbol("N");
    read.graph.value_mut(y).unwrap().shape = Some(vec![n * 2].into());
    let proto = written(&read).graph.unwrap();
    let doubled = f32::from_le_bytes([1, 2, 3, 4]) * 2.0;
    assert_eq!(proto.initializer[0].raw_data.as_deref().unwrap()[..4], doubled.to_le_bytes());
    assert_eq!(proto.output[0], info("y", vec![named_dimension("2*N")]));
}

#[test]
fn large_models_have_their_constants_next_to_them() {
    let mut main = full_graph();
    let large: Vec<u8> = (0..5000_u32).flat_map(|i| [i.to_le_bytes()[0]]).collect();
    main.initializer.extend([raw("d", DType::U8, &[5000], &large), raw("e", DType::U8, &[5000], &large)]);
    main.node[1].input.extend(texts(&["d", "e"]));
    let read = read_model(&model(main)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.onnx");
    output::put_all(stage_limited(&read, &path, &Storage::AsNeeded, NOTHING_KNOWN, 4000).unwrap()).unwrap();
    assert_eq!(fs::metadata(folder.path().join("out.onnx.data")).unwrap().len(), 8192 + 5000);
    let again = read_from(&Input::Path(path.clone()), &ReadOptions::default()).unwrap();
    let constants: Vec<&Tensor> =
        again.graph.value_ids().filter_map(|id| again.graph.value(id).constant.as_ref()).collect();
    assert_eq!(constants.len(), 3);
    assert!(constants[0].raw_bytes().is_some(), "small ones stay");
    assert!(constants[1..].iter().all(|c| c.raw_bytes().is_none() && c.to_raw().unwrap() == large));

    let error = stage_limited(&read, &path, &Storage::AsNeeded, NOTHING_KNOWN, 100).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn constants_are_written_next_to_the_model() {
    let large = |byte: u8| vec![byte; 3000];
    let mut main = full_graph();
    main.initializer
        .extend([raw("d/1", DType::U8, &[3000], &large(1)), raw("D.1", DType::U8, &[3000], &large(2))]);
    main.node[1].input.extend(texts(&["d/1", "D.1"]));
    let in_attribute = AttributeProto {
        t: Some(Box::new(raw("", DType::U8, &[3000], &large(3)))),
        ..main.node[0].attribute[2].clone()
    };
    main.node[0].attribute[2] = in_attribute;
    let read = read_model(&model(main)).unwrap();
    let one = ExternalData::new("data");
    for (how, files) in [
        (ExternalData { size_threshold: 3001, ..one.clone() }, &[][..]),
        (one.clone(), &[("data", 4096 + 3000)]),
        // Lists of few numbers may decide shapes.
        (ExternalData { size_threshold: 0, ..one.clone() }, &[("data", 4096 + 3000)]),
        (ExternalData { convert_attributes: true, ..one.clone() }, &[("data", 8192 + 3000)]),
        (
            ExternalData { one_file_per_tensor: true, ..one.clone() },
            &[("data.D.1", 3000), ("data.d_1", 3000)],
        ),
        (
            ExternalData { one_file_per_tensor: true, convert_attributes: true, ..one.clone() },
            &[("data.D.1", 3000), ("data.d_1", 3000), ("data.value", 3000)],
        ),
        (ExternalData { location: "below/data".to_owned(), ..one.clone() }, &[("below", 0)]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if how.location != "data" {
            fs::create_dir(folder.path().join("below")).unwrap();
        }
        let path = folder.path().join("m.onnx");
        write(&read, &path, &Storage::External(how.clone()), NOTHING_KNOWN).unwrap();
        let mut found: Vec<(String, u64)> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap()))
            .map(|(name, about)| (name, if about.is_dir() { 0 } else { about.len() }))
            .filter(|(name, _)| name != "m.onnx")
            .collect();
        found.sort();
        let found: Vec<(&str, u64)> = found.iter().map(|(name, len)| (name.as_str(), *len)).collect();
        assert_eq!(found, files, "{how:?}");
        let again = read_from(&Input::Path(path), &ReadOptions::default()).unwrap();
        let bytes = |graph: &Graph| -> Vec<Vec<u8>> {
            let attributes = graph.nodes().flat_map(|(_, node)| node.attributes.values());
            let in_attributes = attributes.filter_map(|attribute| match attribute {
                crate::graph::Attribute::Tensor(tensor) => Some(tensor.clone()),
                _ => None,
            });
            let constants = graph.value_ids().filter_map(|id| graph.value(id).constant.clone());
            let mut all: Vec<Vec<u8>> =
                constants.chain(in_attributes).map(|tensor| tensor.to_raw().unwrap().to_vec()).collect();
            all.sort();
            all
        };
        let used: Vec<Vec<u8>> = bytes(&read.graph).into_iter().filter(|bytes| *bytes != [0]).collect();
        assert_eq!(bytes(&again.graph), used, "{how:?}");
    }
    for location in ["", "../data", "/tmp/data", "a/../data", "a\\b", "."] {
        let how = Storage::External(ExternalData::new(location));
        let folder = tempfile::tempdir().unwrap();
        let error = write(&read, &folder.path().join("m.onnx"), &how, NOTHING_KNOWN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{location}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn shared_constants_are_written_once() {
    let mut main = full_graph();
    main.initializer.push(raw("d", DType::U8, &[5000], &[7; 5000]));
    main.node[1].input.extend(texts(&["d"]));
    let mut read = read_model(&model(main)).unwrap();
    let d = read.graph.value_ids().find(|id| read.graph.value(*id).name == "d").unwrap();
    let same = read.graph.value(d).constant.clone().unwrap();
    let e = read.graph.add_constant("e", same);
    let last = read.graph.node_ids()[1];
    read.graph.node_mut(last).unwrap().inputs.push(Some(e));
    let folder = tempfile::tempdir().unwrap();
    let how = Storage::External(ExternalData::new("data"));
    write(&read, &folder.path().join("m.onnx"), &how, NOTHING_KNOWN).unwrap();
    assert_eq!(fs::metadata(folder.path().join("data")).unwrap().len(), 5000);
}

#[test]
fn one_version_fits_all_nodes_or_none_is_written() {
    let mut read =
        read_model(&model(graph(vec![node("Neg", &["x"], &["z"]), node("Abs", &["z"], &["y"])]))).unwrap();
    let last = read.graph.node_ids()[1];
    read.graph.node_mut(last).unwrap().version = 27;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.onnx");
    let try_with = |neg: &[i64], abs: &[i64]| {
        let newest = |list: &[i64], opset: i64| list.iter().copied().filter(|since| *since <= opset).max();
        let since = |node: &Node, opset: i64| newest(if node.op_type == "Neg" { neg } else { abs }, opset);
        write(&read, &path, &Storage::Inline, &since)?;
        Ok::<_, crate::error::Error>(ModelProto::decode(fs::read(&path).unwrap().as_slice()).unwrap())
    };
    // Abs is the same in 21 and 27: the model's version stays.
    assert_eq!(try_with(&[13, 25], &[6, 13]).unwrap().opset_import, [opset("", 21), opset("local", 1)]);
    let newer = try_with(&[13], &[6, 25]).unwrap();
    assert_eq!((newer.opset_import, newer.ir_version), (vec![opset("", 25), opset("local", 1)], Some(13)));
    fs::remove_file(&path).unwrap();
    let error = try_with(&[13, 25], &[6, 25]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("node 0 Neg-21"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_model_that_cannot_be_read_is_not_written() {
    let mut read = read_model(&model(full_graph())).unwrap();
    let first = read.graph.node_ids()[0];
    let undefined = Some(read.graph.add_value(Value::default()));
    read.graph.node_mut(first).unwrap().inputs[0] = undefined;
    let folder = tempfile::tempdir().unwrap();
    let how = Storage::External(ExternalData { size_threshold: 0, ..ExternalData::new("data") });
    for storage in [Storage::Inline, how] {
        let error = write(&read, &folder.path().join("out.onnx"), &storage, NOTHING_KNOWN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn unknown_metadata_is_kept() {
    let mut main = full_graph();
    main.initializer[0] = TensorProto {
        string_data: vec![bytes::Bytes::from_static(b"a"); 2],
        ..tensor("c", DType::String, &[2])
    };
    let tensor_type = info("x", vec![dimension(2)]).r#type;
    let odd = AttributeProto {
        name: text("odd"),
        r#type: Some(AttributeType::TypeProto.into()),
        tp: tensor_type.clone().map(Box::new),
        ..Default::default()
    };
    main.node[0].attribute.push(odd.clone());
    let sequence = type_proto::Sequence { elem_type: tensor_type.map(Box::new) };
    let value = Some(type_proto::Value::SequenceType(Box::new(sequence)));
    main.input[0].r#type = Some(TypeProto { value, ..Default::default() });
    let again = round_trip(&read_model(&model(main.clone())).unwrap()).graph.unwrap();
    assert_eq!(again.initializer, main.initializer[..1]);
    assert_eq!(again.input, main.input);
    assert!(again.node[0].attribute.contains(&odd));
}
