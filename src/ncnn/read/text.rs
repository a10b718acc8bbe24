//! The layers of the text of a `.param` file (`Net::load_param`, `ParamDict::load_param`).

use super::{Counts, CustomByName, Entry};
use crate::error::{Error, Result, invalid};
use crate::ncnn::Layer;
use crate::ncnn::layer::{Param, Stated, StatedParams};
use crate::ncnn::text::{ARRAY, MAGIC};

/// The most characters of a number that the runtime scans.
const SCANNED: usize = 15;

/// Returns the numbers of layers and blobs, and the layers.
pub(super) fn entries(text: &str, custom: &CustomByName) -> Result<(Counts, Vec<Result<Entry>>)> {
    let lines = text.lines().zip(1_usize..).map(|(line, number)| (line.trim(), number));
    let mut lines = lines.filter(|(line, _)| !line.is_empty());
    let magic = lines.next().map(|(line, _)| line);
    if magic.and_then(|line| line.parse().ok()) != Some(MAGIC) {
        invalid!("the .param file does not begin with {MAGIC}");
    }
    let head = lines.next().map(|(line, _)| line).unwrap_or_default();
    let numbers: Vec<usize> = head.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [layers, blobs] = *numbers else { invalid!("line 2 has no numbers of layers and blobs: \"{head}\"") };
    let entry = |(line, number): (&str, usize)| {
        entry(line, number, custom).map_err(|error| error.in_part(&format!("line {number}")))
    };
    Ok((Counts { layers, blobs }, lines.map(entry).collect()))
}

fn entry(line: &str, number: usize, custom: &CustomByName) -> Result<Entry> {
    let mut words = Words(line);
    let (type_name, name) = (words.next()?, words.next()?.to_owned());
    let (bottoms, tops) = (words.count()?, words.count()?);
    let mut names =
        |count: usize| (0..count).map(|_| words.next().map(str::to_owned)).collect::<Result<Vec<_>>>();
    let (bottoms, tops) = (names(bottoms)?, names(tops)?);
    let declared = custom.get(&name).filter(|layer| layer.type_name() == type_name);
    let layer = declared.cloned().or_else(|| Layer::named(type_name)).ok_or_else(|| unknown(type_name));
    let layer = layer.and_then(|layer| Ok((layer, read_params(words.0)?)));
    let (location, type_name) = (format!("line {number}"), type_name.to_owned());
    Ok(Entry { location, type_name, name, bottoms, tops, layer })
}

/// Returns the error of a layer without a table.
fn unknown(type_name: &str) -> Error {
    Error::unsupported(format!("the layer type {type_name} is not known"))
        .help("register the layer in the program that loads the net, or convert the model to layers of ncnn")
}

/// The rest of a line.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str> {
        let line = self.0.trim_start();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if word.is_empty() {
            invalid!("the line ends before the names of all blobs");
        }
        self.0 = rest;
        Ok(word)
    }

    fn count(&mut self) -> Result<usize> {
        let word = self.next()?;
        word.parse().map_err(|_| Error::invalid(format!("\"{word}\" is no number of blobs")))
    }
}

/// Reads params such as `0=1 1=5.0e-1 -23303=2,0,1 6="0w,1h"`.
pub(in crate::ncnn) fn read_params(text: &str) -> Result<StatedParams> {
    let mut params = StatedParams::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((id, after)) = rest.split_once('=') else { invalid!("\"{rest}\" is not a param") };
        let id: i32 =
            id.trim().parse().map_err(|_| Error::invalid(format!("\"{id}\" is no id of a param")))?;
        let end = match after.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map(|end| end + 2),
            None => after.find(char::is_whitespace).or(Some(after.len())),
        };
        let Some((value, next)) = end.and_then(|end| after.split_at_checked(end)) else {
            invalid!("the text of param {id} has no end");
        };
        let is_list = id <= ARRAY;
        let id = if is_list { ARRAY - id } else { id };
        let param = if is_list { counted(value) } else { plain(value) };
        let param = param.map_err(|error| error.in_part(&format!("param {id}")))?;
        params.add(id, Stated::Typed(param))?;
        rest = next.trim_start();
    }
    Ok(params)
}

/// Reads a list that begins with its number of values.
fn counted(text: &str) -> Result<Param> {
    let (len, values) = text.split_once(',').unwrap_or((text, ""));
    let values: Vec<&str> = if values.is_empty() { Vec::new() } else { values.split(',').collect() };
    if len.parse() != Ok(values.len()) {
        invalid!("it states {len} values and has {}", values.len());
    }
    list(&values)
}

fn plain(text: &str) -> Result<Param> {
    if text.starts_with(|first: char| first == '"' || first.is_ascii_alphabetic()) {
        return Ok(Param::Text(text.trim_matches('"').to_owned()));
    }
    let values: Vec<&str> = text.split(',').collect();
    match *values {
        [value] if is_float(value) => Ok(Param::Float(float(value)?)),
        [value] => Ok(Param::Int(number(value)?)),
        // A comma may end a list.
        [ref values @ .., ""] => list(values),
        _ => list(&values),
    }
}

/// Reads values of one type; the first one decides which.
fn list(values: &[&str]) -> Result<Param> {
    let floats = values.first().is_some_and(|first| is_float(first));
    if let Some(other) = values.iter().find(|value| is_float(value) != floats) {
        invalid!("\"{other}\" is of another type than the values before");
    }
    Ok(match floats {
        true => Param::Floats(values.iter().map(|value| float(value)).collect::<Result<_>>()?),
        false => Param::Ints(values.iter().map(|value| number(value)).collect::<Result<_>>()?),
    })
}

/// Returns whether the runtime reads a float.
fn is_float(text: &str) -> bool {
    text.contains(['.', 'e', 'E'])
}

/// Reads a float, which the runtime refuses beyond float32.
fn float(text: &str) -> Result<f32> {
    let float: f32 = number(text)?;
    if float.is_infinite() {
        invalid!("\"{text}\" is beyond float32");
    }
    Ok(float)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    if text.len() > SCANNED {
        invalid!("\"{text}\" has more than the {SCANNED} characters that the runtime scans");
    }
    text.parse().map_err(|_| Error::invalid(format!("\"{text}\" is no number")))
}
