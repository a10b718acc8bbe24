//! What layers do, by number.

use std::collections::BTreeSet;

use crate::numbered::Number;

/// What a layer does, by numbers that whoever makes the net gives. Nearly every layer has one.
#[derive(Clone, Debug, Default)]
pub struct MadeFor {
    one: Option<Number>,
    others: BTreeSet<usize>,
}

impl MadeFor {
    /// Every number, once.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.one.map(Number::get).into_iter().chain(self.others.iter().copied())
    }

    /// Adds a number.
    pub(crate) fn insert(&mut self, number: usize) {
        match self.one {
            None => self.one = Some(Number::of(number)),
            Some(one) if one.get() == number => {}
            Some(_) => {
                self.others.insert(number);
            }
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
    use super::*;

    #[test]
    fn every_number_is_there_once() {
        let made_for: MadeFor = [7, 3, 7, 0, 3].into_iter().collect();
        assert_eq!(made_for.iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 3, 7]));
        assert_eq!(made_for.iter().count(), 3);
        assert_eq!(MadeFor::default().iter().count(), 0);
    }
}
