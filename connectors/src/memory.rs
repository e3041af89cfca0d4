//! Connectors without a world outside: records from an iterator, panes and late copies to a
//! function.
//!
//! For programs that embed the engine, for the benchmark, and for tests that need a real source or
//! sink under their control.

use crate::sink::{Sink, SinkError};
use crate::source::{
    Polled, Position, Progress, Source, SourceError, State, position_of, state_of,
};
use nilometer_model::late::LateBatch;
use nilometer_model::pane::PaneBatch;
use nilometer_model::row::RowBatch;

/// A source over batches in memory.
pub struct MemorySource<I> {
    batches: I,
    /// Batches given, silences included.
    given: u64,
    is_repeatable: bool,
    progress: Option<Progress>,
}

impl<I: Iterator<Item = Option<RowBatch>> + Send> MemorySource<I> {
    /// The records of `batches`, batch by batch as they come. `None` says that nothing is there
    /// right now; an iterator that waits for input must give it after about 50 ms. `total` is the
    /// number of records in all, if it is known.
    pub fn new(batches: I, total: Option<u64>) -> Self {
        let progress = total.map(|total| Progress { done: 0, total });
        Self { batches, given: 0, is_repeatable: false, progress }
    }

    /// Says that the iterator gives the same batches in every process, so that the source can go on
    /// behind those that it has given.
    #[must_use]
    pub fn repeatable(self) -> Self {
        Self { is_repeatable: true, ..self }
    }
}

impl<I: Iterator<Item = Option<RowBatch>> + Send> Source for MemorySource<I> {
    fn poll(&mut self, _records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        let next = self.batches.next();
        self.given = self.given.saturating_add(u64::from(next.is_some()));
        let batch = match next {
            Some(Some(batch)) => batch,
            Some(None) => return Ok(State::Pending),
            None => return Ok(State::End),
        };
        let records = batch.len() as u64;
        out.account.read = out.account.read.saturating_add(records);
        if let Some(progress) = &mut self.progress {
            progress.done = progress.done.saturating_add(records);
        }
        if out.batch.is_empty() {
            out.batch = batch;
        } else {
            for index in 0..batch.len() {
                out.batch.push_row(batch.row(index), batch.time(index), batch.position(index));
            }
        }
        Ok(State::More)
    }

    fn progress(&self) -> Option<Progress> {
        self.progress
    }

    fn position(&self) -> Position {
        let done = self.progress.map(|progress| progress.done);
        Position { bytes: position_of(&(self.given, done)), is_exact: self.is_repeatable }
    }

    fn resume(&mut self, position: &[u8]) -> Result<(), SourceError> {
        let (given, done) = state_of::<(u64, Option<u64>)>(position, "memory")?;
        if !self.is_repeatable {
            return Ok(());
        }
        while self.given < given && self.batches.next().is_some() {
            self.given += 1;
        }
        if let (Some(progress), Some(done)) = (&mut self.progress, done) {
            progress.done = done;
        }
        Ok(())
    }
}

/// A sink that hands batches to a function, which may keep them, count them, or wait.
pub struct MemorySink<F> {
    take: F,
}

impl<F: FnMut(&PaneBatch) -> Result<(), SinkError> + Send> MemorySink<F> {
    /// Hands every batch of panes to `take`.
    pub fn new(take: F) -> Self {
        Self { take }
    }
}

impl<F: FnMut(&LateBatch) -> Result<(), SinkError> + Send> MemorySink<F> {
    /// Hands every batch of late copies to `take`.
    pub fn of_late(take: F) -> Self {
        Self { take }
    }
}

impl<B, F: FnMut(&B) -> Result<(), SinkError> + Send> Sink<B> for MemorySink<F> {
    fn write(&mut self, batch: &B) -> Result<(), SinkError> {
        (self.take)(batch)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_model::row::{self, Field, RowLayout};
    use nilometer_model::time::EventTime;
    use nilometer_model::value::Type;
    use std::sync::Arc;

    #[test]
    fn records_come_batch_by_batch_and_silence_is_no_end() {
        let layout = Arc::new(RowLayout::new([Field::new("v", Type::U64)]));
        let batch = |times: &[i64]| {
            let mut batch = RowBatch::new(layout.clone());
            for time in times {
                batch.push(EventTime::from_millis(*time), row::Position::default());
            }
            Some(batch)
        };
        let batches = vec![batch(&[1, 2]), None, batch(&[3])];
        let mut source = MemorySource::new(batches.into_iter(), Some(3));
        let mut out = Polled::new(layout.clone(), false);
        for (state, len, done) in
            [(State::More, 2, 2), (State::Pending, 2, 2), (State::More, 3, 3), (State::End, 3, 3)]
        {
            assert_eq!(source.poll(100, &mut out).unwrap(), state);
            assert_eq!((out.batch.len(), out.account.read), (len, done));
            assert_eq!(source.progress(), Some(Progress { done, total: 3 }));
        }
        assert_eq!(out.batch.time(2).as_millis(), 3);
    }
}
