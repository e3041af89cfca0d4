//! The generator as a source.
//!
//! With times that start now, a record comes when its time has come: the only place of the
//! generator that reads a clock.

use super::{FlowGenerator, GeneratorSettings, Start};
use crate::dead_letter::Place;
use crate::flow_intake::FlowIntake;
use crate::source::{
    Found, Polled, Position, Progress, Source, SourceError, State, position_of, state_of,
};
use nilometer_model::time::EventTime;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads a [`FlowGenerator`].
#[derive(Debug)]
pub struct GeneratorSource {
    flows: FlowGenerator,
    settings: GeneratorSettings,
    /// Event time of the first record.
    start: EventTime,
    intake: FlowIntake,
    origin: Arc<str>,
    pace: Option<Pace>,
}

impl GeneratorSource {
    /// A source of the records of `settings`, which go through `intake`.
    pub fn new(settings: GeneratorSettings, intake: FlowIntake) -> Self {
        let (start, pace) = match settings.start {
            Start::At(start) => (start, None),
            Start::Now => (now(), Some(Pace { begun: Instant::now(), rate: settings.rate.max(1) })),
        };
        let flows = FlowGenerator::new(settings.clone(), start);
        Self { flows, settings, start, intake, origin: "generator".into(), pace }
    }
}

impl Source for GeneratorSource {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        let due = match &self.pace {
            Some(pace) => pace.wait(self.flows.position()),
            None => u64::MAX,
        };
        for _ in 0..records_max {
            let number = self.flows.position();
            if number >= due {
                return Ok(State::Pending);
            }
            let Some(flow) = self.flows.next() else { return Ok(State::End) };
            self.intake.take(&flow, Found::new(&self.origin, Place::Record(number), b""), out);
        }
        Ok(State::More)
    }

    fn progress(&self) -> Option<Progress> {
        self.settings.records.map(|total| Progress { done: self.flows.position(), total })
    }

    fn position(&self) -> Position {
        let state = (self.start, self.flows.image(), self.intake.count_so_far());
        Position { bytes: position_of(&state), is_exact: true }
    }

    fn resume(&mut self, position: &[u8]) -> Result<(), SourceError> {
        let (start, flows, records) = state_of(position, &self.origin)?;
        self.start = start;
        self.flows = FlowGenerator::new(self.settings.clone(), start);
        self.flows.resume(flows);
        self.intake.resume(records);
        if let Some(pace) = &mut self.pace {
            // Records go on coming at the times that they have had from the start: what fell due
            // in between comes at once.
            let since_start = now().since(start).as_millis().unsigned_abs();
            let begun = Instant::now().checked_sub(Duration::from_millis(since_start));
            pace.begun = begun.unwrap_or(pace.begun);
        }
        Ok(())
    }
}

/// Lets records come at their rate.
#[derive(Debug)]
struct Pace {
    begun: Instant,
    rate: u64,
}

impl Pace {
    /// Longest wait of one poll.
    const WAIT_MAX: Duration = Duration::from_millis(50);

    /// Waits until record `next` is due, though not long, and returns how many are due.
    fn wait(&self, next: u64) -> u64 {
        let due_after = u128::from(next) * 1_000_000 / u128::from(self.rate);
        let due_after = Duration::from_micros(u64::try_from(due_after).unwrap_or(u64::MAX));
        let ahead = due_after.saturating_sub(self.begun.elapsed());
        if !ahead.is_zero() {
            std::thread::sleep(ahead.min(Self::WAIT_MAX));
        }
        let due = self.begun.elapsed().as_micros() * u128::from(self.rate) / 1_000_000;
        u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
    }
}

fn now() -> EventTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    EventTime::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_intake::FlowContext;
    use nilometer_model::row::{Field, RowLayout};
    use nilometer_model::symbol::Symbols;
    use nilometer_model::value::Type;

    fn source(settings: GeneratorSettings) -> (GeneratorSource, Polled) {
        let layout = Arc::new(RowLayout::new([Field::new("bytes", Type::Big)]));
        let intake =
            FlowIntake::new(FlowContext::default(), &layout, Arc::new(Symbols::default()), 0);
        (GeneratorSource::new(settings, intake), Polled::new(layout, false))
    }

    #[test]
    fn a_bounded_generator_gives_its_records_and_ends() {
        let settings = GeneratorSettings { records: Some(25), ..GeneratorSettings::default() };
        let (mut source, mut out) = source(settings);
        for (records, state) in [(10, State::More), (20, State::More), (25, State::End)] {
            assert_eq!(source.poll(10, &mut out).unwrap(), state);
            assert_eq!(out.batch.len(), records);
            assert_eq!(source.progress(), Some(Progress { done: records as u64, total: 25 }));
        }
        assert_eq!((out.account.read, out.account.malformed.total()), (25, 0));
    }

    #[test]
    fn an_endless_generator_that_starts_now_gives_no_record_before_its_time() {
        let settings = GeneratorSettings {
            start: Start::Now,
            rate: 1,
            disorder: nilometer_model::time::Span::ZERO,
            late_share: 0.0,
            ..GeneratorSettings::default()
        };
        let before = now();
        let (mut source, mut out) = source(settings);
        // Record 0 is due at once; record 1 only after a second.
        assert_eq!(source.poll(10, &mut out).unwrap(), State::Pending);
        assert_eq!((out.batch.len(), source.progress()), (1, None));
        assert!((before..=now()).contains(&out.batch.time(0)));
    }
}
