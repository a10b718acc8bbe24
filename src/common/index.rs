//! Tables of values, nodes and blobs, which are numbered from 0 on: a place is found without a search. And numbers for what has none.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::num::NonZeroU32;

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use smallvec::{SmallVec, smallvec};

/// What has a number among others of its kind.
pub(crate) trait Index: Copy {
    /// The one of a number.
    fn of(number: usize) -> Self;

    /// Its number.
    fn index(self) -> usize;
}

/// Places in a list are numbers already.
impl Index for usize {
    fn of(number: usize) -> usize {
        number
    }

    fn index(self) -> usize {
        self
    }
}

/// A number in four bytes, also where there may be none. What is numbered here is counted in millions at most
/// ([`limits::MESSAGES`](crate::common::limits)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RawIndex(NonZeroU32);

impl RawIndex {
    /// A number below 2^32 - 1.
    pub fn of(number: usize) -> RawIndex {
        let next = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        RawIndex(NonZeroU32::new(next).unwrap_or(NonZeroU32::MAX))
    }

    /// The number.
    pub fn get(self) -> usize {
        usize::try_from(self.0.get() - 1).unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for RawIndex {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A set.
#[derive(Clone, Debug)]
pub(crate) struct IndexSet<K> {
    has: Vec<bool>,
    len: usize,
    of: PhantomData<K>,
}

impl<K> Default for IndexSet<K> {
    fn default() -> Self {
        IndexSet { has: Vec::new(), len: 0, of: PhantomData }
    }
}

impl<K: Index> IndexSet<K> {
    /// Adds a member; the answer is whether it is new.
    pub fn insert(&mut self, key: K) -> bool {
        let number = key.index();
        if self.has.len() <= number {
            self.has.resize(number + 1, false);
        }
        let new = self.has.get_mut(number).is_some_and(|has| !std::mem::replace(has, true));
        self.len += usize::from(new);
        new
    }

    /// Whether this is a member.
    pub fn contains(&self, key: K) -> bool {
        self.has.get(key.index()).copied().unwrap_or(false)
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The members, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = K> + '_ {
        self.has.iter().enumerate().filter(|(_, has)| **has).map(|(number, _)| K::of(number))
    }
}

impl<K: Index> Extend<K> for IndexSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Index> FromIterator<K> for IndexSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = IndexSet::default();
        set.extend(keys);
        set
    }
}

/// A few numbers, in the list itself.
pub(crate) type SmallList<T> = SmallVec<[T; 4]>;

/// Something for some of them.
#[derive(Clone, Debug)]
pub(crate) struct IndexMap<K, T> {
    items: Vec<Option<T>>,
    len: usize,
    of: PhantomData<K>,
}

impl<K, T> Default for IndexMap<K, T> {
    fn default() -> Self {
        IndexMap { items: Vec::new(), len: 0, of: PhantomData }
    }
}

impl<K: Index, T> IndexMap<K, T> {
    /// Puts something; gives what was there.
    pub fn insert(&mut self, key: K, item: T) -> Option<T> {
        let before = self.slot(key).and_then(|slot| slot.replace(item));
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes out what is there.
    pub fn remove(&mut self, key: K) -> Option<T> {
        let item = self.items.get_mut(key.index()).and_then(Option::take);
        self.len -= usize::from(item.is_some());
        item
    }

    /// Keeps what a condition holds for.
    pub fn retain(&mut self, mut holds: impl FnMut(K, &T) -> bool) {
        for (number, slot) in self.items.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|item| !holds(K::of(number), item)) {
                *slot = None;
                self.len -= 1;
            }
        }
    }

    /// For how many of them there is something.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing for any.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All there is, in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        let items = self.items.iter().enumerate();
        items.filter_map(|(number, item)| Some((K::of(number), item.as_ref()?)))
    }

    /// What is there.
    pub fn get(&self, key: K) -> Option<&T> {
        self.items.get(key.index()).and_then(Option::as_ref)
    }

    /// Whether something is there.
    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// What is there, to change it.
    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        self.items.get_mut(key.index()).and_then(Option::as_mut)
    }

    fn slot(&mut self, key: K) -> Option<&mut Option<T>> {
        let number = key.index();
        if self.items.len() <= number {
            self.items.resize_with(number + 1, || None);
        }
        self.items.get_mut(number)
    }
}

impl<K: Index, T> IndexMap<K, SmallList<T>> {
    /// Puts something at the end of a list, which is empty at first.
    pub fn push(&mut self, key: K, item: T) {
        match self.get_mut(key) {
            Some(list) => list.push(item),
            None => {
                self.insert(key, smallvec![item]);
            }
        }
    }
}

impl<K: Index, T> Extend<(K, T)> for IndexMap<K, T> {
    fn extend<I: IntoIterator<Item = (K, T)>>(&mut self, pairs: I) {
        for (key, item) in pairs {
            self.insert(key, item);
        }
    }
}

impl<K: Index, T> FromIterator<(K, T)> for IndexMap<K, T> {
    fn from_iter<I: IntoIterator<Item = (K, T)>>(pairs: I) -> Self {
        let mut map = IndexMap::default();
        map.extend(pairs);
        map
    }
}

/// A list for each of them, all in one piece.
#[derive(Clone, Debug)]
pub(crate) struct IndexLists<K, T> {
    /// Where the list of each ends; it begins where the one before ends.
    ends: Vec<usize>,
    items: Vec<T>,
    of: PhantomData<K>,
}

impl<K, T> Default for IndexLists<K, T> {
    fn default() -> Self {
        IndexLists { ends: Vec::new(), items: Vec::new(), of: PhantomData }
    }
}

impl<K: Index, T: Copy> IndexLists<K, T> {
    /// What stands with each key, in the order that it is given in.
    pub fn of(pairs: impl Iterator<Item = (K, T)> + Clone) -> IndexLists<K, T> {
        let (mut ends, mut total) = (Vec::new(), 0);
        for (key, _) in pairs.clone() {
            let number = key.index();
            if ends.len() <= number {
                ends.resize(number + 1, 0);
            }
            if let Some(count) = ends.get_mut(number) {
                *count += 1;
                total += 1;
            }
        }
        let mut begin = 0;
        for end in &mut ends {
            begin += std::mem::replace(end, begin);
        }
        // Each end is where the next item of the list goes, and comes to the end with the last.
        let Some((_, first)) = pairs.clone().next() else { return IndexLists::default() };
        let mut items = vec![first; total];
        for (key, item) in pairs {
            if let Some(next) = ends.get_mut(key.index())
                && let Some(place) = items.get_mut(*next)
            {
                *place = item;
                *next += 1;
            }
        }
        IndexLists { ends, items, of: PhantomData }
    }

    /// The list of one.
    pub fn get(&self, key: K) -> &[T] {
        let number = key.index();
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(number).and_then(|end| self.items.get(begin..*end)).unwrap_or_default()
    }
}

/// Numbers for things that have none, from 0 on: what is alike has one number. The table takes four bytes for each, so that those of many
/// things stay near the processor, where the entries of a map do not.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    items: Vec<T>,
    table: HashTable<RawIndex>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { items: Vec::new(), table: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// One with room for so many things.
    pub fn with_capacity(count: usize) -> Interner<T> {
        let mut numbering = Interner::default();
        numbering.reserve(count);
        numbering
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, count: usize) {
        let (items, hasher) = (&self.items, &self.hasher);
        self.table.reserve(count, |number| hasher.hash_one(items.get(number.get())));
        self.items.reserve(count);
    }

    /// Numbers a thing; `Err` is the number that it has, or what is like it.
    pub fn add(&mut self, item: T) -> Result<usize, usize> {
        let (items, hasher) = (&self.items, &self.hasher);
        let hash = |item: Option<&T>| hasher.hash_one(item);
        let is_item = |number: &RawIndex| items.get(number.get()) == Some(&item);
        match self.table.entry(hash(Some(&item)), is_item, |number| hash(items.get(number.get()))) {
            Entry::Occupied(entry) => Err(entry.get().get()),
            Entry::Vacant(entry) => {
                let number = items.len();
                entry.insert(RawIndex::of(number));
                self.items.push(item);
                Ok(number)
            }
        }
    }

    /// The thing of a number.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.items.get(number)
    }

    /// The number of a thing.
    pub fn find(&self, item: &T) -> Option<usize> {
        let is_item = |number: &RawIndex| self.items.get(number.get()) == Some(item);
        self.table.find(self.hasher.hash_one(Some(item)), is_item).map(|number| number.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set: IndexSet<usize> = [5, 2].into_iter().collect();
        assert!(!set.insert(5) && set.insert(3));
        let members: Vec<usize> = (0..9).filter(|n| set.contains(*n)).collect();
        assert_eq!(members, [2, 3, 5]);
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        assert!(!set.is_empty() && IndexSet::<usize>::default().is_empty());
    }

    #[test]
    fn a_map_has_what_was_put_last() {
        let mut map: IndexMap<usize, &str> = [(4, "a"), (1, "b")].into_iter().collect();
        assert_eq!(map.insert(4, "c"), Some("a"));
        assert_eq!((map.get(4), map.get(1), map.get(0), map.get(9)), (Some(&"c"), Some(&"b"), None, None));
        assert_eq!((map.len(), map.remove(1), map.remove(1), map.len()), (2, Some("b"), None, 1));
        map.extend([(2, "d"), (7, "e")]);
        map.retain(|key, item| key != 7 && *item != "c");
        assert_eq!(map.iter().collect::<Vec<_>>(), [(2, &"d")]);
        assert!(map.remove(2).is_some() && map.is_empty());
        let mut lists: IndexMap<usize, SmallList<u8>> = IndexMap::default();
        for (key, item) in [(2, 7), (0, 8), (2, 9)] {
            lists.push(key, item);
        }
        let list = |key| lists.get(key).map(SmallList::as_slice);
        assert_eq!((list(2), list(0), list(1)), (Some(&[7, 9][..]), Some(&[8][..]), None));
    }

    #[test]
    fn lists_keep_their_order() {
        let pairs = [(3_u8, 'a'), (1, 'b'), (3, 'c'), (0, 'd'), (3, 'e')];
        let lists = IndexLists::of(pairs.iter().map(|(key, item)| (usize::from(*key), *item)));
        let all: Vec<String> = (0..5).map(|key| lists.get(key).iter().collect()).collect();
        assert_eq!(all, ["d", "b", "", "ace", ""]);
        let none: IndexLists<usize, char> = IndexLists::of(std::iter::empty());
        assert!(none.get(0).is_empty());
    }
    #[test]
    fn what_is_alike_has_one_number() {
        let mut numbers = Interner::default();
        assert_eq!(["a", "b", "a", "c"].map(|item| numbers.add(item)), [Ok(0), Ok(1), Err(0), Ok(2)]);
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        numbers.reserve(1000);
        assert!(many.iter().all(|item| numbers.add(item).is_ok()));
        assert_eq!(["b", "999", "d"].map(|item| numbers.find(&item)), [Some(1), Some(1002), None]);
        assert_eq!(
            [2, 1002, 1003].map(|number| numbers.get(number).copied()),
            [Some("c"), Some("999"), None]
        );
    }
}
