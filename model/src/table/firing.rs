//! How windows fire: those of a deadline that has come, late ones with news, and all that are open.
//!
//! Invariant: a slice that is full ends between two keys, or between two buckets; the next goes on
//! there.

use super::{Bucket, CellId, Fired, KeyTable};
use crate::aggregate::Overflow;
use crate::cells::Meta;
use crate::cold::Chills;
use crate::firing::{Due, Fires, Flow};
use crate::pane::{AccumulationMode, PaneBatch, PaneKind, PaneMeta, Timing};
use crate::symbol::Symbols;
use crate::time::{EventTime, Lateness, Watermark, Window, judge};

impl KeyTable {
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
