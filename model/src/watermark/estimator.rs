//! What the records of a partition say of its watermark: event times, and what they promise by
//! themselves.

use super::generator::{Generator, Observed, Punctuated, Surroundings};
use super::percentile::Percentile;
use super::punctuation::Punctuation;
use super::settings::{Clamped, Estimation};
use crate::row::{Position, RowBatch};
use crate::symbol::Symbols;
use crate::time::EventTime;

/// The watermark estimate of a partition, and how its records are read for it.
#[derive(Debug)]
pub struct Estimator {
    /// Part of a checkpoint.
    pub generator: Generator,
    /// What records promise, where it is theirs to say.
    pub punctuation: Option<Punctuation>,
}

/// Records that are remarkable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Those that came after one with a larger event time.
    pub reordered: u64,
    /// Those that lie, or whose own watermark lies, too far in the future to move the watermark
    /// all the way; the rejected ones are among them.
    pub clamped: u64,
    /// Those that carry a watermark behind what was promised before: it changes nothing.
    pub went_back: u64,
    /// Those of which nobody can tell whether they carry a watermark: the expression fails.
    pub unreadable: u64,
}

/// A record that was rejected because it lies too far in the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its event time {time} lies further in the future than `max_future_skew` allows")]
pub struct TooFar {
    /// Where the record stands in its input.
    pub position: Position,
    /// Its event time.
    pub time: EventTime,
}

impl Estimator {
    /// One that has seen nothing, with second watermarks for these shares of the records.
    pub fn new(estimation: Estimation, shares: &[Percentile]) -> Self {
        let Estimation { settings, punctuation } = estimation;
        Self { generator: Generator::new(settings, shares), punctuation }
    }

    /// Takes notice of record `index` of `batch`, which takes the time of its arrival if records
    /// are to; `symbols` are those of the punctuation.
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
        if let Some(arrival) = self.generator.arrival() {
            batch.set_time(index, arrival);
        }
        let time = batch.time(index);
        match self.generator.observe(time, around) {
            Observed::InOrder => {}
            Observed::Reordered => marks.reordered += 1,
            Observed::Clamped => {
                marks.clamped += 1;
                if self.generator.settings().clamped == Clamped::Reject {
                    return Err(TooFar { position: batch.position(index), time });
                }
            }
        }
        let Some(punctuation) = &self.punctuation else { return Ok(()) };
        match punctuation.of(batch.row(index), time, symbols) {
            Ok(None) => {}
            Ok(Some(mark)) => match self.generator.punctuate(mark, around) {
                Punctuated::Taken => {}
                Punctuated::WentBack => marks.went_back += 1,
                Punctuated::Clamped => marks.clamped += 1,
            },
            Err(_) => marks.unreadable += 1,
        }
        Ok(())
    }
}
