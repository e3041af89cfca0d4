//! A partition that holds what its seed has put there, and the reader of it.

use nilometer_model::batch::Record;
use nilometer_model::node::Stand;
use nilometer_model::plan::Job;
use nilometer_model::row::{Position, RowBatch};
use nilometer_model::symbol::Symbols;

/// A record, and when it comes.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Number among all records of the run.
    pub(crate) number: usize,
    /// When it can be read, on the clock.
    pub(crate) at: i64,
    pub(crate) record: Record,
}

/// A partition and how far it was read.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pub(crate) entries: Vec<Entry>,
    /// When it is known that nothing more will come.
    pub(crate) ends_at: i64,
    pub(crate) read: usize,
}

impl Partition {
    fn next_at(&self) -> Option<i64> {
        self.entries.get(self.read).map(|entry| entry.at)
    }

    /// Where it is, as a source tells it.
    pub(crate) fn position(&self) -> Vec<u8> {
        (self.read as u64).to_le_bytes().into()
    }

    /// Goes on where it was.
    pub(crate) fn resume(&mut self, position: &[u8]) {
        self.read = u64::from_le_bytes(position.try_into().unwrap()) as usize;
    }

    /// Whether reading it now would tell anything new.
    pub(crate) fn has_news(&self, now: i64) -> bool {
        self.next_at().unwrap_or(self.ends_at) <= now
    }

    /// Reads at most `room` records into `batch`.
    pub(crate) fn poll(
        &mut self,
        (room, now): (usize, i64),
        batch: &mut RowBatch,
        (job, partition): (&Job, u32),
        symbols: &Symbols,
    ) -> Stand {
        let layout = batch.layout().clone();
        for _ in 0..room {
            let Some(entry) = self.entries.get(self.read).filter(|entry| entry.at <= now) else {
                break;
            };
            let position = Position { partition, offset: entry.number as u64 };
            let mut row = batch.push(entry.record.time, position);
            for (field, value) in job.fields.iter().zip(&entry.record.values) {
                if let Some(slot) = layout.slot(&field.name) {
                    row.set(slot, value.intern(symbols).unwrap());
                }
            }
            self.read += 1;
        }
        match self.next_at() {
            Some(at) if at <= now => Stand::More,
            None if self.ends_at <= now => Stand::End,
            Some(_) | None => Stand::Pending,
        }
    }
}
