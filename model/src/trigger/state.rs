//! The state machine of a trigger: one node per trigger of the tree.
//!
//! A node holds what its trigger has seen since it was last reset. *Holds*: counts, deadlines,
//! which child of a sequence is current, whether the end of the window has been fired. *Cleared
//! when* the node is reset by the trigger around it, or the window expires. *On merge*: counts add,
//! deadlines take the earliest, and a node is finished only if it was in all parts. The end of the
//! merged window may lie ahead again: what had finished by the end of its window is then as before
//! it, and a trigger that had finished as a whole starts anew.

use super::{Seen, Trigger};
use crate::aggregate::{AggregateLayout, ValuesRef};
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Watermark};
use crate::watermark::Percentile;
use serde::{Deserialize, Serialize};

/// What a trigger may look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The instant at which the window is complete.
    pub complete_at: EventTime,
    /// The stage's input watermark.
    pub watermark: Watermark,
    /// The second watermarks that its trigger waits for, each with its share of the records; none
    /// is behind the watermark.
    pub shares: &'a [(Percentile, Watermark)],
    /// The last tick.
    pub now: ProcessingTime,
    /// Layout of the aggregates.
    pub aggregates: &'a AggregateLayout,
    /// The window's aggregates, what has not been emitted included.
    pub values: ValuesRef<'a>,
    /// Texts of the aggregates.
    pub symbols: &'a Symbols,
}

impl Facts<'_> {
    fn is_complete(&self) -> bool {
        self.watermark.0 >= self.complete_at
    }

    /// Whether the window is complete but for what that share of the records leaves out.
    fn is_complete_for(&self, percentile: Percentile) -> bool {
        let share = self.shares.iter().find(|(share, _)| *share == percentile);
        share.is_some_and(|(_, watermark)| watermark.0 >= self.complete_at)
    }
}

/// What records bring to a trigger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) now: ProcessingTime,
    /// Windows may merge: triggers that are not current now may be revived, and see everything.
    pub(crate) may_merge: bool,
}

/// The state of one trigger and of those inside it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TriggerState {
    is_finished: bool,
    /// Records, or bytes, since the last reset.
    count: u64,
    deadline: Option<ProcessingTime>,
    /// Of a sequence: the current child. Of `after_watermark`: 1 once the end has been fired.
    phase: u32,
    is_signalled: bool,
    children: Vec<TriggerState>,
}

/// Something that a trigger remembers, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// Records or bytes since it fired.
    Count(u64),
    /// When the clock fires it.
    Deadline(ProcessingTime),
    /// That it will not fire any more.
    Finished,
}

impl TriggerState {
    /// What it remembers, and those inside it.
    pub fn remembered(&self) -> Vec<Remembered> {
        let own = [
            (self.count > 0).then_some(Remembered::Count(self.count)),
            self.deadline.map(Remembered::Deadline),
            self.is_finished.then_some(Remembered::Finished),
        ];
        let inner = self.children.iter().flat_map(Self::remembered);
        own.into_iter().flatten().chain(inner).collect()
    }

    /// The state of a trigger that has seen nothing.
    pub fn new(trigger: &Trigger) -> Self {
        Self { children: trigger.children().map(Self::new).collect(), ..Self::default() }
    }

    /// Whether it can be the state of `trigger`.
    pub(crate) fn fits(&self, trigger: &Trigger) -> bool {
        let mut states = self.children.iter();
        let mut fit =
            trigger.children().map(|inner| states.next().is_some_and(|state| state.fits(inner)));
        fit.all(|fits| fits) && states.next().is_none()
    }

    /// Whether the trigger will never fire again.
    pub const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether nothing of it has fired since it was new: what it has seen holds whatever becomes of
    /// the window's bounds.
    pub(crate) fn is_unfired(&self) -> bool {
        !self.is_finished && self.phase == 0 && self.children.iter().all(Self::is_unfired)
    }

    /// Forgets what was counted but not what has finished: it has been emitted by another part of
    /// the trigger, which this one ran beside because windows may merge.
    fn clear(&mut self) {
        (self.count, self.deadline, self.is_signalled) = (0, None, false);
        self.children.iter_mut().for_each(Self::clear);
    }

    fn reset(&mut self) {
        let mut children = std::mem::take(&mut self.children);
        for child in &mut children {
            child.reset();
        }
        *self = Self { children, ..Self::default() };
    }

    /// Records have come into the window.
    pub(crate) fn arrive(&mut self, trigger: &Trigger, arrival: Arrival) {
        if self.is_finished && !arrival.may_merge {
            return;
        }
        match trigger {
            Trigger::AfterCount(_) => self.count = self.count.saturating_add(arrival.records),
            Trigger::Custom(custom) => {
                self.count = self.count.saturating_add(arrival.records);
                self.deadline = self.deadline.or_else(|| custom.due(arrival.now));
            }
            Trigger::AfterBytes(_) => self.count = self.count.saturating_add(arrival.bytes),
            Trigger::AfterProcessingTime(delay) => {
                let due = arrival.now.saturating_add(*delay);
                self.deadline.get_or_insert(due);
            }
            Trigger::Every(period) => {
                let due = arrival.now.next_multiple(*period);
                self.deadline.get_or_insert(due);
            }
            Trigger::AfterWatermark { early, late } => {
                let has_early = early.is_some();
                let inner = early.iter().chain(late).zip(&mut self.children);
                for (index, (inner, state)) in inner.enumerate() {
                    let is_early = has_early && index == 0;
                    if arrival.may_merge || is_early == (self.phase == 0) {
                        state.arrive(inner, arrival);
                    }
                }
            }
            Trigger::Sequence(inner) => {
                let current = self.phase as usize;
                for (index, (inner, state)) in inner.iter().zip(&mut self.children).enumerate() {
                    if arrival.may_merge || index == current {
                        state.arrive(inner, arrival);
                    }
                }
            }
            Trigger::All(_)
            | Trigger::Any(_)
            | Trigger::Repeat(_)
            | Trigger::RepeatUntil(..)
            | Trigger::OrFinally(..) => {
                for (inner, state) in trigger.children().zip(&mut self.children) {
                    state.arrive(inner, arrival);
                }
            }
            Trigger::AfterWatermarkPercentile(_)
            | Trigger::When(_)
            | Trigger::OnSignal(_)
            | Trigger::Never => {}
        }
    }

    /// A signal was given. Returns whether the trigger waits for it.
    pub(crate) fn signal(&mut self, trigger: &Trigger, name: &str) -> bool {
        if let Trigger::OnSignal(wanted) = trigger
            && **wanted == *name
        {
            self.is_signalled = true;
            return true;
        }
        let mut is_awaited = false;
        for (inner, state) in trigger.children().zip(&mut self.children) {
            is_awaited |= state.signal(inner, name);
        }
        is_awaited
    }

    /// Whether the window should fire now.
    pub(crate) fn is_ready(&self, trigger: &Trigger, facts: &Facts<'_>) -> bool {
        if self.is_finished {
            return false;
        }
        let child = |index: usize, inner: &Trigger| {
            self.children.get(index).is_some_and(|state| state.is_ready(inner, facts))
        };
        match trigger {
            Trigger::AfterWatermark { early, late } => {
                let late_at = usize::from(early.is_some());
                if self.phase == 0 {
                    facts.is_complete() || early.as_ref().is_some_and(|early| child(0, early))
                } else {
                    late.as_ref().is_some_and(|late| child(late_at, late))
                }
            }
            Trigger::AfterWatermarkPercentile(percentile) => facts.is_complete_for(*percentile),
            Trigger::AfterCount(wanted) | Trigger::AfterBytes(wanted) => self.count >= *wanted,
            Trigger::AfterProcessingTime(_) | Trigger::Every(_) => {
                self.deadline.is_some_and(|due| facts.now >= due)
            }
            Trigger::When(condition) => condition.is_true(facts),
            Trigger::OnSignal(_) => self.is_signalled,
            Trigger::Never => false,
            Trigger::All(inner) => inner.iter().enumerate().all(|(index, inner)| {
                self.children.get(index).is_some_and(|state| state.is_finished)
                    || child(index, inner)
            }),
            Trigger::Any(inner) => {
                inner.iter().enumerate().any(|(index, inner)| child(index, inner))
            }
            Trigger::Sequence(inner) => {
                let current = self.phase as usize;
                inner.get(current).is_some_and(|inner| child(current, inner))
            }
            Trigger::Repeat(inner) => child(0, inner),
            Trigger::RepeatUntil(first, second) | Trigger::OrFinally(first, second) => {
                child(0, first) || child(1, second)
            }
            Trigger::Custom(custom) => {
                let is_due = self.deadline.is_some_and(|due| facts.now >= due);
                custom.is_ready(facts, Seen { records: self.count, is_due })
            }
        }
    }

    /// The window has fired because the trigger was ready: it moves on, and may finish.
    pub(crate) fn fire(&mut self, trigger: &Trigger, facts: &Facts<'_>) {
        match trigger {
            Trigger::AfterWatermark { early, late } => {
                self.fire_watermark((early.as_deref(), late.as_deref()), facts)
            }
            Trigger::All(inner) => {
                for (inner, state) in inner.iter().zip(&mut self.children) {
                    state.fire(inner, facts);
                }
                self.is_finished = true;
            }
            Trigger::Any(inner) => {
                for (inner, state) in inner.iter().zip(&mut self.children) {
                    // What the others were waiting for has been emitted.
                    if state.is_ready(inner, facts) {
                        state.fire(inner, facts);
                    } else {
                        state.reset();
                    }
                }
                self.is_finished = true;
            }
            Trigger::Sequence(inner) => {
                let current = self.phase as usize;
                if let (Some(inner), Some(state)) =
                    (inner.get(current), self.children.get_mut(current))
                {
                    state.fire(inner, facts);
                    self.phase += u32::from(state.is_finished);
                    for (index, other) in self.children.iter_mut().enumerate() {
                        if index != current {
                            other.clear();
                        }
                    }
                }
                self.is_finished = self.phase as usize >= inner.len();
            }
            Trigger::Repeat(inner) => self.fire_repeated(inner, facts),
            Trigger::RepeatUntil(first, second) => {
                if self.fire_second(second, facts) {
                    return;
                }
                self.fire_repeated(first, facts);
            }
            Trigger::OrFinally(first, second) => {
                if self.fire_second(second, facts) {
                    return;
                }
                if let Some(state) = self.children.first_mut() {
                    state.fire(first, facts);
                    self.is_finished = state.is_finished;
                }
            }
            Trigger::AfterWatermarkPercentile(_)
            | Trigger::AfterCount(_)
            | Trigger::AfterBytes(_)
            | Trigger::AfterProcessingTime(_)
            | Trigger::Every(_)
            | Trigger::When(_)
            | Trigger::OnSignal(_)
            | Trigger::Never
            | Trigger::Custom(_) => {
                self.clear();
                self.is_finished = true;
            }
        }
    }

    fn fire_watermark(
        &mut self,
        (early, late): (Option<&Trigger>, Option<&Trigger>),
        facts: &Facts<'_>,
    ) {
        let late_at = usize::from(early.is_some());
        if self.phase == 0 && facts.is_complete() {
            self.phase = 1;
            for state in &mut self.children {
                state.reset();
            }
            self.is_finished = late.is_none();
            return;
        }
        let (at, inner) = if self.phase == 0 { (0, early) } else { (late_at, late) };
        for (index, state) in self.children.iter_mut().enumerate() {
            match inner {
                Some(inner) if index == at => {
                    state.fire(inner, facts);
                    if state.is_finished {
                        state.reset();
                    }
                }
                Some(_) | None => state.clear(),
            }
        }
    }

    fn fire_repeated(&mut self, inner: &Trigger, facts: &Facts<'_>) {
        if let Some(state) = self.children.first_mut() {
            state.fire(inner, facts);
            if state.is_finished {
                state.reset();
            }
        }
    }

    /// Fires the second child if it is ready: it ends the trigger.
    fn fire_second(&mut self, second: &Trigger, facts: &Facts<'_>) -> bool {
        let Some(state) = self.children.get_mut(1) else { return false };
        if !state.is_ready(second, facts) {
            return false;
        }
        state.fire(second, facts);
        if let Some(first) = self.children.first_mut() {
            first.clear();
        }
        self.is_finished = true;
        true
    }

    /// The state of a merged window from those of its parts (at least one); `is_past_end` says
    /// whether the merged window is complete.
    pub(crate) fn merge(trigger: &Trigger, parts: &[&Self], is_past_end: bool) -> Self {
        if !is_past_end && parts.iter().all(|part| part.is_finished) {
            return Self::new(trigger);
        }
        Self::merge_nodes(trigger, parts, is_past_end)
    }

    fn merge_nodes(trigger: &Trigger, parts: &[&Self], is_past_end: bool) -> Self {
        let mut merged = Self::new(trigger);
        let counts = parts.iter().map(|part| part.count);
        merged.count = counts.fold(0, u64::saturating_add);
        merged.deadline = parts.iter().filter_map(|part| part.deadline).min();
        merged.is_signalled = parts.iter().any(|part| part.is_signalled);
        let mut is_revived = false;
        for (index, inner) in trigger.children().enumerate() {
            let states: Vec<_> = parts.iter().filter_map(|part| part.children.get(index)).collect();
            if let Some(state) = merged.children.get_mut(index) {
                *state = Self::merge_nodes(inner, &states, is_past_end);
                is_revived |= !state.is_finished && states.iter().all(|part| part.is_finished);
            }
        }
        merged.is_finished = !is_revived && parts.iter().all(|part| part.is_finished);
        match trigger {
            Trigger::AfterWatermark { early, .. } => {
                let was_past = parts.iter().all(|part| part.phase == 1);
                merged.phase = u32::from(was_past && is_past_end);
                merged.is_finished &= is_past_end;
                // The phase that is not current starts anew when it becomes so.
                let late_at = usize::from(early.is_some());
                let idle = if merged.phase == 0 { late_at } else { 0 };
                let is_own = merged.phase == 0 || early.is_some();
                if let (true, Some(state)) = (is_own, merged.children.get_mut(idle)) {
                    state.reset();
                }
            }
            Trigger::Sequence(inner) => {
                // The first that is not finished is current again; those behind it start anew.
                let open = merged.children.iter().position(|state| !state.is_finished);
                let current = open.unwrap_or(inner.len());
                merged.phase = u32::try_from(current).unwrap_or(u32::MAX);
                for later in merged.children.iter_mut().skip(current + 1) {
                    later.reset();
                }
            }
            // It waits for the end of the window, which may lie ahead again.
            Trigger::AfterWatermarkPercentile(_) => merged.is_finished &= is_past_end,
            Trigger::AfterCount(_)
            | Trigger::AfterBytes(_)
            | Trigger::AfterProcessingTime(_)
            | Trigger::Every(_)
            | Trigger::When(_)
            | Trigger::OnSignal(_)
            | Trigger::Never
            | Trigger::All(_)
            | Trigger::Any(_)
            | Trigger::Repeat(_)
            | Trigger::RepeatUntil(..)
            | Trigger::OrFinally(..)
            | Trigger::Custom(_) => {}
        }
        merged
    }

    /// The first instant of processing time after `now` at which the trigger may become ready.
    pub(crate) fn next_tick(
        &self,
        trigger: &Trigger,
        now: ProcessingTime,
    ) -> Option<ProcessingTime> {
        if self.is_finished {
            return None;
        }
        let inner = trigger.children().zip(&self.children);
        let inner = inner.filter_map(|(inner, state)| state.next_tick(inner, now));
        // What is due was asked about when it became so; it may wait for another part.
        inner.chain(self.deadline.filter(|due| *due > now)).min()
    }
}
