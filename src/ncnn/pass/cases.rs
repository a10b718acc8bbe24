//! Nets before and after passes, as `.param` files.
//!
//! `tests/data/passes/PASS/CASE` has the net before the pass, `in.param`, and after it, `out.param`, which
//! `BLESS=1` writes. A folder of several passes has their names with `+` between them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::NET_PASSES;
use crate::ncnn::Net;

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Returns the text of the `.param` file, without hints of shapes; after the sign `#` of each line are the
/// numbers of the layers whose work this layer does.
fn text(net: &Net) -> String {
    let mut text = net.head();
    for layer in &net.layers {
        net.push_line(&mut text, layer, false);
        let done: Vec<String> = layer.provenance.iter().map(|index| index.to_string()).collect();
        text.truncate(text.trim_end().len());
        text += &format!(" # {}\n", done.join(" "));
    }
    text
}

#[test]
fn nets_after_passes_are_as_written() {
    let mut wrong = Vec::new();
    for passes in folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/passes")) {
        let names = passes.file_name().unwrap().to_str().unwrap();
        let names: Vec<&str> = names.split('+').collect();
        let known = |name: &&str| NET_PASSES.iter().any(|pass| pass.name == *name);
        assert!(names.iter().all(known), "{names:?}");
        let skip: BTreeSet<String> = NET_PASSES
            .iter()
            .filter(|pass| !names.contains(&pass.name))
            .map(|pass| pass.name.to_owned())
            .collect();
        for case in folders(&passes) {
            let mut net = Net::read_param(&std::fs::read_to_string(case.join("in.param")).unwrap());
            net.optimise(&skip).unwrap();
            let found = text(&net);
            net.split();
            net.name(&[], std::iter::empty()).unwrap();
            net.check().unwrap_or_else(|error| panic!("{case:?}: {error}"));
            let path = case.join("out.param");
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&path, &found).unwrap();
            } else if std::fs::read_to_string(&path).unwrap() != found {
                wrong.push(format!("{}:\n{found}", case.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
