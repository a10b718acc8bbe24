//! Nets that are read from their files.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use onnx2ncnn::Refusal;
use onnx2ncnn::error::{Error, ErrorKind, Errors};
use onnx2ncnn::ncnn::{LayerName, Net};

use super::terminal::{BAD, HELP, labelled, list, printable};

/// The maximum number of listed faults, without -v.
const MAX_FAULTS: usize = 40;

/// Returns the path of the `.bin` file of a net by that of its `.param` file, or of the binary form,
/// `.param.bin`.
pub(super) fn bin_next_to(param: &Path) -> PathBuf {
    let is_binary = param.extension().is_some_and(|extension| extension == "bin");
    let text = if is_binary { param.with_extension("") } else { param.to_owned() };
    text.with_extension("bin")
}

/// Reads a net; the errors have its file.
pub(super) fn read_net(param: &Path, bin: &Path) -> Result<Net, Refusal> {
    read_net_by(param, bin, Net::read)
}

/// Reads a net by a function; the errors have its file.
pub(super) fn read_net_by(
    param: &Path,
    bin: &Path,
    read_bytes: impl FnOnce(&[u8], Bytes) -> std::result::Result<Net, Errors>,
) -> Result<Net, Refusal> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| Error::io("the file cannot be read", error).in_file(path))
    };
    Ok(read_bytes(&read(param)?, read(bin)?.into()).map_err(|errors| errors.in_file(param))?)
}

/// Returns whether a file could not be read at all.
pub(super) fn is_unreadable(refusal: &Refusal) -> bool {
    refusal.iter().any(|error| error.kind() == ErrorKind::Io)
}

/// Describes the faults of a net: a line for each, and its help.
pub(super) fn describe_faults(refusal: &Refusal, verbose: bool) -> String {
    let mut text = String::new();
    let faults: Vec<&Error> = refusal.iter().collect();
    list(&mut text, "", &faults, if verbose { usize::MAX } else { MAX_FAULTS }, |text, error| {
        let part = error.at().part.as_ref().map(|part| format!("{}: ", printable(part)));
        let message = part.unwrap_or_default() + &printable(error.message());
        labelled(text, BAD, "error", &message);
        if let Some(help) = error.help_text() {
            text.push_str("  ");
            labelled(text, HELP, "help", &printable(help));
        }
    });
    text
}

/// Returns the type and the name of a layer, as in messages.
pub(super) fn display_layer(layer: &LayerName) -> String {
    format!("{} \"{}\"", layer.type_name, printable(&layer.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bin_lies_next_to_the_param() {
        for (param, bin) in
            [("a/net.param", "a/net.bin"), ("net.param.bin", "net.bin"), ("m.ncnn.param", "m.ncnn.bin")]
        {
            assert_eq!(bin_next_to(Path::new(param)), Path::new(bin));
        }
    }
}
