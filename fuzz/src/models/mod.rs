//! Models with options: random graphs, and mutated fixtures.

mod arrays;
pub mod edit;
mod elements;
mod graph;
mod layers;
pub mod options;
pub mod oracle;
mod sequences;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fastrand::Rng;
use prost::Message;

use crate::proto::ModelProto;
use graph::Draw;

/// The models of the fixtures.
pub static FIXTURES: LazyLock<Vec<ModelProto>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = root.ancestors().map(|folder| folder.join("fixtures")).filter(|folder| folder.is_dir());
    let mut folders = vec![folders.next().unwrap()];
    let mut models = Vec::new();
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("model.onnx") {
                models.extend(ModelProto::decode(fs::read(path).unwrap().as_slice()));
            }
        }
    }
    models
});

/// A model, and options of its conversion as JSON.
pub struct Case {
    pub model: Vec<u8>,
    pub options: String,
}

/// Returns the case of a seed: in one of five a mutated fixture, and otherwise a random graph.
pub fn case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let model = if rng.u8(0..5) == 0 {
        let fixture = pick(&FIXTURES, &mut rng).unwrap().clone();
        edit::edited(fixture, &mut rng)
    } else {
        random(&mut rng)
    };
    let options = if rng.u8(0..3) == 0 { options::options(&model, &mut rng) } else { "{}".to_owned() };
    Case { model: model.encode_to_vec(), options }
}

/// Returns a random graph of a few operators and patterns.
pub fn random(rng: &mut Rng) -> ModelProto {
    let tables = [layers::OPERATORS, sequences::OPERATORS, elements::OPERATORS, arrays::OPERATORS];
    let all: Vec<_> = tables.into_iter().flatten().collect();
    loop {
        let mut draw = Draw::new(rng.fork());
        for _ in 0..draw.int(1, 6) {
            // What does not fit is left out.
            let _ = draw.one(&all)(&mut draw);
        }
        if let Some(model) = draw.finish() {
            return model;
        }
    }
}

/// Returns an item of a list that is not empty.
pub fn pick<'a, T>(list: &'a [T], rng: &mut Rng) -> Option<&'a T> {
    list.get(rng.usize(0..list.len().max(1)))
}
