//! What layers do, by number.

use crate::common::index::{RawIndex, SmallList};

/// What a layer does, by numbers that whoever makes the net gives. Nearly every layer has one.
#[derive(Clone, Debug, Default)]
pub struct Provenance(SmallList<RawIndex>);

impl Provenance {
    /// Every number, once.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|number| number.get())
    }

    /// Adds a number.
    pub(crate) fn insert(&mut self, number: usize) {
        let number = RawIndex::of(number);
        if let Err(place) = self.0.binary_search(&number) {
            self.0.insert(place, number);
        }
    }
}

impl Extend<usize> for Provenance {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, numbers: I) {
        for number in numbers {
            self.insert(number);
        }
    }
}

impl FromIterator<usize> for Provenance {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Provenance {
        let mut provenance = Provenance::default();
        provenance.extend(numbers);
        provenance
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_number_is_there_once() {
        let provenance: Provenance = [7, 3, 7, 0, 3].into_iter().collect();
        assert_eq!(provenance.iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 3, 7]));
        assert_eq!(provenance.iter().count(), 3);
        assert_eq!(Provenance::default().iter().count(), 0);
    }
}
