//! Files to compile a net into a program, as `ncnn2mem` gives them: a header of numbers by names, and one of the bytes.

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::Net;
use crate::common::output::{Out, Staged, Target, Whole};
use crate::error::{Error, Result};

/// Bytes in a line of an array.
const BYTES_A_LINE: usize = 16;

/// Before an array whose bytes the runtime reads as numbers of four bytes, where they lie.
const ALIGNED: &str = "
#ifdef _MSC_VER
__declspec(align(4))
#else
__attribute__((aligned(4)))
#endif
";

/// Further files that a net is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedding {
    /// The binary form of the `.param` file.
    pub param_bin: Option<PathBuf>,
    /// A header with the numbers of layers and blobs by their names, for what has none but numbers.
    pub id_header: Option<PathBuf>,
    /// A header with the bytes of the binary `.param` file and of the `.bin` file as arrays.
    pub mem_header: Option<PathBuf>,
}

impl Embedding {
    /// Writes the files beside their places. `bin` is the other half of the net.
    pub(super) fn stage(&self, net: &Net, param_path: &Path, bin: &(Target, Whole)) -> Result<Staged> {
        let mut files = Staged::new();
        if *self == Embedding::default() {
            return Ok(files);
        }
        let binary = net.binary_param()?;
        let mut add = |path: &Path, content: &dyn Fn(&mut Out) -> Result<()>| -> Result<()> {
            let target = Target::new(path)?;
            let whole = target.write(content)?;
            files.push((target, whole));
            Ok(())
        };
        if let Some(path) = &self.param_bin {
            add(path, &|out| out.write_all(&binary).map_err(failed))?;
        }
        if let Some(path) = &self.id_header {
            add(path, &|out| {
                let text = id_header(net, &identifier(path), &format!("{}_id", identifier(param_path)));
                out.write_all(text.as_bytes()).map_err(failed)
            })?;
        }
        if let Some(path) = &self.mem_header {
            let param_array = self
                .param_bin
                .as_deref()
                .map_or_else(|| format!("{}_bin", identifier(param_path)), identifier);
            let (bin, whole) = bin;
            let mut bin_array = identifier(bin.named());
            if bin_array == param_array {
                bin_array.push_str("_weights");
            }
            add(path, &|out| {
                let guard = guard(&identifier(path));
                write!(out, "#ifndef {guard}\n#define {guard}\n").map_err(failed)?;
                write_array(out, &param_array, binary.as_slice())?;
                write_array(out, &bin_array, BufReader::new(whole.open()?))?;
                writeln!(out, "\n#endif // {guard}").map_err(failed)
            })?;
        }
        Ok(files)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("writing failed", error)
}

/// The name of a file as an identifier of C: what is not a letter or digit becomes `_`, and a digit does not stand first.
fn identifier(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let word = word(&name);
    if word.starts_with(|c: char| c.is_ascii_digit()) { format!("n_{word}") } else { word }
}

/// The bytes of a name as they may stand in an identifier.
fn word(name: &str) -> String {
    name.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' }).collect()
}

fn guard(header: &str) -> String {
    format!("NCNN_INCLUDE_GUARD_{header}")
}

/// Constants `LAYER_name` and `BLOB_name`, in a namespace where that is C++.
fn id_header(net: &Net, header: &str, namespace: &str) -> String {
    let guard = guard(header);
    let mut text =
        format!("#ifndef {guard}\n#define {guard}\n#ifdef __cplusplus\nnamespace {namespace} {{\n#endif\n");
    let mut taken = BTreeSet::new();
    let layers = net.layers.iter().map(|layer| layer.name.as_str());
    for (number, name) in layers.enumerate() {
        text.push_str(&constant("LAYER", name, number, &mut taken));
    }
    for (number, blob) in net.tops().enumerate() {
        text.push_str(&constant("BLOB", &net.blob(blob).name, number, &mut taken));
    }
    text.push_str(&format!("#ifdef __cplusplus\n}} // namespace {namespace}\n#endif\n#endif // {guard}\n"));
    text
}

/// A line of a header. Names that differ in what no identifier has are told apart by a number.
fn constant(kind: &str, name: &str, number: usize, taken: &mut BTreeSet<String>) -> String {
    let first = format!("{kind}_{}", word(name));
    let mut unique = first.clone();
    let mut copy = number;
    while !taken.insert(unique.clone()) {
        unique = format!("{first}_{copy}");
        copy += 1;
    }
    format!("static const int {unique} = {number};\n")
}

fn write_array(out: &mut Out, name: &str, mut bytes: impl Read) -> Result<()> {
    writeln!(out, "{ALIGNED}static const unsigned char {name}[] = {{").map_err(failed)?;
    let mut part = vec![0; BYTES_A_LINE << 10];
    let mut text = String::new();
    let mut empty = true;
    loop {
        let read = fill(&mut bytes, &mut part)?;
        let Some(filled) = part.get(..read).filter(|filled| !filled.is_empty()) else { break };
        empty = false;
        text.clear();
        for line in filled.chunks(BYTES_A_LINE) {
            line.iter().for_each(|byte| text.push_str(&format!("0x{byte:02x},")));
            text.push('\n');
        }
        out.write_all(text.as_bytes()).map_err(failed)?;
    }
    // C has no arrays without elements.
    let rest = if empty { "0x00,\n};\n" } else { "};\n" };
    out.write_all(rest.as_bytes()).map_err(failed)
}

/// Reads until the buffer is full or nothing is left.
fn fill(bytes: &mut impl Read, part: &mut [u8]) -> Result<usize> {
    let mut read = 0;
    while let Some(rest) = part.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match bytes.read(rest).map_err(|error| Error::io("reading failed", error))? {
            0 => break,
            n => read += n,
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ncnn::layer::Softmax;

    #[test]
    fn names_become_identifiers() {
        for (path, name) in [
            ("a/model.ncnn.param", "model_ncnn_param"),
            ("3d-net.bin", "n_3d_net_bin"),
            ("ä.h", "___h"),
            ("net 2.h", "net_2_h"),
        ] {
            assert_eq!(identifier(Path::new(path)), name, "{path}");
        }
    }

    /// `in/0`, and Softmax layers called `names`.
    fn net(names: &[&str]) -> Net {
        let mut net = Net::default();
        let mut blob = net.push_input("in/0", &[2]);
        for name in names {
            blob = net.push(name, Softmax { axis: 0, fixbug0: 1 }, &[blob], &[2]);
        }
        net.push_output(names.last().unwrap(), blob);
        net
    }

    #[test]
    fn constants_are_told_apart() {
        let text = id_header(&net(&["in.0", "in:0", "in_0_2", "y"]), "h", "m_id");
        let constants: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("static const int ")).collect();
        assert_eq!(
            constants,
            [
                "LAYER_in_0 = 0;",
                "LAYER_in_0_1 = 1;",
                "LAYER_in_0_2 = 2;",
                "LAYER_in_0_2_3 = 3;",
                "LAYER_y = 4;",
                "BLOB_in_0 = 0;",
                "BLOB_in_0_1 = 1;",
                "BLOB_in_0_2 = 2;",
                "BLOB_in_0_2_3 = 3;",
                "BLOB_y = 4;",
            ]
        );
        assert!(text.contains("namespace m_id {") && text.contains("#define NCNN_INCLUDE_GUARD_h\n"));
    }

    #[test]
    fn all_files_are_there_and_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let net = net(&["y"]);
        let embedding = Embedding {
            param_bin: Some(path("m.param.bin")),
            id_header: Some(path("m.id.h")),
            mem_header: Some(path("m.mem.h")),
        };
        let (files, _) = net.stage(&path("m.param"), &path("m.bin"), &embedding).unwrap();
        crate::common::output::put_all(files).unwrap();
        assert_eq!(fs::read(path("m.param.bin")).unwrap(), net.binary_param().unwrap());
        assert!(fs::read_to_string(path("m.id.h")).unwrap().contains("namespace m_param_id {"));
        let text = fs::read_to_string(path("m.mem.h")).unwrap();
        let array = |name: &str| -> Vec<u8> {
            let (_, rest) = text.split_once(&format!("static const unsigned char {name}[] = {{")).unwrap();
            let (bytes, _) = rest.split_once("};").unwrap();
            let bytes = bytes.split(',').map(str::trim).filter(|byte| !byte.is_empty());
            bytes.map(|byte| u8::from_str_radix(byte.strip_prefix("0x").unwrap(), 16).unwrap()).collect()
        };
        assert_eq!(array("m_param_bin"), net.binary_param().unwrap());
        assert_eq!(array("m_bin"), [0], "an array must have elements");
        assert_eq!(text.matches("aligned(4)").count(), 2);
    }
}
