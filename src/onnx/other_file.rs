//! Files of other formats instead of ONNX models.

use std::sync::Arc;

use prost::DecodeError;
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::common::count::count;
use crate::error::{Error, ErrorKind};
use crate::tensor::SourceBytes;

/// The first bytes of files that users mistake for ONNX models.
const OTHER_FILES: &[(usize, &[u8], &str)] = &[
    (0, b"version https://git-lfs", "it is a pointer of Git LFS: fetch the model with `git lfs pull`"),
    (
        0,
        b"PK\x03\x04",
        "it is a ZIP archive: unpack the model, or if it is a checkpoint of PyTorch, export it with torch.onnx.export",
    ),
    (
        0,
        b"\x80\x02",
        "it is a Python pickle, as PyTorch's old checkpoints are: export the model with torch.onnx.export",
    ),
    (
        0,
        b"\x1f\x8b",
        "it is compressed with gzip: unpack it with `gunzip`, or pipe it: gunzip -c FILE | onnx2ncnn - out.param out.bin",
    ),
    (0, b"\xfd7zXZ", "it is compressed with xz: unpack it"),
    (0, b"\x28\xb5\x2f\xfd", "it is compressed with zstd: unpack it"),
    (4, b"ORTM", "it is in onnxruntime's own format: convert the original ONNX model"),
    (4, b"TFL3", "it is a TensorFlow Lite model: convert it with tf2onnx"),
    (0, b"\x89HDF", "it is an HDF5 file, as Keras's models are: convert it with tf2onnx"),
    (
        0,
        b"GGUF",
        "it is a GGUF file, which transformers reads: python3 -c 'import transformers as t; [kind.from_pretrained(\".\", gguf_file=\"FILE\").save_pretrained(\"model\") for kind in (t.AutoModelForCausalLM, t.AutoTokenizer)]' && optimum-cli export onnx --model model --task text-generation-with-past exported && onnx2ncnn exported -o bundle --weights int4",
    ),
    (0, b"7767517", "it is an ncnn model already"),
];

/// The help for a page instead of a file.
const PAGE: &str = "it is a page of HTML: download the file itself, on GitHub and Hugging Face from the address with `raw` or `resolve`";

/// The first byte of a model: the key of its `ir_version`, which every library writes first.
const IR_VERSION: u8 = 0x08;

/// The fields of ModelProto.
const FIELDS: [u32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26];

/// Returns the error of a file without a model, with advice for those that users mistake for one.
pub(super) fn not_a_model(source: &Arc<SourceBytes>, cause: Option<DecodeError>) -> Error {
    if source.is_empty() {
        return Error::new(ErrorKind::Parse, "the file is empty");
    }
    let bytes = source.bytes();
    if ends_early(&bytes) {
        let message = format!("the file ends early, after {}", count(bytes.len(), "byte"));
        return Error::new(ErrorKind::Parse, message).help("download or copy it again");
    }
    let error = Error::new(ErrorKind::Parse, "no ONNX model could be decoded");
    let error = match cause {
        Some(cause) => error.caused_by(cause),
        None => error,
    };
    let begins =
        |(at, magic, _): &&(usize, &[u8], &str)| bytes.get(*at..).is_some_and(|b| b.starts_with(magic));
    let text = bytes.trim_ascii_start().strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes.trim_ascii_start());
    match OTHER_FILES.iter().find(begins) {
        Some((_, _, help)) => error.help(*help),
        None if text.starts_with(b"<") => error.help(PAGE),
        None => error,
    }
}

/// Returns whether the last field of a model ends beyond the file, as in a download that was broken off.
fn ends_early(mut rest: &[u8]) -> bool {
    let is_model = rest.first() == Some(&IR_VERSION);
    while is_model && !rest.is_empty() {
        let Ok((field, wire_type)) = decode_key(&mut rest) else { return false };
        if !FIELDS.contains(&field) {
            return false;
        }
        match (wire_type, decode_varint(&mut rest)) {
            (WireType::Varint, Ok(_)) => {}
            (WireType::LengthDelimited, Ok(length)) => {
                let end = usize::try_from(length).ok().and_then(|length| rest.get(length..));
                let Some(end) = end else { return true };
                rest = end;
            }
            _ => return false,
        }
    }
    false
}
