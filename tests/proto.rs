//! `proto/onnx.proto` matches ONNX's descriptor.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto};

/// A line for every message, field and enum value.
fn lines(file: &FileDescriptorProto) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    file.message_type.iter().for_each(|message| add_message(file.package(), message, &mut lines));
    file.enum_type.iter().for_each(|values| add_enum(file.package(), values, &mut lines));
    lines
}

fn add_message(around: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{around}.{}", message.name());
    for field in &message.field {
        lines.insert(format!("{name}.{}", describe_field(message, field)));
    }
    message.nested_type.iter().for_each(|nested| add_message(&name, nested, lines));
    message.enum_type.iter().for_each(|values| add_enum(&name, values, lines));
    lines.insert(format!("message {name}"));
}

fn describe_field(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let packed = field.options.as_ref().is_some_and(|options| options.packed());
    let oneof = field.oneof_index.map(|i| message.oneof_decl[usize::try_from(i).unwrap()].name());
    format!(
        "{} = {} {:?} {:?} {} packed={packed} oneof={oneof:?}",
        field.name(),
        field.number(),
        field.label(),
        field.r#type(),
        field.type_name()
    )
}

fn add_enum(around: &str, values: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    for value in &values.value {
        lines.insert(format!("{around}.{}.{} = {}", values.name(), value.name(), value.number()));
    }
}

#[test]
fn messages_match_onnx() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let ours = protox::compile(["onnx.proto"], [folder]).unwrap();
    let [ours] = ours.file.as_slice() else { panic!("one file") };

    let script = "import sys, onnx; sys.stdout.buffer.write(onnx.ModelProto.DESCRIPTOR.file.serialized_pb)";
    let output = Command::new(support::python()).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs = FileDescriptorProto::decode(output.stdout.as_slice()).unwrap();

    let (ours, theirs) = (lines(ours), lines(&theirs));
    assert!(ours.len() > 200, "{} lines", ours.len());
    let difference =
        |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(difference(&ours, &theirs), [""; 0], "only in proto/onnx.proto");
    assert_eq!(difference(&theirs, &ours), [""; 0], "only in ONNX");
}
