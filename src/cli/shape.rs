//! The values of `--input-shape`.

use onnx2ncnn::error::Error;
use onnx2ncnn::tensor::Dim;

/// Parses `NAME:1,3,H,W`; the empty name means the only input. Names may contain colons, sizes may not:
/// the last colon ends the name.
pub(super) fn parse_input_shape(text: &str) -> Result<(String, Vec<Dim>), String> {
    let (name, sizes) = match text.rsplit_once(':') {
        Some(("", _)) => return Err("the name before the colon is empty".to_owned()),
        Some((name, sizes)) => (name, sizes),
        None => ("", text),
    };
    let sizes = sizes.trim();
    let sizes = sizes.strip_prefix('[').and_then(|sizes| sizes.strip_suffix(']')).unwrap_or(sizes);
    // No name begins with a digit.
    let is_product = !sizes.contains(',') && sizes.starts_with(|c: char| c.is_ascii_digit());
    let mark = if is_product { 'x' } else { ',' };
    let shape: Result<Vec<Dim>, String> = sizes.split(mark).map(|size| parse_size(size.trim())).collect();
    Ok((name.to_owned(), shape?))
}

fn parse_size(text: &str) -> Result<Dim, String> {
    text.parse().map_err(|error: Error| format!("{error}, with commas between them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String) {
        let (name, shape) = parse_input_shape(text).unwrap();
        (name, onnx2ncnn::tensor::display_shape(&shape))
    }

    #[test]
    fn the_last_colon_ends_the_name() {
        for (text, name, shape) in [
            ("1,3,224,224", "", "[1, 3, 224, 224]"),
            ("x:1,3,H,W", "x", "[1, 3, H, W]"),
            ("serving_default_x:0:1,8", "serving_default_x:0", "[1, 8]"),
            ("x: 1, 3", "x", "[1, 3]"),
            ("a b,c:batch_size,s.0", "a b,c", "[batch_size, s.0]"),
            ("n:7", "n", "[7]"),
            ("x:1x3x640x640", "x", "[1, 3, 640, 640]"),
            ("1x3xHxW", "", "[1, 3, H, W]"),
            ("x:[1,3,640,640]", "x", "[1, 3, 640, 640]"),
            ("[1, 3]", "", "[1, 3]"),
            ("x:max", "x", "[max]"),
            ("mask:1,past+sequence", "mask", "[1, past+sequence]"),
        ] {
            assert_eq!(parsed(text), (name.to_owned(), shape.to_owned()), "{text}");
        }
    }

    #[test]
    fn equal_names_are_one_size() {
        let (_, square) = parse_input_shape("1,3,S,S").unwrap();
        assert_eq!(square[2], square[3]);
    }

    #[test]
    fn invalid_shapes_are_refused() {
        for text in [
            "",
            "x:",
            ":1,3",
            "1,,3",
            "1,3,",
            "x:1;3",
            "0",
            "-1,3",
            "1,H+",
            "1.5",
            "[1,3",
            "1,3]",
            "1x",
            "1x3,8",
            "99999999999999999999",
        ] {
            assert!(parse_input_shape(text).is_err(), "{text}");
        }
    }
}
