//! What a model says about its use: entries of its metadata under the keys of several exporters.

use std::collections::BTreeMap;

use serde::Serialize;

/// The maximum number of items of a list in the metadata: the largest alphabets have some twenty thousand.
const MAX_ITEMS: usize = 1 << 20;

/// Facts about the use of a model, as its exporter wrote them. They are not checked against the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Metadata {
    /// All entries.
    pub entries: BTreeMap<String, String>,
    /// The task, such as `detect`.
    pub task: Option<String>,
    /// The names of the classes, in the order of their indices.
    pub classes: Vec<String>,
    /// The characters that a reader of text distinguishes, without the blank.
    pub alphabet: Vec<String>,
    /// The height and the width of a picture.
    pub image_size: Option<[i64; 2]>,
    /// The number of which height and width of a picture are multiples.
    pub stride: Option<i64>,
    /// The samples of a sound in a second.
    pub sample_rate: Option<i64>,
}

impl Metadata {
    /// Reads the known keys: those of ultralytics, of transformers, of RapidOCR, and of sherpa.
    pub(super) fn of(entries: BTreeMap<String, String>) -> Metadata {
        let first = |keys: &[&str]| keys.iter().find_map(|key| entries.get(*key)).map(String::as_str);
        let numbers = |keys: &[&str]| -> Option<Vec<i64>> {
            let text = first(keys)?.trim_matches(['[', ']', '(', ')']);
            text.split([',', 'x']).map(|number| number.trim().parse().ok().filter(|n| *n > 0)).collect()
        };
        let number = |keys: &[&str]| numbers(keys).and_then(|list| list.into_iter().max());
        let image_size = numbers(&["imgsz", "image_size", "input_size"]);
        let image_size = image_size.and_then(|list| match list.as_slice() {
            [side] => Some([*side, *side]),
            [height, width] => Some([*height, *width]),
            _ => None,
        });
        Metadata {
            task: first(&["task", "pipeline_tag"]).map(str::to_owned),
            classes: first(&["names", "id2label", "class_names", "classes", "labels"])
                .map(items)
                .unwrap_or_default(),
            // Lines: the characters contain brackets, quotes and spaces.
            alphabet: first(&["character", "characters", "dictionary", "alphabet", "vocab"])
                .map(lines)
                .unwrap_or_default(),
            image_size,
            stride: number(&["stride"]),
            sample_rate: number(&["sample_rate", "sampling_rate"]),
            entries,
        }
    }

    /// Returns whether ultralytics exported the model.
    pub(crate) fn is_of_ultralytics(&self) -> bool {
        self.has("author", "ultralytics")
    }

    /// Returns whether an entry has this value, in any case of letters.
    pub fn has(&self, key: &str, value: &str) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.eq_ignore_ascii_case(value))
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().take(MAX_ITEMS).map(str::to_owned).collect()
}

/// Reads a list of names: as a dictionary or list of Python or JSON, as lines, or between commas.
fn items(text: &str) -> Vec<String> {
    let text = text.trim();
    let items = match text.chars().next() {
        Some('{') => entries(text),
        Some('[') => strings(text),
        _ if text.contains('\n') => Some(lines(text)),
        _ => Some(text.split(',').take(MAX_ITEMS).map(|name| name.trim().to_owned()).collect()),
    };
    items.unwrap_or_default()
}

/// Reads a dictionary from indices to names, or reverse, with the indices 0, 1, 2 and so on.
fn entries(text: &str) -> Option<Vec<String>> {
    let mut names = BTreeMap::new();
    let mut rest = text.strip_prefix('{')?.trim_start();
    while !rest.starts_with('}') {
        let (key, after) = item(rest)?;
        let (value, after) = item(after.trim_start().strip_prefix(':')?.trim_start())?;
        let (index, name) = match (key.parse::<usize>(), value.parse::<usize>()) {
            (Ok(index), _) => (index, value),
            (_, Ok(index)) => (index, key),
            _ => return None,
        };
        names.insert(index, name);
        if names.len() > MAX_ITEMS {
            return None;
        }
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    names.keys().copied().eq(0..names.len()).then(|| names.into_values().collect())
}

/// Reads a list of strings.
fn strings(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.strip_prefix('[')?.trim_start();
    while !rest.starts_with(']') && names.len() < MAX_ITEMS {
        let (name, after) = item(rest)?;
        names.push(name);
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(names)
}

/// Reads a string in quotes, or a word up to a delimiter; returns it and what follows.
fn item(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let end = text.find([',', ':', '}', ']'])?;
        let (word, rest) = text.split_at_checked(end)?;
        return Some((word.trim().to_owned(), rest));
    };
    let mut name = String::new();
    let mut chars = text.chars();
    chars.next();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                'n' => name.push('\n'),
                't' => name.push('\t'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    name.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => name.push(other),
            },
            _ if c == quote => return Some((name, chars.as_str())),
            _ => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(entries: &[(&str, &str)]) -> Metadata {
        Metadata::of(entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn names_of_classes_are_read_in_each_notation() {
        for (text, names) in [
            ("{0: 'person', 1: \"dog's\", 2: 'a \\'b\\''}", &["person", "dog's", "a 'b'"][..]),
            ("{1: '1:\"1\"', 0: '0:\"0\"'}", &["0:\"0\"", "1:\"1\""]),
            ("{\"0\": \"caf\\u00e9\", \"1\": \"b\"}", &["café", "b"]),
            ("{\"cat\": 0, \"dog\": 1}", &["cat", "dog"]),
            ("['cat', 'dog',]", &["cat", "dog"]),
            ("[]", &[]),
            ("cat, dog", &["cat", "dog"]),
            ("cat\nhot dog", &["cat", "hot dog"]),
            // Without all indices, or not closed.
            ("{0: 'a', 2: 'b'}", &[]),
            ("{0: 'a', 1: 'b", &[]),
            ("{0 'a'}", &[]),
        ] {
            assert_eq!(metadata(&[("names", text)]).classes, names, "{text}");
        }
    }

    #[test]
    fn keys_of_several_exporters_are_read() {
        let read = metadata(&[("stride", "32"), ("imgsz", "[480, 640]"), ("task", "detect")]);
        assert_eq!(
            (read.stride, read.image_size, read.task.as_deref()),
            (Some(32), Some([480, 640]), Some("detect"))
        );
        assert_eq!(metadata(&[("imgsz", "640")]).image_size, Some([640, 640]));
        assert_eq!(metadata(&[("imgsz", "[-1, 640]")]).image_size, None);
        assert_eq!(metadata(&[("sample_rate", "16000")]).sample_rate, Some(16000));
        assert_eq!(metadata(&[("character", "a\n,\n \n'")]).alphabet, ["a", ",", " ", "'"]);
        assert!(metadata(&[("end2end", "True")]).has("end2end", "true"));
    }
}
