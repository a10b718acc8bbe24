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
/// `.param.bin`. `net.small.param` may have weights in common with `net.large.param`, in
/// `net.small+large.bin`.
pub(super) fn bin_next_to(param: &Path) -> PathBuf {
    let is_binary = param.extension().is_some_and(|extension| extension == "bin");
    let text = if is_binary { param.with_extension("") } else { param.to_owned() };
    let own = text.with_extension("bin");
    if own.exists() {
        return own;
    }
    shared_bin(&text).unwrap_or(own)
}

/// Returns the only `.bin` file next to a `.param` file in whose name is its variant.
fn shared_bin(param: &Path) -> Option<PathBuf> {
    let stem = Path::new(param.file_stem()?);
    let (net, variant) = (stem.file_stem()?.to_str()?, stem.extension()?.to_str()?);
    let folder = param.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names =
        std::fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_shared = |name: &String| {
        let names = name.strip_prefix(net).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".bin"));
        names.is_some_and(|names| names.split('+').any(|name| name == variant))
    };
    let mut shared = names.filter(is_shared);
    shared.next().filter(|_| shared.next().is_none()).map(|name| param.with_file_name(name))
}

/// Returns the only `.param` file in a folder.
pub(super) fn only_param_in(folder: &Path) -> Option<PathBuf> {
    let paths = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut params = paths.filter(|path| path.extension().is_some_and(|extension| extension == "param"));
    params.next().filter(|_| params.next().is_none())
}

/// Returns the `.param` file that a path names: the only one in a folder.
pub(super) fn param_of(path: &Path) -> PathBuf {
    only_param_in(path).unwrap_or_else(|| path.to_owned())
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
