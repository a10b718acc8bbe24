//! Damaged models, and bytes that are not a model.

use std::path::PathBuf;

use super::*;

/// A model with most kinds of messages.
fn sample() -> Vec<u8> {
    let body = GraphProto {
        node: vec![node("Add", &["x", "c"], &["z"])],
        output: vec![info("z", vec![dimension(2)])],
        ..Default::default()
    };
    let branch = NodeProto {
        name: text("branch"),
        attribute: vec![body_attribute("then_branch", body.clone()), body_attribute("else_branch", body)],
        ..node("If", &["x"], &["t"])
    };
    let call = NodeProto {
        domain: text("local"),
        attribute: vec![int_attribute("axis", 1)],
        ..node("F", &["t"], &["y"])
    };
    let mut main = graph(vec![branch, call]);
    main.initializer = vec![
        raw("c", DType::F32, &[2], &[0; 8]),
        TensorProto { int32_data: vec![1, -1], ..tensor("d", DType::I8, &[2]) },
    ];
    main.sparse_initializer = vec![SparseTensorProto {
        values: Some(raw("s", DType::U8, &[1], &[5])),
        indices: Some(TensorProto { int64_data: vec![1], ..tensor("", DType::I64, &[1]) }),
        dims: vec![2],
    }];
    main.value_info = vec![info("t", vec![named_dimension("N")])];
    let function = FunctionProto {
        name: text("F"),
        domain: text("local"),
        input: texts(&["a"]),
        output: texts(&["b"]),
        attribute: texts(&["axis"]),
        node: vec![node("Relu", &["a"], &["b"])],
        opset_import: vec![opset("", 21)],
        ..Default::default()
    };
    ModelProto { functions: vec![function], ..model(main) }.encode_to_vec()
}

#[test]
fn a_model_cut_anywhere_is_refused_or_read() {
    let bytes = sample();
    assert!(read_bytes(&bytes).is_ok());
    for len in 0..bytes.len() {
        // The function comes last: without it, its operator set and operators are unknown.
        if let Ok(model) = read_bytes(&bytes[..len]) {
            model.graph.check().unwrap();
        }
    }
}

#[test]
fn a_model_with_any_byte_changed_is_refused_or_read() {
    let bytes = sample();
    for at in 0..bytes.len() {
        for change in [0x01, 0x08, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Ok(model) = read_bytes(&changed) {
                model.graph.check().unwrap_or_else(|e| panic!("byte {at} ^ {change:#x}: {e}"));
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(500))]

    #[test]
    fn many_changes_do_not_panic(changes in proptest::collection::vec((0..10_000_usize, 0..=255_u8), 1..12)) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        if let Ok(model) = read_bytes(&bytes) {
            model.graph.check().unwrap();
        }
    }
}

#[test]
fn other_files_are_recognized() {
    let cases: &[(&[u8], &str, &str)] = &[
        (b"", "the file is empty", ""),
        (b"hello, world\n", "no ONNX model", ""),
        (b"PK\x03\x04 and so on", "no ONNX model", "torch.onnx.export"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "no ONNX model", "git lfs pull"),
        (b"\x1c\0\0\0TFL3", "no ONNX model", "TensorFlow Lite"),
        (b"GGUF\x03\0\0\0", "no ONNX model", "gguf_file=\"FILE\""),
        (b"7767517\n3 3\n", "no ONNX model", "ncnn model already"),
        (b"\x08\x0a", "no ONNX model", ""),
    ];
    for (bytes, words, help) in cases {
        let error = read_bytes(bytes).expect_err(words);
        assert_eq!(error.kind(), ErrorKind::Parse, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.help_text().unwrap_or_default().contains(help), "{error}");
    }
}

#[test]
fn files_that_cannot_be_opened_are_io_errors() {
    for path in ["/nowhere/model.onnx", "/"] {
        let error = read_from(&Input::Path(PathBuf::from(path)), &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(error.at().file.as_deref(), Some(path.as_ref()), "{error}");
    }
}

#[test]
fn a_model_above_the_limit_is_refused() {
    let mut file = NamedTempFile::new().unwrap();
    let bytes = sample();
    file.write_all(&bytes).unwrap();
    let len = u64::try_from(bytes.len()).unwrap();
    let read_below = |max_size| {
        read_from(&Input::Path(file.path().to_owned()), &ReadOptions { max_size, ..ReadOptions::default() })
    };
    assert!(read_below(len).is_ok());
    assert_eq!(read_below(len - 1).unwrap_err().kind(), ErrorKind::Limit);
}

/// The first byte of a model: the version of its format.
#[cfg(unix)]
const FIRST_BYTE: u8 = 8;

#[cfg(unix)]
#[test]
fn pipes_are_read_to_their_end_or_the_limit() {
    // Neither has a first field: the devices are not read to the limit.
    for device in ["/dev/zero", "/dev/null"] {
        let input = Input::Path(PathBuf::from(device));
        let error = read_from(&input, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Parse, "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let writer = {
        let pipe = pipe.clone();
        // The reader stops at the limit, and the rest cannot be written.
        std::thread::spawn(move || drop(std::fs::write(pipe, vec![FIRST_BYTE; 1 << 22])))
    };
    let options = ReadOptions { max_size: 1 << 20, ..ReadOptions::default() };
    let error = read_from(&Input::Path(pipe), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    writer.join().unwrap();
}
