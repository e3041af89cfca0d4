//! How the entries of a table go into pages, and come back.
//!
//! A table that has a shelf looks there for what it does not have itself, and asks it before the
//! watermark, the clock or anything else is delivered, so that whoever is due comes back in time.
//! Which entries go is decided here: those that were not used since it was decided last, those first
//! that are needed last, and of those a hand goes round the key groups and takes all of one before it
//! goes on to the next: a page holds keys of one group, so that it is full. What an entry waits for lies in
//! its page exactly as the table has it, so that one that has come back is as if it had never gone.

use super::{Cold, Entry, KnownPage, PageError, Pages, Wants};
use crate::epoch::Epoch;
use crate::image::{Form, ImageError, Input, Keyed, put_bytes};
use crate::key::{KeyGroup, Placing, stable_hash};
use crate::plan::Plan;
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime};
use std::sync::Arc;

/// Bytes of images that are put into pages at a time, about.
const BATCH_BYTES: usize = 4 << 20;

/// The cold entries of one table.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(crate) cold: Cold,
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    /// Place of the stage in the plan.
    stage: usize,
    /// Whether a window is part of an entry's name.
    has_window: bool,
    placing: Placing,
    /// Bytes that the table may take. Set before each round.
    pub(crate) limit: usize,
    /// Pages that are still to be brought back, see [`Chills::recall_each`].
    asked: Vec<u32>,
    /// The group of the entry that went last: the next that go are of it, or of those behind it.
    hand: u16,
}

/// An entry that may go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) entry: u32,
    /// Whether it was used since candidates were asked for last.
    pub(crate) is_used: bool,
    /// When it is needed at the latest.
    pub(crate) deadline: Option<EventTime>,
}

/// A table whose entries can go into pages.
pub(crate) trait Chills: Keyed + Sized {
    /// Where its cold entries are; `None` if all are in memory.
    fn shelf(&mut self) -> &mut Option<Box<Shelf>>;

    /// As [`Chills::shelf`], to look at.
    fn shelf_ref(&self) -> Option<&Shelf>;

    /// Whether a window is part of an entry's name.
    fn has_window(&self) -> bool {
        false
    }

    /// How many second watermarks entries may wait for.
    fn shares(&self) -> usize {
        0
    }

    /// The watermark: who is due by it has been asked.
    fn reached(&self) -> EventTime;

    /// Bytes of the entries in memory.
    fn held(&self) -> usize;

    /// Counts anew what all entries take, and from here on what each takes when it changes.
    fn weigh_all(&mut self) {}

    /// What may go: what waits for nothing that has come, a watermark up to `until` included.
    fn candidates(&self, until: EventTime) -> Vec<Candidate>;

    /// What an entry waits for.
    fn wants(&self, entry: u32) -> Wants;

    /// Lets an entry go. What it holds back stays held.
    fn let_go(&mut self, entry: u32, wants: &Wants);

    /// An entry that is cold holds something back; or it is about to come back, and will hold it by
    /// itself.
    fn hold(&mut self, wants: &Wants, is_held: bool);

    /// Installs an entry, whatever the watermark is.
    fn put_in(
        &mut self,
        (name, content): (Input<'_>, Input<'_>),
        form: &Form<'_>,
    ) -> Result<Option<u32>, ImageError> {
        self.install(name, content, form)
    }

    /// An entry that has just been installed waits for exactly this.
    fn rearm(&mut self, entry: u32, wants: &Wants);

    /// Some entries have gone: nothing of them is left. All others count as not used.
    fn settle(&mut self);

    /// The entry of this name, if it was cold: it has come back.
    fn recall(&mut self, name: &[u64]) -> Option<u32> {
        self.shelf().as_ref().filter(|shelf| !shelf.cold.is_empty())?;
        let mut shelf = self.shelf().take()?;
        let entry = shelf.find(name).and_then(|entry| self.put_back(&mut shelf, &entry));
        *self.shelf() = Some(shelf);
        entry
    }

    /// Brings a page back that is due as `is_due` says, while the watermark `until` is delivered;
    /// unless something in memory is due before or with it: at `hot`. What has come back before has
    /// had its turn, so some of it may go again.
    fn recall_due(
        &mut self,
        hot: Option<EventTime>,
        is_due: impl Fn(EventTime) -> bool,
        until: EventTime,
    ) {
        self.recall_while(until, |cold| {
            let next = cold.next_deadline()?;
            let is_first = is_due(next) && hot.is_none_or(|hot| next < hot);
            is_first.then(|| cold.take_due())
        });
    }

    /// As [`Chills::recall_due`], by the clock.
    fn recall_ticking(
        &mut self,
        hot: Option<ProcessingTime>,
        now: ProcessingTime,
        until: EventTime,
    ) {
        self.recall_while(until, |cold| {
            let next = cold.next_tick()?;
            let is_first = next <= now && hot.is_none_or(|hot| next < hot);
            is_first.then(|| cold.take_ticking())
        });
    }

    /// As [`Chills::recall_due`], by the second watermark of that number, which stands at `share`.
    /// Returns whether something has come back.
    fn recall_shared(&mut self, (number, share): (usize, EventTime), until: EventTime) -> bool {
        let entries = self.recall_while(until, |cold| {
            let next = cold.next_share(number)?;
            (next <= share).then(|| cold.take_shared(number))
        });
        !entries.is_empty()
    }

    /// Takes pages off the shelf, until one has something or there is none to take; makes room
    /// first. Returns what has come back.
    fn recall_while(
        &mut self,
        until: EventTime,
        mut take: impl FnMut(&mut Cold) -> Option<Vec<Entry>>,
    ) -> Vec<u32> {
        let Some(mut shelf) = self.shelf().take() else { return Vec::new() };
        let mut entries = Vec::new();
        let mut has_room = false;
        // One that cannot be read stays what is due first.
        while entries.is_empty()
            && shelf.cold.failure().is_none()
            && let Some(taken) = take(&mut shelf.cold)
        {
            if !taken.is_empty() && !has_room {
                self.make_room(&mut shelf, until, false);
                has_room = true;
            }
            let back = taken.iter().filter_map(|entry| self.put_back(&mut shelf, entry));
            entries.extend(back);
        }
        *self.shelf() = Some(shelf);
        entries
    }

    /// All pages there are now are to be brought back, one by one.
    fn recall_each(&mut self) {
        if let Some(shelf) = self.shelf() {
            shelf.asked = shelf.cold.slots();
        }
    }

    /// Brings back the next of them; returns what has come back, `None` if no page is left.
    fn recall_next(&mut self, until: EventTime) -> Option<Vec<u32>> {
        let slot = self.shelf().as_mut()?.asked.pop()?;
        Some(self.recall_while(until, |cold| {
            let taken = cold.take_all(slot);
            (!taken.is_empty()).then_some(taken)
        }))
    }

    /// Puts an entry back as it was; returns its number.
    fn put_back(&mut self, shelf: &mut Shelf, entry: &Entry) -> Option<u32> {
        self.hold(&entry.wants, false);
        let installed = shelf.parts(entry).and_then(|(name, content, form)| {
            self.put_in((name, content), &form).map_err(|error| error.to_string().into())
        });
        match installed {
            Ok(Some(number)) => {
                self.rearm(number, &entry.wants);
                if let Some(dirty) = self.dirty() {
                    dirty.touch(number);
                }
                Some(number)
            }
            Ok(None) => {
                shelf.cold.fail("a key is in memory and in a page".into());
                None
            }
            Err(reason) => {
                shelf.cold.fail(reason);
                None
            }
        }
    }

    /// Makes room between two rounds, in memory and in pages of which little counts.
    fn tidy(&mut self) {
        let Some(mut shelf) = self.shelf().take() else { return };
        if self.held() > shelf.room() {
            self.make_room(&mut shelf, self.reached(), true);
            let sparse = shelf.cold.take_sparse();
            shelf.cold.shelve(sparse);
        }
        *self.shelf() = Some(shelf);
    }

    /// If the table takes more than it may, lets entries go until it takes an eighth less; between two
    /// rounds short pages are joined with what goes.
    fn make_room(&mut self, shelf: &mut Shelf, until: EventTime, joins: bool) {
        if self.held() <= shelf.room() {
            return;
        }
        let mut candidates = self.candidates(until);
        let urgency = Urgency::of(&candidates);
        let class = |known: &Candidate| (known.is_used, urgency.class(known.deadline));
        candidates.sort_by_key(class);
        let mut going = Vec::new();
        let mut bytes = 0;
        'classes: for class in candidates.chunk_by(|one, other| class(one) == class(other)) {
            for number in shelf.in_turn(self, class) {
                let room = shelf.room();
                if self.held() <= room - room / 8 {
                    break 'classes;
                }
                match shelf.entry(self, number) {
                    Ok(entry) => {
                        self.let_go(number, &entry.wants);
                        shelf.hand = entry.group.0;
                        bytes += entry.image.len();
                        going.push(entry);
                    }
                    Err(reason) => shelf.cold.fail(reason),
                }
                if bytes > BATCH_BYTES {
                    shelf.shelve(std::mem::take(&mut going), joins);
                    bytes = 0;
                }
            }
        }
        shelf.shelve(going, joins);
        self.settle();
    }

    /// Brings everything back, for good.
    fn recall_all(&mut self) {
        let Some(shelf) = self.shelf() else { return };
        shelf.limit = usize::MAX;
        self.recall_each();
        while self.recall_next(EventTime::MAX).is_some() {}
    }

    /// Knows of a page again, which `epoch` has handed over.
    ///
    /// # Errors
    /// The page cannot be read.
    fn restore_page(&mut self, known: KnownPage, epoch: Epoch) -> Result<(), PageError> {
        let Some(mut shelf) = self.shelf().take() else { return Ok(()) };
        let restored = shelf.cold.restore((known, epoch), |wants| self.hold(wants, true));
        *self.shelf() = Some(shelf);
        restored
    }
}

impl Shelf {
    /// Nothing is on it yet. `stage` is the place of a stage of the plan; its table has entries that
    /// are named with a window or without, and wait for so many second watermarks.
    pub(crate) fn new(
        (plan, symbols): (&Arc<Plan>, &Arc<Symbols>),
        (stage, has_window, shares): (usize, bool, usize),
        pages: Arc<dyn Pages>,
    ) -> Option<Self> {
        let placing = Placing::of_stage(plan, plan.stages.get(stage)?);
        Some(Self {
            cold: Cold::new(pages, shares),
            plan: Arc::clone(plan),
            symbols: Arc::clone(symbols),
            stage,
            has_window,
            placing,
            limit: usize::MAX,
            asked: Vec::new(),
            hand: 0,
        })
    }

    /// Puts entries into pages.
    fn shelve(&mut self, mut going: Vec<Entry>, joins: bool) {
        if joins {
            self.cold.join(&mut going);
        }
        self.cold.shelve(going);
    }

    /// The entries of some candidates, in the order in which the hand comes to them.
    fn in_turn<T: Chills>(&mut self, table: &T, candidates: &[Candidate]) -> Vec<u32> {
        let mut name = Vec::new();
        let turn = |candidate: &Candidate| {
            name.clear();
            table.name(candidate.entry, &mut name);
            let group = self.placing.group(&name, &self.symbols);
            (group.0.wrapping_sub(self.hand), candidate.entry)
        };
        let mut turns: Vec<_> = candidates.iter().map(turn).collect();
        turns.sort_unstable();
        turns.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Bytes that entries may take in memory: what knowing of those that are not leaves, and a quarter at
    /// least. Where knowing takes everything already, keys that are in use would else leave behind every
    /// round, and come back in the next.
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.cold.memory()).max(self.limit / 4)
    }

    fn form(&self) -> Result<Form<'_>, Box<str>> {
        let stage = self.plan.stages.get(self.stage).ok_or("there is no such stage")?;
        let key = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent);
        Ok(Form::new((key, self.has_window), &stage.aggregates, &self.symbols))
    }

    fn find(&mut self, name: &[u64]) -> Option<Entry> {
        let mut image = Vec::new();
        self.put_name(name, &mut image).ok()?;
        let print = print_of(&image);
        self.cold.take(print, |known| known.starts_with(&image))
    }

    /// Whether an entry of this name, or one with its print, is here.
    pub(crate) fn may_hold(&self, name: &[u64]) -> bool {
        let mut image = Vec::new();
        !self.cold.is_empty()
            && self.put_name(name, &mut image).is_ok()
            && self.cold.may_hold(print_of(&image))
    }

    /// The images of the entries of a key, where they lie; `key` is as names have it, and of a key of
    /// `group`. Also returns how many keys were not looked at, which may be more of it.
    ///
    /// # Errors
    /// A page cannot be read.
    pub(crate) fn look(
        &self,
        key: &[u8],
        group: KeyGroup,
    ) -> Result<(Vec<Vec<u8>>, usize), PageError> {
        if self.has_window {
            let is_of_key = |image: &[u8]| {
                let name = Input(image).bytes();
                name.is_ok_and(|name| name.starts_with(key))
            };
            return self.cold.look_through(group, is_of_key);
        }
        let mut name = Vec::new();
        put_bytes(&mut name, key);
        let found = self.cold.look(print_of(&name), |image| image.starts_with(&name))?;
        Ok((found, 0))
    }

    /// The group of a key, whose texts are those of `symbols`.
    pub(crate) fn group(&mut self, key: &[u64], symbols: &Symbols) -> KeyGroup {
        self.placing.group(key, symbols)
    }

    /// Appends a name behind its length.
    fn put_name(&self, name: &[u64], image: &mut Vec<u8>) -> Result<(), Box<str>> {
        let mut bytes = Vec::new();
        self.form()?.put_name(&mut bytes, name);
        put_bytes(image, &bytes);
        Ok(())
    }

    /// An entry of a table, ready to go.
    fn entry<T: Chills>(&mut self, table: &T, number: u32) -> Result<Entry, Box<str>> {
        let mut name = Vec::new();
        table.name(number, &mut name);
        let mut image = Vec::new();
        self.put_name(&name, &mut image)?;
        let print = print_of(&image);
        let put = table.put(number, &self.form()?, &mut image);
        put.map_err(|error| Box::<str>::from(error.to_string()))?;
        let group = self.placing.group(&name, &self.symbols);
        Ok(Entry { print, group, wants: table.wants(number), image })
    }

    /// The name and the content of an entry.
    fn parts<'a>(&'a self, entry: &'a Entry) -> Result<(Input<'a>, Input<'a>, Form<'a>), Box<str>> {
        let mut content = Input(&entry.image);
        let name = content.bytes().map_err(|error| error.to_string())?;
        Ok((Input(name), content, self.form()?))
    }
}

/// How soon entries are needed, told apart in a few classes: those of one are as good as each other.
struct Urgency {
    latest: EventTime,
    /// From the earliest to the latest, ms.
    spread: u64,
}

impl Urgency {
    const CLASSES: u64 = 4;

    /// Of what some entries wait for.
    fn of(candidates: &[Candidate]) -> Self {
        let deadlines = candidates.iter().filter_map(|known| known.deadline);
        let (earliest, latest) = deadlines.fold((EventTime::MAX, EventTime::MIN), |known, next| {
            (known.0.min(next), known.1.max(next))
        });
        Self {
            latest,
            spread: latest.as_millis().saturating_sub(earliest.as_millis()).max(0) as u64,
        }
    }

    /// The class of a deadline: 0 is needed last.
    fn class(&self, deadline: Option<EventTime>) -> u64 {
        let Some(deadline) = deadline else { return Self::CLASSES };
        let ahead = self.latest.as_millis().saturating_sub(deadline.as_millis()).max(0) as u64;
        let width = self.spread / Self::CLASSES + 1;
        ahead / width
    }
}

/// The print of a name, as it lies in front of an image.
fn print_of(name: &[u8]) -> u32 {
    (stable_hash(name) >> 32) as u32
}
