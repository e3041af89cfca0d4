//! The key actors of a stage of sliced windows.
//!
//! A key holds the slices of what has come for windows that are not complete. It registers one
//! deadline, the end of the first of these. When that is due the window is merged and handed to
//! [`KeyTable`], which knows what has been sent of it, emits its pane, and keeps it as long as late
//! records may come; windows that have fired early are kept there, too. At a mark of early firing
//! all windows that have news fire, and no slice is left: what was in them is in the windows.
//!
//! Invariants LATE-1, GC-1: a slice is gone with the last window that holds it.

use super::Early;
use super::grid::{Grid, Touched};
use super::slices::Slices;
use crate::aggregate::{AggregateLayout, Overflow};
use crate::cold::{Chills, Shelf};
use crate::engine::Engine;
use crate::firing::{self, Fires, Flow, Otherwise};
use crate::image::Dirty;
use crate::key::is_same_key;
use crate::pane::Timing;
use crate::plan::Stage;
use crate::symbol::Symbols;
use crate::table::{Fired, KeyTable};
use crate::time::{EventTime, ProcessingTime, Watermark, Window};
use hashbrown::HashTable;
use std::collections::BTreeMap;

mod cold;

type ActorId = u32;

/// A key's part of the state.
#[derive(Debug, Default)]
struct Actor {
    slices: Slices,
    /// The first window that is not complete and holds a slice. `None`: the actor is free.
    next: Option<Window>,
    /// Whether something came since it was decided last which keys leave memory.
    is_used: bool,
    /// Bytes that it took when they were counted last.
    weight: usize,
}

/// Which windows fire.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// Those that end by then, which the watermark has completed.
    Complete(EventTime),
    /// All, with a pane of this timing.
    All(Timing),
}

impl Due {
    fn holds(self, window: Window) -> bool {
        match self {
            Self::Complete(until) => window.end() <= until,
            Self::All(_) => true,
        }
    }
}

/// All key actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct SlidingTable {
    /// Windows that have fired and are kept. The stage's rules, watermark and account are here.
    pub(crate) windows: KeyTable,
    pub(super) grid: Grid,
    early: Early,
    key_words: usize,
    /// By actor: its key.
    keys: Vec<u64>,
    actors: Vec<Actor>,
    free: Vec<ActorId>,
    by_key: HashTable<ActorId>,
    /// Actors by the end of their next window; only the one that they have now counts.
    deadlines: BTreeMap<EventTime, Vec<ActorId>>,
    /// The bucket that is being worked on: its deadline, and its actors. Empty between two rounds.
    bucket: (EventTime, firing::Due<ActorId>),
    /// The next actor at a mark that is not done. `None` between two rounds.
    marking: Option<ActorId>,
    /// The last tick.
    now: ProcessingTime,
    /// The next mark of early firing on the clock. `None` if there is nothing to fire.
    due: Option<ProcessingTime>,
    /// Which actors have changed since the last cut; `None` where nothing is stored. Slices that
    /// merely go are no change: what no window needs is not put back.
    pub(crate) dirty: Option<Box<Dirty>>,
    /// Room for a window.
    sum: Vec<u64>,
    /// The slice of the record before, and its windows: mostly the next record's, too.
    recent: (Window, Touched),
    /// Where keys with slices are that are not in memory; `None` if all are.
    shelf: Option<Box<Shelf>>,
    /// Whether it is counted what actors take: where they may leave memory.
    is_weighed: bool,
    /// Bytes of all actors, if that is counted.
    bytes: usize,
}

impl SlidingTable {
    /// The table of a stage that reads records; `None` if its windows cannot be kept in slices.
    pub(crate) fn new(stage: &Stage, engine: Engine) -> Option<Self> {
        Some(Self {
            early: stage.slicing(engine)?,
            grid: Grid::of(stage.window)?,
            windows: KeyTable::new(stage),
            key_words: stage.key.words(),
            keys: Vec::new(),
            actors: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            deadlines: BTreeMap::new(),
            bucket: (EventTime::MIN, firing::Due::default()),
            marking: None,
            now: ProcessingTime::from_millis(i64::MIN),
            due: None,
            dirty: None,
            sum: vec![0; stage.aggregates.words()],
            // Holds nothing.
            recent: (Window::new(EventTime::MIN, EventTime::MIN), Touched::default()),
            shelf: None,
            is_weighed: false,
            bytes: 0,
        })
    }

    /// The windows that hold `time`.
    pub(super) fn touched_at(&mut self, time: EventTime) -> Touched {
        if !self.recent.0.contains(time) {
            self.recent = (self.grid.slice(time), self.grid.touched(time, time, u64::MAX));
        }
        self.recent.1
    }

    /// The slice that holds `time`.
    pub(super) fn slice_at(&self, time: EventTime) -> Window {
        let (recent, _) = self.recent;
        if recent.contains(time) { recent } else { self.grid.slice(time) }
    }

    /// The key of an actor.
    pub(crate) fn key(&self, id: ActorId) -> &[u64] {
        let at = id as usize * self.key_words;
        self.keys.get(at..at + self.key_words).unwrap_or_default()
    }

    fn find_hashed(&self, hash: u64, key: &[u64]) -> Option<ActorId> {
        self.by_key.find(hash, |id| is_same_key(self.key(*id), key)).copied()
    }

    /// The actor of a key, if it has slices.
    pub(crate) fn find(&self, key: &[u64]) -> Option<ActorId> {
        self.find_hashed(self.windows.cells.hash(key), key)
    }

    /// The actor of a key, made if there is none.
    fn actor(&mut self, hash: u64, key: &[u64]) -> ActorId {
        if let Some(id) = self.find_hashed(hash, key) {
            return id;
        }
        if self.shelf.is_some()
            && let Some(id) = self.recall_actor(key)
        {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.actors.push(Actor::default());
            self.keys.resize(self.keys.len() + self.key_words, 0);
            (self.actors.len() - 1) as ActorId
        });
        let at = id as usize * self.key_words;
        if let Some(place) = self.keys.get_mut(at..at + self.key_words) {
            place.copy_from_slice(key);
        }
        let (keys, words, cells) = (&self.keys, self.key_words, &self.windows.cells);
        self.by_key.insert_unique(hash, id, |id| {
            let at = *id as usize * words;
            cells.hash(keys.get(at..at + words).unwrap_or_default())
        });
        id
    }

    /// The values of a slice of a key that lies in a window that is not complete.
    pub(super) fn slice(
        &mut self,
        (hash, key): (u64, &[u64]),
        slice: EventTime,
    ) -> (&AggregateLayout, &mut [u64]) {
        let id = self.actor(hash, key);
        if let Some(dirty) = &mut self.dirty {
            dirty.touch(id);
        }
        let width = self.sum.len();
        let slices = self.actors.get_mut(id as usize).map(|actor| &mut actor.slices);
        let (place, is_new) = slices.map_or((0, false), |slices| slices.find_or_add(slice, width));
        if is_new {
            self.register(id, self.grid.first_open(slice, self.windows.watermark));
        }
        if self.is_weighed {
            self.use_actor(id, is_new);
        }
        let values = self.actors.get_mut(id as usize);
        let values = values.map(|actor| actor.slices.values_mut(place, width));
        (&self.windows.rules.aggregates, values.unwrap_or_default())
    }

    /// Registers the end of `window`, in which something new lies, as the actor's deadline, if it
    /// has no earlier one.
    fn register(&mut self, id: ActorId, window: Option<Window>) {
        let (Some(actor), Some(window)) = (self.actors.get_mut(id as usize), window) else {
            return;
        };
        if actor.next.is_none_or(|next| window.start() < next.start()) {
            actor.next = Some(window);
            self.deadlines.entry(window.end()).or_default().push(id);
        }
        self.wait_for_mark();
    }

    /// Something waits for the next mark of early firing.
    fn wait_for_mark(&mut self) {
        if let (Early::Every(period), None) = (self.early, self.due) {
            self.due = Some(self.now.next_multiple(period));
        }
    }

    /// Lets go of an actor that has nothing.
    fn retire(&mut self, id: ActorId) {
        if let Some(mut dirty) = self.dirty.take() {
            dirty.remove(id, |name| name.extend_from_slice(self.key(id)));
            self.dirty = Some(dirty);
        }
        let hash = self.windows.cells.hash(self.key(id));
        if let Ok(entry) = self.by_key.find_entry(hash, |known| *known == id) {
            entry.remove();
        }
        if let Some(actor) = self.actors.get_mut(id as usize) {
            self.bytes -= std::mem::take(actor).weight;
        }
        self.free.push(id);
        if self.by_key.is_empty() {
            self.rewind();
        }
    }

    /// Starts an empty table anew. It keeps its room, unless that is far more than it needed last.
    fn rewind(&mut self) {
        let used = self.actors.len();
        self.keys.clear();
        self.actors.clear();
        self.free.clear();
        if self.actors.capacity() / 4 > used {
            self.keys.shrink_to(used * self.key_words);
            self.actors.shrink_to(used);
            self.free.shrink_to(used);
            self.by_key.shrink_to(used, |_| 0);
        }
    }

    /// Fires windows of an actor in their order.
    fn fire_windows(
        &mut self,
        id: ActorId,
        due: Due,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let Self { windows, grid, keys, actors, sum, .. } = self;
        let at = id as usize * self.key_words;
        let key = keys.get(at..at + self.key_words).unwrap_or_default();
        let Some(actor) = actors.get_mut(id as usize) else { return Ok(Flow::Done) };
        let hash = windows.cells.hash(key);
        while let Some(window) = actor.next
            && due.holds(window)
        {
            if fired.is_full() {
                return Ok(Flow::More);
            }
            sum.fill(0);
            let layout = (&windows.rules.aggregates, symbols);
            actor.slices.merge(window, sum, layout)?;
            windows.account.operations += 1;
            let place = (hash, key, window);
            match due {
                Due::Complete(_) => windows.fire_complete(place, sum, fired, symbols)?,
                Due::All(timing) => windows.fire_open(place, (sum, timing), fired, symbols)?,
            }
            actor.next = following(&actor.slices, window, (grid, sum.len()));
        }
        match actor.next {
            Some(next) => {
                self.deadlines.entry(next.end()).or_default().push(id);
                if self.is_weighed {
                    self.weigh(id);
                }
            }
            None => self.retire(id),
        }
        Ok(Flow::Done)
    }

    /// Fires all windows that have news, none of which is complete: from here on they have none.
    fn mark(
        &mut self,
        timing: Timing,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let mut id = match self.marking.take() {
            Some(id) => id,
            None => {
                self.recall_each();
                0
            }
        };
        loop {
            while let Some(actor) = self.actors.get(id as usize) {
                let (has_news, due) = (actor.next.is_some(), Due::All(timing));
                if has_news && self.fire_windows(id, due, fired, symbols)? == Flow::More {
                    self.marking = Some(id);
                    return Ok(Flow::More);
                }
                id += 1;
            }
            self.deadlines.clear();
            self.windows.tidy();
            if self.recall_next(self.windows.watermark.0).is_none() {
                break;
            }
            id = 0;
        }
        self.due = None;
        Ok(Flow::Done)
    }

    /// Fires windows of the actors of the bucket that is being worked on.
    fn fire_bucket(
        &mut self,
        before: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let (deadline, _) = self.bucket;
        // Windows fire in the order of their ends, those that are kept among them.
        if self.windows.fire_due(|at| at < deadline, before, fired, symbols)? == Flow::More {
            return Ok(Flow::More);
        }
        while let Some(id) = self.bucket.1.first() {
            let next = self.actors.get(id as usize).and_then(|actor| actor.next);
            let is_due = next.is_some_and(|next| next.end() == deadline);
            let due = Due::Complete(deadline);
            if is_due && self.fire_windows(id, due, fired, symbols)? == Flow::More {
                return Ok(Flow::More);
            }
            self.bucket.1.pass();
        }
        Ok(Flow::Done)
    }

    /// Whether no window, slice or deadline is left.
    pub(crate) fn is_empty(&self) -> bool {
        let has_cold = self.shelf.as_ref().is_some_and(|shelf| !shelf.cold.is_empty());
        let has_slices = !self.by_key.is_empty() || !self.deadlines.is_empty();
        self.windows.is_empty() && !has_slices && !has_cold
    }

    /// Number of keys that have slices, and of bytes of all state, roughly.
    pub(crate) fn size(&self) -> (usize, usize) {
        let slices: usize = self.actors.iter().map(|actor| actor.slices.bytes()).sum();
        let tables = self.keys.capacity() * 8
            + self.actors.capacity() * size_of::<Actor>()
            + self.by_key.allocation_size();
        let dirty = self.dirty.as_ref().map_or(0, |dirty| dirty.bytes());
        (self.by_key.len(), slices + tables + dirty + self.windows.cells.bytes())
    }

    /// The actors that have slices.
    pub(crate) fn actors(&self) -> impl Iterator<Item = ActorId> {
        let actors = (0..).zip(&self.actors).filter(|(_, actor)| actor.next.is_some());
        actors.map(|(id, _)| id)
    }

    /// The slices of an actor that a window still needs: where they start, and what is in them.
    pub(crate) fn slices_of(&self, id: ActorId) -> impl Iterator<Item = (EventTime, &[u64])> {
        let actor = self.actors.get(id as usize);
        let first = actor.and_then(|actor| actor.next).map(Window::start);
        let slices = actor.into_iter().flat_map(|actor| actor.slices.iter(self.sum.len()));
        slices.filter(move |(start, _)| first.is_some_and(|first| *start >= first))
    }

    /// The windows of an actor's slices that have not fired early: nothing is known of them yet.
    fn sliced(&self, id: ActorId) -> impl Iterator<Item = Window> {
        let (key, width) = (self.key(id), self.sum.len());
        let hash = self.windows.cells.hash(key);
        let actor = self.actors.get(id as usize);
        let next = actor.and_then(|actor| actor.next);
        let sliced = std::iter::successors(next, move |window| {
            following(&actor?.slices, *window, (&self.grid, width))
        });
        sliced.filter(move |window| {
            let is_known = self.windows.cells.head(hash, key, *window).is_some();
            !is_known && !self.windows.is_cold(key, *window)
        })
    }

    /// Every open window with its key: those that have been fired and are kept, and those that have
    /// slices.
    pub(crate) fn open_windows(&self) -> Vec<(&[u64], Window)> {
        let mut open: Vec<_> = self.windows.open_windows().collect();
        for id in self.actors() {
            open.extend(self.sliced(id).map(|window| (self.key(id), window)));
        }
        open
    }

    /// Puts back a slice; the watermark and the time must be set first. One that no window needs
    /// any more is forgotten.
    pub(crate) fn restore(&mut self, key: &[u64], slice: EventTime, values: &[u64]) {
        if self.grid.first_open(slice, self.windows.watermark).is_some() {
            let hash = self.windows.cells.hash(key);
            self.slice((hash, key), slice).1.copy_from_slice(values);
        }
    }

    /// The last tick.
    pub(crate) const fn now(&self) -> ProcessingTime {
        self.now
    }

    /// Sets the last tick, before anything else happens.
    pub(crate) const fn start_at(&mut self, now: ProcessingTime) {
        self.now = now;
    }
}

/// The first window after `window` that holds a slice.
fn following(slices: &Slices, window: Window, (grid, width): (&Grid, usize)) -> Option<Window> {
    let next = grid.after(window)?;
    let slice = slices.first_from(next.start(), width)?;
    if slice < next.end() { Some(next) } else { grid.first(slice) }
}

impl Fires for SlidingTable {
    fn end_round(
        &mut self,
        _: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        if self.windows.end_round(None, fired, symbols)? == Flow::More {
            return Ok(Flow::More);
        }
        match self.early {
            Early::EachRound => self.mark(Timing::Early, fired, symbols),
            Early::Never | Early::Every(_) => Ok(Flow::Done),
        }
    }

    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let Some(before) = self.windows.rise(watermark) else { return Ok(Flow::Done) };
        loop {
            if self.bucket.1.first().is_some()
                && self.fire_bucket(before, fired, symbols)? == Flow::More
            {
                return Ok(Flow::More);
            }
            if self.shelf.is_some() {
                let hot = self.deadlines.first_key_value().map(|(deadline, _)| *deadline);
                self.recall_due(hot, |at| at <= watermark.0, watermark.0);
            }
            match self.deadlines.first_entry() {
                Some(first) if *first.key() <= watermark.0 => {
                    self.bucket = (*first.key(), firing::Due::of(first.remove()));
                }
                Some(_) | None => break,
            }
        }
        self.bucket.1 = firing::Due::default();
        let flow = self.windows.fire_due(|at| at <= watermark.0, before, fired, symbols)?;
        Ok(self.windows.delivered(flow))
    }

    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<Flow, Overflow> {
        self.mark(Timing::TimedOut, fired, symbols)
    }

    fn otherwise(
        &mut self,
        what: &Otherwise,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        match what {
            Otherwise::Tick(tick) => {
                self.now = self.now.max(tick.now());
                let is_due = self.due.is_some_and(|due| due <= self.now);
                if is_due || self.marking.is_some() {
                    return self.mark(Timing::Early, fired, symbols);
                }
                Ok(Flow::Done)
            }
            Otherwise::Nothing | Otherwise::Shares(_) | Otherwise::Signal(_) => Ok(Flow::Done),
        }
    }
}
