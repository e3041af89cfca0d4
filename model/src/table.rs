//! The key actors of one stage: each key's open windows, accumulators and deadline, and the one
//! machine that all of them run.
//!
//! A key actor is addressed by its key and touched by nobody else; here its state is a chain of
//! cells in a slab instead of an object behind a mailbox. It registers one deadline, the earliest
//! of its windows', re-armed lazily; a watermark is delivered to the actors whose deadline is due,
//! which is the same to them and O(due) to the machine. The machine, per window: a copy is judged
//! when it comes; when the watermark passes the end, what came is fired on time; what comes later
//! is fired at the end of its round; when state expires, the window is gone.
//!
//! Invariants PANE-1, PANE-2, LATE-1; GC-1: after expiry nothing of a window is left.

use crate::account::StageAccount;
use crate::aggregate::{AggregateLayout, Overflow, ValuesMut};
use crate::cells::{CellId, Cells, Meta};
use crate::changes::Changes;
use crate::cold::{Chills, Shelf};
use crate::firing::{self, Due, Fires, Flow};
use crate::intake::{Copy, Entered, Judged, Takes};
use crate::late::{Aside, LateReason};
use crate::pane::{AccumulationMode, Deltas, PaneBatch, PaneKind, PaneMeta, StageId, Timing};
use crate::plan::Stage;
use crate::symbol::Symbols;
use crate::time::{EventTime, Lateness, Span, Watermark, Window, judge};
use crate::window::WindowFn;
use std::collections::BTreeMap;

mod cold;

/// What the rules of a stage are, taken from its plan.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) stage: StageId,
    pub(crate) aggregates: AggregateLayout,
    pub(crate) mode: AccumulationMode,
    pub(crate) allowed_lateness: Span,
    /// Panes go to sinks: their identity is kept until expiry.
    pub(crate) is_observed: bool,
    pub(crate) keeps_total: bool,
    pub(crate) has_children: bool,
}

impl Rules {
    pub(crate) fn of(stage: &Stage) -> Self {
        Self {
            stage: stage.id,
            aggregates: stage.aggregates.clone(),
            mode: stage.mode,
            allowed_lateness: stage.allowed_lateness,
            is_observed: stage.is_observed(),
            keeps_total: stage.keeps_total(),
            has_children: stage.has_children,
        }
    }
}

/// What a round of a stage gives.
#[derive(Debug)]
pub(crate) struct Fired {
    /// Deltas for the stages that read this one.
    pub(crate) deltas: Deltas,
    /// What changed of its results, for stages that group them.
    pub(crate) changes: Changes,
    /// Panes for sinks.
    pub(crate) panes: Option<PaneBatch>,
    /// What came late, where it is listed.
    pub(crate) aside: Aside,
    /// How many panes, deltas, or rows of changes a slice holds, at least 1. Exceeded by what one
    /// window, list or session gives at once.
    pub(crate) slice: usize,
}

impl Fired {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            deltas: Deltas::default(),
            changes: Changes::default(),
            panes: None,
            aside: Aside::new(stage),
            slice: usize::MAX,
        }
    }

    /// Whether the slice is full.
    pub(crate) fn is_full(&self) -> bool {
        let panes = self.panes.as_ref().map_or(0, |panes| panes.panes.len());
        firing::is_full(self.slice, panes, (&self.deltas, &self.changes))
    }
}

/// Actors that are due at an instant, while the watermark is delivered to them.
#[derive(Debug)]
struct Bucket {
    deadline: EventTime,
    due: Due<CellId>,
    /// If they are the whole table, which goes at once: how many windows have fired.
    whole: Option<usize>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { deadline: EventTime::MIN, due: Due::default(), whole: None }
    }
}

/// All key actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct KeyTable {
    pub(crate) rules: Rules,
    pub(crate) cells: Cells,
    /// Heads by the deadline they registered. A head stands in every bucket it was ever armed
    /// for; only the bucket it is armed for now counts. Cleared as the watermark passes.
    deadlines: BTreeMap<EventTime, Vec<CellId>>,
    /// The bucket that is being worked on. Empty between two rounds.
    bucket: Bucket,
    /// Late windows with news, by head. Cleared at the end of the round.
    touched: Vec<(CellId, Window)>,
    /// What is asked at the end of the round. Empty between two rounds.
    ending: Due<(CellId, Window)>,
    /// What is asked since the watermark stands still. `None` between two rounds.
    timing_out: Option<Due<CellId>>,
    /// The stage's watermark. Never falls (WM-1).
    pub(crate) watermark: Watermark,
    /// The watermark before it, while it is delivered. `None` between two rounds.
    before: Option<Watermark>,
    pub(crate) account: StageAccount,
    /// Room for a new total while a pane is made.
    scratch: Vec<u64>,
    /// Where keys are that are not in memory; `None` if all are.
    shelf: Option<Box<Shelf>>,
}

impl KeyTable {
    pub(crate) fn new(stage: &Stage) -> Self {
        let rules = Rules::of(stage);
        let words = rules.aggregates.words();
        let cells = Cells::new(stage.key.words(), words, rules.keeps_total);
        let is_sliding = matches!(stage.window, WindowFn::Sliding { .. });
        Self {
            // A chain of windows is for keys that have few.
            cells: if is_sliding { cells.apart() } else { cells },
            deadlines: BTreeMap::new(),
            bucket: Bucket::default(),
            touched: Vec::new(),
            ending: Due::default(),
            timing_out: None,
            watermark: Watermark::MIN,
            before: None,
            account: StageAccount {
                cut: vec![0; rules.aggregates.accumulators().len()],
                ..StageAccount::default()
            },
            scratch: vec![0; words],
            shelf: None,
            rules,
        }
    }

    fn find_or_add(
        &mut self,
        hash: u64,
        key: &[u64],
        window: Window,
        is_late: bool,
    ) -> (CellId, CellId) {
        let mut known = self.cells.head(hash, key, window);
        if known.is_none() && self.shelf.is_some() {
            known = self.recall_head(key, window);
        }
        if let Some(head) = known
            && let Some(cell) = self.cells.find(head, window)
        {
            return (head, cell);
        }
        let (head, cell) = match known {
            Some(head) => (head, self.cells.insert_window(head, window)),
            None => {
                let head = self.cells.insert_key(hash, key, window);
                (head, head)
            }
        };
        // A late window that nobody observes does not outlive its round: it needs no deadline.
        if !is_late || self.rules.is_observed {
            self.register(head, self.deadline(window));
        }
        (head, cell)
    }

    /// When a window next needs its actor: at its end, then at its expiry.
    fn deadline(&self, window: Window) -> EventTime {
        if self.watermark.0 < window.end() {
            window.end()
        } else {
            window.end().saturating_add(self.rules.allowed_lateness)
        }
    }

    /// Registers the head's deadline if it is earlier than the one it has.
    fn register(&mut self, head: CellId, deadline: EventTime) {
        let armed = self.cells.armed(head).unwrap_or(EventTime::MAX);
        // A new key is armed at the end of time without standing in a bucket.
        let is_new = armed == EventTime::MAX && deadline == EventTime::MAX;
        if deadline < armed || is_new {
            self.cells.arm(head, deadline);
            self.deadlines.entry(deadline).or_default().push(head);
        }
    }

    /// The watermark rises; returns the one before, until [`KeyTable::delivered`] says that it has
    /// been delivered. `None` if it does not rise.
    pub(crate) fn rise(&mut self, watermark: Watermark) -> Option<Watermark> {
        if self.before.is_none() && watermark > self.watermark {
            self.before = Some(std::mem::replace(&mut self.watermark, watermark));
        }
        self.before
    }

    /// Takes notice of how far the delivery of the watermark has come.
    pub(crate) fn delivered(&mut self, flow: Flow) -> Flow {
        if flow == Flow::Done {
            self.before = None;
        }
        flow
    }

    /// Delivers the watermark to the actors whose deadlines `is_due` names; `before` is the one that
    /// they saw last.
    pub(crate) fn fire_due(
        &mut self,
        is_due: impl Fn(EventTime) -> bool,
        before: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        loop {
            let mut bucket = std::mem::take(&mut self.bucket);
            if self.fire_bucket(&mut bucket, before, fired, symbols)? == Flow::More {
                self.bucket = bucket;
                return Ok(Flow::More);
            }
            if self.shelf.is_some() {
                let hot = self.deadlines.first_key_value().map(|(deadline, _)| *deadline);
                self.recall_due(hot, &is_due, self.watermark.0);
            }
            let Some(first) = self.deadlines.first_entry() else { return Ok(Flow::Done) };
            let deadline = *first.key();
            if !is_due(deadline) {
                return Ok(Flow::Done);
            }
            let due = first.remove();
            let is_whole = due.len() == self.cells.len() && due.len() == self.cells.keys();
            let whole = (is_whole && !self.rules.is_observed).then_some(0);
            self.bucket = Bucket { deadline, due: Due::of(due), whole };
        }
    }

    fn fire_bucket(
        &mut self,
        bucket: &mut Bucket,
        before: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        if self.fire_whole_table(bucket, before, fired, symbols)? == Flow::More {
            return Ok(Flow::More);
        }
        while let Some(head) = bucket.due.first() {
            if fired.is_full() {
                return Ok(Flow::More);
            }
            bucket.due.pass();
            if self.cells.armed(head) == Some(bucket.deadline) {
                self.wake((head, bucket.deadline), before, fired, symbols)?;
            }
        }
        Ok(Flow::Done)
    }

    /// The short way of a stage that nobody observes when every window it holds is due, as in a
    /// rollup within its round: all fire, and the table is emptied at once. If one of them stays,
    /// nobody has been asked: what has fired has no news, so that going the long way is right too.
    fn fire_whole_table(
        &mut self,
        bucket: &mut Bucket,
        before: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let Some(mut gone) = bucket.whole else { return Ok(Flow::Done) };
        while let Some(head) = bucket.due.first() {
            if fired.is_full() {
                bucket.whole = Some(gone);
                return Ok(Flow::More);
            }
            bucket.due.pass();
            if self.cells.armed(head).is_none() || !self.cells.meta(head).has_news {
                continue;
            }
            let window = self.cells.window(head);
            if window.end() > self.watermark.0 {
                continue;
            }
            let timing = if before.0 < window.end() { Timing::OnTime } else { Timing::Late };
            self.fire((head, head), (timing, false), fired, symbols)?;
            gone += 1;
        }
        bucket.whole = None;
        if gone == self.cells.len() {
            self.cells.clear();
        } else {
            bucket.due.rewind();
        }
        Ok(Flow::Done)
    }

    /// The key actor of `head` sees the watermark for its windows that were due by `deadline`; the
    /// others are registered again, so that windows fire in the order of their ends. `before` is
    /// the watermark that it saw last.
    fn wake(
        &mut self,
        (head, deadline): (CellId, EventTime),
        before: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let mut next_deadline = EventTime::MAX;
        let (mut previous, mut cursor) = (None, Some(head));
        while let Some(cell) = cursor {
            let window = self.cells.window(cell);
            if window.end() > deadline {
                next_deadline = next_deadline.min(window.end());
                previous = Some(cell);
                cursor = self.cells.next(cell);
                continue;
            }
            let verdict = judge(window, self.watermark, self.rules.allowed_lateness);
            let is_last = verdict == Lateness::Expired;
            if self.cells.meta(cell).has_news {
                // The stage's output watermark is still `before`: it decides the timing.
                let timing = if before.0 < window.end() { Timing::OnTime } else { Timing::Late };
                self.fire((head, cell), (timing, is_last), fired, symbols)?;
            }
            if is_last || !self.rules.is_observed {
                cursor = self.cells.remove(head, previous, cell);
                continue;
            }
            let expiry = window.end().saturating_add(self.rules.allowed_lateness);
            next_deadline = next_deadline.min(expiry);
            previous = Some(cell);
            cursor = self.cells.next(cell);
        }
        if previous.is_some() {
            self.cells.arm(head, EventTime::MAX);
            self.register(head, next_deadline);
        }
        Ok(())
    }

    /// The cell before `cell` in the chain of `head`.
    fn before(&self, head: CellId, cell: CellId) -> Option<CellId> {
        std::iter::successors(Some(head), |at| self.cells.next(*at))
            .take_while(|at| *at != cell)
            .last()
    }

    /// Fires `window`, which is not complete, with `values`: what has come since the pane before.
    pub(crate) fn fire_open(
        &mut self,
        (hash, key, window): (u64, &[u64], Window),
        (values, timing): (&[u64], Timing),
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        if !self.rules.is_observed {
            self.fire_once((key, window), (timing, false), values, fired);
            return Ok(());
        }
        let (head, cell) = self.find_or_add(hash, key, window, false);
        self.cells.delta_mut(cell).copy_from_slice(values);
        self.fire((head, cell), (timing, false), fired, symbols)
    }

    /// Fires `window`, which the watermark has just completed, with `values`: what has come since
    /// the pane before, which was early if there was one.
    pub(crate) fn fire_complete(
        &mut self,
        (hash, key, window): (u64, &[u64], Window),
        values: &[u64],
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let verdict = judge(window, self.watermark, self.rules.allowed_lateness);
        let is_last = verdict == Lateness::Expired;
        let is_gone = is_last || !self.rules.is_observed;
        let is_hot = self.cells.len() > 0 && self.cells.head(hash, key, window).is_some();
        let is_known = is_hot || self.shelf.is_some() && self.recall_head(key, window).is_some();
        if is_gone && !is_known {
            self.fire_once((key, window), (Timing::OnTime, is_last), values, fired);
            return Ok(());
        }
        let (head, cell) = self.find_or_add(hash, key, window, false);
        self.cells.delta_mut(cell).copy_from_slice(values);
        self.fire((head, cell), (Timing::OnTime, is_last), fired, symbols)?;
        if is_gone {
            let before = self.before(head, cell);
            self.cells.remove(head, before, cell);
        }
        Ok(())
    }

    /// Windows of a key that the watermark has not completed emit what they hold.
    fn time_out_key(
        &mut self,
        head: CellId,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let mut cursor = Some(head);
        while let Some(cell) = cursor {
            let is_open = self.watermark.0 < self.cells.window(cell).end();
            if is_open && self.cells.meta(cell).has_news {
                self.fire((head, cell), (Timing::TimedOut, false), fired, symbols)?;
            }
            cursor = self.cells.next(cell);
        }
        Ok(())
    }

    /// Emits a pane of a window of which nothing is kept, neither before nor after.
    fn fire_once(
        &mut self,
        (key, window): (&[u64], Window),
        (timing, is_last): (Timing, bool),
        values: &[u64],
        fired: &mut Fired,
    ) {
        if self.rules.has_children {
            fired.deltas.push(key, window, values);
        }
        if self.rules.is_observed {
            let panes = fired.panes.get_or_insert_with(|| PaneBatch::new(self.rules.stage));
            panes.push(key, pane(window, 0, timing, is_last), values);
            self.account.panes += 1;
        }
    }

    /// Puts back a window as it was at the watermark, which must be set first; windows of one key
    /// come oldest first. Returns the head of its key.
    pub(crate) fn restore(
        &mut self,
        key: &[u64],
        window: Window,
        meta: Meta,
        (delta, total): (&[u64], Option<&[u64]>),
    ) -> CellId {
        let is_late = self.watermark.0 >= window.end();
        let (head, cell) = self.find_or_add(self.cells.hash(key), key, window, is_late);
        self.cells.settle(cell, total);
        self.cells.delta_mut(cell).copy_from_slice(delta);
        self.cells.set_meta(cell, meta);
        head
    }

    /// Late windows that have news wait for the end of a round.
    pub(crate) fn touch_news(&mut self) {
        for head in self.cells.heads().collect::<Vec<_>>() {
            let (meta, window) = (self.cells.meta(head), self.cells.window(head));
            if meta.has_news && self.watermark.0 >= window.end() {
                self.cells.set_meta(head, Meta { is_touched: true, ..meta });
                self.touched.push((head, window));
            }
        }
    }

    /// Whether no window and no deadline is left.
    pub(crate) fn is_empty(&self) -> bool {
        let has_cold = self.shelf.as_ref().is_some_and(|shelf| !shelf.cold.is_empty());
        self.cells.len() == 0 && self.deadlines.is_empty() && !has_cold
    }

    /// Every open window with its key.
    pub(crate) fn open_windows(&self) -> impl Iterator<Item = (&[u64], Window)> {
        self.cells.heads().flat_map(move |head| {
            let chain = std::iter::successors(Some(head), move |cell| self.cells.next(*cell));
            chain.map(move |cell| (self.cells.key(head), self.cells.window(cell)))
        })
    }

    /// Emits what came since the pane before: the delta to the next stage, a pane to the sinks.
    fn fire(
        &mut self,
        (head, cell): (CellId, CellId),
        (timing, is_last): (Timing, bool),
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        self.cells.touch(head);
        let window = self.cells.window(cell);
        let meta = self.cells.meta(cell);
        if self.rules.has_children {
            fired.deltas.push(self.cells.key(head), window, self.cells.delta(cell));
        }
        let mut after = Meta { has_news: false, is_touched: false, ..meta };
        if self.rules.is_observed {
            // A window that was complete is late from then on (PANE-1).
            let was_complete = meta.sent.is_some_and(Timing::completes);
            let timing = if was_complete { Timing::Late } else { timing };
            let pane = pane(window, meta.index, timing, is_last);
            if self.emit((head, cell), pane, fired, symbols)? {
                after.index = meta.index.saturating_add(1);
                after.sent = Some(timing);
            }
        }
        let total = self.rules.keeps_total.then_some(self.scratch.as_slice());
        self.cells.settle(cell, total);
        self.cells.set_meta(cell, after);
        Ok(())
    }

    /// Hands a pane to the sinks as the mode wants it; leaves the new total in `scratch`. Returns
    /// whether there was anything to say.
    fn emit(
        &mut self,
        (head, cell): (CellId, CellId),
        pane: PaneMeta,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<bool, Overflow> {
        let panes = fired.panes.get_or_insert_with(|| PaneBatch::new(self.rules.stage));
        let key = self.cells.key(head);
        if self.rules.mode == AccumulationMode::Discarding {
            panes.push(key, pane, self.cells.delta(cell));
            self.account.panes += 1;
            return Ok(true);
        }
        let before = self.cells.total(cell);
        self.scratch.copy_from_slice(before);
        self.rules.aggregates.merge_all(&mut self.scratch, self.cells.delta(cell), symbols)?;
        let meta = self.cells.meta(cell);
        if let (AccumulationMode::Retracting, Some(timing)) = (self.rules.mode, meta.sent) {
            if self.rules.aggregates.same_results(before, &self.scratch) {
                return Ok(false);
            }
            let index = meta.index.saturating_sub(1);
            let kind = PaneKind::Retract;
            panes.push(key, PaneMeta { index, timing, kind, is_last: false, ..pane }, before);
            self.account.retracts += 1;
        }
        panes.push(key, pane, &self.scratch);
        self.account.panes += 1;
        Ok(true)
    }
}

/// What a pane that stands says of itself.
const fn pane(window: Window, index: u32, timing: Timing, is_last: bool) -> PaneMeta {
    PaneMeta {
        window,
        index,
        timing,
        is_last,
        kind: PaneKind::Insert,
        event_time: window.last_instant(),
        is_other: false,
    }
}

impl Fires for KeyTable {
    /// Ends a round that brought records or deltas: late windows with news fire once.
    fn end_round(
        &mut self,
        _: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        if self.ending.first().is_none() {
            if self.touched.is_empty() {
                return Ok(Flow::Done);
            }
            self.ending = Due::of(std::mem::take(&mut self.touched));
        }
        while let Some((head, window)) = self.ending.first() {
            if fired.is_full() {
                return Ok(Flow::More);
            }
            self.ending.pass();
            // With the watermark of a cycle it may have fired, and gone: another may stand there.
            let is_there = self.cells.armed(head).is_some();
            let cell = is_there.then(|| self.cells.find(head, window)).flatten();
            let Some(cell) = cell.filter(|cell| self.cells.meta(*cell).is_touched) else {
                continue;
            };
            self.fire((head, cell), (Timing::Late, false), fired, symbols)?;
            if !self.rules.is_observed {
                // Nobody asks for this window's identity again: the next copy starts anew.
                let before = self.before(head, cell);
                self.cells.remove(head, before, cell);
            }
        }
        self.touched = std::mem::take(&mut self.ending).into_room();
        Ok(Flow::Done)
    }

    /// Delivers a watermark to the actors that are due: complete windows fire, expired ones go.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let Some(before) = self.rise(watermark) else { return Ok(Flow::Done) };
        let flow = self.fire_due(|deadline| deadline <= watermark.0, before, fired, symbols)?;
        Ok(self.delivered(flow))
    }

    /// The watermark has stood still for too long: windows that it has not completed emit what they
    /// hold.
    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<Flow, Overflow> {
        let mut asked = match self.timing_out.take() {
            Some(asked) => asked,
            None => {
                self.recall_each();
                Due::of(self.cells.heads().collect())
            }
        };
        loop {
            while let Some(head) = asked.first() {
                if fired.is_full() {
                    self.timing_out = Some(asked);
                    return Ok(Flow::More);
                }
                asked.pass();
                self.time_out_key(head, fired, symbols)?;
            }
            let Some(heads) = self.recall_next(self.watermark.0) else { return Ok(Flow::Done) };
            asked = Due::of(heads);
        }
    }
}

impl Takes for KeyTable {
    fn hash(&self, key: &[u64]) -> u64 {
        self.cells.hash(key)
    }

    fn aggregates(&self) -> &AggregateLayout {
        &self.rules.aggregates
    }

    fn account(&mut self) -> &mut StageAccount {
        &mut self.account
    }

    fn watermark(&self) -> Watermark {
        self.watermark
    }

    fn enter(&mut self, copy: Copy<'_>, _: &Symbols) -> Result<Judged, Overflow> {
        let Copy { hash, key, window, .. } = copy;
        self.account.assigned += 1;
        let is_late = match judge(window, self.watermark, self.rules.allowed_lateness) {
            Lateness::OnTime => {
                self.account.on_time += 1;
                false
            }
            Lateness::Late => {
                self.account.late += 1;
                true
            }
            Lateness::Expired => {
                self.account.expired += 1;
                return Ok(Judged::Dropped(LateReason::Expired));
            }
        };
        self.account.operations += 1;
        let (head, cell) = self.find_or_add(hash, key, window, is_late);
        self.cells.touch(head);
        let mut meta = self.cells.meta(cell);
        let is_empty = !meta.has_news;
        if is_empty || is_late && !meta.is_touched || !meta.is_used {
            (meta.has_news, meta.is_used) = (true, true);
            if is_late && !meta.is_touched {
                meta.is_touched = true;
                self.touched.push((head, window));
            }
            self.cells.set_meta(cell, meta);
        }
        Ok(Judged::Into(Entered { cell, is_empty, is_late }))
    }

    fn delta(&mut self, entered: &Entered) -> (&AggregateLayout, ValuesMut<'_>) {
        (&self.rules.aggregates, self.cells.delta_mut(entered.cell).into())
    }
}
