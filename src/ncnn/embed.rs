//! Files to compile a net into a program, as `ncnn2mem` writes them: headers of indices and of the bytes.

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::Net;
use crate::common::output::{Out, Staged, Target, Whole};
use crate::error::{Error, Result};

/// The number of bytes in a line of an array.
const BYTES_PER_LINE: usize = 16;

/// The number of bytes that are read at a time, whole lines of an array.
const PART: u64 = 1 << 14;

/// The alignment of an array that the runtime reads in place as values of four bytes.
const ALIGNED: &str = "
#ifdef _MSC_VER
__declspec(align(4))
#else
__attribute__((aligned(4)))
#endif
";

/// Additional files to write for a net.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedding {
    /// The binary form of the `.param` file.
    pub param_bin: Option<PathBuf>,
    /// A header with the indices of layers and blobs by name, for the binary form without names.
    pub id_header: Option<PathBuf>,
    /// A header with the bytes of the binary `.param` file and of the `.bin` file as arrays.
    pub mem_header: Option<PathBuf>,
}

impl Embedding {
    /// Writes the files next to their targets. `bin` is the staged `.bin` file.
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

/// Returns the name of a file as a C identifier.
fn identifier(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = escape(&name);
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("n_{name}") } else { name }
}

/// Returns the name with each byte but ASCII letters and digits replaced by `_`.
fn escape(name: &str) -> String {
    name.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' }).collect()
}

fn guard(header: &str) -> String {
    format!("NCNN_INCLUDE_GUARD_{header}")
}

/// Returns a header of constants `LAYER_name` and `BLOB_name`, in a namespace in C++.
fn id_header(net: &Net, header: &str, namespace: &str) -> String {
    let guard = guard(header);
    let mut text =
        format!("#ifndef {guard}\n#define {guard}\n#ifdef __cplusplus\nnamespace {namespace} {{\n#endif\n");
    let mut taken = BTreeSet::new();
    let layers = net.layers.iter().map(|layer| layer.name.as_str());
    for (index, name) in layers.enumerate() {
        text.push_str(&constant("LAYER", name, index, &mut taken));
    }
    for (index, blob) in net.tops().enumerate() {
        text.push_str(&constant("BLOB", &net.blob(blob).name, index, &mut taken));
    }
    text.push_str(&format!("#ifdef __cplusplus\n}} // namespace {namespace}\n#endif\n#endif // {guard}\n"));
    text
}

/// Returns a line of a header. Names with the same identifier get a numeric suffix.
fn constant(kind: &str, name: &str, index: usize, taken: &mut BTreeSet<String>) -> String {
    let first = format!("{kind}_{}", escape(name));
    let mut unique = first.clone();
    let mut suffix = index;
    while !taken.insert(unique.clone()) {
        unique = format!("{first}_{suffix}");
        suffix += 1;
    }
    format!("static const int {unique} = {index};\n")
}

fn write_array(out: &mut Out, name: &str, mut bytes: impl Read) -> Result<()> {
    writeln!(out, "{ALIGNED}static const unsigned char {name}[] = {{").map_err(failed)?;
    let (mut part, mut text, mut empty) = (Vec::new(), String::new(), true);
    loop {
        part.clear();
        let read = bytes.by_ref().take(PART).read_to_end(&mut part);
        if read.map_err(|error| Error::io("reading failed", error))? == 0 {
            break;
        }
        empty = false;
        text.clear();
        for line in part.chunks(BYTES_PER_LINE) {
            line.iter().for_each(|byte| text.push_str(&format!("0x{byte:02x},")));
            text.push('\n');
        }
        out.write_all(text.as_bytes()).map_err(failed)?;
    }
    // C has no empty arrays.
    let rest = if empty { "0x00,\n};\n" } else { "};\n" };
    out.write_all(rest.as_bytes()).map_err(failed)
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

    /// Input `in/0`, and Softmax layers with these names.
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
    fn constants_are_unique() {
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
    fn all_files_are_written_and_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let net = net(&["y"]);
        let embedding = Embedding {
            param_bin: Some(path("m.param.bin")),
            id_header: Some(path("m.id.h")),
            mem_header: Some(path("m.mem.h")),
        };
        let (files, _) = net.stage(&path("m.param"), &path("m.bin"), &embedding, None).unwrap();
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
