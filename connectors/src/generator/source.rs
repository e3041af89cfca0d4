//! The generator as a source.
//!
//! With times that start now, a record comes when its time has come: the only place of the
//! generator that reads a clock.

use super::{FlowGenerator, GeneratorSettings, Start};
use crate::dead_letter::Place;
use crate::flow_intake::FlowIntake;
use crate::source::{Found, Polled, Progress, Source, SourceError, State};
use nilometer_model::time::EventTime;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads a [`FlowGenerator`].
#[derive(Debug)]
pub struct GeneratorSource {
    flows: FlowGenerator,
    intake: FlowIntake,
    origin: Arc<str>,
    records: Option<u64>,
    pace: Option<Pace>,
}

impl GeneratorSource {
    /// A source of the records of `settings`, which go through `intake`.
    pub fn new(settings: GeneratorSettings, intake: FlowIntake) -> Self {
        let (start, pace) = match settings.start {
            Start::At(start) => (start, None),
            Start::Now => (now(), Some(Pace { begun: Instant::now(), rate: settings.rate.max(1) })),
        };
        let records = settings.records;
        let flows = FlowGenerator::new(settings, start);
        Self { flows, intake, origin: "generator".into(), records, pace }
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
        self.records.map(|total| Progress { done: self.flows.position(), total })
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
