//! Matrices in blocks: integers of few bits, and for each block of a row the inverse of its scale.
//!
//! The layout is that of one release of ncnn, see NCNN.md: another one may read it differently.

use crate::error::{Result, invalid};

/// The release of ncnn whose layout of blocks is written.
pub(crate) const BLOCKS_SINCE: u32 = 20261020;

/// The sizes of blocks, in the order of their codes.
const SIZES: [usize; 3] = [32, 64, 128];

/// The bits of the integers. With 8 bits the runtime rounds the other factor as well.
const BITS: [usize; 3] = [4, 6, 8];

/// The largest inverse of a scale. It replaces a scale of 0: the products are below the smallest normal
/// number.
const LARGEST_INVERSE: f32 = f32::MAX;

/// The form of the integers of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockFormat {
    /// The bits of an integer, with its sign: 4, 6 or 8.
    pub bits: usize,
    /// The number of columns that share a scale: 32, 64 or 128.
    pub size: usize,
}

impl BlockFormat {
    /// Returns the format of a code of Gemm, if it is one.
    pub fn of_term(term: i32) -> Option<BlockFormat> {
        let term = usize::try_from(term).ok()?;
        let (bits, size) = (BITS.into_iter().find(|bits| *bits == term / 100)?, SIZES.get(term % 100)?);
        Some(BlockFormat { bits, size: *size })
    }

    /// Returns the code, `quantize_term` of Gemm: hundred for each bit, and the index of the size.
    pub fn term(self) -> Result<i32> {
        match SIZES.iter().position(|size| *size == self.size) {
            Some(code) if BITS.contains(&self.bits) => Ok(i32::try_from(100 * self.bits + code)?),
            _ => invalid!("blocks of {} integers of {} bits", self.size, self.bits),
        }
    }

    /// Returns the bytes of a row: each begins at a byte.
    pub fn row_bytes(self, columns: usize) -> usize {
        columns.saturating_mul(self.bits).div_ceil(8)
    }

    /// Returns the number of scales of a row.
    pub fn blocks(self, columns: usize) -> usize {
        columns.div_ceil(self.size)
    }

    /// Appends a row of integers, the low bits first.
    pub fn pack(self, row: &[i8], bytes: &mut Vec<u8>) {
        let mask = (1_u32 << self.bits) - 1;
        let (mut buffer, mut bits) = (0_u32, 0);
        for level in row {
            buffer |= (u32::from(level.cast_unsigned()) & mask) << bits;
            bits += self.bits;
            while bits >= 8 {
                bytes.extend_from_slice(buffer.to_le_bytes().get(..1).unwrap_or_default());
                buffer >>= 8;
                bits -= 8;
            }
        }
        if bits > 0 {
            bytes.extend_from_slice(buffer.to_le_bytes().get(..1).unwrap_or_default());
        }
    }
}

/// Returns the number that the runtime reads for a scale: it divides by it.
pub(crate) fn inverse(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { LARGEST_INVERSE.copysign(scale) }
}

/// Returns whether the runtime reads a scale without overflow.
pub(crate) fn is_scale(scale: f32) -> bool {
    scale.is_finite() && (scale == 0.0 || (1.0 / scale).is_infinite() || (1.0 / scale).is_normal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_runtime() {
        for (bits, size, term) in [(4, 32, 400), (4, 128, 402), (6, 64, 601), (8, 32, 800)] {
            let format = BlockFormat { bits, size };
            assert_eq!(format.term().unwrap(), term);
            assert_eq!(BlockFormat::of_term(term), Some(format));
        }
        for term in [0, 2, 403, 410, 500, -400] {
            assert_eq!(BlockFormat::of_term(term), None, "{term}");
        }
        for (bits, size) in [(5, 32), (4, 16)] {
            assert!(BlockFormat { bits, size }.term().is_err());
        }
    }

    /// Reads an integer as `gemm.cpp` does.
    fn unpacked(bytes: &[u8], index: usize, bits: usize) -> i32 {
        let at = index * bits;
        let low = u32::from(bytes[at / 8]);
        let high = bytes.get(at / 8 + 1).map_or(0, |byte| u32::from(*byte) << 8);
        let value = i32::try_from(((low | high) >> (at % 8)) & ((1 << bits) - 1)).unwrap();
        let sign = 1 << (bits - 1);
        (value ^ sign) - sign
    }

    #[test]
    fn integers_are_packed_low_bits_first() {
        let four = BlockFormat { bits: 4, size: 32 };
        let mut bytes = Vec::new();
        four.pack(&[1, -1, -8, 7, 3], &mut bytes);
        assert_eq!(bytes, [0xf1, 0x78, 0x03]);
        for bits in BITS {
            let format = BlockFormat { bits, size: 32 };
            let half = 1_i32 << (bits - 1);
            let row: Vec<i8> =
                (-half..half).chain([-half, -1, 0]).map(|n| i8::try_from(n).unwrap()).collect();
            let mut bytes = Vec::new();
            format.pack(&row, &mut bytes);
            assert_eq!(bytes.len(), format.row_bytes(row.len()));
            for (index, level) in row.iter().enumerate() {
                assert_eq!(unpacked(&bytes, index, bits), i32::from(*level), "{bits} bits at {index}");
            }
        }
    }

    #[test]
    fn inverses_are_finite() {
        for (scale, expected) in [(0.5, 2.0), (-0.25, -4.0), (0.0, f32::MAX), (1e-40, f32::MAX)] {
            assert_eq!(inverse(scale), expected, "{scale}");
            assert!(is_scale(scale), "{scale}");
        }
        assert_eq!(inverse(-1e-40), -f32::MAX);
        for scale in [f32::NAN, f32::INFINITY, 3e38, -2e38] {
            assert!(!is_scale(scale), "{scale}");
        }
    }
}
