//! Compiles `proto/onnx.proto` to Rust, in Rust: no system protoc is needed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use prost_types::{DescriptorProto, FileDescriptorProto};

/// Fields that are never read: removing them saves time and memory in models with many nodes.
const UNREAD: [(&str, &[&str]); 4] = [
    ("NodeProto", &["doc_string", "metadata_props", "device_configurations"]),
    ("AttributeProto", &["doc_string"]),
    ("TensorProto", &["doc_string", "metadata_props"]),
    ("ValueInfoProto", &["doc_string", "metadata_props"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/onnx.proto");
    let mut descriptors = protox::compile(["proto/onnx.proto"], ["proto"])?;
    for message in descriptors.file.iter_mut().flat_map(|file| &mut file.message_type) {
        let unread =
            UNREAD.iter().filter(|(name, _)| *name == message.name()).flat_map(|(_, fields)| *fields);
        let unread: Vec<&str> = unread.copied().collect();
        message.field.retain(|field| !unread.contains(&field.name()));
    }
    let nesting = write_nesting(descriptors.file.first().ok_or("no file was compiled")?)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("nesting.rs"), nesting)?;
    let mut config = prost_build::Config::new();
    // `Bytes` fields are slices of the buffer that is decoded: tensor data stay where the file is mapped.
    config.bytes(["."]);
    // Most attributes are a number or a few, and there are as many as nodes.
    for field in ["t", "g", "tp", "sparse_tensor"] {
        config.boxed(format!(".onnx.AttributeProto.{field}"));
    }
    config.compile_fds(descriptors)?;
    Ok(())
}

/// A list of messages, each with those of its fields that are messages: the field's number and the place of
/// its message in the list.
fn write_nesting(file: &FileDescriptorProto) -> Result<String, Box<dyn Error>> {
    let mut messages = BTreeMap::new();
    for message in &file.message_type {
        collect_messages(&format!(".{}", file.package()), message, &mut messages);
    }
    let places: BTreeMap<&str, usize> =
        messages.keys().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    let mut out = String::new();
    for (constant, name) in [("MODEL", "ModelProto"), ("TENSOR", "TensorProto")] {
        let place = places.get(format!(".onnx.{name}").as_str()).ok_or(format!("there is no {name}"))?;
        writeln!(out, "const {constant}: usize = {place};")?;
    }
    out.push_str("const NESTING: &[&[(u32, usize)]] = &[\n");
    for message in messages.values() {
        out.push_str("    &[");
        for field in &message.field {
            if let Some(place) = places.get(field.type_name()) {
                write!(out, "({}, {place}), ", field.number())?;
            }
        }
        out.push_str("],\n");
    }
    out.push_str("];\n");
    Ok(out)
}

fn collect_messages<'m>(
    around: &str,
    message: &'m DescriptorProto,
    messages: &mut BTreeMap<String, &'m DescriptorProto>,
) {
    let name = format!("{around}.{}", message.name());
    for nested in &message.nested_type {
        collect_messages(&name, nested, messages);
    }
    messages.insert(name, message);
}
