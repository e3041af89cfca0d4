//! The machine of one key: open windows, trigger state, accumulators, holds. Pure.
//!
//! Every input is a step: a copy enters a window (merging windows merge first), a round ends, the
//! watermark or the clock advances, a signal is given. After each the windows concerned are asked
//! whether they fire. The grouping is the paper's five steps; firing, timing and expiry follow
//! `semantics`: at one instant records come first, then the watermark, then the clock.
//!
//! Invariants LATE-1, PANE-1, PANE-2, GC-1: nothing of a window outlives its expiry, and a window
//! that was merged away leaves nothing but the retractions it owes.

use crate::aggregate::{AggregateLayout, Overflow};
use crate::pane::{
    AccumulationMode, Emission, PaneBatch, PaneKind, PaneMeta, StageId, TimestampCombiner, Timing,
};
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Span, Watermark, Window};
use crate::trigger::{Arrival, Facts, Trigger, TriggerState};
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
}

/// The instants of a stage at a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instants {
    /// What the stage has been promised.
    pub(crate) watermark: Watermark,
    /// What the stage has promised: decides timings and holds.
    pub(crate) output: Watermark,
    /// The last tick.
    pub(crate) now: ProcessingTime,
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
}

/// A pane that was sent for a window that is no more, to be taken back before the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owed {
    pub(crate) window: Window,
    pub(crate) index: u32,
    pub(crate) timing: Timing,
    pub(crate) values: Vec<u64>,
}

/// One open window of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenWindow {
    pub(crate) window: Window,
    /// What came since the pane before. Cleared by a firing. On merge: merged.
    pub(crate) delta: Vec<u64>,
    /// What came up to the pane before. On merge: merged. Empty in discarding mode.
    pub(crate) total: Vec<u64>,
    /// Cleared when the window goes. On merge: see [`TriggerState::merge`].
    pub(crate) trigger: TriggerState,
    /// Event time of the next pane, and what the output watermark must not pass. Cleared by a
    /// firing. On merge: combined, or taken anew from the merged window's end.
    pub(crate) hold: Option<EventTime>,
    /// Retractions of merged-away windows. Cleared by a pane. On merge: joined.
    pub(crate) owed: Vec<Owed>,
    /// Index of the next pane. On merge: kept by the window with the merged bounds, else 0.
    pub(crate) index: u32,
    /// Timing of the pane before. On merge: as the index.
    pub(crate) sent: Option<Timing>,
    /// Whether something came since the pane before.
    pub(crate) has_news: bool,
    /// Whether it waits for the end of the round.
    #[serde(skip)]
    pub(crate) is_touched: bool,
}

/// The open windows of one key, in the order of their starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyMachine {
    pub(crate) windows: Vec<OpenWindow>,
}

/// Where a step puts what it emits.
pub(crate) struct Outlet<'a> {
    pub(crate) key: &'a [u64],
    pub(crate) deltas: &'a mut crate::pane::Deltas,
    pub(crate) panes: &'a mut PaneBatch,
    pub(crate) symbols: &'a Symbols,
}

impl MachineRules {
    /// When a window is complete: at its end; one instant later where a record at its end would
    /// still join it.
    pub(crate) fn complete_at(&self, window: Window) -> EventTime {
        if self.window.joins_at_end() {
            window.end().saturating_add(Span::from_millis(1))
        } else {
            window.end()
        }
    }

    fn expires_at(&self, window: Window) -> EventTime {
        self.complete_at(window).saturating_add(self.allowed_lateness)
    }

    fn hold(&self, window: Window, time: EventTime) -> EventTime {
        match self.emission.timestamp {
            TimestampCombiner::EndOfWindow => window.last_instant(),
            TimestampCombiner::Earliest | TimestampCombiner::Latest => time,
        }
    }

    fn combine_holds(&self, a: Option<EventTime>, b: Option<EventTime>) -> Option<EventTime> {
        let both = a.zip(b).map(|(a, b)| match self.emission.timestamp {
            TimestampCombiner::EndOfWindow | TimestampCombiner::Latest => a.max(b),
            TimestampCombiner::Earliest => a.min(b),
        });
        both.or(a).or(b)
    }
}

impl KeyMachine {
    /// A copy comes: finds or makes its window, merging what it joins. The caller adds the values
    /// to the window's delta.
    pub(crate) fn enter(
        &mut self,
        incoming: Incoming,
        rules: &MachineRules,
        at: Instants,
        symbols: &Symbols,
    ) -> Result<Verdict, Overflow> {
        let parts = self.parts(incoming.window, rules);
        let window = parts.iter().filter_map(|part| self.windows.get(*part)).fold(
            incoming.window,
            |merged, part| {
                Window::new(
                    merged.start().min(part.window.start()),
                    merged.end().max(part.window.end()),
                )
            },
        );
        if at.watermark.0 >= rules.expires_at(window) {
            return Ok(Verdict::Expired);
        }
        let is_complete = at.watermark.0 >= rules.complete_at(window);
        let number = match parts.as_slice() {
            [] => self.open(window, rules),
            [only] if self.windows.get(*only).is_some_and(|known| known.window == window) => *only,
            parts => {
                let states: Vec<_> = parts
                    .iter()
                    .filter_map(|part| Some(&self.windows.get(*part)?.trigger))
                    .collect();
                let trigger = TriggerState::merge(&rules.trigger, &states, is_complete);
                if trigger.is_finished() {
                    return Ok(Verdict::Closed);
                }
                self.merge(parts, (window, trigger), rules, symbols)?
            }
        };
        let Some(open) = self.windows.get_mut(number) else { return Ok(Verdict::Expired) };
        if open.trigger.is_finished() {
            return Ok(Verdict::Closed);
        }
        let arrival = Arrival {
            records: 1,
            bytes: incoming.bytes,
            now: at.now,
            may_merge: rules.window.is_merging(),
        };
        open.trigger.arrive(&rules.trigger, arrival);
        open.has_news = true;
        open.is_touched = true;
        let hold = rules.hold(window, incoming.time);
        if Watermark(hold) >= at.output {
            open.hold = rules.combine_holds(open.hold, Some(hold));
        }
        Ok(Verdict::Into { number, is_late: is_complete })
    }

    /// The windows that a new one belongs to: its equal, or all that it merges with.
    fn parts(&self, window: Window, rules: &MachineRules) -> Vec<usize> {
        let belongs = |known: &OpenWindow| {
            if rules.window.is_merging() {
                rules.window.merges(known.window, window)
            } else {
                known.window == window
            }
        };
        let windows = self.windows.iter().enumerate();
        windows.filter(|(_, known)| belongs(known)).map(|(number, _)| number).collect()
    }

    fn open(&mut self, window: Window, rules: &MachineRules) -> usize {
        let words = rules.aggregates.words();
        let open = OpenWindow {
            window,
            delta: vec![0; words],
            total: vec![0; if rules.keeps_total { words } else { 0 }],
            trigger: TriggerState::new(&rules.trigger),
            hold: None,
            owed: Vec::new(),
            index: 0,
            sent: None,
            has_news: false,
            is_touched: false,
        };
        let number = self.windows.partition_point(|known| known.window < window);
        self.windows.insert(number, open);
        number
    }

    /// Merges windows into one with the bounds `window`. One that had these bounds goes on as it
    /// was; otherwise it is a new window, and what was sent for its parts is owed.
    fn merge(
        &mut self,
        parts: &[usize],
        (window, trigger): (Window, TriggerState),
        rules: &MachineRules,
        symbols: &Symbols,
    ) -> Result<usize, Overflow> {
        let mut merged = Self::default();
        merged.open(window, rules);
        let Some(mut whole) = merged.windows.pop() else { return Ok(0) };
        whole.trigger = trigger;
        // From the back, so that numbers stay right.
        for part in parts.iter().rev() {
            if *part >= self.windows.len() {
                continue;
            }
            let part = self.windows.remove(*part);
            rules.aggregates.merge_all(&mut whole.delta, &part.delta, symbols)?;
            if rules.keeps_total {
                rules.aggregates.merge_all(&mut whole.total, &part.total, symbols)?;
            }
            whole.has_news |= part.has_news;
            let hold = part.hold.map(|hold| match rules.emission.timestamp {
                TimestampCombiner::EndOfWindow => window.last_instant(),
                TimestampCombiner::Earliest | TimestampCombiner::Latest => hold,
            });
            whole.hold = rules.combine_holds(whole.hold, hold);
            whole.owed.splice(0..0, part.owed);
            if part.window == window {
                whole.index = part.index;
                whole.sent = part.sent;
            } else if let (Some(timing), AccumulationMode::Retracting) = (part.sent, rules.mode) {
                let index = part.index.saturating_sub(1);
                whole
                    .owed
                    .insert(0, Owed { window: part.window, index, timing, values: part.total });
            }
        }
        // A retraction owed by the very window that goes on is its own, made at its next pane.
        let number = self.windows.partition_point(|known| known.window < window);
        self.windows.insert(number, whole);
        Ok(number)
    }

    /// Ends what a round brought: windows that got something fire if their triggers are ready, but
    /// for those that the watermark of the same round completes: they are asked with it, so that a
    /// window fires at most once a round.
    pub(crate) fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        rules: &MachineRules,
        at: Instants,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Overflow> {
        for open in &mut self.windows {
            let is_due = upcoming.is_some_and(|upcoming| {
                at.watermark.0 < rules.complete_at(open.window)
                    && upcoming.0 >= rules.complete_at(open.window)
            });
            if std::mem::take(&mut open.is_touched) && !is_due {
                open.settle(rules, at, false, outlet)?;
            }
        }
        Ok(())
    }

    /// The watermark or the clock has advanced to `at`: every window is asked, expired ones go.
    pub(crate) fn advance(
        &mut self,
        rules: &MachineRules,
        at: Instants,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Overflow> {
        for open in &mut self.windows {
            let is_expired = at.watermark.0 >= rules.expires_at(open.window);
            open.settle(rules, at, is_expired, outlet)?;
        }
        self.windows.retain(|open| at.watermark.0 < rules.expires_at(open.window));
        Ok(())
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

    /// Its one deadline in processing time.
    pub(crate) fn next_tick(&self, rules: &MachineRules) -> Option<ProcessingTime> {
        self.windows.iter().filter_map(|open| open.trigger.next_tick(&rules.trigger)).min()
    }

    /// What the stage's output watermark must not pass because of this key.
    pub(crate) fn hold(&self) -> Option<EventTime> {
        self.windows.iter().filter_map(|open| open.hold).min()
    }
}

impl OpenWindow {
    /// Fires if the trigger is ready; emits what is left if the window has expired.
    fn settle(
        &mut self,
        rules: &MachineRules,
        at: Instants,
        is_expired: bool,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Overflow> {
        if self.trigger.is_finished() {
            return Ok(());
        }
        let complete_at = rules.complete_at(self.window);
        let mut values = self.total.clone();
        if values.is_empty() {
            values.clone_from(&self.delta);
        } else {
            rules.aggregates.merge_all(&mut values, &self.delta, outlet.symbols)?;
        }
        let facts = Facts {
            complete_at,
            watermark: at.watermark,
            now: at.now,
            aggregates: &rules.aggregates,
            values: &values,
            symbols: outlet.symbols,
        };
        let is_ready = self.trigger.is_ready(&rules.trigger, &facts);
        if !is_ready && !is_expired {
            return Ok(());
        }
        if is_ready {
            self.trigger.fire(&rules.trigger, &facts);
        }
        let is_last = is_expired || self.trigger.is_finished();
        let has_passed = at.output.0 >= complete_at;
        let was_on_time = matches!(self.sent, Some(Timing::OnTime | Timing::Late));
        let timing = if has_passed || was_on_time {
            Timing::Late
        } else if at.watermark.0 < complete_at {
            Timing::Early
        } else {
            Timing::OnTime
        };
        let is_wanted = timing == Timing::OnTime && rules.emission.on_time_always
            || is_last && rules.emission.closing_always;
        if self.has_news || is_wanted {
            self.emit(rules, (timing, is_last, is_wanted), values, outlet);
        }
        self.hold = None;
        if self.trigger.is_finished() && !rules.window.is_merging() {
            // Closed: only its name is kept until it expires.
            (self.delta, self.total) = (Vec::new(), Vec::new());
        }
        Ok(())
    }

    /// Emits the pane: its delta to the next stage, to the sinks what the mode wants.
    fn emit(
        &mut self,
        rules: &MachineRules,
        (timing, is_last, is_wanted): (Timing, bool, bool),
        values: Vec<u64>,
        outlet: &mut Outlet<'_>,
    ) {
        if rules.has_children && self.has_news {
            outlet.deltas.push(outlet.key, self.window, &self.delta);
        }
        if rules.is_observed {
            let pane = PaneMeta {
                window: self.window,
                index: self.index,
                timing,
                is_last,
                kind: PaneKind::Insert,
                event_time: self.hold.unwrap_or(self.window.last_instant()),
                is_other: false,
            };
            let is_same = rules.mode == AccumulationMode::Retracting
                && self.sent.is_some()
                && self.owed.is_empty()
                && rules.aggregates.same_results(&self.total, &values);
            if !is_same || is_wanted {
                self.retract(rules, pane, outlet);
                let shown = match rules.mode {
                    AccumulationMode::Discarding => &self.delta,
                    AccumulationMode::Accumulating | AccumulationMode::Retracting => &values,
                };
                outlet.panes.push(outlet.key, pane, shown);
                self.index = self.index.saturating_add(1);
                self.sent = Some(timing);
            }
        }
        if rules.keeps_total {
            self.total = values;
        }
        self.delta.fill(0);
        self.has_news = false;
    }

    /// Takes back what merged-away windows and this one have sent.
    fn retract(&mut self, rules: &MachineRules, pane: PaneMeta, outlet: &mut Outlet<'_>) {
        let kind = PaneKind::Retract;
        for owed in std::mem::take(&mut self.owed) {
            let event_time = owed.window.last_instant();
            let Owed { window, index, timing, values } = owed;
            let meta = PaneMeta { window, index, timing, kind, is_last: false, event_time, ..pane };
            outlet.panes.push(outlet.key, meta, &values);
        }
        if let (AccumulationMode::Retracting, Some(timing)) = (rules.mode, self.sent) {
            let index = self.index.saturating_sub(1);
            let meta = PaneMeta { index, timing, kind, is_last: false, ..pane };
            outlet.panes.push(outlet.key, meta, &self.total);
        }
    }
}
