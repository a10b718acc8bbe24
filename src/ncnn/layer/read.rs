//! Layers read from lines of `.param` files, for tests.

use std::collections::BTreeMap;

use crate::tensor::Tensor;

/// The params of a line of a `.param` file by their ids, and its weights by their names.
pub(in crate::ncnn) type Words<'a> = BTreeMap<String, &'a str>;

/// A param as it is read.
pub(in crate::ncnn) trait ReadParam {
    fn read(text: &str) -> Self;
}

/// Reads a weight of equal elements, `count*element`.
pub(in crate::ncnn) fn read_weight(text: &str) -> Tensor {
    let (count, element) = text.split_once('*').unwrap();
    let count = count.parse().unwrap();
    Tensor::from_f32(&[count], vec![element.parse().unwrap(); count]).unwrap()
}

macro_rules! read {
    ($($item:ty),*) => {
        $(impl ReadParam for $item {
            fn read(text: &str) -> $item {
                text.parse().unwrap()
            }
        }

        impl ReadParam for Vec<$item> {
            /// The first number is that of the others.
            fn read(text: &str) -> Vec<$item> {
                text.split(',').skip(1).map(ReadParam::read).collect()
            }
        })*
    };
}

read!(i32, f32);

impl ReadParam for String {
    fn read(text: &str) -> String {
        text.trim_matches('"').to_owned()
    }
}
