//! TfIdfVectorizer: the number of occurrences of n-grams in a row of integers.
//!
//! Each position is compared with the elements of all n-grams; the product over consecutive positions is 1 at
//! an occurrence.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html>.

use std::collections::BTreeSet;
use std::ops::{Add, Mul};

use num_traits::AsPrimitive;

use super::matrix::matrix;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::defined("", "TfIdfVectorizer", expand_vectorizer)
    .lowers_to("Equal with the elements of the n-grams, products of neighbours, and their sums")
    .limits("n-grams of strings; rows of free size; weights of n-grams that share a column")];

/// The maximum number of products of neighbours: each is a few layers.
const MAX_PRODUCTS: i64 = 512;

/// The integers that float32 represents exactly. One beyond is rounded, but to none of these.
const EXACT: std::ops::Range<i64> = -(1 << 24) + 1..1 << 24;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The number of occurrences.
    Tf,
    /// 1 if there is an occurrence.
    Idf,
    /// The weighted number of occurrences.
    TfIdf,
}

struct Vectorizer {
    mode: Mode,
    skips: i64,
    /// Lists of n-grams of equal length.
    grams: Vec<Grams>,
    /// The number of columns of the output.
    columns: i64,
    /// The weight of each n-gram, including the n-grams that are not counted.
    weights: Option<Vec<f32>>,
}

struct Grams {
    length: i64,
    /// The concatenated elements of the n-grams.
    pool: Vec<i64>,
    /// The indices of the n-grams.
    numbers: std::ops::Range<usize>,
    /// The output column of each n-gram.
    columns: Vec<i64>,
}

impl Vectorizer {
    /// Returns the possible distances between the elements of n-grams in rows of `size`. Single elements are
    /// counted once.
    fn distances(&self, length: i64, size: i64) -> std::ops::RangeInclusive<i64> {
        match length {
            1 => 1..=1,
            _ => 1..=self.skips.saturating_add(1).min((size - 1) / (length - 1)),
        }
    }
}

/// Returns the n-grams of the lengths that are counted.
fn read_grams(call: &Call, pool: &[i64], indexes: &[i64]) -> Result<Vec<Grams>> {
    let lengths = call.int("min_gram_length")?..=call.int("max_gram_length")?;
    let starts = call.ints("ngram_counts")?;
    let mut grams = Vec::new();
    let mut before = 0;
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(pool.len().int());
        let part = pool.get(usize::try_from(*start)?..usize::try_from(end)?);
        let (Some(part), length) = (part, index + 1) else {
            invalid!("n-grams from {start} to {end} of {} elements", pool.len())
        };
        if part.len() % length != 0 {
            invalid!("{} elements do not divide into n-grams of length {length}", part.len());
        }
        let count = part.len() / length;
        let Some(columns) = indexes.get(before..before + count) else {
            invalid!("{} indexes of n-grams", indexes.len())
        };
        let numbers = before..before + count;
        before += count;
        if !lengths.contains(&length.int()) || count == 0 {
            continue;
        }
        let different: BTreeSet<&[i64]> = part.chunks(length).collect();
        if different.len() < count {
            unsupported!("an n-gram is listed twice");
        }
        grams.push(Grams { length: length.int(), pool: part.to_vec(), numbers, columns: columns.to_vec() });
    }
    Ok(grams)
}

fn read_vectorizer(call: &Call) -> Result<Vectorizer> {
    let mode = call.word("mode", &[("TF", Mode::Tf), ("IDF", Mode::Idf), ("TFIDF", Mode::TfIdf)])?;
    let skips = call.int("max_skip_count")?;
    let indexes = call.ints("ngram_indexes")?;
    let weights = call.optional_floats("weights")?.filter(|weights| !weights.is_empty() && mode != Mode::Tf);
    let Some(pool) = call.optional_ints("pool_int64s")?.filter(|pool| !pool.is_empty()) else {
        unsupported!("n-grams of strings: ncnn has no blobs of strings");
    };
    let grams = read_grams(call, &pool, &indexes)?;
    if skips < 0 || indexes.iter().any(|index| *index < 0) {
        invalid!("n-grams in columns {indexes:?}, {skips} skips");
    }
    if grams.is_empty() {
        unsupported!("no n-gram has a counted length");
    }
    if let Some(beyond) = pool.iter().find(|element| !EXACT.contains(element)) {
        unsupported!("the integer {beyond}: float32 represents integers up to 2^24 exactly");
    }
    let columns = indexes.iter().max().copied().unwrap_or(0).saturating_add(1);
    if weights.as_ref().is_some_and(|weights| weights.len() != indexes.len()) {
        invalid!("the number of weights differs from the number of n-grams, {}", indexes.len());
    }
    let different: BTreeSet<i64> = indexes.iter().copied().collect();
    if (weights.is_some() || mode == Mode::Idf) && different.len() < indexes.len() {
        unsupported!("several n-grams share a column");
    }
    if columns > limits::BLOB_ELEMENTS {
        return Err(Error::limit(format!("{columns} columns")));
    }
    Ok(Vectorizer { mode, skips, grams, columns, weights })
}

/// Returns the number of occurrences of each n-gram in each row of `size`.
fn counts<'x>(rows: Expr<'x>, size: i64, of: &Vectorizer, grams: &Grams) -> Result<Expr<'x>> {
    let make = rows.builder;
    let length = usize::try_from(grams.length)?;
    let hits: Vec<Expr> = (0..length)
        .map(|index| {
            let elements: Vec<i64> = grams.pool.iter().skip(index).step_by(length).copied().collect();
            rows.equal(make.ints(&elements)).cast(DType::F32)
        })
        .collect();
    let found = |distance: i64| {
        let start_count = size - distance * (grams.length - 1);
        let starts = (0..).map(|index| index * distance);
        let parts = starts.zip(&hits).map(|(start, hit)| hit.slice(1, start, start + start_count));
        let product = parts.reduce(Mul::mul);
        product.map(|product| product.reduce("ReduceSum", &[1], false))
    };
    // Without a distance, the n-grams are longer than the rows.
    let sum = of.distances(grams.length, size).filter_map(found).reduce(Add::add);
    Ok(sum.unwrap_or_else(|| make.floats(&vec![0.0; grams.columns.len()]).unsqueeze(&[0])))
}

fn expand_vectorizer<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let vectorizer = read_vectorizer(x)?;
    if !x.dtype(0)?.is_int() {
        invalid!("n-grams of integers in rows of {}", x.dtype(0)?);
    }
    let sizes = x.sizes(0)?;
    let (rows, size) = match *sizes.as_slice() {
        [size] => (1, size),
        [rows, size] => (rows, size),
        _ => unsupported!("rows of shape {}", display_shape(x.shape(0)?)),
    };
    if size < 1 {
        unsupported!("the rows are empty");
    }
    let mut products = 0_i64;
    for grams in &vectorizer.grams {
        let distances = vectorizer.distances(grams.length, size).count();
        products = products.saturating_add(grams.length.saturating_mul(distances.int()));
        let compared = rows.saturating_mul(size).saturating_mul(grams.columns.len().int());
        if compared > limits::COMPARED || products > MAX_PRODUCTS {
            unsupported!(
                "{} n-grams at {rows} x {size} positions with {} skips",
                vectorizer.columns,
                vectorizer.skips
            );
        }
    }
    let data = x.operand_as(0, DType::I64).reshape(&[rows, size, 1]);
    let part = |grams| Ok(counts(data, size, &vectorizer, grams)?.broadcast(&[rows, 1]));
    let parts = vectorizer.grams.iter().map(part).collect::<Result<Vec<_>>>()?;
    let mut counts = x.make.concat(&parts, 1);
    if vectorizer.mode == Mode::Idf {
        counts = counts.minimum(1.0);
    }
    if let (Mode::Idf | Mode::TfIdf, Some(weights)) = (vectorizer.mode, &vectorizer.weights) {
        let mut gram_weights = Vec::new();
        for gram in vectorizer.grams.iter().flat_map(|grams| grams.numbers.clone()) {
            gram_weights.push(*weights.at(gram)?);
        }
        counts = counts * x.make.floats(&gram_weights);
    }
    let mut result = in_columns(counts, &vectorizer)?;
    if sizes.len() == 1 {
        result = result.reshape(&[-1]);
    }
    Ok(result)
}

/// Returns the counts of n-grams, each in its column.
fn in_columns<'x>(counts: Expr<'x>, vectorizer: &Vectorizer) -> Result<Expr<'x>> {
    let columns: Vec<i64> = vectorizer.grams.iter().flat_map(|grams| grams.columns.iter().copied()).collect();
    if columns.iter().copied().eq(0..vectorizer.columns) {
        return Ok(counts);
    }
    let cells: Vec<_> = columns.iter().enumerate().map(|(row, column)| (row, column.as_(), 1.0)).collect();
    Ok(counts.matmul(matrix(counts.builder, columns.len(), vectorizer.columns.as_(), &cells)?))
}
