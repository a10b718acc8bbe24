//! Every element type in every encoding.

use bytes::Bytes;

use super::*;
use crate::tensor::Tensor;

fn constant(proto: TensorProto) -> Result<Tensor> {
    let mut graph = graph(vec![node("Relu", &["x"], &["y"])]);
    graph.initializer.push(proto);
    let read = read_model(&model(graph))?;
    let id = read.graph.value_ids().find(|id| read.graph.value(*id).name == "c").unwrap();
    Ok(Tensor::clone(read.graph.value(id).constant.as_ref().unwrap()))
}

#[track_caller]
fn assert_raw(proto: TensorProto, bytes: &[u8]) {
    let read = constant(proto.clone()).unwrap_or_else(|e| panic!("{proto:?}: {e}"));
    assert_eq!(read.to_raw().unwrap(), bytes, "{proto:?}");
    assert_eq!(read.dtype().to_onnx(), proto.data_type.unwrap());
}

#[track_caller]
fn assert_refused(proto: TensorProto, words: &str) {
    let error = constant(proto.clone()).expect_err(words).to_string();
    assert!(error.contains(words) && error.contains("tensor \"c\""), "{proto:?}: {error}");
}

#[test]
fn raw_data_of_every_type_are_read_as_they_are() {
    for code in 1..=28 {
        let dtype = DType::from_onnx(code).unwrap();
        if dtype == DType::String {
            continue;
        }
        let bytes: Vec<u8> = (1..=u8::try_from(dtype.byte_len(3).unwrap()).unwrap()).collect();
        assert_raw(raw("c", dtype, &[3], &bytes), &bytes);
        assert_raw(raw("c", dtype, &[0, 3], &[]), &[]);
        assert_raw(tensor("c", dtype, &[0]), &[]);
        assert_refused(raw("c", dtype, &[8], &bytes), "bytes of data");
        assert_refused(tensor("c", dtype, &[1]), "0 bytes of data");
    }
}

#[test]
fn int32_data_contain_all_small_types() {
    use DType::*;
    let cases: &[(DType, &[i32], i64, &[u8])] = &[
        (I32, &[1, -2], 2, &[1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]),
        (I16, &[1, -2], 2, &[1, 0, 0xfe, 0xff]),
        (U16, &[1, 0xfffe], 2, &[1, 0, 0xfe, 0xff]),
        (I8, &[1, -2], 2, &[1, 0xfe]),
        (U8, &[1, 254], 2, &[1, 254]),
        (Bool, &[0, 1, 7], 3, &[0, 1, 1]),
        (F16, &[0x3c00, 0xc000], 2, &[0, 0x3c, 0, 0xc0]),
        (BF16, &[0x3f80, 0xc000], 2, &[0x80, 0x3f, 0, 0xc0]),
        (F8E4M3FN, &[0x38, 0xb8], 2, &[0x38, 0xb8]),
        (F8E4M3FNUZ, &[0x40], 1, &[0x40]),
        (F8E5M2, &[0x3c], 1, &[0x3c]),
        (F8E5M2FNUZ, &[0x40], 1, &[0x40]),
        (F8E8M0, &[0x7f], 1, &[0x7f]),
        (F4E2M1, &[0x21, 3], 3, &[0x21, 3]),
        (I4, &[0xf1, 3], 3, &[0xf1, 3]),
        (F6E2M3, &[0x3f, 1, 0x20, 3, 5], 5, &[0x7f, 0, 0x0e, 5]),
        (F6E3M2, &[1, 2], 2, &[0x81, 0]),
        (U4, &[0xf1], 2, &[0xf1]),
        (I2, &[0xe4, 1], 5, &[0xe4, 1]),
        (U2, &[0xe4], 4, &[0xe4]),
    ];
    for (dtype, data, count, bytes) in cases {
        assert_raw(TensorProto { int32_data: data.to_vec(), ..tensor("c", *dtype, &[*count]) }, bytes);
    }
}

#[test]
fn wide_types_have_separate_fields() {
    let one = |dtype| tensor("c", dtype, &[1]);
    assert_raw(TensorProto { float_data: vec![1.5], ..one(DType::F32) }, &1.5_f32.to_le_bytes());
    assert_raw(TensorProto { float_data: vec![1.0, 2.0], ..one(DType::C64) }, &[0, 0, 128, 63, 0, 0, 0, 64]);
    assert_raw(TensorProto { double_data: vec![1.5], ..one(DType::F64) }, &1.5_f64.to_le_bytes());
    assert_raw(TensorProto { int64_data: vec![-3], ..one(DType::I64) }, &(-3_i64).to_le_bytes());
    assert_raw(TensorProto { uint64_data: vec![u64::MAX], ..one(DType::U64) }, &[0xff; 8]);
    assert_raw(TensorProto { uint64_data: vec![7], ..one(DType::U32) }, &[7, 0, 0, 0]);
}

#[test]
fn data_in_a_wrong_field_are_refused() {
    let one = |dtype| tensor("c", dtype, &[1]);
    assert_refused(TensorProto { float_data: vec![1.0], ..one(DType::I64) }, "float_data");
    assert_refused(TensorProto { int32_data: vec![1], ..one(DType::U32) }, "int32_data");
    assert_refused(TensorProto { int64_data: vec![1], ..one(DType::I32) }, "int64_data");
    assert_refused(TensorProto { int32_data: vec![1], ..raw("c", DType::U8, &[1], &[1]) }, "raw_data");
    assert_refused(TensorProto { int32_data: vec![64], ..one(DType::F6E2M3) }, "64 does not fit in six bits");
    assert_refused(TensorProto { float_data: vec![1.0; 2], ..one(DType::F32) }, "8 bytes of data");
}

#[test]
fn impossible_tensors_are_refused() {
    assert_refused(TensorProto { data_type: Some(0), ..tensor("c", DType::F32, &[1]) }, "element type 0");
    assert_refused(TensorProto { data_type: Some(99), ..tensor("c", DType::F32, &[1]) }, "element type 99");
    assert_refused(raw("c", DType::F32, &[-1], &[0; 4]), "size -1");
    assert_refused(raw("c", DType::F32, &[i64::MAX, i64::MAX], &[0; 4]), "too large");
    assert_refused(raw("c", DType::F32, &[1 << 61], &[0; 4]), "too large");
    let segment = Some(tensor_proto::Segment { begin: Some(0), end: Some(1) });
    assert_refused(TensorProto { segment, ..raw("c", DType::F32, &[1], &[0; 4]) }, "segmented");
}

#[test]
fn text_has_a_type_and_a_shape_and_no_elements() {
    let text = vec![Bytes::from_static(b"cat"), Bytes::from_static(b"dog")];
    let read = constant(TensorProto { string_data: text, ..tensor("c", DType::String, &[2]) }).unwrap();
    assert_eq!((read.dtype(), read.shape()), (DType::String, [2].as_slice()));
    assert_eq!(read.load().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn raw_data_are_not_copied() {
    let mut file = NamedTempFile::new().unwrap();
    let mut graph = graph(vec![node("Relu", &["x"], &["y"])]);
    graph.initializer.push(raw("c", DType::U8, &[1000], &[7; 1000]));
    file.write_all(&model(graph).encode_to_vec()).unwrap();
    let mapped = Input::Path(file.path().to_owned()).open(u64::MAX).unwrap();
    let read = decode(&mapped, ExternalFiles::new(Folder::none()), &Default::default()).unwrap();
    let constant = read.graph.value_ids().find_map(|id| read.graph.value(id).constant.clone()).unwrap();
    let bytes = constant.raw_bytes().unwrap();
    let (all, part) = (mapped.bytes().as_ptr_range(), bytes.as_ptr_range());
    assert!(all.start <= part.start && part.end <= all.end, "{part:?} outside of {all:?}");
    assert!(mapped.range_of(bytes).is_some());
}

fn sparse(values: TensorProto, indices: TensorProto, dims: &[i64]) -> Result<Tensor> {
    let mut graph = graph(vec![node("Relu", &["x"], &["y"])]);
    let (values, indices) = (Some(values), Some(indices));
    graph.sparse_initializer.push(SparseTensorProto { values, indices, dims: dims.to_vec() });
    let read = read_model(&model(graph))?;
    Ok(read.graph.value_ids().find_map(|id| read.graph.value(id).constant.clone()).unwrap())
}

fn indices(dims: &[i64], list: &[i64]) -> TensorProto {
    TensorProto { int64_data: list.to_vec(), ..tensor("", DType::I64, dims) }
}

#[test]
fn sparse_tensors_are_made_dense() {
    let values = || raw("c", DType::U16, &[2], &[1, 2, 3, 4]);
    let dense = [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4];
    let linear = sparse(values(), indices(&[2], &[1, 5]), &[2, 3]).unwrap();
    assert_eq!(linear.to_raw().unwrap().as_ref(), dense);
    let by_axis = sparse(values(), indices(&[2, 2], &[0, 1, 1, 2]), &[2, 3]).unwrap();
    assert_eq!(by_axis.to_raw().unwrap().as_ref(), dense);
    assert_eq!(by_axis.shape(), [2, 3]);

    for (list, dims, words) in [
        (indices(&[2], &[5, 1]), &[2, 3][..], "ascend"),
        (indices(&[2], &[1, 1]), &[2, 3], "ascend"),
        (indices(&[2], &[1, 6]), &[2, 3], "out of range"),
        (indices(&[2], &[-1, 5]), &[2, 3], "out of range"),
        (indices(&[2, 2], &[0, 1, 1, 3]), &[2, 3], "out of range"),
        (indices(&[3], &[0, 1, 2]), &[2, 3], "2 values"),
        (indices(&[2], &[0, 1]), &[1], "values of shape"),
        (indices(&[2], &[0, 1]), &[1 << 20, 1 << 20], "too large"),
    ] {
        let error = sparse(values(), list, dims).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Protobuf allows a message in pieces.
#[test]
fn a_graph_in_pieces_is_one() {
    let whole = graph(vec![node("Relu", &["x"], &["v"]), node("Add", &["v", "c"], &["y"])]);
    let whole = GraphProto { initializer: vec![raw("c", DType::F32, &[2], &[0; 8])], ..whole };
    let mut first = model(whole.clone());
    let mut second = ModelProto { graph: Some(GraphProto::default()), ..ModelProto::default() };
    let (graph, rest) = (first.graph.as_mut().unwrap(), second.graph.as_mut().unwrap());
    rest.node.extend(graph.node.pop());
    rest.initializer = std::mem::take(&mut graph.initializer);
    rest.output = std::mem::take(&mut graph.output);
    let pieces = read_bytes(&[first.encode_to_vec(), second.encode_to_vec()].concat()).unwrap();
    assert_eq!(pieces.graph.to_string(), read_model(&model(whole)).unwrap().graph.to_string());
}

#[test]
fn damage_in_a_node_is_a_parse_error() {
    // A node whose first input is not UTF-8.
    let mut damaged = model(graph(vec![node("Relu", &["x"], &["y"])])).encode_to_vec();
    let position = damaged.windows(3).position(|bytes| bytes == [0x0a, 1, b'x']).unwrap();
    damaged[position + 2] = 0xff;
    assert_eq!(read_bytes(&damaged).unwrap_err().kind(), ErrorKind::Parse);
}
