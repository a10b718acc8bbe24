//! The metadata of a model as YAML.

use std::fmt::Write as _;

use crate::pipeline::Metadata;

/// Returns the entries; the sides of a picture, height first, are those of the net if it has fixed ones.
pub(crate) fn metadata(metadata: &Metadata, sides: Option<[i64; 2]>) -> String {
    let mut text = String::new();
    for (key, value) in &metadata.entries {
        let value = match (key.as_str(), sides) {
            ("names", _) if !metadata.classes.is_empty() => continue,
            ("imgsz", Some([height, width])) => format!("[{height}, {width}]"),
            // A net with fixed sides takes no others.
            ("args", Some(_)) => quoted(&value.replace("'dynamic': True", "'dynamic': False")),
            // ncnn has no batch.
            ("batch", _) => "1".to_owned(),
            _ if value.parse::<i64>().is_ok() => value.clone(),
            _ => quoted(value),
        };
        let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let key = if is_plain { key.clone() } else { quoted(key) };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key}: {value}");
    }
    if !metadata.classes.is_empty() {
        text.push_str("names:\n");
    }
    for (index, name) in metadata.classes.iter().enumerate() {
        let _ = writeln!(text, "  {index}: {}", quoted(name));
    }
    text
}

/// Returns a string in quotes: YAML reads those of JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
