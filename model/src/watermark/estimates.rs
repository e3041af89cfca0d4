//! The estimates of one source: one, or one per partition where it reads several.
//!
//! Partitions of a source are told apart by the `partition` of their records' positions, numbered
//! from 0 as they are found; more may be found at any time. What the source promises is what its
//! partitions promise together, by the rules of [`Coordinator`]: a minimum that leaves out who is
//! idle. A partition that has just been found holds it back until it has spoken, or is idle.
//! Invariant WM-1: what is promised only rises.

use super::coordinator::Coordinator;
use super::drift::Drift;
use super::estimator::{Estimator, Marks, TooFar};
use super::generator::{Generator, Surroundings};
use super::partition::{Progress, Reader};
use super::percentile::Percentile;
use super::renumbering::Renumbering;
use super::settings::{Estimation, ProgressRules};
use super::standing::Standing;
use crate::row::RowBatch;
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use serde::{Deserialize, Serialize};

/// The watermark estimates of a source.
#[derive(Debug)]
pub struct Estimates {
    estimation: Estimation,
    shares: Vec<Percentile>,
    /// By partition; exactly one where the source is not partitioned.
    estimators: Vec<Estimator>,
    /// What the partitions promise together; `None` where the source is not partitioned.
    together: Option<Coordinator>,
    /// By partition, whether it has had records that were not reported.
    have_spoken: Vec<bool>,
    /// Which partitions wait for the others.
    drift: Drift,
}

/// What is stored of [`Estimates`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EstimatesImage {
    generators: Vec<Generator>,
    together: Option<Coordinator>,
}

impl Estimates {
    /// Of a source that is one partition, with second watermarks for these shares of the records.
    pub fn new(estimation: Estimation, shares: &[Percentile]) -> Self {
        let estimator = Estimator::new(estimation.clone(), shares);
        Self {
            estimation,
            shares: shares.into(),
            estimators: vec![estimator],
            together: None,
            have_spoken: vec![false],
            drift: Drift::new(None),
        }
    }

    /// Of a source of several partitions, none of which has been found, and of which none is to go
    /// further ahead of another that has something to read than `max_drift`.
    #[must_use]
    pub fn partitioned(self, max_drift: Option<Span>) -> Self {
        let together = Coordinator::new(ProgressRules::default(), &[], self.shares.len());
        let (estimators, have_spoken) = (Vec::new(), Vec::new());
        let drift = Drift::new(max_drift);
        Self { estimators, together: Some(together), have_spoken, drift, ..self }
    }

    /// There are `count` partitions by now.
    fn find(&mut self, count: usize) {
        let Some(together) = &mut self.together else { return };
        while self.estimators.len() < count {
            self.estimators.push(Estimator::new(self.estimation.clone(), &self.shares));
            self.have_spoken.push(false);
            together.add_partition(self.estimation.settings.idle_after);
        }
    }

    /// Takes notice of record `index` of `batch`, as [`Estimator::watch`].
    ///
    /// # Errors
    /// [`TooFar`]: the record is to be rejected.
    pub fn watch(
        &mut self,
        (batch, index): (&mut RowBatch, usize),
        around: Surroundings,
        symbols: &Symbols,
        marks: &mut Marks,
    ) -> Result<(), TooFar> {
        let partition = match &self.together {
            Some(_) => batch.position(index).partition as usize,
            None => 0,
        };
        self.find(partition.saturating_add(1));
        if let Some(spoke) = self.have_spoken.get_mut(partition) {
            *spoke = true;
        }
        let Some(estimator) = self.estimators.get_mut(partition) else { return Ok(()) };
        estimator.watch((batch, index), around, symbols, marks)
    }

    /// Takes notice of where the readers of the partitions stand, behind the records taken so far.
    /// A partition of which nothing is said stands where it stood.
    pub fn stand(&mut self, readers: &[Reader]) {
        self.find(readers.len());
        let Some(together) = &mut self.together else { return };
        let known = (0..).zip(readers).zip(self.estimators.iter().zip(&mut self.have_spoken));
        for ((partition, reader), (estimator, spoke)) in known {
            let generator = &estimator.generator;
            together.progress(&Progress {
                partition,
                watermark: generator.watermark(),
                shares: generator.shares().to_vec(),
                head: generator.head(),
                reader: *reader,
                has_records: std::mem::take(spoke),
            });
        }
        let heads = self.estimators.iter().map(|estimator| estimator.generator.head());
        self.drift.look(heads.zip(readers.iter().copied()));
    }

    /// By partition, whether it is to be read no further until others have caught up; nothing where
    /// none ever is.
    pub fn held(&self) -> &[bool] {
        self.drift.held()
    }

    /// None of the readers may read on: nobody knows whether a partition is silent.
    pub fn block(&mut self) {
        if self.together.is_some() {
            self.stand(&vec![Reader::Blocked; self.estimators.len()]);
        }
    }

    /// The time has come to `now`; what may be promised can rise by it.
    pub fn tick(&mut self, now: ProcessingTime) {
        for estimator in &mut self.estimators {
            estimator.generator.tick(now);
        }
        if let Some(together) = &mut self.together {
            together.tick(now);
        }
    }

    /// What is promised behind the records taken so far.
    pub fn watermark(&self) -> Watermark {
        match (&self.together, self.estimators.first()) {
            (Some(together), _) => together.watermark(),
            (None, Some(estimator)) => estimator.generator.watermark(),
            (None, None) => Watermark::MIN,
        }
    }

    /// What is promised while records wait that were read and not taken yet, the earliest at
    /// `earliest`.
    pub fn watermark_before(&self, earliest: EventTime, around: Surroundings) -> Watermark {
        match (&self.together, self.estimators.first()) {
            // Nobody knows yet which partition they are of.
            (Some(together), _) => together.watermark(),
            (None, Some(estimator)) => estimator.generator.watermark_before(earliest, around),
            (None, None) => Watermark::MIN,
        }
    }

    /// The second watermarks, in the order of the shares.
    pub fn shares(&self) -> &[Watermark] {
        match (&self.together, self.estimators.first()) {
            (Some(together), _) => together.shares(),
            (None, Some(estimator)) => estimator.generator.shares(),
            (None, None) => &[],
        }
    }

    /// The largest event time that counts.
    pub fn head(&self) -> EventTime {
        let heads = self.estimators.iter().map(|estimator| estimator.generator.head());
        heads.max().unwrap_or(EventTime::MIN)
    }

    /// Whether time alone may raise what is promised: records take the time of their arrival, or one
    /// partition turns out to be idle among others.
    pub fn move_with_clock(&self) -> bool {
        let follow = |known: &Estimator| known.generator.arrival().is_some();
        self.together.is_some() || self.estimators.iter().any(follow)
    }

    /// The partition that holds the source back, if it reads several and one does.
    pub fn holder(&self) -> Option<u32> {
        self.together.as_ref().and_then(Coordinator::holder)
    }

    /// How the partitions stand, by number; `None` where the source is not partitioned.
    pub fn standing(&self) -> Option<Standing> {
        self.together.as_ref().map(Coordinator::standing)
    }

    /// What is to be stored.
    pub fn image(&self) -> EstimatesImage {
        EstimatesImage {
            generators: self.estimators.iter().map(|known| known.generator.clone()).collect(),
            together: self.together.clone(),
        }
    }

    /// Goes on where `image` was stored, under the settings of this one.
    pub fn restore(&mut self, image: EstimatesImage, renumbering: &Renumbering) {
        self.find(image.generators.len());
        for (estimator, stored) in self.estimators.iter_mut().zip(image.generators) {
            estimator.generator.restore(stored, renumbering);
        }
        if let (Some(together), Some(stored)) = (&mut self.together, image.together) {
            together.restore_under(&stored, self.estimation.settings.idle_after, renumbering);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::WM_1;
    use crate::row::{Field, Position, RowLayout};
    use crate::value::Type;
    use crate::watermark::{PartitionState, WatermarkSettings, WatermarkSpec};
    use std::sync::Arc;

    const SETTINGS: WatermarkSettings = WatermarkSettings {
        idle_after: Some(Span::from_millis(100)),
        ..WatermarkSettings::new(WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(5) })
    };

    fn partitioned() -> Estimates {
        Estimates::new(SETTINGS.into(), &[]).partitioned(None)
    }

    /// Takes one record per (partition, time).
    fn take(estimates: &mut Estimates, records: &[(u32, i64)]) {
        let layout = Arc::new(RowLayout::new([Field::new("k", Type::U32)]));
        let mut batch = RowBatch::new(layout);
        for (index, (partition, time)) in records.iter().enumerate() {
            batch.push(
                EventTime::from_millis(*time),
                Position { partition: *partition, offset: index as u64 },
            );
            let around = Surroundings::default();
            let watched = estimates.watch(
                (&mut batch, index),
                around,
                &Symbols::default(),
                &mut Marks::default(),
            );
            watched.unwrap();
        }
    }

    fn now(millis: i64) -> ProcessingTime {
        ProcessingTime::from_millis(millis)
    }

    fn mark(millis: i64) -> Watermark {
        Watermark(EventTime::from_millis(millis))
    }

    use Reader::{AtEnd, Behind, Finished, Unseen};

    #[test]
    fn partitions_hold_each_other_back_until_they_are_idle() {
        let mut estimates = partitioned();
        estimates.tick(now(0));
        assert_eq!(estimates.watermark(), Watermark::MIN, "no partition has been found");
        take(&mut estimates, &[(0, 1_000), (0, 2_000)]);
        estimates.stand(&[Behind, AtEnd]);
        assert_eq!(estimates.watermark(), Watermark::MIN, "partition 1 has never spoken");
        estimates.tick(now(99));
        assert_eq!(estimates.watermark(), Watermark::MIN);
        estimates.tick(now(100));
        assert_eq!(estimates.watermark(), mark(1_995), "partition 1 is idle");
        assert_eq!(estimates.holder(), Some(0));
        // It speaks for the first time: it counts at once, and nothing is taken back.
        take(&mut estimates, &[(1, 1_500)]);
        estimates.stand(&[Behind, Behind]);
        assert_eq!(estimates.watermark(), mark(1_995), "{WM_1}");
        take(&mut estimates, &[(0, 9_000), (1, 3_000)]);
        estimates.stand(&[Behind, Behind]);
        assert_eq!((estimates.watermark(), estimates.holder()), (mark(2_995), Some(1)));
        assert_eq!(estimates.head(), EventTime::from_millis(9_000));
        // A partition is found while the others run.
        estimates.stand(&[Behind, Behind, Behind]);
        take(&mut estimates, &[(1, 5_000)]);
        estimates.stand(&[Behind, Behind, Behind]);
        assert_eq!(estimates.watermark(), mark(2_995));
        take(&mut estimates, &[(2, 4_000)]);
        estimates.stand(&[Finished, Behind, Behind]);
        assert_eq!(estimates.watermark(), mark(3_995));
        estimates.stand(&[Finished, Finished, Finished]);
        assert_eq!(estimates.watermark(), Watermark::MAX);
    }

    #[test]
    fn a_source_that_may_not_read_is_not_silent() {
        let mut estimates = partitioned();
        estimates.tick(now(0));
        take(&mut estimates, &[(0, 1_000)]);
        estimates.stand(&[Behind, AtEnd]);
        estimates.block();
        estimates.tick(now(5_000));
        assert_eq!(estimates.watermark(), Watermark::MIN, "nobody has looked for records");
        estimates.stand(&[Behind, AtEnd]);
        estimates.tick(now(5_100));
        assert_eq!(estimates.watermark(), mark(995));
    }

    /// Both were idle; what came while nobody could look is read of one partition before the other.
    #[test]
    fn who_could_not_look_waits_for_all_that_may_have_come() {
        let idle = || {
            let mut estimates = partitioned();
            estimates.tick(now(0));
            take(&mut estimates, &[(0, 1_000), (1, 1_000)]);
            estimates.stand(&[AtEnd, AtEnd]);
            estimates.tick(now(100));
            estimates
        };
        // Known to have nothing, the other is not waited for.
        let mut seen = idle();
        take(&mut seen, &[(0, 2_000)]);
        seen.stand(&[Behind, AtEnd]);
        assert_eq!(seen.watermark(), mark(1_995));
        let mut unseen = idle();
        unseen.stand(&[Unseen, Unseen]);
        take(&mut unseen, &[(0, 2_000)]);
        unseen.stand(&[AtEnd, Unseen]);
        unseen.tick(now(5_000));
        assert_eq!((unseen.watermark(), unseen.holder()), (mark(995), Some(1)));
        take(&mut unseen, &[(1, 1_500)]);
        unseen.stand(&[AtEnd, Unseen]);
        assert_eq!(unseen.watermark(), mark(1_495));
        // It has all been read: silence counts again.
        unseen.stand(&[AtEnd, AtEnd]);
        unseen.tick(now(5_100));
        unseen.stand(&[Behind, AtEnd]);
        assert_eq!(unseen.watermark(), mark(1_995));
    }

    #[test]
    fn what_is_stored_goes_on() {
        let mut before = partitioned();
        before.tick(now(0));
        take(&mut before, &[(0, 1_000), (1, 2_000)]);
        before.stand(&[AtEnd, AtEnd]);
        before.tick(now(100));
        take(&mut before, &[(1, 3_000)]);
        before.stand(&[AtEnd, Behind]);
        let mut after = partitioned();
        let stored = postcard::to_stdvec(&before.image()).unwrap();
        after.restore(postcard::from_bytes(&stored).unwrap(), &Renumbering::default());
        assert_eq!(after.watermark(), mark(2_995));
        let states = after.standing().unwrap().partitions;
        let states: Vec<_> = states.iter().map(|standing| standing.state).collect();
        assert_eq!(states, [PartitionState::Idle, PartitionState::Active]);
    }

    #[test]
    fn a_partition_that_had_ended_counts_again_if_it_is_read_on() {
        let mut before = partitioned();
        take(&mut before, &[(0, 1_000), (1, 2_000)]);
        before.stand(&[Finished, Behind]);
        assert_eq!(before.watermark(), mark(1_995));
        let restored = || {
            let mut after = partitioned();
            after.restore(before.image(), &Renumbering::default());
            after
        };
        let mut ended = restored();
        ended.stand(&[Finished, Finished]);
        assert_eq!(ended.watermark(), Watermark::MAX);
        // It does not hold back what was promised, and counts once it has caught up.
        let mut goes_on = restored();
        goes_on.stand(&[Behind, Behind]);
        take(&mut goes_on, &[(0, 2_500), (1, 3_000)]);
        goes_on.stand(&[Behind, Behind]);
        assert_eq!((goes_on.watermark(), goes_on.holder()), (mark(2_495), Some(0)));
    }

    #[test]
    fn a_source_of_one_partition_promises_what_its_estimate_does() {
        let mut estimates = Estimates::new(SETTINGS.into(), &[]);
        take(&mut estimates, &[(7, 1_000)]);
        estimates.stand(&[AtEnd]);
        assert_eq!((estimates.watermark(), estimates.standing()), (mark(995), None));
        let before = estimates.watermark_before(EventTime::from_millis(9), Surroundings::default());
        assert_eq!(before, mark(995));
    }
}
