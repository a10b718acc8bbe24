//! The text of a `.param` file by its words, and the places of the weights in a `.bin` file.

use std::ops::Range;

use onnx2ncnn::error::Errors;
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::ncnn::layer::Storage;
use onnx2ncnn::tensor::DType;

/// A line of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub kind: String,
    pub name: String,
    pub bottoms: Vec<String>,
    pub tops: Vec<String>,
    /// The ids of params and their values, as they are written.
    pub params: Vec<(String, String)>,
}

impl Line {
    fn of(line: &str) -> Line {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (kind, name) = (words.next().unwrap(), words.next().unwrap());
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (bottoms, tops) = (number(), number());
        let bottoms = words.by_ref().take(bottoms).collect();
        let tops = words.by_ref().take(tops).collect();
        let params = words.map(|word| {
            let (id, value) = word.split_once('=').unwrap();
            (id.to_owned(), value.to_owned())
        });
        Line { kind, name, bottoms, tops, params: params.collect() }
    }

    fn text(&self) -> String {
        let (bottoms, tops) = (self.bottoms.len(), self.tops.len());
        let head = format!("{} {} {bottoms} {tops}", self.kind, self.name);
        let params = self.params.iter().map(|(id, value)| format!("{id}={value}"));
        let words = self.bottoms.iter().chain(&self.tops).cloned().chain(params);
        words.fold(head, |line, word| line + " " + &word)
    }
}

/// Both files of a net.
#[derive(Clone, PartialEq)]
pub struct Files {
    pub lines: Vec<Line>,
    pub bin: Vec<u8>,
}

impl Files {
    pub fn of(param: &str, bin: Vec<u8>) -> Files {
        Files { lines: param.lines().skip(2).map(Line::of).collect(), bin }
    }

    /// Returns the text of the `.param` file.
    pub fn param(&self) -> String {
        let blobs: usize = self.lines.iter().map(|line| line.tops.len()).sum();
        let lines = self.lines.iter().map(|line| line.text() + "\n");
        format!("7767517\n{} {blobs}\n{}", self.lines.len(), lines.collect::<String>())
    }

    /// Reads the net.
    pub fn net(&self) -> Result<Net, Errors> {
        Net::read(self.param().as_bytes(), self.bin.clone().into())
    }

    /// Returns a float32 of the `.bin` file.
    pub fn float(&self, place: usize) -> f32 {
        f32::from_le_bytes(self.bin[place..place + 4].try_into().unwrap())
    }

    pub fn set_float(&mut self, place: usize, value: f32) {
        self.bin[place..place + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// A weight of float32 in a `.bin` file.
pub struct Stretch {
    /// The index of its layer.
    pub layer: usize,
    pub name: &'static str,
    pub bytes: Range<usize>,
}

impl Stretch {
    /// Returns the places of the elements.
    pub fn places(&self) -> Vec<usize> {
        self.bytes.clone().step_by(4).collect()
    }

    pub fn is_bias(&self) -> bool {
        ["bias", "beta", "C_data"].iter().any(|part| self.name.contains(part))
    }
}

/// Returns the weights of a net in its `.bin` file.
pub fn stretches(net: &Net, bin: &[u8]) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut at = 0;
    for (layer, line) in net.layers.iter().enumerate() {
        for weight in line.layer.weights() {
            assert_eq!(weight.tensor.dtype(), DType::F32);
            at += if weight.storage == Storage::Tagged { 4 } else { 0 };
            let end = at + 4 * weight.tensor.len();
            all.push(Stretch { layer, name: weight.name, bytes: at..end });
            at = end;
        }
    }
    assert_eq!(at, bin.len());
    all
}
