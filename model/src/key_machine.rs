//! The machine of one key: open windows, trigger state, accumulators, holds. Pure.
//!
//! Every input is a step: a copy enters a window (merging windows merge first), a round ends, the
//! watermark or the clock advances, a signal is given. After each the windows concerned are asked
//! whether they fire. The grouping is the paper's five steps; firing, timing and expiry follow
//! `semantics`: at one instant records come first, then the watermark, then the clock.
//!
//! Invariants LATE-1, GC-1: nothing of a window outlives its expiry, and a window that was merged
//! away leaves nothing but the retractions it owes.

use crate::aggregate::{AggregateLayout, Overflow};
use crate::firing::Flow;
use crate::merging::{Merge, Merging, joined, merging};
use crate::open_window::{OpenWindow, Outlet};
use crate::pane::{AccumulationMode, Emission, StageId, TimestampCombiner};
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Span, Watermark, Window};
use crate::trigger::{Arrival, Trigger, TriggerState};
use crate::watermark::Percentile;
use crate::window::WindowFn;
use serde::{Deserialize, Serialize};

/// What holds for all keys of a stage.
#[derive(Debug)]
pub(crate) struct MachineRules {
    pub(crate) stage: StageId,
    pub(crate) aggregates: AggregateLayout,
    pub(crate) window: WindowFn,
    pub(crate) trigger: Trigger,
    pub(crate) mode: AccumulationMode,
    pub(crate) emission: Emission,
    pub(crate) allowed_lateness: Span,
    pub(crate) is_observed: bool,
    pub(crate) keeps_total: bool,
    pub(crate) has_children: bool,
    /// Whether stages above group its results.
    pub(crate) tells_changes: bool,
    /// Whether it groups those of the stage below.
    pub(crate) reads_changes: bool,
    /// By aggregate: whether it keeps the values that came.
    pub(crate) keeps_values: Vec<bool>,
}

/// The instants of a key at a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instants<'a> {
    /// What the stage has been promised.
    pub(crate) watermark: Watermark,
    /// What it had been promised before the step: another one only if the watermark advances.
    pub(crate) before: Watermark,
    /// What the key's windows have held the output watermark at.
    pub(crate) held: Option<EventTime>,
    /// The second watermarks that the trigger waits for.
    pub(crate) shares: &'a [(Percentile, Watermark)],
    /// The last tick.
    pub(crate) now: ProcessingTime,
}

impl Instants<'_> {
    /// The key's part of the output watermark while the input's is `watermark`: the stage's own is
    /// the lowest of all keys, so that no pane is late for the stage above without being late here;
    /// and no other key or shard changes a pane.
    pub(crate) fn output(self, watermark: Watermark) -> Watermark {
        self.held.map_or(watermark, |hold| watermark.min(Watermark(hold)))
    }
}

/// A copy of a record, or a delta, on its way into a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) window: Window,
    pub(crate) time: EventTime,
    pub(crate) bytes: u64,
}

/// What became of an incoming copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes into the window of that number; late if the window was complete.
    Into {
        /// Number of the window in the machine, until the next step.
        number: usize,
        /// Whether the window was complete.
        is_late: bool,
    },
    /// Its window has expired.
    Expired,
    /// Its window's trigger has finished.
    Closed,
    /// With it, windows would merge into one that has expired.
    Refused,
}

/// The open windows of one key, in the order of their starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyMachine {
    pub(crate) windows: Vec<OpenWindow>,
}

impl MachineRules {
    /// When a window is complete: at its end; one instant later where a record at its end would
    /// still join it.
    pub(crate) fn complete_at(&self, window: Window) -> EventTime {
        self.window.complete_at(window)
    }

    /// When a window expires: nothing of it is then left.
    pub(crate) fn expires_at(&self, window: Window) -> EventTime {
        self.complete_at(window).saturating_add(self.allowed_lateness)
    }

    /// The event time that a record at `time` gives to a pane of `window`: always one in the window,
    /// also of a record that covers several, or that tells another time than that of its arrival.
    pub(crate) fn pane_time(&self, window: Window, time: EventTime) -> EventTime {
        match (self.emission.timestamp, self.window) {
            (TimestampCombiner::EndOfWindow, _) => window.last_instant(),
            (TimestampCombiner::EarliestTransformed, WindowFn::Custom(custom)) => {
                custom.0.output_time(time, window)
            }
            (
                TimestampCombiner::Earliest
                | TimestampCombiner::Latest
                | TimestampCombiner::EarliestTransformed,
                _,
            ) => time.max(window.start()).min(window.last_instant()),
        }
    }

    /// The event time that a part with `time` gives to a pane of the merged `window`.
    pub(crate) fn merged_time(&self, window: Window, time: EventTime) -> EventTime {
        match self.emission.timestamp {
            TimestampCombiner::EndOfWindow => window.last_instant(),
            TimestampCombiner::Earliest
            | TimestampCombiner::Latest
            | TimestampCombiner::EarliestTransformed => time,
        }
    }

    /// The event time of a pane of which two parts have one each, or not.
    pub(crate) fn combine_times(
        &self,
        a: Option<EventTime>,
        b: Option<EventTime>,
    ) -> Option<EventTime> {
        let both = a.zip(b).map(|(a, b)| match self.emission.timestamp {
            TimestampCombiner::EndOfWindow | TimestampCombiner::Latest => a.max(b),
            TimestampCombiner::Earliest | TimestampCombiner::EarliestTransformed => a.min(b),
        });
        both.or(a).or(b)
    }
}

impl KeyMachine {
    /// A copy comes: finds or makes its window, merging what it joins. The caller adds the values
    /// to the window's delta. A copy that is dropped changes nothing.
    pub(crate) fn enter(
        &mut self,
        incoming: Incoming,
        rules: &MachineRules,
        at: Instants<'_>,
        symbols: &Symbols,
    ) -> Result<Verdict, Overflow> {
        if let Some((number, window)) = joined(rules.window, &self.windows, incoming.window)
            && let Some(open) = self.windows.get_mut(number)
            && (open.window == window || open.is_unseen())
        {
            if at.watermark.0 >= rules.expires_at(window) {
                return Ok(Verdict::Refused);
            }
            if open.trigger.is_finished() {
                return Ok(Verdict::Closed);
            }
            if open.window != window {
                open.stretch(window, rules, at);
            }
            return Ok(self.take(number, incoming, rules, at));
        }
        let Merging { own, others } = merging(rules.window, &self.windows, incoming.window);
        let window = own.into;
        let is_expired = |window| at.watermark.0 >= rules.expires_at(window);
        if own.parts.is_empty() && is_expired(window) {
            return Ok(Verdict::Expired);
        }
        if is_expired(window) || others.iter().any(|merge| is_expired(merge.into)) {
            return Ok(Verdict::Refused);
        }
        let mut merges = Vec::new();
        if self.goes_on(&own) {
            let open = own.parts.first().and_then(|number| self.windows.get(*number));
            if open.is_some_and(|open| open.trigger.is_finished()) {
                return Ok(Verdict::Closed);
            }
        } else if !own.parts.is_empty() {
            let trigger = self.merged_trigger(&own, rules, at);
            if trigger.is_finished() {
                return Ok(Verdict::Closed);
            }
            merges.push((trigger, own));
        }
        for merge in others {
            merges.push((self.merged_trigger(&merge, rules, at), merge));
        }
        if !merges.is_empty() {
            self.merge(merges, rules, at, symbols)?;
        }
        let number = match self.windows.binary_search_by_key(&window, |open| open.window) {
            Ok(number) => number,
            Err(number) => {
                if self.windows.is_empty() {
                    // Most keys have one window at a time.
                    self.windows.reserve_exact(1);
                }
                self.windows.insert(number, OpenWindow::new(window, rules));
                number
            }
        };
        Ok(self.take(number, incoming, rules, at))
    }

    /// A copy comes into the window of that number.
    fn take(
        &mut self,
        number: usize,
        incoming: Incoming,
        rules: &MachineRules,
        at: Instants<'_>,
    ) -> Verdict {
        let Some(open) = self.windows.get_mut(number) else { return Verdict::Expired };
        let arrival = Arrival {
            records: 1,
            bytes: incoming.bytes,
            now: at.now,
            may_merge: rules.window.is_merging(),
        };
        open.trigger.arrive(&rules.trigger, arrival);
        open.add_hold(incoming.time, rules, at);
        let is_late = at.watermark.0 >= rules.complete_at(open.window);
        (open.has_news, open.is_touched) = (true, true);
        open.has_late |= is_late;
        Verdict::Into { number, is_late }
    }

    /// Whether nothing changes for the window that a merge is about.
    fn goes_on(&self, merge: &Merge) -> bool {
        match merge.parts.as_slice() {
            [only] => self.windows.get(*only).is_some_and(|open| open.window == merge.into),
            _ => false,
        }
    }

    fn merged_trigger(
        &self,
        merge: &Merge,
        rules: &MachineRules,
        at: Instants<'_>,
    ) -> TriggerState {
        let parts = merge.parts.iter().filter_map(|part| self.windows.get(*part));
        let states: Vec<_> = parts.map(|open| &open.trigger).collect();
        let is_past_end = at.watermark.0 >= rules.complete_at(merge.into);
        TriggerState::merge(&rules.trigger, &states, is_past_end)
    }

    /// Makes merges of open windows come true.
    fn merge(
        &mut self,
        merges: Vec<(TriggerState, Merge)>,
        rules: &MachineRules,
        at: Instants<'_>,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let parts = merges.iter().enumerate();
        let mut parts: Vec<_> = parts
            .flat_map(|(index, (_, merge))| merge.parts.iter().map(move |part| (*part, index)))
            .collect();
        parts.sort_unstable();
        let mut taken: Vec<Vec<OpenWindow>> = merges.iter().map(|_| Vec::new()).collect();
        // From the back, so that numbers stay right.
        for (part, index) in parts.into_iter().rev() {
            if let (Some(taken), true) = (taken.get_mut(index), part < self.windows.len()) {
                taken.push(self.windows.remove(part));
            }
        }
        for ((trigger, merge), mut parts) in merges.into_iter().zip(taken) {
            parts.reverse();
            let whole = OpenWindow::merged(parts, (merge.into, trigger), rules, at, symbols)?;
            let number = self.windows.partition_point(|open| open.window < whole.window);
            self.windows.insert(number, whole);
        }
        Ok(())
    }

    /// Ends what a round brought: windows that got something fire if their triggers are ready, but
    /// for those that the watermark of the same round completes: they are asked with it, so that a
    /// window fires at most once a round.
    pub(crate) fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        (rules, at): (&MachineRules, Instants<'_>),
        asked: &mut usize,
        outlet: &mut Outlet<'_>,
    ) -> Result<Flow, Overflow> {
        self.ask(asked, outlet, |open, outlet| {
            let is_due = upcoming.is_some_and(|upcoming| {
                at.watermark.0 < rules.complete_at(open.window)
                    && upcoming.0 >= rules.complete_at(open.window)
            });
            if std::mem::take(&mut open.is_touched) && !is_due {
                open.settle(rules, at, outlet)?;
            }
            Ok(())
        })
    }

    /// The watermark or the clock has advanced to `at`: every window is asked, expired ones go.
    pub(crate) fn advance(
        &mut self,
        (rules, at): (&MachineRules, Instants<'_>),
        asked: &mut usize,
        outlet: &mut Outlet<'_>,
    ) -> Result<Flow, Overflow> {
        let flow = self.ask(asked, outlet, |open, outlet| open.settle(rules, at, outlet))?;
        if flow == Flow::Done {
            self.windows.retain(|open| at.watermark.0 < rules.expires_at(open.window));
        }
        Ok(flow)
    }

    /// The watermark has stood still for too long: windows that it has not completed emit what they
    /// hold.
    pub(crate) fn time_out(
        &mut self,
        (rules, at): (&MachineRules, Instants<'_>),
        asked: &mut usize,
        outlet: &mut Outlet<'_>,
    ) -> Result<Flow, Overflow> {
        self.ask(asked, outlet, |open, outlet| open.time_out(rules, at, outlet))
    }

    /// Asks windows in their order, as long as there is room for what they emit: `asked` says how
    /// many have been. Until all have, the key is left alone, and called again.
    fn ask(
        &mut self,
        asked: &mut usize,
        outlet: &mut Outlet<'_>,
        ask: impl Fn(&mut OpenWindow, &mut Outlet<'_>) -> Result<(), Overflow>,
    ) -> Result<Flow, Overflow> {
        while let Some(open) = self.windows.get_mut(*asked) {
            if outlet.is_full() {
                return Ok(Flow::More);
            }
            ask(open, outlet)?;
            *asked += 1;
        }
        Ok(Flow::Done)
    }

    /// A signal is given from outside. Returns whether a window waits for it.
    pub(crate) fn signal(&mut self, rules: &MachineRules, name: &str) -> bool {
        let mut is_awaited = false;
        for open in &mut self.windows {
            if open.trigger.signal(&rules.trigger, name) {
                open.is_touched = true;
                is_awaited = true;
            }
        }
        is_awaited
    }

    /// The one deadline of the key in event time: the earliest completion or expiry ahead.
    pub(crate) fn next_deadline(
        &self,
        rules: &MachineRules,
        watermark: Watermark,
    ) -> Option<EventTime> {
        let deadline = |open: &OpenWindow| {
            let complete = rules.complete_at(open.window);
            if watermark.0 < complete { complete } else { rules.expires_at(open.window) }
        };
        self.windows.iter().map(deadline).min()
    }

    /// The earliest completion ahead of a second watermark.
    pub(crate) fn next_completion(
        &self,
        rules: &MachineRules,
        share: Watermark,
    ) -> Option<EventTime> {
        let complete = self.windows.iter().map(|open| rules.complete_at(open.window));
        complete.filter(|complete| *complete > share.0).min()
    }

    /// Its one deadline in processing time.
    pub(crate) fn next_tick(
        &self,
        rules: &MachineRules,
        now: ProcessingTime,
    ) -> Option<ProcessingTime> {
        let windows = self.windows.iter();
        windows.filter_map(|open| open.trigger.next_tick(&rules.trigger, now)).min()
    }

    /// What the stage's output watermark must not pass because of this key.
    pub(crate) fn hold(&self) -> Option<EventTime> {
        self.windows.iter().filter_map(OpenWindow::held).min()
    }
}
