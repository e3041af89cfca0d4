//! State beyond memory: keys that nobody has asked for lie in pages outside of it, and come back on
//! their next record or timer.
//!
//! `Cold` knows of the cold keys of one stage in one shard: which page each lies in, when a page
//! is next needed, and which entries of it still count. A page is written once and never changed;
//! an entry that has come back is struck from it here, and a page without entries is let go. What
//! lies in an entry is the business of the table that put it there.
//!
//! Invariant COLD-1: a key is in memory or in one live entry of one page, never in both.

mod page;
mod pages;
mod shelf;
#[cfg(test)]
mod tests;

pub(crate) use page::live_images;
pub use pages::{MemoryPages, PageError, PageNumber, Pages};
pub(crate) use shelf::{Candidate, Chills, Shelf};

use crate::epoch::{Epoch, is_turn};
use crate::key::KeyGroup;
use crate::time::{EventTime, ProcessingTime};
use hashbrown::HashTable;
use page::{Content, Draft};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a cold key waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Wants {
    /// When it next needs the watermark.
    pub(crate) deadline: Option<EventTime>,
    /// When it next needs the clock.
    pub(crate) tick: Option<ProcessingTime>,
    /// By second watermark: when it next needs it.
    pub(crate) shares: Vec<Option<EventTime>>,
    /// Where it holds the output watermark. It does so while it is cold.
    pub(crate) hold: Option<EventTime>,
    /// Its windows that are not complete.
    pub(crate) open: u32,
}

/// A key on its way into a page or out of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Of the key's stable hash: the same in every process.
    pub(crate) print: u32,
    pub(crate) group: KeyGroup,
    pub(crate) wants: Wants,
    /// The key and all of its state.
    pub(crate) image: Vec<u8>,
}

/// A page as an epoch knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownPage {
    pub(crate) number: PageNumber,
    pub(crate) group: KeyGroup,
    /// Which of its entries count, a bit for each, in words.
    pub(crate) live: Vec<u64>,
}

/// Number of a page here, as long as it has live entries.
type Slot = u32;

#[derive(Debug)]
struct Page {
    known: KnownPage,
    /// Its entries, and how many of them count, which only falls.
    entries: usize,
    count: usize,
    /// Windows of these that are not complete.
    open: usize,
    /// The earliest of what its entries wait for, or earlier: those that have come back included.
    earliest: Wants,
    bytes: usize,
}

/// Where the keys of one stage lie that are not in memory.
#[derive(Debug)]
pub(crate) struct Cold {
    at: Arc<dyn Pages>,
    /// Prints of all cold keys, and where each lies.
    index: HashTable<(u32, Slot)>,
    pages: Vec<Option<Page>>,
    free: Vec<Slot>,
    /// Pages by what they wait for.
    deadlines: BTreeSet<(EventTime, Slot)>,
    ticks: BTreeSet<(ProcessingTime, Slot)>,
    shares: Vec<BTreeSet<(EventTime, Slot)>>,
    /// By group: the page of it that was written last, if it is not half full. Gone with the page.
    short: BTreeMap<KeyGroup, Slot>,
    /// The page that was read last. Forgotten when it is let go.
    recent: Option<(Slot, Content)>,
    /// Pages that are no longer needed. Taken by the cut.
    gone: Vec<PageNumber>,
    /// Groups of whose pages something has changed. Cleared by the cut.
    changed: BTreeSet<KeyGroup>,
    /// By group: the epoch that handed its pages over last.
    based: BTreeMap<KeyGroup, Epoch>,
    /// Why a page could not be read or written. The state is no state from then on.
    failure: Option<PageError>,
    /// Bytes of all pages that have live entries.
    bytes: usize,
    /// Windows of cold keys that are not complete.
    open: usize,
    /// Keys that were taken out of pages, and keys that were put into them. Grow only.
    pub(crate) came: u64,
    pub(crate) went: u64,
}

/// Bytes of a page, unless one key has more. Smaller ones are read faster, but there are more to know of and
/// to store; docs/performance.md has what each size costs.
const PAGE_BYTES: usize = 4 << 10;
/// How many pages with few entries are written anew at a time.
const SPARSE_PAGES: usize = 16;
/// How many pages are read at most to look for a key whose prints are not known.
const LOOK_PAGES: usize = 256;

impl Cold {
    /// Without any cold key; a stage waits for so many second watermarks.
    pub(crate) fn new(at: Arc<dyn Pages>, shares: usize) -> Self {
        Self {
            at,
            index: HashTable::new(),
            pages: Vec::new(),
            free: Vec::new(),
            deadlines: BTreeSet::new(),
            ticks: BTreeSet::new(),
            shares: vec![BTreeSet::new(); shares],
            short: BTreeMap::new(),
            recent: None,
            gone: Vec::new(),
            changed: BTreeSet::new(),
            based: BTreeMap::new(),
            failure: None,
            bytes: 0,
            open: 0,
            came: 0,
            went: 0,
        }
    }

    /// How many keys are cold.
    pub(crate) fn keys(&self) -> usize {
        self.index.len()
    }

    /// Whether no key is.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Windows of cold keys that are not complete.
    pub(crate) const fn open_windows(&self) -> usize {
        self.open
    }

    /// Bytes of the pages.
    pub(crate) const fn page_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that knowing all this takes, roughly.
    pub(crate) fn memory(&self) -> usize {
        let shared: usize = self.shares.iter().map(BTreeSet::len).sum();
        let waiting = self.deadlines.len() + self.ticks.len() + shared;
        // What lies behind a page: the bits of its entries, and what they wait for by second watermarks.
        let pages = self.pages.len() - self.free.len();
        let behind = size_of::<u64>() + self.shares.len() * size_of::<Option<EventTime>>();
        self.index.allocation_size()
            + self.pages.capacity() * size_of::<Option<Page>>()
            + self.free.capacity() * size_of::<Slot>()
            + self.gone.capacity() * size_of::<PageNumber>()
            + self.recent.as_ref().map_or(0, |(_, content)| content.bytes().len())
            + (waiting + self.short.len()) * 32
            + pages * behind
            + self.index.len() / 8
    }

    /// What has gone wrong, if anything: nothing that comes of this state may be stored.
    pub(crate) const fn failure(&self) -> Option<&PageError> {
        self.failure.as_ref()
    }

    /// The state is no state from here on.
    pub(crate) fn fail(&mut self, reason: Box<str>) {
        self.failure.get_or_insert(PageError::Store { reason });
    }

    /// Puts keys into pages: those of a key group together, those first that are needed first.
    pub(crate) fn shelve(&mut self, mut entries: Vec<Entry>) {
        if self.failure.is_some() {
            return;
        }
        entries.sort_by(|a, b| {
            let order = |entry: &Entry| (entry.group, entry.wants.deadline, entry.print);
            order(a).cmp(&order(b))
        });
        let mut draft = Draft::default();
        let mut group = None;
        for entry in entries {
            let is_full = draft.bytes() + entry.image.len() > PAGE_BYTES;
            if !draft.is_empty() && (is_full || group != Some(entry.group)) {
                self.write(std::mem::take(&mut draft), group);
            }
            group = Some(entry.group);
            draft.push(&entry);
            self.went += 1;
        }
        if !draft.is_empty() {
            self.write(draft, group);
        }
    }

    /// Adds the keys of the page of each of these groups that was written last and is short, so that one
    /// page is made of both. Not while pages are brought back one by one: it moves what they hold.
    pub(crate) fn join(&mut self, entries: &mut Vec<Entry>) {
        let groups: BTreeSet<_> = entries.iter().map(|entry| entry.group).collect();
        for slot in groups.iter().filter_map(|group| self.short.remove(group)).collect::<Vec<_>>() {
            entries.append(&mut self.take_all(slot));
        }
    }

    fn write(&mut self, draft: Draft, group: Option<KeyGroup>) {
        let Some(group) = group.filter(|_| self.failure.is_none()) else { return };
        let content = draft.finish();
        match self.at.write(content.bytes()) {
            Ok(number) => {
                let live = content.all();
                self.changed.insert(group);
                self.add(KnownPage { number, group, live }, &content);
            }
            Err(error) => self.failure = Some(error),
        }
    }

    /// Knows of a page with this content from here on.
    fn add(&mut self, known: KnownPage, content: &Content) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pages.push(None);
            (self.pages.len() - 1) as Slot
        });
        let mut page = Page {
            known,
            entries: content.len(),
            count: 0,
            open: 0,
            earliest: Wants::default(),
            bytes: content.bytes().len(),
        };
        for number in content.live(&page.known.live) {
            let (print, wants) = (content.print(number), content.wants(number));
            page.count += 1;
            page.open += wants.open as usize;
            page.earliest.lower_to(&wants);
            self.index.insert_unique(place(print), (print, slot), |(print, _)| place(*print));
        }
        self.bytes += page.bytes;
        self.open += page.open;
        self.wait(slot, &page.earliest);
        if page.bytes < PAGE_BYTES / 2 {
            self.short.insert(page.known.group, slot);
        } else {
            self.short.remove(&page.known.group);
        }
        if let Some(free) = self.pages.get_mut(slot as usize) {
            *free = Some(page);
        }
    }

    /// The page waits for what its entries do.
    fn wait(&mut self, slot: Slot, wants: &Wants) {
        self.deadlines.extend(wants.deadline.map(|deadline| (deadline, slot)));
        self.ticks.extend(wants.tick.map(|tick| (tick, slot)));
        for (known, wanted) in self.shares.iter_mut().zip(&wants.shares) {
            known.extend(wanted.map(|deadline| (deadline, slot)));
        }
    }

    fn forget(&mut self, slot: Slot, wants: &Wants) {
        if let Some(deadline) = wants.deadline {
            self.deadlines.remove(&(deadline, slot));
        }
        if let Some(tick) = wants.tick {
            self.ticks.remove(&(tick, slot));
        }
        for (known, wanted) in self.shares.iter_mut().zip(&wants.shares) {
            if let Some(deadline) = wanted {
                known.remove(&(*deadline, slot));
            }
        }
    }

    /// The earliest deadline of a cold key, or an earlier instant: then none may be due by it.
    pub(crate) fn next_deadline(&self) -> Option<EventTime> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// As [`Cold::next_deadline`], by the clock.
    pub(crate) fn next_tick(&self) -> Option<ProcessingTime> {
        self.ticks.first().map(|(tick, _)| *tick)
    }

    /// As [`Cold::next_deadline`], by the second watermark of that number.
    pub(crate) fn next_share(&self, number: usize) -> Option<EventTime> {
        self.shares.get(number)?.first().map(|(deadline, _)| *deadline)
    }

    /// Takes all keys out of the page that is due first, if one of them is due then: the others will be
    /// soon. If none is, those that were have come back, and the page is due later from here on: so no
    /// page comes before another one that is due before it.
    pub(crate) fn take_due(&mut self) -> Vec<Entry> {
        let Some((first, slot)) = self.deadlines.first().copied() else { return Vec::new() };
        self.take_if(slot, |wants| wants.deadline.is_some_and(|deadline| deadline <= first))
    }

    /// As [`Cold::take_due`], by the clock.
    pub(crate) fn take_ticking(&mut self) -> Vec<Entry> {
        let Some((first, slot)) = self.ticks.first().copied() else { return Vec::new() };
        self.take_if(slot, |wants| wants.tick.is_some_and(|tick| tick <= first))
    }

    /// As [`Cold::take_due`], by the second watermark of that number.
    pub(crate) fn take_shared(&mut self, number: usize) -> Vec<Entry> {
        let first = self.shares.get(number).and_then(|pages| pages.first());
        let Some((first, slot)) = first.copied() else { return Vec::new() };
        self.take_if(slot, |wants| {
            let deadline = wants.shares.get(number).copied().flatten();
            deadline.is_some_and(|deadline| deadline <= first)
        })
    }

    /// Numbers of all pages, to be asked one by one.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let pages = self.pages.iter().enumerate().filter(|(_, page)| page.is_some());
        pages.map(|(slot, _)| slot as Slot).collect()
    }

    /// Takes all keys out of a page.
    pub(crate) fn take_all(&mut self, slot: Slot) -> Vec<Entry> {
        self.take_if(slot, |_| true)
    }

    /// Takes all keys out of a page if one of them waits for what is asked; if none does, what the
    /// page waits for is made anew.
    fn take_if(&mut self, slot: Slot, is_asked: impl Fn(&Wants) -> bool) -> Vec<Entry> {
        let Some(content) = self.read(slot) else { return Vec::new() };
        let Some(page) = self.page(slot) else { return Vec::new() };
        let live: Vec<_> = content.live(&page.known.live).collect();
        let wants: Vec<_> = live.iter().map(|number| content.wants(*number)).collect();
        if !wants.iter().any(is_asked) {
            let before = page.earliest.clone();
            let mut earliest = Wants::default();
            wants.iter().for_each(|wants| earliest.lower_to(wants));
            self.forget(slot, &before);
            self.wait(slot, &earliest);
            if let Some(Some(page)) = self.pages.get_mut(slot as usize) {
                page.earliest = earliest;
            }
            self.recent = Some((slot, content));
            return Vec::new();
        }
        let group = page.known.group;
        let entry = |(number, wants): (&usize, Wants)| {
            let (print, image) = (content.print(*number), content.image(*number).to_vec());
            Entry { print, group, wants, image }
        };
        let taken: Vec<_> = live.iter().zip(wants).map(entry).collect();
        for (number, entry) in live.into_iter().zip(&taken) {
            self.strike(slot, number, entry);
        }
        taken
    }

    /// Takes out the key with this print of whose image `is_it` says so.
    pub(crate) fn take(
        &mut self,
        print: u32,
        mut is_it: impl FnMut(&[u8]) -> bool,
    ) -> Option<Entry> {
        let same = self.index.iter_hash(place(print)).filter(|(known, _)| *known == print);
        let mut slots: Vec<_> = same.map(|(_, slot)| *slot).collect();
        slots.dedup();
        for slot in slots {
            let content = self.read(slot)?;
            let page = self.page(slot)?;
            let same = content.printed(print, &page.known.live).collect::<Vec<_>>();
            let found = same.into_iter().find(|number| is_it(content.image(*number)));
            let group = page.known.group;
            let entry = found.map(|number| {
                let (wants, image) = (content.wants(number), content.image(number).to_vec());
                (number, Entry { print, group, wants, image })
            });
            self.recent = Some((slot, content));
            if let Some((number, entry)) = entry {
                self.strike(slot, number, &entry);
                return Some(entry);
            }
        }
        None
    }

    /// The images with this print of which `is_it` says so, where they lie: looking changes nothing.
    ///
    /// # Errors
    /// A page cannot be read. Whoever needs it will find out as well.
    pub(crate) fn look(
        &self,
        print: u32,
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Vec<u8>>, PageError> {
        let same = self.index.iter_hash(place(print)).filter(|(known, _)| *known == print);
        let mut slots: Vec<_> = same.map(|(_, slot)| *slot).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut found = Vec::new();
        for page in slots.into_iter().filter_map(|slot| self.page(slot)) {
            self.look_into(page, &is_it, &mut found)?;
        }
        Ok(found)
    }

    /// As [`Cold::look`], of whatever print, in the pages of `group`: in at most [`LOOK_PAGES`] of
    /// them. Also returns how many keys lie in others.
    ///
    /// # Errors
    /// A page cannot be read.
    pub(crate) fn look_through(
        &self,
        group: KeyGroup,
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Result<(Vec<Vec<u8>>, usize), PageError> {
        let mut pages = self.pages.iter().flatten().filter(|page| page.known.group == group);
        let mut found = Vec::new();
        for page in pages.by_ref().take(LOOK_PAGES) {
            self.look_into(page, &is_it, &mut found)?;
        }
        Ok((found, pages.map(|page| page.count).sum()))
    }

    fn look_into(
        &self,
        page: &Page,
        is_it: impl Fn(&[u8]) -> bool,
        found: &mut Vec<Vec<u8>>,
    ) -> Result<(), PageError> {
        let number = page.known.number;
        let content = Content::of(number, self.at.read(number)?)?;
        let images = content.live(&page.known.live).map(|number| content.image(number));
        found.extend(images.filter(|image| is_it(image)).map(<[u8]>::to_vec));
        Ok(())
    }

    /// Whether a key with this print is cold.
    pub(crate) fn may_hold(&self, print: u32) -> bool {
        self.index.find(place(print), |(known, _)| *known == print).is_some()
    }

    fn page(&self, slot: Slot) -> Option<&Page> {
        self.pages.get(slot as usize)?.as_ref()
    }

    /// The content of a page; `None` if it cannot be had, which is then a failure.
    fn read(&mut self, slot: Slot) -> Option<Content> {
        if self.failure.is_some() {
            return None;
        }
        if let Some((_, content)) = self.recent.take_if(|(recent, _)| *recent == slot) {
            return Some(content);
        }
        let number = self.page(slot)?.known.number;
        match self.at.read(number).and_then(|bytes| Content::of(number, bytes)) {
            Ok(content) => Some(content),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// An entry has come back.
    fn strike(&mut self, slot: Slot, number: usize, entry: &Entry) {
        let is_it = |(print, known): &(u32, Slot)| *print == entry.print && *known == slot;
        if let Ok(place) = self.index.find_entry(place(entry.print), is_it) {
            place.remove();
        }
        let Some(Some(page)) = self.pages.get_mut(slot as usize) else { return };
        self.changed.insert(page.known.group);
        if let Some(word) = page.known.live.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
        page.count -= 1;
        page.open -= entry.wants.open as usize;
        self.open -= entry.wants.open as usize;
        self.came += 1;
        if page.count == 0 {
            self.let_go(slot);
        }
    }

    fn let_go(&mut self, slot: Slot) {
        let Some(page) = self.pages.get_mut(slot as usize).and_then(Option::take) else { return };
        self.forget(slot, &page.earliest);
        if self.short.get(&page.known.group) == Some(&slot) {
            self.short.remove(&page.known.group);
        }
        self.recent.take_if(|(recent, _)| *recent == slot);
        self.bytes -= page.bytes;
        self.gone.push(page.known.number);
        self.free.push(slot);
        if self.index.is_empty() {
            // As large as the next cold keys need it.
            self.index = HashTable::new();
            (self.pages, self.free) = (Vec::new(), Vec::new());
        }
    }

    /// Takes the keys out of pages of which little counts, some at a time, to be put into others.
    pub(crate) fn take_sparse(&mut self) -> Vec<Entry> {
        let is_sparse = |page: &Page| page.count * 4 <= page.entries;
        let sparse = self.pages.iter().enumerate();
        let sparse = sparse.filter(|(_, page)| page.as_ref().is_some_and(is_sparse));
        let sparse: Vec<_> = sparse.map(|(slot, _)| slot as Slot).take(SPARSE_PAGES).collect();
        let mut entries = Vec::new();
        for slot in sparse {
            entries.append(&mut self.take_all(slot));
        }
        entries
    }

    /// The next cut hands over everything.
    pub(crate) fn rewrite(&mut self) {
        self.changed.extend(self.based.keys());
    }

    /// What the cut of `epoch` hands over: by group of which something has changed, or whose turn it
    /// is, all of its pages.
    pub(crate) fn hand_over(&mut self, epoch: Epoch) -> BTreeMap<KeyGroup, Vec<&KnownPage>> {
        let mut groups = std::mem::take(&mut self.changed);
        groups.extend(self.based.keys().filter(|group| is_turn(epoch, **group)));
        for group in &groups {
            self.based.insert(*group, epoch);
        }
        let mut handed: BTreeMap<_, _> =
            groups.into_iter().map(|group| (group, Vec::new())).collect();
        for page in self.pages.iter().flatten() {
            if let Some(pages) = handed.get_mut(&page.known.group) {
                pages.push(&page.known);
            }
        }
        // Once it is told that a group has none there is nothing more to tell.
        self.based.retain(|group, _| handed.get(group).is_none_or(|pages| !pages.is_empty()));
        handed
    }

    /// The oldest epoch whose word is still needed.
    pub(crate) fn oldest(&self) -> Option<Epoch> {
        self.based.values().min().copied()
    }

    /// All pages, as a cut hands them over.
    pub(crate) fn known(&self) -> impl Iterator<Item = &KnownPage> {
        self.pages.iter().flatten().map(|page| &page.known)
    }

    /// The numbers of pages that are no longer needed, but were when the last cut was made.
    pub(crate) fn gone(&self) -> impl Iterator<Item = PageNumber> {
        self.gone.iter().copied()
    }

    /// Takes the numbers of pages that are no longer needed.
    pub(crate) fn take_gone(&mut self) -> Vec<PageNumber> {
        std::mem::take(&mut self.gone)
    }

    /// Knows of a page again, which an epoch has handed over; `each` is told of its live entries.
    ///
    /// # Errors
    /// The page cannot be read.
    pub(crate) fn restore(
        &mut self,
        (known, epoch): (KnownPage, Epoch),
        mut each: impl FnMut(&Wants),
    ) -> Result<(), PageError> {
        let content = Content::of(known.number, self.at.read(known.number)?)?;
        content.check(&known)?;
        for number in content.live(&known.live) {
            each(&content.wants(number));
        }
        self.based.insert(known.group, epoch);
        self.add(known, &content);
        Ok(())
    }
}

impl Wants {
    /// What both wait for, whichever is earlier.
    fn lower_to(&mut self, other: &Self) {
        fn earlier<T: Ord>(known: &mut Option<T>, other: Option<T>) {
            let is_earlier = match (&known, &other) {
                (Some(known), Some(other)) => other < known,
                (None, Some(_)) => true,
                (Some(_) | None, None) => false,
            };
            if is_earlier {
                *known = other;
            }
        }
        earlier(&mut self.deadline, other.deadline);
        earlier(&mut self.tick, other.tick);
        self.shares.resize(self.shares.len().max(other.shares.len()), None);
        for (known, other) in self.shares.iter_mut().zip(&other.shares) {
            earlier(known, *other);
        }
    }
}

/// Where a print stands in the index.
const fn place(print: u32) -> u64 {
    // Low bits choose the place, high bits tell its tenants apart.
    let spread = (print as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    spread ^ spread >> 32
}
