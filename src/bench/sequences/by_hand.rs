//! What somebody would write by hand: a vector of records for each client, sorted when all have
//! come, and one pass over it. Records of 16 bytes, one thread, no late records, no corrections.

use super::input::{Record, STEPS};
use super::{Outcome, Session};
use hashbrown::HashMap;
use std::time::Instant;

/// What a run has shown.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// Seconds with records.
    pub(super) taking: f64,
    /// Seconds with sessions.
    closing: f64,
    pub(super) sessions: Vec<Session>,
}

impl Ran {
    pub(super) fn seconds(&self) -> f64 {
        self.taking + self.closing
    }

    /// The shorter of two runs.
    pub(super) fn min(self, other: Self) -> Self {
        if other.seconds() < self.seconds() { other } else { self }
    }
}

/// A record without its client.
#[derive(Debug, Clone, Copy)]
struct Kept {
    time: i64,
    step: u8,
    is_good: bool,
}

/// Runs everything.
pub(super) fn run(records: &[Record]) -> Ran {
    let begun = Instant::now();
    let mut open = HashMap::<u64, Vec<Kept>, foldhash::fast::RandomState>::default();
    for record in records {
        let kept = Kept { time: record.time, step: record.step, is_good: record.is_good };
        open.entry(record.client).or_default().push(kept);
    }
    let taking = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut sessions = Vec::with_capacity(open.len());
    for (client, records) in &mut open {
        records.sort_by_key(|record| (record.time, record.step));
        sessions.push(judge(*client, records));
    }
    Ran { taking, closing: begun.elapsed().as_secs_f64(), sessions }
}

/// What records in their order say. A result without a beginning took as long as what lies before
/// it is past.
fn judge(client: u64, records: &[Kept]) -> Session {
    let mut starts = [None; STEPS];
    let mut durations = [None; STEPS];
    let mut attempts = [0; STEPS];
    let mut good = [false; STEPS];
    let (mut last_result, mut last_step) = (None, None);
    for record in records {
        let step = usize::from(record.step);
        let begun = last_result.unwrap_or(record.time);
        if let (Some(start), Some(duration), Some(attempts), Some(good)) = (
            starts.get_mut(step),
            durations.get_mut(step),
            attempts.get_mut(step),
            good.get_mut(step),
        ) {
            *attempts += 1;
            *duration = Some(record.time - *start.get_or_insert(begun));
            *good = record.is_good;
        }
        (last_result, last_step) = (Some(record.time), Some(record.step));
    }
    let first = records.first().map_or(0, |record| record.time);
    let is_good = |step: u8| good.get(usize::from(step)).copied().unwrap_or(false);
    let (outcome, step, time_to_connect) = if good.iter().all(|good| *good) {
        (Outcome::Connected, None, last_result.map(|last| last - first))
    } else if last_step.is_some_and(is_good) {
        (Outcome::Abandoned, last_step, None)
    } else {
        (Outcome::Failed, last_step, None)
    };
    Session { client, outcome, step, time_to_connect, durations, attempts }
}
