//! Lists of integers as arithmetic progressions and repetitions of parts.

/// Returns the number of segments of a list without its repetitions.
pub(crate) fn segment_count(list: &[i64]) -> usize {
    let once = list.get(..period(list)).unwrap_or(list);
    let once: Vec<i64> = once.iter().copied().step_by(repetition(once)).collect();
    segments(&once).len()
}

/// Returns the first element and the step of an arithmetic progression.
pub(crate) fn progression(list: &[i64]) -> Option<(i64, i64)> {
    let first = *list.first()?;
    let step = list.get(1).map_or(1, |second| second - first);
    let follows = list.iter().zip(list.iter().skip(1)).all(|(a, b)| b - a == step);
    follows.then_some((first, step))
}

/// Returns the length of the shortest part whose repetition is the list.
pub(crate) fn period(list: &[i64]) -> usize {
    let len = list.len();
    let repeats =
        |n: &usize| len.is_multiple_of(*n) && list.iter().zip(list.iter().skip(*n)).all(|(a, b)| a == b);
    // Only repetitions of less than half the list are worth a layer.
    (1..=len / 2).find(repeats).unwrap_or(len)
}

/// Returns the number of times that each element is repeated, if that is the same for all.
pub(crate) fn repetition(list: &[i64]) -> usize {
    let count = list.iter().take_while(|n| Some(*n) == list.first()).count().max(1);
    let even = list.len().is_multiple_of(count);
    if even && list.chunks(count).all(|part| part.iter().all(|p| Some(p) == part.first())) {
        count
    } else {
        1
    }
}

/// Splits a list into arithmetic progressions; those with a step other than 1 or -1 must be long.
pub(crate) fn segments(list: &[i64]) -> Vec<&[i64]> {
    const WORTH_A_STRIDE: usize = 4;
    let mut parts = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let steps = || rest.iter().zip(rest.iter().skip(1)).map(|(a, b)| b - a);
        let step = steps().next();
        let mut len = 1 + steps().take_while(|next| Some(*next) == step).count();
        let near = step.is_some_and(|step| step.abs() <= 1);
        if !near && len < WORTH_A_STRIDE {
            len = 1;
        }
        let (part, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        parts.push(part);
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_classified() {
        assert_eq!(progression(&[7]), Some((7, 1)));
        assert_eq!(progression(&[7, 5, 3]), Some((7, -2)));
        assert_eq!(progression(&[7, 5, 4]), None);
        assert_eq!(period(&[1, 2, 1, 2]), 2);
        assert_eq!(period(&[1, 2, 1]), 3);
        assert_eq!(repetition(&[1, 1, 5, 5, 2, 2]), 2);
        assert_eq!(repetition(&[1, 1, 5]), 1);
        assert_eq!(segments(&[2, 1, 0, 1, 2, 9, 5]), [&[2, 1, 0][..], &[1, 2], &[9], &[5]]);
        assert_eq!(segments(&[0, 2, 4, 6, 8, 3]), [&[0, 2, 4, 6, 8][..], &[3]]);
        assert_eq!(segments(&[0, 0, 5]), [&[0, 0][..], &[5]]);
    }
}
