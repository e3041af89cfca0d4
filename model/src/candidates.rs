//! The candidates of one top-K group: a slab of fixed-width rows, found by key.
//!
//! Layout of a row, in words: `key.. | news | total..`; `news` is one more than the number of the
//! candidate's news, or zero. A group is dropped as a whole, so that no row is ever freed by itself
//! and nothing has to be looked up for it.
#![expect(clippy::indexing_slicing, reason = "offsets come from the widths that sized the row")]

use crate::cells::hash_words;
use crate::key::is_same_key;
use hashbrown::HashTable;

/// Number of a candidate in its group.
pub(crate) type EntryId = u32;

/// What the candidates of all groups of a stage share.
#[derive(Debug)]
pub(crate) struct CandidateLayout {
    key_words: usize,
    stride: usize,
    hasher: foldhash::fast::RandomState,
}

impl CandidateLayout {
    pub(crate) fn new(key_words: usize, value_words: usize) -> Self {
        let hasher = foldhash::fast::RandomState::default();
        Self { key_words, stride: key_words + 1 + value_words, hasher }
    }

    fn hash(&self, key: &[u64]) -> u64 {
        hash_words(&self.hasher, key)
    }

    fn key<'a>(&self, words: &'a [u64], entry: EntryId) -> &'a [u64] {
        let base = entry as usize * self.stride;
        &words[base..base + self.key_words]
    }
}

/// The candidates of one group, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    words: Vec<u64>,
    /// All of them, once there are more than [`Self::SEARCHED_MAX`]; else empty.
    by_key: HashTable<EntryId>,
}

impl Candidates {
    /// Up to so many are searched one by one.
    const SEARCHED_MAX: usize = 12;

    pub(crate) fn len(&self, layout: &CandidateLayout) -> usize {
        self.words.len() / layout.stride
    }

    /// The numbers of all candidates.
    pub(crate) fn entries(
        &self,
        layout: &CandidateLayout,
    ) -> impl Iterator<Item = EntryId> + use<> {
        0..self.len(layout) as EntryId
    }

    /// The candidate `key`.
    pub(crate) fn find(&self, layout: &CandidateLayout, key: &[u64]) -> Option<EntryId> {
        let is_same = |entry: &EntryId| is_same_key(layout.key(&self.words, *entry), key);
        if self.by_key.is_empty() {
            return self.entries(layout).find(is_same);
        }
        self.by_key.find(layout.hash(key), is_same).copied()
    }

    /// Adds a candidate that is not there, its total zero.
    pub(crate) fn insert(&mut self, layout: &CandidateLayout, key: &[u64]) -> EntryId {
        let entry = self.len(layout) as EntryId;
        self.words.extend_from_slice(key);
        self.words.resize((entry as usize + 1) * layout.stride, 0);
        if !self.by_key.is_empty() {
            self.index(layout, entry);
        } else if entry as usize == Self::SEARCHED_MAX {
            (0..=entry).for_each(|entry| self.index(layout, entry));
        }
        entry
    }

    fn index(&mut self, layout: &CandidateLayout, entry: EntryId) {
        let hash = |entry: &EntryId| layout.hash(layout.key(&self.words, *entry));
        self.by_key.insert_unique(hash(&entry), entry, hash);
    }

    /// Removes all, keeps the room.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.by_key.clear();
    }

    pub(crate) fn key(&self, layout: &CandidateLayout, entry: EntryId) -> &[u64] {
        layout.key(&self.words, entry)
    }

    /// The number of the candidate's news, if it has any.
    pub(crate) fn news(&self, layout: &CandidateLayout, entry: EntryId) -> Option<usize> {
        let at = entry as usize * layout.stride + layout.key_words;
        (self.words[at] as usize).checked_sub(1)
    }

    pub(crate) fn set_news(
        &mut self,
        layout: &CandidateLayout,
        entry: EntryId,
        news: Option<usize>,
    ) {
        let at = entry as usize * layout.stride + layout.key_words;
        self.words[at] = news.map_or(0, |number| number as u64 + 1);
    }

    pub(crate) fn total(&self, layout: &CandidateLayout, entry: EntryId) -> &[u64] {
        let base = entry as usize * layout.stride;
        &self.words[base + layout.key_words + 1..base + layout.stride]
    }

    pub(crate) fn total_mut(&mut self, layout: &CandidateLayout, entry: EntryId) -> &mut [u64] {
        let base = entry as usize * layout.stride;
        &mut self.words[base + layout.key_words + 1..base + layout.stride]
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.by_key.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_candidates_are_found_by_key() {
        let layout = CandidateLayout::new(2, 1);
        let mut candidates = Candidates::default();
        for round in 0..2 {
            for key in 0..100_u64 {
                let key = [key, key % 3];
                assert_eq!(candidates.find(&layout, &key), None, "{round}");
                let entry = candidates.insert(&layout, &key);
                candidates.total_mut(&layout, entry)[0] = key[0] + 1_000;
                candidates.set_news(&layout, entry, Some(entry as usize));
                for known in candidates.entries(&layout) {
                    let key = candidates.key(&layout, known).to_vec();
                    assert_eq!(candidates.find(&layout, &key), Some(known));
                    assert_eq!(candidates.total(&layout, known), [key[0] + 1_000]);
                    assert_eq!(candidates.news(&layout, known), Some(known as usize));
                }
            }
            assert_eq!(candidates.len(&layout), 100);
            candidates.clear();
            assert_eq!(candidates.len(&layout), 0);
        }
    }
}
