//! The encoding of elements as ONNX's `raw_data`.

use byteorder::{ByteOrder, LittleEndian};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;

use super::super::{DType, float8};
use super::{Array, Elements, KEPT, wrap};
use crate::error::{Result, invalid, unsupported};

impl Array {
    /// Decodes ONNX's `raw_data`: little endian, types under 8 bits packed low bits first.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Array> {
        let count = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d));
        let Some(count) = count.filter(|count| dtype.byte_len(*count) == Some(bytes.len())) else {
            invalid!("{} bytes for {shape:?} elements of {dtype}", bytes.len());
        };
        let ints = |values: Vec<i64>| -> Result<Elements> {
            Ok(Elements::I64(ArrayD::from_shape_vec(IxDyn(shape), values)?))
        };
        let floats = |values: Vec<f32>| -> Result<Elements> {
            Ok(Elements::F32(ArrayD::from_shape_vec(IxDyn(shape), values)?))
        };
        let elements = match dtype {
            DType::F32 => floats(words(count, bytes, LittleEndian::read_f32_into))?,
            DType::F64 => {
                let values = words(count, bytes, LittleEndian::read_f64_into);
                Elements::F64(ArrayD::from_shape_vec(IxDyn(shape), values)?)
            }
            DType::F16 => {
                let bits = words(count, bytes, LittleEndian::read_u16_into);
                floats(bits.reinterpret_cast::<f16>().to_f32_vec())?
            }
            DType::BF16 => {
                let bits = words(count, bytes, LittleEndian::read_u16_into);
                floats(bits.reinterpret_cast::<bf16>().to_f32_vec())?
            }
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E8M0 => {
                floats(bytes.iter().map(|b| float8::decode(*b, dtype)).collect())?
            }
            DType::F4E2M1 | DType::F6E2M3 | DType::F6E3M2 => {
                floats(unpack(bytes, dtype.bits()).take(count).map(|b| float8::decode(b, dtype)).collect())?
            }
            DType::I8 => ints(bytes.iter().map(|b| i64::from(b.cast_signed())).collect())?,
            DType::I16 => ints(wide(words(count, bytes, LittleEndian::read_i16_into)))?,
            DType::I32 => ints(wide(words(count, bytes, LittleEndian::read_i32_into)))?,
            DType::I64 => ints(words(count, bytes, LittleEndian::read_i64_into))?,
            DType::U8 => ints(bytes.iter().map(|b| i64::from(*b)).collect())?,
            DType::Bool => ints(bytes.iter().map(|b| i64::from(*b != 0)).collect())?,
            DType::U16 => ints(wide(words(count, bytes, LittleEndian::read_u16_into)))?,
            DType::U32 => ints(wide(words(count, bytes, LittleEndian::read_u32_into)))?,
            DType::U64 => {
                let values = words(count, bytes, LittleEndian::read_u64_into);
                let values: std::result::Result<Vec<i64>, _> =
                    values.into_iter().map(i64::try_from).collect();
                match values {
                    Ok(values) => ints(values)?,
                    Err(_) => unsupported!("a uint64 above 2^63"),
                }
            }
            DType::U4 | DType::I4 | DType::U2 | DType::I2 => {
                let values = unpack(bytes, dtype.bits()).take(count);
                ints(values.map(|bits| wrap(i64::from(bits), dtype)).collect())?
            }
            DType::String | DType::C64 | DType::C128 => unsupported!("a tensor of {dtype}"),
        };
        Ok(Array { dtype, elements })
    }

    /// Encodes the elements as ONNX's `raw_data`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.dtype.byte_len(self.len()).unwrap_or(0));
        match &self.elements {
            Elements::F32(a) => match self.dtype {
                DType::F32 => a.iter().for_each(|x| out.extend(x.to_le_bytes())),
                DType::F16 => a.iter().for_each(|x| out.extend(f16::from_f32(*x).to_le_bytes())),
                DType::BF16 => a.iter().for_each(|x| out.extend(bf16::from_f32(*x).to_le_bytes())),
                dtype @ (DType::F4E2M1 | DType::F6E2M3 | DType::F6E3M2) => {
                    out = pack(a.iter().map(|x| float8::encode(*x, dtype, KEPT)), dtype.bits());
                }
                _ => out.extend(a.iter().map(|x| float8::encode(*x, self.dtype, KEPT))),
            },
            Elements::F64(a) => a.iter().for_each(|x| out.extend(x.to_le_bytes())),
            Elements::I64(a) => match self.dtype.bits() {
                64 => a.iter().for_each(|x| out.extend(x.to_le_bytes())),
                bits @ (8 | 16 | 32) => {
                    a.iter().for_each(|x| out.extend(x.to_le_bytes().iter().take(bits / 8)));
                }
                bits => out = pack(a.iter().map(|x| x.to_le_bytes().first().copied().unwrap_or(0)), bits),
            },
            Elements::Dim(_) => unsupported!("a size is known only at run time"),
        }
        Ok(out)
    }
}

/// Returns `count` elements, which must be all of `bytes`.
fn words<T: Clone + Default>(count: usize, bytes: &[u8], read: fn(&[u8], &mut [T])) -> Vec<T> {
    let mut words = vec![T::default(); count];
    read(bytes, &mut words);
    words
}

fn wide<T>(integers: Vec<T>) -> Vec<i64>
where
    i64: From<T>,
{
    integers.into_iter().map(i64::from).collect()
}

/// Returns elements of `bits` bits from a stream of bits, low bits first.
fn unpack(bytes: &[u8], bits: usize) -> impl Iterator<Item = u8> {
    let mask = u8::MAX.wrapping_shr((8 - bits).as_());
    (0..bytes.len() * 8 / bits).map(move |i| {
        let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
        let (at, shift) = (i * bits / 8, i * bits % 8);
        let low: u8 = (byte(at) | byte(at + 1).wrapping_shl(8)).wrapping_shr(shift.as_()).as_();
        low & mask
    })
}

fn pack(elements: impl Iterator<Item = u8>, bits: usize) -> Vec<u8> {
    let mask = u8::MAX.wrapping_shr((8 - bits).as_());
    let mut out = Vec::new();
    let (mut waiting, mut count) = (0_u16, 0);
    for element in elements {
        waiting |= u16::from(element & mask).wrapping_shl(count);
        count += AsPrimitive::<u32>::as_(bits);
        if count >= 8 {
            out.push(waiting.as_());
            waiting = waiting.wrapping_shr(8);
            count -= 8;
        }
    }
    if count > 0 {
        out.push(waiting.as_());
    }
    out
}
