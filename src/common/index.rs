//! Containers keyed by dense indices of values, nodes and blobs, and an interner that assigns such indices.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::num::NonZeroU32;

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use smallvec::{SmallVec, smallvec};

/// A dense index of one kind of things.
pub(crate) trait Index: Copy {
    /// Creates the key of an index.
    fn of(number: usize) -> Self;

    /// Returns the index.
    fn index(self) -> usize;
}

/// Positions in a list are indices already.
impl Index for usize {
    fn of(number: usize) -> usize {
        number
    }

    fn index(self) -> usize {
        self
    }
}

/// An index in four bytes, with a niche for `Option`. Indices count to millions at most
/// ([`limits::MESSAGES`](crate::common::limits)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RawIndex(NonZeroU32);

impl RawIndex {
    /// Creates an index below 2^32 - 1.
    pub fn of(number: usize) -> RawIndex {
        let next = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        RawIndex(NonZeroU32::new(next).unwrap_or(NonZeroU32::MAX))
    }

    /// Returns the index.
    pub fn get(self) -> usize {
        usize::try_from(self.0.get() - 1).unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for RawIndex {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A set of keys.
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
    /// Adds a member, and returns whether it is new.
    pub fn insert(&mut self, key: K) -> bool {
        let number = key.index();
        if self.has.len() <= number {
            self.has.resize(number + 1, false);
        }
        let new = self.has.get_mut(number).is_some_and(|has| !std::mem::replace(has, true));
        self.len += usize::from(new);
        new
    }

    /// Returns whether `key` is a member.
    pub fn contains(&self, key: K) -> bool {
        self.has.get(key.index()).copied().unwrap_or(false)
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the members in ascending order.
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

/// A list that stores up to four elements inline.
pub(crate) type SmallList<T> = SmallVec<[T; 4]>;

/// A map from keys.
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
    /// Reserves memory for the items of `count` keys.
    pub fn reserve(&mut self, count: usize) {
        self.items.reserve(count);
    }

    /// Inserts an item, and returns the previous one.
    pub fn insert(&mut self, key: K, item: T) -> Option<T> {
        let before = self.slot(key).and_then(|slot| slot.replace(item));
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes an item.
    pub fn remove(&mut self, key: K) -> Option<T> {
        let item = self.items.get_mut(key.index()).and_then(Option::take);
        self.len -= usize::from(item.is_some());
        item
    }

    /// Keeps the items that satisfy a condition.
    pub fn retain(&mut self, mut keeps: impl FnMut(K, &T) -> bool) {
        for (number, slot) in self.items.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|item| !keeps(K::of(number), item)) {
                *slot = None;
                self.len -= 1;
            }
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns keys and items in ascending order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        let items = self.items.iter().enumerate();
        items.filter_map(|(number, item)| Some((K::of(number), item.as_ref()?)))
    }

    /// Returns the item of a key.
    pub fn get(&self, key: K) -> Option<&T> {
        self.items.get(key.index()).and_then(Option::as_ref)
    }

    /// Returns whether a key has an item.
    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// Returns the item of a key, mutably.
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
    /// Appends an item to the list of a key, which is empty at first.
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

/// A list for each key, all in one allocation.
#[derive(Clone, Debug)]
pub(crate) struct IndexLists<K, T> {
    /// The end of each list; it begins at the end of the previous one.
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
    /// Collects the items of each key in the order of `pairs`.
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
        // During the fill each entry is the next position of its list, which reaches the end with the last
        // item.
        let Some((_, first)) = pairs.clone().next() else { return IndexLists::default() };
        let mut items = vec![first; total];
        for (key, item) in pairs {
            if let Some(next) = ends.get_mut(key.index())
                && let Some(slot) = items.get_mut(*next)
            {
                *slot = item;
                *next += 1;
            }
        }
        IndexLists { ends, items, of: PhantomData }
    }

    /// Returns the list of a key.
    pub fn get(&self, key: K) -> &[T] {
        let number = key.index();
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(number).and_then(|end| self.items.get(begin..*end)).unwrap_or_default()
    }
}

/// Assigns indices from 0 on to distinct items. The hash table stores four bytes for each item, which fits
/// more items into the processor's caches than a map with the items inline.
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
    /// Creates an interner with room for `count` items.
    pub fn with_capacity(count: usize) -> Interner<T> {
        let mut numbering = Interner::default();
        numbering.reserve(count);
        numbering
    }

    /// Reserves room for more items.
    pub fn reserve(&mut self, count: usize) {
        let (items, hasher) = (&self.items, &self.hasher);
        self.table.reserve(count, |number| hasher.hash_one(items.get(number.get())));
        self.items.reserve(count);
    }

    /// Assigns an index to an item; `Err` is the index of an equal item.
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

    /// Returns the item of an index.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.items.get(number)
    }

    /// Returns the index of an item.
    pub fn find(&self, item: &T) -> Option<usize> {
        let is_item = |number: &RawIndex| self.items.get(number.get()) == Some(item);
        self.table.find(self.hasher.hash_one(Some(item)), is_item).map(|number| number.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_contain_inserted_members() {
        let mut set: IndexSet<usize> = [5, 2].into_iter().collect();
        assert!(!set.insert(5) && set.insert(3));
        let members: Vec<usize> = (0..9).filter(|n| set.contains(*n)).collect();
        assert_eq!(members, [2, 3, 5]);
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        assert!(!set.is_empty() && IndexSet::<usize>::default().is_empty());
    }

    #[test]
    fn maps_keep_the_last_item() {
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
    fn equal_items_share_an_index() {
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
