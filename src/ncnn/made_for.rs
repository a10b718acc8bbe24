//! What layers do, by number.

use crate::common::index::{Few, Number};

/// What a layer does, by numbers that whoever makes the net gives. Nearly every layer has one.
#[derive(Clone, Debug, Default)]
pub struct MadeFor(Few<Number>);

impl MadeFor {
    /// Every number, once.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|number| number.get())
    }

    /// Adds a number.
    pub(crate) fn insert(&mut self, number: usize) {
        let number = Number::of(number);
        if let Err(place) = self.0.binary_search(&number) {
            self.0.insert(place, number);
        }
    }
}

impl Extend<usize> for MadeFor {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, numbers: I) {
        for number in numbers {
            self.insert(number);
        }
    }
}

impl FromIterator<usize> for MadeFor {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> MadeFor {
        let mut made_for = MadeFor::default();
        made_for.extend(numbers);
        made_for
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_number_is_there_once() {
        let made_for: MadeFor = [7, 3, 7, 0, 3].into_iter().collect();
        assert_eq!(made_for.iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 3, 7]));
        assert_eq!(made_for.iter().count(), 3);
        assert_eq!(MadeFor::default().iter().count(), 0);
    }
}
