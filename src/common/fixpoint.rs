//! Passes in turns, until none of them finds anything to do.

use crate::error::Result;

/// Most rounds of all passes. Each leaves less, or what is simpler; networks need three or four.
const MAX_ITERATIONS: usize = 16;

/// Asks `apply` of one pass after the other, again from the first, whether it changed anything; ends when all of them have found
/// nothing in a row.
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
    fn each_pass_is_tried_after_the_last_change() {
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
    fn passes_that_undo_each_other_end() {
        let mut asked = 0;
        apply_to_fixpoint(&[0, 1], |_| {
            asked += 1;
            Ok(true)
        })
        .unwrap();
        assert_eq!(asked, 2 * MAX_ITERATIONS);
    }
}
