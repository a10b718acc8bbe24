use std::sync::Arc;

use super::matrix::Rounded;
use super::*;

fn bytes(tensor: &Tensor) -> Vec<u8> {
    tensor.to_raw().unwrap().to_vec()
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.load().unwrap().float_list().unwrap()
}

/// Two rows of 40 integers of 4 bits in blocks of 32, whose bytes count up, with 64 stored in each row.
fn packed(zero: Zero) -> Packed {
    let data: Vec<u8> = (0..64).collect();
    Packed {
        bytes: Tensor::from_raw(DType::U8, vec![2, 2, 16], data.into()).unwrap(),
        bits: 4,
        flipped: 0,
        rows: 2,
        columns: 40,
        stored: 64,
        block: 32,
        zero,
        scales: Tensor::from_f32(&[4], vec![0.5, -2.0, 0.0, 1e-40]).unwrap(),
    }
}

#[test]
fn symmetric_integers_of_four_bits_have_the_opposite_sign_bit() {
    let matrix = packed(Zero::All(8));
    assert_eq!(matrix.bounds().unwrap(), (-8, 7));
    let format = BlockFormat { bits: 4, size: 32 };
    let [levels, inverses] = gemm_weights(&Matrix::Packed(Arc::new(matrix)), format).unwrap();
    let row = |first: u8| (first..first + 20).map(|byte| byte ^ 0x88);
    assert_eq!(bytes(&levels), row(0).chain(row(32)).collect::<Vec<u8>>());
    assert_eq!(floats(&inverses), [2.0, -0.5, f32::MAX, f32::MAX]);
}

#[test]
fn whole_rows_are_copied_with_the_opposite_sign_bits() {
    let format = BlockFormat { bits: 4, size: 32 };
    let whole = || Packed { columns: 64, ..packed(Zero::All(8)) };
    let [levels, _] = gemm_weights(&Matrix::Packed(Arc::new(whole())), format).unwrap();
    assert_eq!(bytes(&levels), (0..64).map(|byte: u8| byte ^ 0x88).collect::<Vec<u8>>());
    let mut rows = Vec::new();
    matrix_rows(&Matrix::Packed(Arc::new(whole())), &mut rows);
    let mut packed = Vec::new();
    rows.iter().for_each(|row| format.pack(row, &mut packed));
    assert_eq!(bytes(&levels), packed);
    let mut ignore = |_: &[u8]| Ok(());
    for (matrix, format) in [
        (packed_with_seven(), format),
        (whole(), BlockFormat { bits: 6, size: 32 }),
        (Packed { flipped: 8, ..whole() }, format),
    ] {
        assert!(!matrix.invert_signs(format, &mut ignore).unwrap());
    }
}

fn packed_with_seven() -> Packed {
    Packed { columns: 64, ..packed(Zero::All(7)) }
}

#[test]
fn zero_points_widen_integers() {
    // A row of zero points begins at a byte: 3 and 15, then 0 and 8.
    let zeros = Tensor::from_raw(DType::U8, vec![2], vec![0xf3, 0x80].into()).unwrap();
    let matrix = packed(Zero::Each(zeros));
    assert_eq!(matrix.bounds().unwrap(), (-15, 15));
    assert_eq!(Weights::Keep.product_bits((-15, 15)), Some(6));
    assert_eq!(Weights::Keep.product_bits((-128, 127)), None);
    assert_eq!(Weights::Int8.product_bits((-128, 127)), Some(8));
    let mut rows = Vec::new();
    matrix_rows(&Matrix::Packed(Arc::new(matrix)), &mut rows);
    let value = |byte: i16, index: usize| if index.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
    for (row, zeros) in [(0, [3, 15]), (1, [0, 8])] {
        for index in 0..40 {
            let byte = i16::try_from(32 * row + index / 2).unwrap();
            assert_eq!(i16::from(rows[row][index]), value(byte, index) - zeros[index / 32]);
        }
    }
}

#[test]
fn bytes_may_contain_integers_of_fewer_bits() {
    let matrix = |first: u8, zero| Packed {
        bytes: Tensor::from_raw(DType::U8, vec![2, 1, 32], (first..first + 64).collect::<Vec<u8>>().into())
            .unwrap(),
        bits: 8,
        columns: 32,
        stored: 32,
        ..packed(Zero::All(zero))
    };
    assert_eq!(matrix(96, 128).bounds().unwrap(), (-128, 127));
    assert_eq!(matrix(96, 128).bounds_of_bytes().unwrap(), Some((-32, 31)));
    assert_eq!(Weights::Keep.product_bits((-32, 31)), Some(6));
    assert_eq!(matrix(97, 128).bounds_of_bytes().unwrap(), Some((-31, 32)));
    assert_eq!(matrix(96, 127).bounds_of_bytes().unwrap(), None);
}

fn matrix_rows(matrix: &Matrix, rows: &mut Vec<Vec<i8>>) {
    matrix
        .for_each(true, &mut |row, _| {
            rows.push(row.to_vec());
            Ok(())
        })
        .unwrap();
}

#[test]
fn long_blocks_repeat_their_scale() {
    assert_eq!(
        [16, 32, 64, 128, 256, 96].map(size_of_blocks),
        [None, Some(32), Some(64), Some(128), Some(128), None]
    );
    let matrix = Packed {
        bytes: Tensor::from_raw(DType::U8, vec![1, 2, 128], vec![0; 256].into()).unwrap(),
        rows: 1,
        columns: 300,
        stored: 512,
        block: 256,
        scales: Tensor::from_f32(&[2], vec![0.5, 4.0]).unwrap(),
        ..packed(Zero::All(8))
    };
    let format = BlockFormat { bits: 4, size: 128 };
    let [_, inverses] = gemm_weights(&Matrix::Packed(Arc::new(matrix)), format).unwrap();
    assert_eq!(floats(&inverses), [2.0, 2.0, 0.25]);
}

#[test]
fn halves_of_a_table_share_bytes() {
    let matrix = Packed {
        bytes: Tensor::from_raw(DType::U8, vec![1, 2], vec![0x80, 0x7f].into()).unwrap(),
        rows: 1,
        columns: 4,
        stored: 4,
        block: 2,
        scales: Tensor::from_f32(&[2], vec![0.5, 3.0]).unwrap(),
        ..packed(Zero::All(8))
    };
    let [table, scales] = table_weights(&Matrix::Packed(Arc::new(matrix)), 4).unwrap();
    // The integers are -8, 0, 7 and -1.
    assert_eq!(bytes(&table), [0x70, 0xf8]);
    assert_eq!(floats(&scales), [0.5, 3.0]);
}

fn rounded(weight: Vec<f32>, shape: &[usize], transposed: bool, bits: usize) -> (Matrix, Arc<Rounded>) {
    let (rows, columns) = if transposed { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
    let rounded = Arc::new(Rounded {
        weight: Tensor::from_f32(shape, weight).unwrap(),
        rows,
        columns,
        transposed,
        format: BlockFormat { bits, size: 32 },
        loss: Arc::default(),
    });
    (Matrix::Rounded(rounded.clone()), rounded)
}

#[test]
fn the_largest_magnitude_is_exact() {
    let mut weight = vec![0.0; 64];
    (weight[0], weight[1], weight[2], weight[40]) = (-4.0, 3.4, 4.0, 2.0_f32.powi(-10));
    let (matrix, kept) = rounded(weight, &[2, 32], false, 4);
    let format = BlockFormat { bits: 4, size: 32 };
    let [levels, inverses] = gemm_weights(&matrix, format).unwrap();
    assert_eq!(floats(&inverses), [2.0, -8192.0]);
    assert_eq!(kept.loss.get(), None);
    let levels = bytes(&levels);
    // -8, 7 for 3.4 and 4.0, which exceeds the highest integer; then -8.
    assert_eq!((levels[0], levels[1], levels[20]), (0x78, 0x07, 0x08));
    let errors = 0.1_f64.powi(2) + 0.5_f64.powi(2);
    let squares = 16.0 + 3.4_f64.powi(2) + 16.0 + 2.0_f64.powi(-20);
    let expected = (errors / squares).sqrt();
    assert!((f64::from(*kept.loss.get().unwrap()) - expected).abs() < 1e-6);
}

#[test]
fn columns_are_rounded_as_rows() {
    let weight: Vec<f32> =
        (0..70_u16).flat_map(|k| [f32::from(k) - 30.0, 0.5 * f32::from(k), -1.0]).collect();
    let columns: Vec<f32> = (0..3).flat_map(|n| weight.iter().skip(n).step_by(3).copied()).collect();
    for bits in [4, 6, 8] {
        let format = BlockFormat { bits, size: 32 };
        let by_column = gemm_weights(&rounded(weight.clone(), &[70, 3], true, bits).0, format).unwrap();
        let by_row = gemm_weights(&rounded(columns.clone(), &[3, 70], false, bits).0, format).unwrap();
        assert_eq!(by_column.map(|tensor| bytes(&tensor)), by_row.map(|tensor| bytes(&tensor)));
    }
}

#[test]
fn infinite_weights_are_refused() {
    let (matrix, _) = rounded(vec![f32::INFINITY; 32], &[1, 32], false, 8);
    let [levels, _] = gemm_weights(&matrix, BlockFormat { bits: 8, size: 32 }).unwrap();
    assert!(levels.to_raw().is_err());
}

#[test]
fn errors_grow_as_bits_are_fewer() {
    // A sine from -1.3 to 0.7, at steps that do not repeat.
    let weight: Vec<f32> = (0..64 * 64_u16).map(|index| libm::sinf(f32::from(index) * 2.3) - 0.3).collect();
    let errors = [8, 6, 4].map(|bits| {
        let (matrix, kept) = rounded(weight.clone(), &[64, 64], false, bits);
        gemm_weights(&matrix, BlockFormat { bits, size: 32 }).unwrap()[0].to_raw().unwrap();
        *kept.loss.get().unwrap()
    });
    // The mean square of an error is a twelfth of the square of a step, and that of the sine a half.
    for (error, bits) in errors.into_iter().zip([8, 6, 4]) {
        let step = 1.3 * 2.0_f32.powi(1 - bits);
        let expected = step / (12.0_f32 * (0.5 + 0.3 * 0.3)).sqrt();
        assert!((0.8..1.3).contains(&(error / expected)), "{bits} bits: {error} instead of {expected}");
    }
}
