//! The records of the benchmark: four of each session, round by round, so that all sessions are
//! open at once; some come a round later than they should, behind the next one of their session.

use nilometer_connectors::generator::Dice;
use std::fmt::Write as _;

/// Steps of the chain, and records of a session.
pub(super) const STEPS: usize = 4;

/// The names of the steps.
pub(super) const NAMES: [&str; STEPS] = ["assoc", "auth", "dhcp", "dns"];

/// The names of the statuses, by [`Record::is_good`].
pub(super) const STATUSES: [&str; 2] = ["bad", "ok"];

/// A record as the loop reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) client: u64,
    /// Event time, ms since the Unix epoch.
    pub(super) time: i64,
    pub(super) step: u8,
    pub(super) is_good: bool,
}

/// How many and which records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) sessions: u32,
    /// Records of a hundred that come a round later, at most 75.
    pub(super) disorder: u8,
    pub(super) seed: u64,
}

/// Event time of the first record.
const START: i64 = 1_700_000_040_000;

/// Event time of a round, ms; two of them are less than what the watermark stays behind.
const ROUND_MS: i64 = 2_000;

/// What sessions say, round by round: of a hundred, how many say so.
const STORIES: [(u64, [(u8, bool); STEPS]); 4] = [
    (88, [(0, true), (1, true), (2, true), (3, true)]),
    (4, [(0, true), (1, true), (2, true), (3, false)]),
    (4, [(0, false), (0, true), (1, true), (2, false)]),
    (4, [(0, true), (1, false), (1, false), (1, true)]),
];

impl Input {
    /// The records, in the order in which they come.
    pub(super) fn records(self) -> Vec<Record> {
        let sessions = u64::from(self.sessions);
        let mut coming: Vec<(u64, Record)> = Vec::new();
        for round in 0..STEPS as u64 {
            for number in 0..sessions {
                // A bijection scatters them: a table in the order of its keys would be too kind.
                let client = Dice::new(number ^ self.seed.rotate_left(32)).word();
                let mut dice = Dice::of(client, round);
                let within = number.cast_signed() * ROUND_MS / i64::from(self.sessions.max(1));
                let (step, is_good) = story(client, round);
                // The last record of a session has none that it could come behind.
                let is_last = round + 1 == STEPS as u64;
                let is_disordered = !is_last && dice.below(75) < u64::from(self.disorder);
                let place = round * sessions + number;
                let behind = if is_disordered { sessions + 1 + dice.below(sessions) } else { 0 };
                let time = START + round.cast_signed() * ROUND_MS + within;
                coming.push((place + behind, Record { client, time, step, is_good }));
            }
        }
        coming.sort_by_key(|(place, _)| *place);
        coming.into_iter().map(|(_, record)| record).collect()
    }

    /// The records as lines of JSON.
    pub(super) fn json(self) -> String {
        let mut text = String::new();
        for Record { client, time, step, is_good } in self.records() {
            let step = NAMES.get(usize::from(step)).copied().unwrap_or_default();
            let status = STATUSES.get(usize::from(is_good)).copied().unwrap_or_default();
            // Writing to a String cannot fail.
            let _written = writeln!(
                text,
                "{{\"time\":{time},\"client\":{client},\"step\":\"{step}\",\"status\":\"{status}\"}}"
            );
        }
        text
    }
}

fn story(client: u64, round: u64) -> (u8, bool) {
    let mut place = Dice::new(client).below(100);
    for (share, story) in STORIES {
        match place.checked_sub(share) {
            Some(rest) => place = rest,
            None => return story.get(round as usize).copied().unwrap_or((0, true)),
        }
    }
    (0, true)
}

/// How many records come behind a later one of their session.
pub(super) fn disordered(records: &[Record]) -> u64 {
    let mut newest = hashbrown::HashMap::<u64, i64, foldhash::fast::RandomState>::default();
    let mut count = 0;
    for record in records {
        let newest = newest.entry(record.client).or_insert(record.time);
        count += u64::from(record.time < *newest);
        *newest = record.time.max(*newest);
    }
    count
}
