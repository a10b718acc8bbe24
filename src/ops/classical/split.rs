//! The tests of the nodes of trees, each as one of `feature <= number`.

use num_traits::AsPrimitive;

use super::trees::End;
use crate::ops::prelude::*;

/// How a node compares a feature with its number, in the order of the modes of TreeEnsemble.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
}

impl Comparison {
    pub const ALL: [Comparison; 6] = [
        Comparison::LessOrEqual,
        Comparison::Less,
        Comparison::GreaterOrEqual,
        Comparison::Greater,
        Comparison::Equal,
        Comparison::NotEqual,
    ];
}

/// A condition, as the model states it.
pub(super) struct Condition {
    pub feature: i64,
    pub comparison: Comparison,
    pub number: f64,
    /// Whether it is true for a missing feature, which is NaN.
    pub tracks_missing: bool,
    /// The successors if it is true and false.
    pub branches: [End; 2],
}

/// The largest magnitude of features that are compared with infinite thresholds: the next one replaces larger
/// magnitudes.
pub(super) const BOUND: f32 = f32::MAX.next_down();

/// The test `feature <= number`.
pub(super) struct Split {
    pub feature: i64,
    /// A finite number.
    pub number: f32,
    /// The result for a missing feature.
    pub missing: bool,
    /// The successors if it passes and fails.
    pub branches: [End; 2],
}

/// Returns the largest float32 up to a number. Magnitudes below the normal ones count as 0 in the runtime.
fn up_to(number: f64) -> f32 {
    let rounded: f32 = number.as_();
    let below = if f64::from(rounded) > number { rounded.next_down() } else { rounded };
    match below {
        tiny if tiny.abs() >= f32::MIN_POSITIVE || tiny == 0.0 => tiny,
        negative if negative < 0.0 => -f32::MIN_POSITIVE,
        _ => 0.0,
    }
}

/// Returns the largest float32 below a number.
fn below(number: f64) -> f32 {
    let most = up_to(number);
    if f64::from(most) < number {
        return most;
    }
    if most == 0.0 { -f32::MIN_POSITIVE } else { up_to(f64::from(most.next_down())) }
}

/// The splits of all conditions; condition `i` has split `i`. A comparison of equality adds a second one at
/// the end.
pub(super) struct Splits {
    pub list: Vec<Split>,
    /// Whether the features have to be clipped to [`BOUND`].
    pub is_bounded: bool,
}

impl Splits {
    pub fn of(conditions: Vec<Condition>) -> Result<Splits> {
        let is_bounded = conditions.iter().any(|condition| condition.number.is_infinite());
        let count = conditions.len();
        let (mut list, mut second) = (Vec::with_capacity(count), Vec::new());
        for condition in conditions {
            let most = condition.most(is_bounded)?;
            let Condition { feature, comparison, number, tracks_missing, branches } = condition;
            let [passes, fails] = branches;
            let reversed = [fails, passes];
            list.push(match comparison {
                Comparison::LessOrEqual | Comparison::Less => {
                    Split { feature, number: most, missing: tracks_missing, branches }
                }
                Comparison::Greater | Comparison::GreaterOrEqual => {
                    Split { feature, number: most, missing: !tracks_missing, branches: reversed }
                }
                Comparison::Equal | Comparison::NotEqual => {
                    let is_equal = comparison == Comparison::Equal;
                    let further = (false, count + second.len());
                    let [equal, other] = if is_equal { branches } else { reversed };
                    // A missing feature differs from each number, unless it counts as equal.
                    let missing = is_equal && tracks_missing;
                    let number = up_to(number);
                    second.push(Split { feature, number, missing, branches: [equal, other] });
                    Split { feature, number: most, missing: false, branches: [other, further] }
                }
            });
        }
        list.append(&mut second);
        Ok(Splits { list, is_bounded })
    }
}

/// Returns a threshold as features of a type are compared with it. Those of float64 are rounded to float32,
/// and the threshold is too: what was equal stays equal.
pub(super) fn threshold(dtype: DType, number: f64) -> f64 {
    let rounded: f32 = number.as_();
    if dtype == DType::F64 && rounded.is_finite() { rounded.into() } else { number }
}

impl Condition {
    /// Returns the number of the test that stands for the condition or, of two tests, of the first.
    fn most(&self, is_bounded: bool) -> Result<f32> {
        let number = self.number;
        let is_closed = matches!(self.comparison, Comparison::LessOrEqual | Comparison::Greater);
        let most = if is_closed { up_to(number) } else { below(number) };
        let decides_nothing = match self.comparison {
            Comparison::LessOrEqual | Comparison::Greater => number == f64::INFINITY,
            Comparison::Less | Comparison::GreaterOrEqual => number == f64::NEG_INFINITY,
            Comparison::Equal | Comparison::NotEqual => false,
        };
        if decides_nothing {
            return Ok(if number > 0.0 { BOUND } else { f32::MIN });
        }
        if number.is_nan() || !most.is_finite() || is_bounded && most.abs() >= BOUND {
            unsupported!("the threshold {number} is not within the range of float32");
        }
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The splits of one condition over two leaves.
    fn split(comparison: Comparison, number: f64, tracks_missing: bool) -> Result<Vec<Split>> {
        let branches = [(true, 0), (true, 1)];
        let condition = Condition { feature: 0, comparison, number, tracks_missing, branches };
        Ok(Splits::of(vec![condition])?.list)
    }

    /// Returns whether the condition is true: whether the way ends at leaf 0.
    fn passes(splits: &[Split], feature: f32) -> bool {
        let (mut is_leaf, mut index) = (false, 0);
        while !is_leaf {
            let split = &splits[index];
            let passes = if feature.is_nan() { split.missing } else { feature <= split.number };
            (is_leaf, index) = split.branches[usize::from(!passes)];
        }
        index == 0
    }

    #[test]
    fn splits_are_as_the_condition() {
        let numbers = [0.1, -0.1, 0.0, 1.0, f64::from(0.1_f32), 1e-300, -1e-300, 3e38];
        let features =
            [0.1_f32, 0.1_f32.next_down(), 0.0, -0.0, -1.0, 1.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE, 3e38];
        for number in numbers {
            for feature in features {
                let exact = f64::from(feature);
                for (comparison, expected) in Comparison::ALL.into_iter().zip([
                    exact <= number,
                    exact < number,
                    exact >= number,
                    exact > number,
                    exact == number,
                    exact != number,
                ]) {
                    let splits = split(comparison, number, false).unwrap();
                    assert_eq!(passes(&splits, feature), expected, "{feature} and {number}");
                }
            }
        }
    }

    #[test]
    fn rounded_features_equal_rounded_thresholds() {
        for number in [0.1, -0.1, 1.2, 3.4, 1e-300, 0.0] {
            let feature: f32 = number.as_();
            for (index, comparison) in Comparison::ALL.into_iter().enumerate() {
                let splits = split(comparison, threshold(DType::F64, number), false).unwrap();
                // At most, less, at least, greater, equal, not equal.
                assert_eq!(passes(&splits, feature), [0, 2, 4].contains(&index), "{number} {index}");
            }
        }
        assert_eq!(threshold(DType::F32, 0.1), 0.1);
        assert_eq!(threshold(DType::F64, 1e300), 1e300);
    }

    #[test]
    fn missing_features_differ_from_each_number() {
        for (index, comparison) in Comparison::ALL.into_iter().enumerate() {
            for tracks_missing in [false, true] {
                let splits = split(comparison, 1.0, tracks_missing).unwrap();
                assert_eq!(passes(&splits, f32::NAN), tracks_missing || index == 5);
            }
        }
    }

    #[test]
    fn infinite_thresholds_decide_nothing_or_are_refused() {
        for (comparison, number, expected) in [
            (Comparison::LessOrEqual, f64::INFINITY, Some(true)),
            (Comparison::Greater, f64::INFINITY, Some(false)),
            (Comparison::Less, f64::NEG_INFINITY, Some(false)),
            (Comparison::GreaterOrEqual, f64::NEG_INFINITY, Some(true)),
            (Comparison::LessOrEqual, f64::NEG_INFINITY, None),
            (Comparison::Equal, f64::INFINITY, None),
            (Comparison::Less, f64::NAN, None),
        ] {
            let splits = split(comparison, number, false);
            for feature in [BOUND, -BOUND, 0.0] {
                assert_eq!(splits.as_ref().ok().map(|splits| passes(splits, feature)), expected);
            }
        }
    }
}
