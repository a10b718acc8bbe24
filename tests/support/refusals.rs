//! The rule for the list of known refusals, `known_refusals.txt`: a line for each case, its name, two spaces,
//! the reason.
//!
//! A refusal is known by its name and its reason. A listed case that is refused for another reason fails, and
//! so does one that passes. Blessing accepts these two changes and no others: a refusal that is not listed
//! may be the loss of an operator, and the line for it is written by hand.

use std::collections::{BTreeMap, BTreeSet};

/// The reasons of refused cases, by name.
pub type List = BTreeMap<String, String>;

/// The result of one case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The case is converted, and the result is right.
    Passed,
    /// The converter refuses the case, for this reason.
    Refused(String),
    /// Any other verdict, with its reason.
    Failed(String),
}

impl Outcome {
    /// Reads a verdict of `conformance/run.py` and its reason. An internal error is a failure, never a
    /// refusal.
    pub fn new(verdict: &str, reason: &str) -> Outcome {
        match verdict {
            "pass" => Outcome::Passed,
            "refused" if !reason.starts_with("internal error") => Outcome::Refused(reason.to_owned()),
            _ => Outcome::Failed(format!("{verdict}: {reason}")),
        }
    }
}

/// The result of a comparison: the new list, and the failures that remain.
#[derive(Debug, PartialEq)]
pub struct Review {
    /// The same as the old list, unless it is blessed.
    pub list: List,
    pub failures: Vec<String>,
}

/// Compares the list with the outcomes of all cases.
pub fn review(old: &List, outcomes: &BTreeMap<String, Outcome>, bless: bool) -> Review {
    let mut list = old.clone();
    let mut failures = Vec::new();
    let names: BTreeSet<&String> = old.keys().chain(outcomes.keys()).collect();
    for name in names {
        match (old.get(name), outcomes.get(name)) {
            (None, None | Some(Outcome::Passed)) => {}
            (Some(_), Some(Outcome::Passed)) if bless => {
                list.remove(name);
            }
            (Some(reason), Some(Outcome::Passed)) => {
                failures.push(format!("{name}: passes, but is listed\n  - {reason}"));
            }
            (Some(old), Some(Outcome::Refused(new))) if old == new => {}
            (Some(_), Some(Outcome::Refused(new))) if bless => {
                list.insert(name.clone(), new.clone());
            }
            (Some(old), Some(Outcome::Refused(new))) => {
                failures.push(format!("{name}: refused for another reason\n  - {old}\n  + {new}"));
            }
            (None, Some(Outcome::Refused(reason))) => {
                failures.push(format!("{name}: refused, but not listed; add the line by hand\n  + {reason}"));
            }
            (_, Some(Outcome::Failed(reason))) => failures.push(format!("{name}: {reason}")),
            (Some(_), None) => {
                failures.push(format!("{name}: listed, but no such case; remove the line by hand"));
            }
        }
    }
    Review { list, failures }
}

/// Reads the lines of a list.
pub fn parse(text: &str) -> Result<List, String> {
    let mut list = List::new();
    for line in text.lines() {
        let (name, reason) = line.split_once("  ").ok_or_else(|| format!("{line}: no reason"))?;
        if list.insert(name.to_owned(), reason.to_owned()).is_some() {
            return Err(format!("{name}: two lines"));
        }
    }
    Ok(list)
}

/// The lines of a list, sorted by name.
pub fn format(list: &List) -> String {
    list.iter().map(|(name, reason)| format!("{name}  {reason}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[(&str, &str)]) -> List {
        lines.iter().map(|&(name, reason)| (name.to_owned(), reason.to_owned())).collect()
    }

    /// The review of a list of one case, or none, and the outcome of the same case.
    fn review_one(reason: Option<&str>, outcome: Option<Outcome>, bless: bool) -> Review {
        let old = list(&reason.map(|reason| ("case", reason)).into_iter().collect::<Vec<_>>());
        let outcomes = outcome.map(|outcome| ("case".to_owned(), outcome)).into_iter().collect();
        review(&old, &outcomes, bless)
    }

    fn refused(reason: &str) -> Option<Outcome> {
        Some(Outcome::new("refused", reason))
    }

    #[test]
    fn the_same_refusal_is_known() {
        for bless in [false, true] {
            let found = review_one(Some("a"), refused("a"), bless);
            assert_eq!(found, Review { list: list(&[("case", "a")]), failures: vec![] });
        }
    }

    #[test]
    fn a_case_that_passes_needs_no_line() {
        for bless in [false, true] {
            let found = review_one(None, Some(Outcome::Passed), bless);
            assert_eq!(found, Review { list: list(&[]), failures: vec![] });
        }
    }

    #[test]
    fn a_changed_reason_fails_with_both_reasons() {
        let found = review_one(Some("a"), refused("b"), false);
        assert_eq!(found.list, list(&[("case", "a")]));
        assert_eq!(found.failures, ["case: refused for another reason\n  - a\n  + b"]);
    }

    #[test]
    fn blessing_updates_a_changed_reason() {
        let found = review_one(Some("a"), refused("b"), true);
        assert_eq!(found, Review { list: list(&[("case", "b")]), failures: vec![] });
    }

    #[test]
    fn a_listed_case_that_passes_fails() {
        let found = review_one(Some("a"), Some(Outcome::Passed), false);
        assert_eq!(found.list, list(&[("case", "a")]));
        assert_eq!(found.failures, ["case: passes, but is listed\n  - a"]);
    }

    #[test]
    fn blessing_removes_a_case_that_passes() {
        let found = review_one(Some("a"), Some(Outcome::Passed), true);
        assert_eq!(found, Review { list: list(&[]), failures: vec![] });
    }

    #[test]
    fn blessing_adds_no_case() {
        for bless in [false, true] {
            let found = review_one(None, refused("a"), bless);
            assert_eq!(found.list, list(&[]));
            assert_eq!(found.failures, ["case: refused, but not listed; add the line by hand\n  + a"]);
        }
    }

    #[test]
    fn blessing_writes_no_internal_error() {
        for reason in [None, Some("a"), Some("internal error: b")] {
            for bless in [false, true] {
                let found = review_one(reason, refused("internal error: b"), bless);
                assert_eq!(found.list, review_one(reason, None, false).list);
                assert_eq!(found.failures, ["case: refused: internal error: b"]);
            }
        }
    }

    #[test]
    fn blessing_accepts_no_wrong_result() {
        for verdict in ["wrong", "broken", "crashed"] {
            for bless in [false, true] {
                let found = review_one(Some("a"), Some(Outcome::new(verdict, "b")), bless);
                assert_eq!(found.list, list(&[("case", "a")]));
                assert_eq!(found.failures, [format!("case: {verdict}: b")]);
            }
        }
    }

    #[test]
    fn a_line_without_a_case_fails() {
        for bless in [false, true] {
            let found = review_one(Some("a"), None, bless);
            assert_eq!(found.list, list(&[("case", "a")]));
            assert_eq!(found.failures, ["case: listed, but no such case; remove the line by hand"]);
        }
    }

    #[test]
    fn blessing_updates_the_other_lines_where_one_case_fails() {
        let old = list(&[("a", "old"), ("b", "old"), ("c", "old")]);
        let outcomes = BTreeMap::from([
            ("a".to_owned(), Outcome::new("refused", "new")),
            ("b".to_owned(), Outcome::Passed),
            ("c".to_owned(), Outcome::new("wrong", "1 for 2")),
            ("d".to_owned(), Outcome::new("refused", "new")),
        ]);
        let found = review(&old, &outcomes, true);
        assert_eq!(found.list, list(&[("a", "new"), ("c", "old")]));
        assert_eq!(found.failures.len(), 2);
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let some = list(&[("a", "one  two"), ("b", "three")]);
        assert_eq!(format(&some), "a  one  two\nb  three\n");
        assert_eq!(parse(&format(&some)), Ok(some));
        assert_eq!(parse("a one\n"), Err("a one: no reason".to_owned()));
        assert_eq!(parse("a  one\na  two\n"), Err("a: two lines".to_owned()));
    }
}
