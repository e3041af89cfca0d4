//! The candidates of a top-K stage: a slab of fixed-width rows, found by key and group.
//!
//! Layout of a row, in words: `key.. | group | next | news | total..`; `next` chains the
//! candidates of a group, `news` is one more than the number of the candidate's news, or zero.
#![expect(clippy::indexing_slicing, reason = "offsets come from the widths that sized the row")]

use crate::cells::hash_words;
use crate::key::is_same_key;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// Number of a candidate.
pub(crate) type EntryId = u32;
/// Number of a group of candidates.
pub(crate) type GroupId = u32;

const NONE: u64 = u64::MAX;
const GROUP: usize = 0;
const NEXT: usize = 1;
const NEWS: usize = 2;
const HEADER: usize = 3;

#[derive(Debug)]
pub(crate) struct Candidates {
    key_words: usize,
    stride: usize,
    words: Vec<u64>,
    by_key: HashTable<EntryId>,
    hasher: foldhash::fast::RandomState,
    free: Vec<EntryId>,
    /// Words that recent fillings of the slab needed, halved each time it ran empty.
    recent: usize,
}

impl Candidates {
    pub(crate) fn new(key_words: usize, value_words: usize) -> Self {
        Self {
            key_words,
            stride: key_words + HEADER + value_words,
            words: Vec::new(),
            by_key: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            free: Vec::new(),
            recent: 0,
        }
    }

    fn base(&self, entry: EntryId) -> usize {
        entry as usize * self.stride
    }

    fn hash(&self, key: &[u64], group: GroupId) -> u64 {
        entry_hash(&self.hasher, key, group)
    }

    /// The candidate `key` of `group`.
    pub(crate) fn find(&self, key: &[u64], group: GroupId) -> Option<EntryId> {
        let is_same =
            |entry: &EntryId| self.group(*entry) == group && is_same_key(self.key(*entry), key);
        self.by_key.find(self.hash(key, group), is_same).copied()
    }

    /// Adds a candidate in front of `next`, its total zero.
    pub(crate) fn insert(&mut self, key: &[u64], group: GroupId, next: Option<EntryId>) -> EntryId {
        let entry = self.free.pop().unwrap_or_else(|| {
            let entry = (self.words.len() / self.stride) as EntryId;
            self.words.resize(self.words.len() + self.stride, 0);
            entry
        });
        let base = self.base(entry);
        let row = &mut self.words[base..base + self.stride];
        row.fill(0);
        row[..self.key_words].copy_from_slice(key);
        row[self.key_words + GROUP] = u64::from(group);
        row[self.key_words + NEXT] = next.map_or(NONE, u64::from);
        let (words, stride, width) = (&self.words, self.stride, self.key_words);
        let hasher = &self.hasher;
        self.by_key.insert_unique(entry_hash(hasher, key, group), entry, |known| {
            let row = &words[*known as usize * stride..];
            entry_hash(hasher, &row[..width], row[width + GROUP] as GroupId)
        });
        entry
    }

    /// Removes all candidates of a chain.
    pub(crate) fn remove_chain(&mut self, first: Option<EntryId>) {
        let mut cursor = first;
        while let Some(entry) = cursor {
            cursor = self.next(entry);
            let hash = self.hash(self.key(entry), self.group(entry));
            if let Ok(found) = self.by_key.find_entry(hash, |known| *known == entry) {
                found.remove();
            }
            self.free.push(entry);
        }
        if self.by_key.is_empty() {
            self.rewind();
        }
    }

    /// Starts an empty slab from its beginning. It keeps its room for the next window, unless that
    /// is far more than the last ones needed.
    fn rewind(&mut self) {
        let used = self.words.len();
        self.words.clear();
        self.free.clear();
        self.recent = used.max(self.recent / 2);
        if self.words.capacity() / 4 > self.recent {
            self.words.shrink_to(self.recent);
            self.free.shrink_to(self.recent / self.stride);
            self.by_key.shrink_to(self.recent / self.stride, |_| 0);
        }
    }

    pub(crate) fn key(&self, entry: EntryId) -> &[u64] {
        let base = self.base(entry);
        &self.words[base..base + self.key_words]
    }

    fn group(&self, entry: EntryId) -> GroupId {
        self.words[self.base(entry) + self.key_words + GROUP] as GroupId
    }

    pub(crate) fn next(&self, entry: EntryId) -> Option<EntryId> {
        let next = self.words[self.base(entry) + self.key_words + NEXT];
        (next != NONE).then_some(next as EntryId)
    }

    /// The number of the candidate's news in its group, if it has any.
    pub(crate) fn news(&self, entry: EntryId) -> Option<usize> {
        (self.words[self.base(entry) + self.key_words + NEWS] as usize).checked_sub(1)
    }

    pub(crate) fn set_news(&mut self, entry: EntryId, news: Option<usize>) {
        let at = self.base(entry) + self.key_words + NEWS;
        self.words[at] = news.map_or(0, |number| number as u64 + 1);
    }

    pub(crate) fn total(&self, entry: EntryId) -> &[u64] {
        let base = self.base(entry);
        &self.words[base + self.key_words + HEADER..base + self.stride]
    }

    pub(crate) fn total_mut(&mut self, entry: EntryId) -> &mut [u64] {
        let base = self.base(entry);
        &mut self.words[base + self.key_words + HEADER..base + self.stride]
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Bytes held, free rows included.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.by_key.allocation_size() + self.free.capacity() * 4
    }
}

fn entry_hash(hasher: &foldhash::fast::RandomState, key: &[u64], group: GroupId) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_u64(hash_words(hasher, key));
    state.write_u32(group);
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_found_by_key_and_group_until_their_chain_is_removed() {
        let mut candidates = Candidates::new(1, 1);
        let mut chains = [None, None];
        for key in 0..100 {
            for group in 0..2_u32 {
                let chain = &mut chains[group as usize];
                let entry = candidates.insert(&[key], group, *chain);
                candidates.total_mut(entry)[0] = key * 2 + u64::from(group);
                *chain = Some(entry);
            }
        }
        candidates.remove_chain(chains[0]);
        for key in 0..100 {
            assert_eq!(candidates.find(&[key], 0), None);
            let entry = candidates.find(&[key], 1).unwrap();
            assert_eq!(candidates.total(entry), [key * 2 + 1]);
        }
        assert_eq!(candidates.len(), 100);
        candidates.remove_chain(chains[1]);
        assert_eq!(candidates.len(), 0);
    }
}
