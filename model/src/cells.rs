//! A slab of window cells: fixed-width rows of machine words, chained by key.
//!
//! One cell is one open window of one key. The cells of a key form a chain whose head never moves
//! while the key lives, so that a deadline can name the head's number; the newest window sits in
//! the head, where in-order records look first. Layout of a cell, in words:
//! `key.. | armed | start | end | meta | next | delta.. | total..`; `armed` counts in heads only.
//! No allocation per key, none per record.
#![expect(clippy::indexing_slicing, reason = "offsets come from the widths that sized the cell")]

use crate::image::Dirty;
use crate::key::is_same_key;
use crate::pane::Timing;
use crate::time::{EventTime, Window};
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// Number of a cell.
pub(crate) type CellId = u32;

/// No cell.
const NONE: u64 = u64::MAX;

const ARMED: usize = 0;
const START: usize = 1;
const END: usize = 2;
const META: usize = 3;
const NEXT: usize = 4;
const HEADER: usize = 5;

/// What a cell has done and holds: 32 bits of index, then flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    /// Index of the next pane.
    pub(crate) index: u32,
    /// Whether something came since the pane before.
    pub(crate) has_news: bool,
    /// Whether the cell waits for the end of the round to fire.
    pub(crate) is_touched: bool,
    /// Timing of the pane before, if there was one.
    pub(crate) sent: Option<Timing>,
    /// Whether something came since it was decided last which keys leave memory.
    pub(crate) is_used: bool,
}

impl Meta {
    const fn pack(self) -> u64 {
        self.index as u64
            | (self.has_news as u64) << 32
            | (self.is_touched as u64) << 33
            | (Timing::code(self.sent) as u64) << 34
            | (self.is_used as u64) << 37
    }

    const fn unpack(word: u64) -> Self {
        let sent = match Timing::of_code((word >> 34 & 7) as u8) {
            Some(sent) => sent,
            None => None,
        };
        Self {
            index: word as u32,
            has_news: word >> 32 & 1 == 1,
            is_touched: word >> 33 & 1 == 1,
            sent,
            is_used: word >> 37 & 1 == 1,
        }
    }
}

/// All open windows of the keys of one stage.
#[derive(Debug)]
pub(crate) struct Cells {
    key_words: usize,
    delta_words: usize,
    stride: usize,
    words: Vec<u64>,
    /// Heads by key.
    heads: HashTable<CellId>,
    hasher: foldhash::fast::RandomState,
    /// Freed cells, to be used again.
    free: Vec<CellId>,
    live: usize,
    /// Words that recent fillings of the slab needed, halved each time it ran empty.
    recent: usize,
    /// Whether each window of a key stands alone: a chain of one.
    is_apart: bool,
    /// Which heads have changed since the last cut; `None` where nothing is stored.
    pub(crate) dirty: Option<Box<Dirty>>,
}

impl Cells {
    /// For keys of `key_words` and accumulators of `delta_words` words, kept once (`delta`) or
    /// twice (`delta` and `total`).
    pub(crate) fn new(key_words: usize, delta_words: usize, keeps_total: bool) -> Self {
        let values = if keeps_total { 2 * delta_words } else { delta_words };
        Self {
            key_words,
            delta_words,
            stride: key_words + HEADER + values,
            words: Vec::new(),
            heads: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            free: Vec::new(),
            live: 0,
            recent: 0,
            is_apart: false,
            dirty: None,
        }
    }

    /// Of windows that stand alone: for keys that have very many at a time. Each is found, and is a
    /// head, by itself.
    pub(crate) fn apart(self) -> Self {
        Self { is_apart: true, ..self }
    }

    /// Whether windows stand alone.
    pub(crate) const fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Hash of a packed key in this table.
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        hash_words(&self.hasher, key)
    }

    /// Number of keys that have an open window.
    pub(crate) fn keys(&self) -> usize {
        self.heads.len()
    }

    /// Number of open windows.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Bytes held, free cells included.
    pub(crate) fn bytes(&self) -> usize {
        let dirty = self.dirty.as_ref().map_or(0, |dirty| dirty.bytes());
        self.words.capacity() * 8 + self.heads.allocation_size() + self.free.capacity() * 4 + dirty
    }

    /// Bytes of the cells in use, and what finding them takes.
    pub(crate) fn bytes_live(&self) -> usize {
        self.live * self.stride * 8 + self.heads.len() * (2 * size_of::<CellId>() + 1)
    }

    fn base(&self, cell: CellId) -> usize {
        cell as usize * self.stride
    }

    fn header(&self, cell: CellId, field: usize) -> u64 {
        self.words[self.base(cell) + self.key_words + field]
    }

    fn set_header(&mut self, cell: CellId, field: usize, word: u64) {
        let at = self.base(cell) + self.key_words + field;
        self.words[at] = word;
    }

    /// The key of a head.
    pub(crate) fn key(&self, head: CellId) -> &[u64] {
        let base = self.base(head);
        &self.words[base..base + self.key_words]
    }

    /// The window of a cell.
    pub(crate) fn window(&self, cell: CellId) -> Window {
        Window::new(
            EventTime::from_millis(self.header(cell, START) as i64),
            EventTime::from_millis(self.header(cell, END) as i64),
        )
    }

    /// The flags of a cell.
    pub(crate) fn meta(&self, cell: CellId) -> Meta {
        Meta::unpack(self.header(cell, META))
    }

    /// Sets the flags of a cell.
    pub(crate) fn set_meta(&mut self, cell: CellId, meta: Meta) {
        self.set_header(cell, META, meta.pack());
    }

    /// The deadline that the head's key has registered; [`EventTime::MAX`] and above: see caller.
    pub(crate) fn armed(&self, head: CellId) -> Option<EventTime> {
        let base = self.base(head);
        // A free cell has its `end` before its `start`: it answers to no deadline.
        let armed = *self.words.get(base + self.key_words + ARMED)? as i64;
        (!self.is_free(head)).then_some(EventTime::from_millis(armed))
    }

    /// Notes the deadline that the head's key has registered.
    pub(crate) fn arm(&mut self, head: CellId, deadline: EventTime) {
        self.set_header(head, ARMED, deadline.as_millis() as u64);
    }

    fn is_free(&self, cell: CellId) -> bool {
        let (start, end) = (self.header(cell, START) as i64, self.header(cell, END) as i64);
        end < start
    }

    /// The cell after `cell` in its key's chain.
    pub(crate) fn next(&self, cell: CellId) -> Option<CellId> {
        let next = self.header(cell, NEXT);
        (next != NONE).then_some(next as CellId)
    }

    /// The accumulators since the pane before.
    pub(crate) fn delta(&self, cell: CellId) -> &[u64] {
        let at = self.base(cell) + self.key_words + HEADER;
        &self.words[at..at + self.delta_words]
    }

    /// The accumulators since the pane before.
    pub(crate) fn delta_mut(&mut self, cell: CellId) -> &mut [u64] {
        let at = self.base(cell) + self.key_words + HEADER;
        &mut self.words[at..at + self.delta_words]
    }

    /// The accumulators up to the pane before; empty where totals are not kept.
    pub(crate) fn total(&self, cell: CellId) -> &[u64] {
        let at = self.base(cell) + self.key_words + HEADER + self.delta_words;
        &self.words[at..self.base(cell) + self.stride]
    }

    /// Replaces the total, and empties the delta.
    pub(crate) fn settle(&mut self, cell: CellId, total: Option<&[u64]>) {
        let at = self.base(cell) + self.key_words + HEADER;
        self.words[at..at + self.delta_words].fill(0);
        if let Some(total) = total {
            let at = at + self.delta_words;
            self.words[at..at + self.delta_words].copy_from_slice(total);
        }
    }

    /// The head of `key`; that of `window`, if each window has one.
    pub(crate) fn head(&self, hash: u64, key: &[u64], window: Window) -> Option<CellId> {
        let is_same = |head: &CellId| {
            is_same_key(self.key(*head), key) && (!self.is_apart || self.window(*head) == window)
        };
        self.heads.find(self.place(hash, window), is_same).copied()
    }

    /// Where the head of a key with this hash stands.
    fn place(&self, hash: u64, window: Window) -> u64 {
        if self.is_apart { hash_window(hash, window.start()) } else { hash }
    }

    /// The cell of `window` in the chain of `head`.
    pub(crate) fn find(&self, head: CellId, window: Window) -> Option<CellId> {
        let (start, end) = (window.start().as_millis() as u64, window.end().as_millis() as u64);
        let mut cell = head;
        loop {
            if self.header(cell, START) == start && self.header(cell, END) == end {
                return Some(cell);
            }
            cell = self.next(cell)?;
        }
    }

    /// Adds a key with its first window; returns its head.
    pub(crate) fn insert_key(&mut self, hash: u64, key: &[u64], window: Window) -> CellId {
        let head = self.allocate();
        let base = self.base(head);
        self.words[base..base + self.key_words].copy_from_slice(key);
        self.start(head, window, NONE);
        self.arm(head, EventTime::MAX);
        let (words, stride, key_words) = (&self.words, self.stride, self.key_words);
        let (hasher, is_apart) = (&self.hasher, self.is_apart);
        self.heads.insert_unique(self.place(hash, window), head, |known| {
            let base = *known as usize * stride;
            let hash = hash_words(hasher, &words[base..base + key_words]);
            let start = EventTime::from_millis(words[base + key_words + START] as i64);
            if is_apart { hash_window(hash, start) } else { hash }
        });
        head
    }

    /// Adds a window to the key of `head`: it takes the head's place, what was there moves on.
    pub(crate) fn insert_window(&mut self, head: CellId, window: Window) -> CellId {
        let moved = self.allocate();
        self.copy_content(head, moved);
        self.start(head, window, u64::from(moved));
        head
    }

    /// Removes `cell` from the chain of `head`; the key goes with its last window. `before` is the
    /// cell before it in the chain, `None` for the head itself. Returns the cell that now stands in
    /// its place in the chain.
    pub(crate) fn remove(
        &mut self,
        head: CellId,
        before: Option<CellId>,
        cell: CellId,
    ) -> Option<CellId> {
        let next = self.next(cell);
        if before.is_none() && next.is_none() {
            self.note_gone(head);
        } else {
            self.touch(head);
        }
        match (before, next) {
            (Some(before), _) => {
                self.set_header(before, NEXT, self.header(cell, NEXT));
                self.release(cell);
                next
            }
            (None, Some(next)) => {
                self.copy_content(next, head);
                self.release(next);
                Some(head)
            }
            (None, None) => {
                let hash = self.place(self.hash(self.key(head)), self.window(head));
                if let Ok(entry) = self.heads.find_entry(hash, |known| *known == head) {
                    entry.remove();
                }
                self.release(head);
                None
            }
        }
    }

    /// The words that name a head: its key, and its window where each stands alone.
    pub(crate) fn name(&self, head: CellId, name: &mut Vec<u64>) {
        name.extend_from_slice(self.key(head));
        if self.is_apart {
            name.extend([self.header(head, START), self.header(head, END)]);
        }
    }

    /// Something of the key of `head` changes.
    pub(crate) fn touch(&mut self, head: CellId) {
        if let Some(dirty) = &mut self.dirty {
            dirty.touch(head);
        }
    }

    /// The key of `head` goes.
    fn note_gone(&mut self, head: CellId) {
        if let Some(mut dirty) = self.dirty.take() {
            dirty.remove(head, |name| self.name(head, name));
            self.dirty = Some(dirty);
        }
    }

    /// Removes everything at once.
    pub(crate) fn clear(&mut self) {
        if self.dirty.is_some() {
            for head in self.heads().collect::<Vec<_>>() {
                self.note_gone(head);
            }
        }
        self.heads.clear();
        self.live = 0;
        self.rewind();
    }

    /// All heads, in no order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = CellId> + '_ {
        self.heads.iter().copied()
    }

    fn start(&mut self, cell: CellId, window: Window, next: u64) {
        self.set_header(cell, START, window.start().as_millis() as u64);
        self.set_header(cell, END, window.end().as_millis() as u64);
        self.set_header(cell, META, 0);
        self.set_header(cell, NEXT, next);
        let at = self.base(cell) + self.key_words + HEADER;
        let end = self.base(cell) + self.stride;
        self.words[at..end].fill(0);
    }

    /// Everything of a cell but its key and its deadline.
    fn copy_content(&mut self, from: CellId, to: CellId) {
        let skip = self.key_words + START;
        let from = self.base(from);
        let to = self.base(to);
        self.words.copy_within(from + skip..from + self.stride, to + skip);
    }

    fn allocate(&mut self) -> CellId {
        self.live += 1;
        if let Some(cell) = self.free.pop() {
            return cell;
        }
        let cell = (self.words.len() / self.stride) as CellId;
        self.words.resize(self.words.len() + self.stride, 0);
        cell
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
            self.heads.shrink_to(self.recent / self.stride, |_| 0);
        }
    }

    fn release(&mut self, cell: CellId) {
        self.live -= 1;
        self.set_header(cell, START, 1);
        self.set_header(cell, END, 0);
        self.free.push(cell);
        if self.live == 0 {
            self.rewind();
        }
    }
}

/// Hashes packed words.
pub(crate) fn hash_words(hasher: &foldhash::fast::RandomState, words: &[u64]) -> u64 {
    let mut state = hasher.build_hasher();
    for word in words {
        state.write_u64(*word);
    }
    state.finish()
}

/// Hash of one window of a key.
const fn hash_window(key: u64, start: EventTime) -> u64 {
    // Both halves of a product: low bits choose the place, high bits tell its tenants apart.
    let product = (key ^ start.as_millis() as u64) as u128 * 0x9E37_79B9_7F4A_7C15;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64) -> Window {
        Window::new(EventTime::from_millis(start), EventTime::from_millis(start + 10))
    }

    fn chain(cells: &Cells, head: CellId) -> Vec<i64> {
        let all = std::iter::successors(Some(head), |cell| cells.next(*cell));
        all.map(|cell| cells.window(cell).start().as_millis()).collect()
    }

    #[test]
    fn the_head_stays_while_windows_come_and_go() {
        let mut cells = Cells::new(1, 1, false);
        let hash = cells.hash(&[7]);
        let head = cells.insert_key(hash, &[7], window(0));
        cells.delta_mut(head)[0] = 100;
        for start in [10, 20] {
            let cell = cells.insert_window(head, window(start));
            cells.delta_mut(cell)[0] = 100 + start as u64;
        }
        assert_eq!(cells.head(hash, &[7], window(0)), Some(head));
        assert_eq!(chain(&cells, head), [20, 10, 0]);
        let oldest = cells.find(head, window(0)).unwrap();
        assert_eq!(cells.delta(oldest), [100]);

        let middle = cells.find(head, window(10)).unwrap();
        assert_eq!(cells.remove(head, Some(head), middle), Some(oldest));
        assert_eq!(chain(&cells, head), [20, 0]);
        assert_eq!(cells.remove(head, None, head), Some(head));
        assert_eq!((chain(&cells, head), cells.delta(head)), (vec![0], &[100][..]));
        assert_eq!(cells.remove(head, None, head), None);
        assert_eq!((cells.len(), cells.keys(), cells.head(hash, &[7], window(0))), (0, 0, None));
    }

    #[test]
    fn windows_that_stand_alone_are_found_and_removed_one_by_one() {
        let mut cells = Cells::new(1, 1, false).apart();
        let hash = cells.hash(&[7]);
        for number in 0..3_000 {
            assert_eq!(cells.head(hash, &[7], window(number)), None);
            let head = cells.insert_key(hash, &[7], window(number));
            cells.delta_mut(head)[0] = number as u64;
        }
        for number in (0..3_000).rev() {
            let head = cells.head(hash, &[7], window(number)).unwrap();
            assert_eq!((cells.delta(head)[0], cells.next(head)), (number as u64, None));
            assert_eq!(cells.remove(head, None, head), None);
        }
        assert_eq!((cells.len(), cells.keys()), (0, 0));
    }

    #[test]
    fn flags_survive_packing() {
        let timings = [Timing::Early, Timing::OnTime, Timing::TimedOut, Timing::Late];
        for sent in std::iter::once(None).chain(timings.map(Some)) {
            let flags =
                Meta { has_news: true, is_touched: false, is_used: true, ..Meta::default() };
            let meta = Meta { index: u32::MAX, sent, ..flags };
            assert_eq!(Meta::unpack(meta.pack()), meta);
        }
    }

    #[test]
    fn many_keys_are_found_again() {
        let mut cells = Cells::new(2, 1, true);
        for key in 0..5_000_u64 {
            let key = [key, key % 7];
            let hash = cells.hash(&key);
            let head = cells.insert_key(hash, &key, window(0));
            cells.delta_mut(head)[0] = key[0];
        }
        for key in 0..5_000_u64 {
            let key = [key, key % 7];
            let head = cells.head(cells.hash(&key), &key, window(0)).unwrap();
            assert_eq!((cells.key(head), cells.delta(head)[0]), (&key[..], key[0]));
        }
        assert_eq!(cells.keys(), 5_000);
    }
}
