//! The records of the benchmark, made as they are read: every key in turn, without a pattern that
//! tables or caches could like.

use nilometer_connectors::generator::Dice;
use nilometer_model::row::{Position, RowBatch, RowLayout, Slot};
use nilometer_model::time::EventTime;
use nilometer_model::value::Datum;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Records of one batch.
const BATCH_RECORDS: u64 = 4_096;

/// Event time of the first record, ms; the beginning of an hour.
const START: i64 = 1_699_999_200_000;

/// So many records have the same event time: all of a run lie in one hour.
const RECORDS_PER_MS: u64 = 100_000;

/// Which records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    /// Number of the first.
    pub(super) first: u64,
    pub(super) count: u64,
    /// How many keys they have, the same at every start.
    pub(super) keys: u64,
}

/// When all records had been read.
#[derive(Debug, Default)]
pub(super) struct Done {
    at: Mutex<Option<Instant>>,
    notify: Notify,
}

impl Done {
    fn set(&self) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_none() {
            *at = Some(Instant::now());
            self.notify.notify_one();
        }
    }

    /// Waits until they have.
    pub(super) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// When that was; `None` before it.
    pub(super) fn at(&self) -> Option<Instant> {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Batches of records.
pub(super) struct Feed {
    pub(super) records: Records,
    pub(super) layout: Arc<RowLayout>,
    /// Slots of key and value.
    pub(super) slots: [Slot; 2],
    pub(super) done: Arc<Done>,
    /// Whether the input ends behind the records; else nothing more comes.
    pub(super) ends: bool,
    /// Records given.
    pub(super) given: u64,
}

impl Iterator for Feed {
    type Item = Option<RowBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let count = (self.records.count - self.given).min(BATCH_RECORDS);
        if count == 0 {
            self.done.set();
            if self.ends {
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
            return Some(None);
        }
        let mut batch = RowBatch::new(self.layout.clone());
        let first = self.records.first + self.given;
        for number in first..first + count {
            let time = START.saturating_add_unsigned(number / RECORDS_PER_MS);
            let mut row = batch.push(EventTime::from_millis(time), Position::default());
            let key = Dice::new(number % self.records.keys).word();
            row.set(self.slots[0], Datum::Int(key.into()));
            row.set(self.slots[1], Datum::Int((number % 1_000).into()));
        }
        self.given += count;
        Some(Some(batch))
    }
}
