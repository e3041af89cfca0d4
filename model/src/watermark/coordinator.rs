//! The watermark of a pipeline over all of its partitions: a minimum that never goes back.
//!
//! Takes what partitions report and what the clock says, and decides: how far the watermark has
//! come, and the second ones beside it; who is idle; whose turn it is to read; whether windows are
//! to emit what they hold although the watermark stands still. It has no clock: time comes with
//! the tick. Invariant WM-1: what it gives out only rises, whatever partitions do.

use super::alignment::{Alignment, Grant};
use super::partition::{Partition, PartitionState, Progress, Reader};
use super::passed::Passed;
use super::renumbering::Renumbering;
use super::settings::{AllIdle, ProgressRules};
use super::standing::Standstill;
use crate::engine::Cycle;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use serde::{Deserialize, Serialize};

/// The watermark of a pipeline over all of its source partitions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Coordinator {
    rules: ProgressRules,
    pub(super) partitions: Vec<Partition>,
    pub(super) alignment: Alignment,
    /// What has been given out. Never falls (WM-1).
    watermark: Watermark,
    /// The second watermarks given out, in the order of the pipeline's shares. Never fall (WM-1).
    shares: Vec<Watermark>,
    /// Whether one of them has risen and nobody was told. Cleared by telling.
    has_risen: bool,
    /// The last tick.
    now: Option<ProcessingTime>,
    standstill: Standstill,
    /// How often windows were to emit what they hold. Grows only.
    closings: u64,
}

impl Coordinator {
    /// For a partition per element of `idle_after`, none of which has said anything: until each has
    /// spoken or is known to be idle, nothing is promised. `shares` is how many second watermarks
    /// there are.
    pub fn new(rules: ProgressRules, idle_after: &[Option<Span>], shares: usize) -> Self {
        let unheard = |limit: &Option<Span>| Partition::unheard(*limit, shares);
        Self {
            rules,
            partitions: idle_after.iter().map(unheard).collect(),
            alignment: Alignment::new(rules.max_drift, idle_after.len()),
            watermark: Watermark::MIN,
            shares: vec![Watermark::MIN; shares],
            has_risen: false,
            now: None,
            standstill: Standstill::default(),
            closings: 0,
        }
    }

    /// One more partition has been found, which has said nothing.
    pub fn add_partition(&mut self, idle_after: Option<Span>) {
        self.partitions.push(Partition::unheard(idle_after, self.shares.len()));
    }

    /// Goes on where `image` was stored, with all its partitions, which are idle after `idle_after`
    /// now; `renumbering` says which shares of the image there are. Those that had ended have to say so
    /// again, as they may be read to another end; until they do they count as idle.
    pub fn restore_under(
        &mut self,
        image: &Self,
        idle_after: Option<Span>,
        renumbering: &Renumbering,
    ) {
        self.partitions.clear();
        image.partitions.iter().for_each(|_| self.add_partition(idle_after));
        let partitions = (0..image.partitions.len()).map(Some).collect();
        self.alignment = Alignment::new(self.rules.max_drift, image.partitions.len());
        self.restore(image, &Renumbering { partitions, shares: renumbering.shares.clone() });
        self.partitions.iter_mut().for_each(Partition::reopen);
    }

    /// Goes on where `image` was stored, under the settings of this one; `renumbering` says which
    /// partitions and shares of the image they are. The time in between is no silence of anybody,
    /// and whoever reads tells anew what it has: what was left of a span before somebody is idle, or
    /// windows time out, is left, and passes once readers have caught up. A partition that was not
    /// there has to be heard of, or known to be idle, before the watermark rises.
    pub fn restore(&mut self, image: &Self, renumbering: &Renumbering) {
        for (number, stored) in renumbering.partitions.iter().enumerate() {
            let stored = stored.and_then(|stored| Some((stored, image.partitions.get(stored)?)));
            if let (Some(own), Some((stored, known))) = (self.partitions.get_mut(number), stored) {
                own.restore(known, renumbering.shares_of(&known.shares, known.watermark));
                self.alignment.recall(number, (&image.alignment, stored));
            }
        }
        self.watermark = image.watermark;
        self.shares = renumbering.shares_of(&image.shares, image.watermark);
        self.has_risen = image.has_risen;
        self.standstill = image.standstill.clone();
        self.closings = image.closings;
        self.now = None;
    }

    /// Takes a report; returns the pipeline's watermark if it rose. A report of a partition that
    /// does not exist is ignored. Ask [`Self::grants`] behind it, where partitions read in step.
    pub fn progress(&mut self, report: &Progress) -> Option<Watermark> {
        let index = report.partition as usize;
        self.partitions.get_mut(index)?.report(report, self.watermark);
        match report.reader {
            Reader::AtEnd => self.alignment.is_at_end(index),
            Reader::Finished => self.alignment.has_ended(index),
            Reader::Behind | Reader::Unseen | Reader::Away | Reader::Blocked => {}
        }
        if report.has_records {
            self.standstill.take_records();
        }
        self.advance()
    }

    /// A reader has read records and waits for its turn to hand them on: the earliest of them is at
    /// `head`, and in front of them it promises `watermark`. Returns the pipeline's watermark if it
    /// rose. Ask [`Self::grants`] behind it.
    pub fn wait(
        &mut self,
        partition: u32,
        head: EventTime,
        watermark: Watermark,
    ) -> Option<Watermark> {
        let index = partition as usize;
        self.partitions.get_mut(index)?.wait(watermark, self.watermark);
        self.alignment.waits(index, head);
        self.advance()
    }

    /// A reader was stopped: it reads no more, and promises no more than it did. Ask
    /// [`Self::grants`] behind it.
    pub fn stop(&mut self, partition: u32) {
        self.alignment.has_ended(partition as usize);
    }

    /// A reader has been told to read no more until [`Self::resume`]: nobody waits for it. Ask
    /// [`Self::grants`] behind it.
    pub fn pause(&mut self, partition: u32) {
        self.alignment.pauses(partition as usize);
    }

    /// Paused readers read on.
    pub fn resume(&mut self) {
        self.alignment.resume();
    }

    /// Whether a partition has ended, and was not stopped before.
    pub fn has_finished(&self, partition: u32) -> bool {
        let known = self.partitions.get(partition as usize);
        known.is_some_and(|known| known.state == PartitionState::Finished)
    }

    /// Partitions that are idle.
    pub fn idle(&self) -> impl Iterator<Item = u32> {
        let partitions = (0_u32..).zip(&self.partitions);
        let idle = partitions.filter(|(_, known)| known.state == PartitionState::Idle);
        idle.map(|(partition, _)| partition)
    }

    /// Takes notice that a partition is idle, from a source that knows so; returns the pipeline's
    /// watermark if it rose. A partition that has ended, or does not exist, stays as it is.
    pub fn rest(&mut self, partition: u32) -> Option<Watermark> {
        self.partitions.get_mut(partition as usize)?.rest();
        self.advance()
    }

    /// Readers that wait and whose turn it is: each is told once.
    pub fn grants(&mut self) -> Vec<Grant> {
        self.alignment.grants()
    }

    /// Takes the time; returns the pipeline's watermark if it rose because of it. Ask
    /// [`Self::closes`] behind it. Ticks that are far apart say that the process did not run, and
    /// nobody knows what there was to read meanwhile.
    pub fn tick(&mut self, now: ProcessingTime) -> Option<Watermark> {
        self.pass(Passed::between(self.now.unwrap_or(now), now), now)
    }

    /// As [`Self::tick`], where all readers have looked for records all the time since the last one.
    pub(crate) fn tick_watched(&mut self, now: ProcessingTime) -> Option<Watermark> {
        self.pass(Passed::watched(self.now.unwrap_or(now), now), now)
    }

    fn pass(&mut self, passed: Passed, now: ProcessingTime) -> Option<Watermark> {
        self.now = self.now.max(Some(now));
        let mut is_unseen = false;
        for partition in &mut self.partitions {
            is_unseen |= partition.pass(passed);
        }
        // Who is waited for again may be the only one: its old word is no news.
        let risen = if is_unseen { None } else { self.advance() };
        // Time counts as standing still while nobody is on the way to its end.
        let is_quiet = self
            .partitions
            .iter()
            .all(|partition| partition.is_at_end || partition.state == PartitionState::Finished);
        self.standstill.pass(passed, (is_quiet, self.rules.close_after));
        risen
    }

    /// Whether windows are to emit what they hold now, since the watermark has stood still for too
    /// long: once, and again only when more records have come. Returns the cycle that they end by
    /// it.
    pub fn closes(&mut self) -> Option<Cycle> {
        let limit = self.rules.close_after?;
        if !self.standstill.closes(limit) {
            return None;
        }
        self.closings = self.closings.saturating_add(1);
        Some(Cycle { number: self.closings, watermark: self.watermark })
    }

    /// The pipeline's watermark.
    pub const fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// The second watermarks, in the order of the pipeline's shares; each at least the watermark.
    pub fn shares(&self) -> &[Watermark] {
        &self.shares
    }

    /// The second watermarks, if any has risen since this was asked last. Ask behind everything that
    /// may make one rise, and tell the watermark first: a window is on time rather than early.
    pub fn take_shares(&mut self) -> Option<&[Watermark]> {
        std::mem::take(&mut self.has_risen).then_some(&*self.shares)
    }

    pub(super) const fn standstill(&self) -> &Standstill {
        &self.standstill
    }

    pub(super) const fn standstill_mut(&mut self) -> &mut Standstill {
        &mut self.standstill
    }

    /// The lowest of what the partitions that count say; `None` where nothing more can be said.
    fn lowest(&self, of: impl Fn(&Partition) -> Watermark) -> Option<Watermark> {
        let mut lowest = None;
        let (mut is_finished, mut is_idle) = (true, true);
        for partition in &self.partitions {
            match partition.state {
                PartitionState::Active => {
                    (is_finished, is_idle) = (false, false);
                    lowest = Some(of(partition).min(lowest.unwrap_or(Watermark::MAX)));
                }
                PartitionState::CatchingUp => (is_finished, is_idle) = (false, false),
                // Unheard after a restart, it may have whatever came in between.
                PartitionState::Idle => {
                    (is_finished, is_idle) = (false, is_idle && partition.is_heard)
                }
                PartitionState::Finished => {}
            }
        }
        if lowest.is_some() {
            return lowest;
        }
        // Before any partition has been found, nothing is promised.
        if is_finished && !self.partitions.is_empty() {
            return Some(Watermark::MAX);
        }
        match self.rules.all_idle {
            AllIdle::Advance(delay) if is_idle => {
                let now = self.now?.as_event_time();
                Some(Watermark(now.saturating_sub(delay)))
            }
            AllIdle::Advance(_) | AllIdle::Hold => None,
        }
    }

    fn advance(&mut self) -> Option<Watermark> {
        let risen = self.lowest(|partition| partition.watermark);
        let risen = risen.filter(|candidate| *candidate > self.watermark);
        if let Some(watermark) = risen {
            self.watermark = watermark;
            self.standstill.rise();
        }
        for number in 0..self.shares.len() {
            let of = |partition: &Partition| {
                let share = partition.shares.get(number).copied().unwrap_or(Watermark::MIN);
                share.max(partition.watermark)
            };
            let lowest = self.lowest(of).unwrap_or(Watermark::MIN).max(self.watermark);
            if let Some(share) = self.shares.get_mut(number).filter(|share| **share < lowest) {
                *share = lowest;
                self.has_risen = true;
            }
        }
        risen
    }
}
