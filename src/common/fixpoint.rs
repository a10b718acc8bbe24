//! Repeated passes until none of them changes anything.

use crate::error::Result;

/// The maximum number of iterations. Each pass simplifies, so networks need three or four.
const MAX_ITERATIONS: usize = 16;

/// Calls `apply` for one pass after the other, from the first again after the last, until none of them has
/// reported a change since the last change.
pub(crate) fn apply_to_fixpoint<P>(passes: &[P], mut apply: impl FnMut(&P) -> Result<bool>) -> Result<()> {
    let mut in_vain = 0;
    for pass in passes.iter().cycle().take(passes.len() * MAX_ITERATIONS) {
        if in_vain == passes.len() {
            break;
        }
        in_vain = if apply(pass)? { 0 } else { in_vain + 1 };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_runs_after_the_last_change() {
        let mut left = [2, 0, 1];
        let mut asked = Vec::new();
        apply_to_fixpoint(&[0, 1, 2], |pass: &usize| {
            asked.push(*pass);
            let changes = left[*pass] > 0;
            left[*pass] -= usize::from(changes);
            Ok(changes)
        })
        .unwrap();
        assert_eq!(asked, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn passes_that_undo_each_other_terminate() {
        let mut asked = 0;
        apply_to_fixpoint(&[0, 1], |_| {
            asked += 1;
            Ok(true)
        })
        .unwrap();
        assert_eq!(asked, 2 * MAX_ITERATIONS);
    }
}
