//! Constants in files next to the model.

use std::fs;
use std::path::Path;

use super::*;
use crate::tensor::Tensor;

fn external(dtype: DType, dims: &[i64], entries: &[(&str, &str)]) -> TensorProto {
    let entry = |(key, value): &(&str, &str)| StringStringEntryProto { key: text(key), value: text(value) };
    TensorProto {
        data_location: Some(tensor_proto::DataLocation::External.into()),
        external_data: entries.iter().map(entry).collect(),
        ..tensor("c", dtype, dims)
    }
}

fn write_model(path: &Path, constant: TensorProto) {
    let mut graph = graph(vec![node("Relu", &["x"], &["y"])]);
    graph.initializer.push(constant);
    fs::write(path, model(graph).encode_to_vec()).unwrap();
}

fn read_constant(path: &Path) -> Result<Tensor> {
    read_constant_with(path, &ReadOptions::default())
}

fn read_constant_with(path: &Path, options: &ReadOptions) -> Result<Tensor> {
    let read = read_from(&Input::Path(path.to_owned()), options)?;
    Ok(read.graph.value_ids().find_map(|id| read.graph.value(id).constant.clone()).unwrap())
}

/// Returns a folder with `data` of ten bytes, and a model that reads a constant of four bytes from it.
fn folder(entries: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    let model = folder.path().join("model.onnx");
    write_model(&model, external(DType::U8, &[4], entries));
    (folder, model)
}

#[test]
fn offset_and_length_may_be_left_out() {
    for (entries, bytes) in [
        (&[("location", "data")][..], [0, 1, 2, 3]),
        (&[("location", "data"), ("offset", "3")], [3, 4, 5, 6]),
        (&[("location", "data"), ("offset", "6"), ("length", "4")], [6, 7, 8, 9]),
        (&[("location", "./data"), ("length", "4"), ("basepath", "/nowhere")], [0, 1, 2, 3]),
        (&[("location", "data"), ("checksum", "494179714A6CD627239DFEDEDF2DE9EF994CAF03")], [0, 1, 2, 3]),
    ] {
        let (_folder, model) = folder(entries);
        let constant = read_constant(&model).unwrap();
        assert_eq!(constant.to_raw().unwrap().as_ref(), bytes, "{entries:?}");
        assert!(constant.raw_bytes().is_none(), "it must stay in its file");
    }
}

#[test]
fn errors_name_the_fault() {
    for (entries, kind, words) in [
        (&[("offset", "0")][..], ErrorKind::Invalid, "inside the model's folder"),
        (&[("location", "")], ErrorKind::Invalid, "inside the model's folder"),
        (&[("location", "../data")], ErrorKind::Invalid, "inside the model's folder"),
        (&[("location", "sub/../../data")], ErrorKind::Invalid, "inside the model's folder"),
        (&[("location", "/etc/passwd")], ErrorKind::Invalid, "inside the model's folder"),
        (&[("location", "da\0ta")], ErrorKind::Invalid, "inside the model's folder"),
        (&[("location", ".")], ErrorKind::Invalid, "not a regular file"),
        (&[("location", "missing")], ErrorKind::Io, "missing"),
        (&[("location", "data"), ("offset", "7")], ErrorKind::Invalid, "has 10 bytes"),
        (&[("location", "data"), ("offset", "18446744073709551615")], ErrorKind::Invalid, "has 10 bytes"),
        (&[("location", "data"), ("offset", "-1")], ErrorKind::Invalid, "offset \"-1\""),
        (&[("location", "data"), ("length", "x")], ErrorKind::Invalid, "length \"x\""),
        (&[("location", "data"), ("length", "5")], ErrorKind::Invalid, "5 bytes of data"),
        (&[("location", "data"), ("length", "18446744073709551615")], ErrorKind::Invalid, "has 10 bytes"),
        (&[("location", "data"), ("checksum", "00")], ErrorKind::Invalid, "SHA-1"),
    ] {
        let (_folder, model) = folder(entries);
        let error = read_constant(&model).expect_err(words);
        assert_eq!(error.kind(), kind, "{error}");
        let error = error.to_string();
        assert!(error.contains(words) && error.contains("tensor \"c\""), "{error}");
    }
}

#[test]
fn data_without_a_location_kind_are_not_external() {
    let (folder, model) = folder(&[]);
    let constant = external(DType::U8, &[4], &[("location", "data")]);
    write_model(&model, TensorProto { data_location: None, ..constant });
    assert_eq!(read_constant(&model).unwrap_err().kind(), ErrorKind::Invalid);
    drop(folder);
}

#[cfg(unix)]
#[test]
fn links_must_stay_in_the_folder() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::NamedTempFile::new().unwrap();
    let (folder, model) = folder(&[("location", "link")]);
    symlink(outside.path(), folder.path().join("link")).unwrap();
    let error = read_constant(&model).unwrap_err();
    assert!(error.to_string().contains("leads out"), "{error}");

    fs::remove_file(folder.path().join("link")).unwrap();
    symlink("data", folder.path().join("link")).unwrap();
    assert!(read_constant(&model).is_ok());
}

/// `snapshots/v/{model.onnx,data}` are links into `blobs`.
#[cfg(unix)]
#[test]
fn a_cache_of_links_is_read() {
    use std::os::unix::fs::symlink;

    let (folder, model) = folder(&[("location", "data")]);
    let (blobs, snapshot) = (folder.path().join("blobs"), folder.path().join("snapshots/v"));
    fs::create_dir(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    fs::rename(&model, blobs.join("1a")).unwrap();
    fs::rename(folder.path().join("data"), blobs.join("2b")).unwrap();
    symlink("../../blobs/1a", snapshot.join("model.onnx")).unwrap();
    symlink("../../blobs/2b", snapshot.join("data")).unwrap();
    let model = snapshot.join("model.onnx");
    assert!(read_constant(&model).is_ok());
    let options = ReadOptions { data_dir: Some(snapshot.clone()), ..ReadOptions::default() };
    assert!(read_constant_with(&model, &options).is_ok());
}

#[cfg(unix)]
#[test]
fn a_pipe_is_not_waited_for() {
    let (folder, model) = folder(&[("location", "pipe")]);
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        let error = read_constant(&model).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn data_may_lie_in_another_folder() {
    let (folder, model) = folder(&[("location", "data")]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(folder.path().join("data"), elsewhere.path().join("data")).unwrap();
    assert_eq!(read_constant(&model).unwrap_err().kind(), ErrorKind::Io);
    let options = ReadOptions { data_dir: Some(elsewhere.path().to_owned()), ..ReadOptions::default() };
    assert!(read_constant_with(&model, &options).is_ok());
}

#[test]
fn a_model_may_have_more_files_than_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut main = graph(vec![node("Relu", &["x"], &["y"])]);
    for i in 0..1500 {
        let location = format!("data{i}");
        fs::write(folder.path().join(&location), [7]).unwrap();
        let constant = external(DType::U8, &[1], &[("location", &location)]);
        main.initializer.push(TensorProto { name: text(&location), ..constant });
    }
    let path = folder.path().join("model.onnx");
    fs::write(&path, model(main).encode_to_vec()).unwrap();
    let read = read_from(&Input::Path(path), &ReadOptions::default()).unwrap();
    let constants = read.graph.value_ids().filter_map(|id| read.graph.value(id).constant.as_ref());
    assert!(constants.into_iter().all(|constant| constant.to_raw().unwrap().as_ref() == [7]));
}

#[test]
fn a_file_that_changes_is_noticed() {
    let (folder, model) = folder(&[("location", "data")]);
    let constant = read_constant(&model).unwrap();
    fs::write(folder.path().join("data"), [0; 4]).unwrap();
    assert_eq!(constant.to_raw().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn models_from_pipes_have_no_folder() {
    let (_folder, model) = folder(&[("location", "data")]);
    let mapped = Input::Path(model).open(u64::MAX).unwrap();
    let error = decode(&mapped, ExternalFiles::new(Folder::none()), &Default::default()).unwrap_err();
    assert!(error.help_text().unwrap().contains("--data-dir"), "{error}");
}

#[test]
fn data_in_memory_are_not_copied() {
    let content = bytes::Bytes::from_static(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let digest = "494179714A6CD627239DFEDEDF2DE9EF994CAF03";
    let constant = |entries: &[(&str, &str)], data: ModelBytes| {
        let mut graph = graph(vec![node("Relu", &["x"], &["y"])]);
        graph.initializer.push(external(DType::U8, &[4], entries));
        let data = ModelBytes { model: model(graph).encode_to_vec().into(), ..data };
        let read = read_from(&Input::from(data), &ReadOptions::default())?;
        assert!(read.sources.files.is_empty());
        Ok(read.graph.value_ids().find_map(|id| read.graph.value(id).constant.clone()).unwrap())
    };
    for (location, name) in [("data", "data"), ("./data", "data"), ("a/data", "a//data"), ("data", "./data")]
    {
        let data = ModelBytes::new(Vec::new()).external_data(name, content.clone());
        let entries = [("location", location), ("offset", "3"), ("checksum", digest)];
        let read: Result<Tensor> = constant(&entries, data);
        assert!(std::ptr::eq(read.unwrap().raw_bytes().unwrap().as_ref(), &content[3..7]), "{location}");
    }
    for (entries, words) in [
        (&[("location", "../data")][..], "inside the model's folder"),
        (&[("location", "other")], "not read from a file"),
        (&[("location", "data"), ("offset", "7")], "data has 10 bytes"),
        (&[("location", "data"), ("offset", "18446744073709551615")], "data has 10 bytes"),
        (&[("location", "data"), ("checksum", "00")], "SHA-1"),
    ] {
        let data = ModelBytes::new(Vec::new()).external_data("data", content.clone());
        let error = constant(entries, data).unwrap_err();
        assert!(error.to_string().contains(words) && error.at().file.is_none(), "{error}");
    }
}

#[test]
fn attributes_may_be_external() {
    let (_folder, path) = folder(&[]);
    let value = AttributeProto {
        name: text("value"),
        r#type: Some(AttributeType::Tensor.into()),
        t: Some(Box::new(external(DType::U8, &[4], &[("location", "data"), ("offset", "1")]))),
        ..Default::default()
    };
    let constant = NodeProto { attribute: vec![value], ..node("Constant", &[], &["y"]) };
    fs::write(&path, model(graph(vec![constant])).encode_to_vec()).unwrap();
    let read = read_from(&Input::Path(path), &ReadOptions::default()).unwrap();
    let (_, node) = read.graph.nodes().next().unwrap();
    let crate::graph::Attribute::Tensor(tensor) = &node.attributes[&"value".into()] else {
        panic!("{node:?}")
    };
    assert_eq!(tensor.to_raw().unwrap().as_ref(), [1, 2, 3, 4]);
}
