//! The values of `--set`.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;

use half::f16;
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use npyz::{DType, NpyFile, Order, TypeChar};
use onnx2ncnn::tensor::{self, Array, Dim, Elements};

/// Parses `NAME=VALUE`. Names may contain equals signs, values may not: the last one ends the name.
pub(super) fn parse_input_value(text: &str) -> Result<(String, Array), String> {
    let expected = "expected NAME=VALUE, where VALUE is a number or the name of a free size, several with commas between them, or @FILE.npy";
    let (name, value) = text.split_once("=@").map_or_else(|| text.rsplit_once('='), Some).ok_or(expected)?;
    if name.is_empty() {
        return Err(expected.to_owned());
    }
    let is_file = text.get(name.len()..).is_some_and(|rest| rest.starts_with("=@"));
    let value = if is_file { read_npy(value)? } else { parse_numbers(value)? };
    Ok((name.to_owned(), value))
}

fn parse_numbers(text: &str) -> Result<Array, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let integer = |word: &&str| match *word {
        "true" => Some(1),
        "false" => Some(0),
        word => word.parse::<i64>().ok(),
    };
    let integers: Option<Vec<i64>> = words.iter().map(integer).collect();
    if let Some(integers) = integers {
        return array(vec![integers.len()], integers).map(Array::i64);
    }
    // "inf" is a number, not a name.
    let named = |word: &str| word.parse::<f64>().is_err().then(|| word.parse().ok())?;
    let size = |word: &&str| word.parse().ok().map(Dim::Known).or_else(|| named(word));
    if let Some(sizes) = words.iter().map(size).collect::<Option<Vec<Dim>>>() {
        return Ok(Array::from_dims(&sizes));
    }
    let float = |word: &&str| word.parse::<f64>().map_err(|_| format!("\"{word}\" is not a number"));
    let floats: Vec<f64> = words.iter().map(float).collect::<Result<_, _>>()?;
    Ok(Array::new(tensor::DType::F64, Elements::F64(array(vec![floats.len()], floats)?)))
}

fn array<T: Clone>(shape: Vec<usize>, elements: Vec<T>) -> Result<ArrayD<T>, String> {
    ArrayD::from_shape_vec(IxDyn(&shape), elements).map_err(|error| error.to_string())
}

/// Reads an array of booleans, integers or floats.
fn read_npy(path: &str) -> Result<Array, String> {
    let failed = |error: &dyn Display| format!("{path}: {error}");
    let file = File::open(path).map_err(|error| failed(&error))?;
    let file = NpyFile::new(BufReader::new(file)).map_err(|error| failed(&error))?;
    let DType::Plain(kind) = file.dtype() else { return Err(failed(&"the elements are not numbers")) };
    let sizes: Result<Vec<usize>, _> = file.shape().iter().map(|n| usize::try_from(*n)).collect();
    let sizes = IxDyn(&sizes.map_err(|error| failed(&error))?);
    let shape = sizes.set_f(file.order() == Order::Fortran);
    /// Reads elements of a type, and converts them to one of [`Elements`].
    macro_rules! elements {
        ($read:ty, $kind:ident, $to:ty) => {{
            let read: Vec<$read> = file.into_vec().map_err(|error| failed(&error))?;
            let wide: Result<Vec<$to>, _> = read.into_iter().map(<$to>::try_from).collect();
            let array = ArrayD::from_shape_vec(shape, wide.map_err(|error| failed(&error))?);
            Elements::$kind(array.map_err(|error| failed(&error))?.as_standard_layout().into_owned())
        }};
    }
    let elements = match (kind.type_char(), kind.num_bytes()) {
        (TypeChar::Bool, _) => elements!(bool, I64, i64),
        (TypeChar::Int, Some(1)) => elements!(i8, I64, i64),
        (TypeChar::Int, Some(2)) => elements!(i16, I64, i64),
        (TypeChar::Int, Some(4)) => elements!(i32, I64, i64),
        (TypeChar::Int, Some(8)) => elements!(i64, I64, i64),
        (TypeChar::Uint, Some(1)) => elements!(u8, I64, i64),
        (TypeChar::Uint, Some(2)) => elements!(u16, I64, i64),
        (TypeChar::Uint, Some(4)) => elements!(u32, I64, i64),
        (TypeChar::Uint, Some(8)) => elements!(u64, I64, i64),
        (TypeChar::Float, Some(2)) => elements!(f16, F64, f64),
        (TypeChar::Float, Some(4)) => elements!(f32, F64, f64),
        (TypeChar::Float, Some(8)) => elements!(f64, F64, f64),
        _ => return Err(failed(&"the elements are not booleans, integers or floats")),
    };
    let dtype = if matches!(elements, Elements::I64(_)) { tensor::DType::I64 } else { tensor::DType::F64 };
    Ok(Array::new(dtype, elements))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        let (name, value) = parse_input_value(text)?;
        Ok(format!("{name} {} {:?}", value.dtype(), value.elements()))
    }

    #[test]
    fn numbers_are_parsed() {
        let shown = |elements: Elements| format!("{elements:?}");
        let ints = |list: &[i64]| shown(Elements::I64(array(vec![list.len()], list.to_vec()).unwrap()));
        let floats = |list: &[f64]| shown(Elements::F64(array(vec![list.len()], list.to_vec()).unwrap()));
        for (text, expected) in [
            ("sr=16000", format!("sr int64 {}", ints(&[16000]))),
            ("use_cache=true", format!("use_cache int64 {}", ints(&[1]))),
            ("a=b=-1, 2", format!("a=b int64 {}", ints(&[-1, 2]))),
            ("scale=0.5,1", format!("scale double {}", floats(&[0.5, 1.0]))),
            (
                "length=T",
                format!("length int64 {}", shown(Array::from_dims(&[Dim::symbol("T")]).into_elements())),
            ),
            ("scale=inf", format!("scale double {}", floats(&[f64::INFINITY]))),
        ] {
            assert_eq!(parsed(text).unwrap(), expected);
        }
        for text in ["sr", "=1", "sr=", "sr=a-b", "sr=1,,2", "sr=@no/such/file.npy"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_numpy_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let header = |order: &str, kind: &str| {
            format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': (2, 3), }}\n")
        };
        let bytes = [1_u8, 2, 3, 4, 5, 6];
        let rows = ndarray::arr2(&[[1_i64, 2, 3], [4, 5, 6]]).into_dyn();
        let columns = ndarray::arr2(&[[1_i64, 3, 5], [2, 4, 6]]).into_dyn();
        for (order, kind, expected) in
            [("False", "|u1", Some(rows)), ("True", "|i1", Some(columns)), ("False", "|S1", None)]
        {
            let header = header(order, kind);
            let length = u16::try_from(header.len()).unwrap().to_le_bytes();
            let file = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &bytes].concat();
            std::fs::write(&path, file).unwrap();
            let read = parse_input_value(&format!("x=@{}", path.display()));
            assert_eq!(read.ok().map(|(_, value)| value), expected.map(Array::i64), "{order} {kind}");
        }
    }
}
