//! The records of the benchmark: in the order of their times, keys at random.

use nilometer_connectors::generator::Dice;

/// A record as the loops read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Event time, ms since the Unix epoch.
    pub(super) time: i64,
    pub(super) key: u64,
    pub(super) value: u32,
}

/// How many and which records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) keys: u64,
    pub(super) records: u64,
    pub(super) seed: u64,
}

/// Event time of the first record; a multiple of every window.
const START: i64 = 1_700_000_040_000;

impl Input {
    /// Event time from the first record to the last, ms.
    pub(super) const fn span(self) -> i64 {
        240_000
    }

    /// The records.
    pub(super) fn records(self) -> impl Iterator<Item = Record> {
        (0..self.records).map(move |number| {
            let random = scrambled(number ^ self.seed.rotate_left(32));
            let after = u128::from(number) * self.span().unsigned_abs() as u128;
            let after = after / u128::from(self.records);
            Record {
                time: START + i64::try_from(after).unwrap_or(0),
                key: random % self.keys,
                value: (random >> 48) as u32,
            }
        })
    }
}

/// Two records of each of `keys` keys, a second apart; the first of all, then the second of all.
pub(super) fn once_each(keys: u64, seed: u64) -> Vec<Record> {
    let round = |time: i64| {
        (0..keys).map(move |number| {
            // A bijection scatters them: a table in the order of its keys would be too kind.
            let key = scrambled(number ^ seed.rotate_left(32));
            Record { time, key, value: number as u32 }
        })
    };
    round(START).chain(round(START + 1_000)).collect()
}

/// A bijection of 64 bits without a pattern.
fn scrambled(number: u64) -> u64 {
    Dice::new(number).word()
}
