//! What classifiers have in common: the labels of their classes, and the scores after `post_transform`.

use crate::ops::prelude::*;

/// The labels of the classes of a classifier.
pub(super) struct Labels {
    /// `None` if they are text.
    numbers: Option<Vec<i64>>,
    pub count: i64,
}

impl Labels {
    /// Reads the labels that are integers from an attribute, and the labels that are text from
    /// `classlabels_strings`.
    pub fn read(call: &Call, integers: &str) -> Result<Labels> {
        let numbers = call.optional_ints(integers)?.filter(|labels| !labels.is_empty());
        let texts = call.optional_strings("classlabels_strings")?.unwrap_or_default();
        let count = numbers.as_ref().map_or(texts.len(), Vec::len).int();
        Ok(Labels { numbers, count })
    }

    /// Makes the labels of the classes with these numbers the first output, unless they are text.
    pub fn give<'x>(&self, x: &'x Expand, class: Expr<'x>) {
        match &self.numbers {
            Some(numbers) if numbers.iter().copied().eq(0..self.count) => x.output(0, class),
            Some(numbers) => x.output(0, x.make.ints(numbers).gather(class, 0)),
            None => x.leave_text(0),
        }
    }

    /// Makes the numbers of classes the first output, unless the labels are text.
    pub fn give_number<'x>(&self, x: &'x Expand, class: Expr<'x>) {
        match self.numbers {
            Some(_) => x.output(0, class),
            None => x.leave_text(0),
        }
    }
}

/// Returns the scores after `post_transform`.
pub(super) fn transformed<'x>(x: &Expand, scores: Expr<'x>) -> Result<Expr<'x>> {
    Ok(match x.string("post_transform")? {
        "NONE" => scores,
        "LOGISTIC" => scores.sigmoid(),
        "SOFTMAX" => scores.softmax(1),
        other => unsupported!("post_transform \"{other}\""),
    })
}

/// Returns the scores of two classes of which one sum decides, after `post_transform`; without one, the first
/// class has the score `first`.
pub(super) fn transformed_pair<'x>(
    x: &'x Expand,
    first: impl FnOnce() -> Expr<'x>,
    sum: Expr<'x>,
) -> Result<Expr<'x>> {
    Ok(match x.string("post_transform")? {
        "NONE" => x.make.concat(&[first(), sum], 1),
        "LOGISTIC" => x.make.concat(&[-sum, sum], 1).sigmoid(),
        other => unsupported!("post_transform \"{other}\" of one sum for two classes"),
    })
}

/// Refuses a `post_transform`, as of regressors of one target: onnxruntime ignores it.
pub(super) fn refuse_transform(call: &Call) -> Result<()> {
    match call.string("post_transform")? {
        "NONE" => Ok(()),
        other => unsupported!("post_transform \"{other}\", which onnxruntime ignores"),
    }
}

/// Returns 1 for each row of a column that exceeds a number, else 0.
pub(super) fn exceeds<'x>(x: &'x Expand, column: Expr<'x>, number: f32) -> Expr<'x> {
    column.greater(x.make.number(number, DType::F32)).cast(DType::I64).reshape(&[-1])
}

/// Returns the first index of the largest element of each row.
pub(super) fn first_largest(rows: Expr<'_>) -> Expr<'_> {
    rows.builder.op("ArgMax", [rows], [("axis", 1.into()), ("keepdims", 0.into())]).typed(DType::I64)
}
