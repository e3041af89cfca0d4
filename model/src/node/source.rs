//! How a source reads: against credits, in its turn, up to its cut; and what it reports behind what
//! it has handed on.
//!
//! As long as it may read, one turn is on its way to it, so that whatever else has come is handled
//! between two reads. Where sources read in step, what was read waits in hand until its turn has
//! come. Under micro-batches it stops at its cut until the next cycle has begun.
//!
//! Invariants: nothing is read without credits; what was read is handed on before the progress that
//! covers it is reported, and while it waits no more is promised than the earliest of it; the end
//! is reported once.

use super::credit::{Credit, Limits, Purse};
use crate::engine::{Cut, Engine};
use crate::ingest::{Ingest, Taken};
use crate::row::RowBatch;
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Watermark};
use crate::watermark::{Estimates, Progress, Reader, Surroundings};

/// What a reader says behind what it gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// More can be read at once.
    More,
    /// More may have come while nobody could look for it.
    Unseen,
    /// Of a partition: nobody reads it now.
    Away,
    /// Everything that has come has been read; more may come.
    Pending,
    /// The input has ended.
    End,
    /// It cannot be read on.
    Failed,
}

impl Stand {
    const fn reader(self) -> Reader {
        match self {
            Self::More | Self::Failed => Reader::Behind,
            Self::Unseen => Reader::Unseen,
            Self::Away => Reader::Away,
            Self::Pending => Reader::AtEnd,
            Self::End => Reader::Finished,
        }
    }
}

/// What a source sends, in this order.
#[derive(Debug)]
pub enum FromSource {
    /// To itself: the next turn to read.
    Turn,
    /// Records for the shard that owns their keys, and what they cost.
    Records {
        /// Number of the shard.
        shard: usize,
        /// The records.
        batch: RowBatch,
        /// To be given back once they are handled.
        credit: Credit,
    },
    /// To the coordinator, behind the records that it covers.
    Progress(Progress),
    /// To the coordinator: records are in hand and wait for their turn.
    Waiting {
        /// Event time of the earliest of them.
        head: EventTime,
        /// What is promised in front of them.
        watermark: Watermark,
    },
    /// To the coordinator: everything has been read that belongs to the cycle after this one.
    Cut {
        /// The last cycle that it knows to have begun.
        after: u64,
    },
    /// To the coordinator: it has handed on as much as an epoch may hold, and waits for the next
    /// one to begin.
    Demanded,
    /// To the coordinator: it reads no more.
    Ended {
        /// Whether it has come to the end of its input.
        is_finished: bool,
    },
}

/// Whether a source may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It waits for the first tick, so that no record is handled before the time is known.
    Starting,
    /// A turn is on its way to it.
    Reading,
    /// It waits for credits, or for an epoch to begin.
    Waiting,
    /// It waits for its turn, with records in hand.
    Aligning,
    /// It waits for the next cycle to begin.
    AtCut,
    /// It reads no more.
    Ended,
}

/// What a source is made of.
#[derive(Debug)]
pub struct SourceParts {
    /// Number of its partition.
    pub partition: u32,
    /// The way of its records to the shards.
    pub ingest: Ingest,
    /// How it is run.
    pub engine: Engine,
    /// How much may be in flight.
    pub limits: Limits,
    /// Bytes that it may hand on between two barriers, at least 1, exceeded by one batch; no end if
    /// nothing is stored.
    pub epoch_bytes_max: Option<usize>,
    /// Whether what was read waits for its turn.
    pub is_in_step: bool,
    /// Records of the cycle that were read in a process before this one.
    pub cycle_records: u64,
}

/// The way of one source.
#[derive(Debug)]
pub struct SourceNode {
    partition: u32,
    ingest: Ingest,
    purse: Purse,
    epoch_bytes_max: Option<usize>,
    /// Bytes handed on since the last barrier.
    epoch_bytes: usize,
    /// Where it stops reading for now.
    cut: Cut,
    phase: Phase,
    is_in_step: bool,
    /// What the reader said behind the records in hand. `None` unless the phase is
    /// [`Phase::Aligning`].
    at_hand: Option<Stand>,
    /// Where the readers of its partitions stood behind what was read last, if it has several.
    partitions: Vec<Reader>,
    /// The last tick, and what the others had come to when its turn came last.
    around: Surroundings,
    /// The last report, so that silence is reported once.
    reported: Option<Progress>,
    /// What is to be sent. Emptied by [`SourceNode::take_sends`].
    out: Vec<FromSource>,
}

impl SourceNode {
    /// A source that waits for the first tick.
    pub fn new(parts: SourceParts) -> Self {
        Self {
            partition: parts.partition,
            ingest: parts.ingest,
            purse: Purse::new(parts.limits),
            epoch_bytes_max: parts.epoch_bytes_max,
            epoch_bytes: 0,
            cut: Cut::new(parts.engine).behind(parts.cycle_records),
            phase: Phase::Starting,
            is_in_step: parts.is_in_step,
            at_hand: None,
            partitions: Vec::new(),
            around: Surroundings::default(),
            reported: None,
            out: Vec::new(),
        }
    }

    /// The texts of its records.
    pub fn symbols(&self) -> &Symbols {
        self.ingest.symbols()
    }

    /// Its watermark estimates, behind everything that it has handed on.
    pub const fn estimates(&self) -> &Estimates {
        self.ingest.estimates()
    }

    /// How many records of the cycle it has handed on: where it is cut for an epoch, that is stored.
    pub const fn cycle_records(&self) -> u64 {
        self.cut.records_read()
    }

    /// Whether what was read waits for its turn.
    pub const fn is_in_step(&self) -> bool {
        self.is_in_step
    }

    /// Where it is cut for an epoch: what is in hand lies behind the barrier. `before` is where it
    /// stood before it read last, `now` where it stands.
    pub fn cut<C>(&self, before: Option<C>, now: impl FnOnce() -> C) -> C {
        before.filter(|_| self.at_hand.is_some()).unwrap_or_else(now)
    }

    /// Takes what is to be sent, in order.
    pub fn take_sends(&mut self) -> Vec<FromSource> {
        std::mem::take(&mut self.out)
    }

    /// Takes its turn: how many records may be read now, at most; `None` if none may. Whoever reads
    /// says so by [`SourceNode::read`].
    pub fn turn(&mut self) -> Option<usize> {
        if self.phase != Phase::Reading {
            return None;
        }
        let room = self.room();
        if room.is_none() {
            self.go_on();
        }
        room.map(|room| self.cut.room(room))
    }

    /// Takes notice of where each partition stands behind what has just been read, if the source has
    /// several. Told before [`SourceNode::read`].
    pub fn partitions_stand(&mut self, stands: &[Stand]) {
        self.partitions.clear();
        self.partitions.extend(stands.iter().map(|stand| stand.reader()));
    }

    /// Takes what was read into `batch` before the reader said `stand`. Where it has to wait for its
    /// turn, the batch is left as it is, and nothing has become of it.
    pub fn read(&mut self, batch: &mut RowBatch, stand: Stand) -> Taken {
        match batch.times().iter().min().copied() {
            Some(head) if self.is_in_step => {
                self.phase = Phase::Aligning;
                self.at_hand = Some(stand);
                self.ingest.block();
                let watermark = self.ingest.watermark_before(head, self.around);
                self.out.push(FromSource::Waiting { head, watermark });
                Taken::default()
            }
            Some(_) | None => self.take(batch, stand),
        }
    }

    /// Its turn has come to hand on `batch`, where the furthest of the others has come to `others`.
    pub fn granted(&mut self, batch: &mut RowBatch, others: Option<EventTime>) -> Taken {
        let Some(stand) = self.at_hand.take() else { return Taken::default() };
        self.around.others = others;
        self.take(batch, stand)
    }

    /// Takes the time.
    pub fn tick(&mut self, now: ProcessingTime) {
        self.around.now = Some(now);
        self.ingest.tick(now);
        match self.phase {
            Phase::Starting => self.go_on(),
            Phase::Reading => self.report_time(self.reader_stands()),
            Phase::Waiting | Phase::Aligning | Phase::AtCut => {
                self.report_time(Some(Reader::Blocked));
            }
            Phase::Ended => {}
        }
    }

    /// Takes credits back.
    pub fn returned(&mut self, credit: Credit) {
        self.purse.give_back(credit);
        if self.phase == Phase::Waiting {
            self.go_on();
        }
    }

    /// A cycle of micro-batches has begun.
    pub fn cycle_begun(&mut self, number: u64) {
        self.cut.next(number);
        if self.phase == Phase::AtCut {
            self.go_on();
        }
    }

    /// It is to read no more. What has been read, in `batch`, passes, whosever turn it is. Returns
    /// what became of it, and whether there would have been more to read.
    pub fn drain(&mut self, batch: &mut RowBatch) -> (Taken, bool) {
        let taken = match self.at_hand.take() {
            Some(stand) => self.take(batch, stand),
            None => Taken::default(),
        };
        let is_stopped = !self.has_ended();
        if is_stopped {
            self.end(false);
        }
        (taken, is_stopped)
    }

    /// Whether it reads no more.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// What it has handed on and no shard has handled yet.
    pub const fn in_flight(&self) -> Credit {
        self.purse.in_flight()
    }

    /// Whether it waits for credits.
    pub fn is_out_of_credits(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// Its barrier for an epoch has been sent: what it hands on belongs to the next one.
    pub fn epoch_begun(&mut self) {
        self.epoch_bytes = 0;
        if self.phase == Phase::Waiting {
            self.go_on();
        }
    }

    /// How many records may be read now; `None` if none may, until a credit comes back or an epoch
    /// begins.
    fn room(&self) -> Option<usize> {
        self.purse.room().filter(|_| !self.is_epoch_full())
    }

    fn is_epoch_full(&self) -> bool {
        self.epoch_bytes_max.is_some_and(|max| self.epoch_bytes >= max.max(1))
    }

    /// Goes on reading, if it has not come to its cut and there are credits.
    fn go_on(&mut self) {
        if self.cut.is_reached() {
            self.phase = Phase::AtCut;
        } else if self.room().is_some() {
            self.phase = Phase::Reading;
            return self.out.push(FromSource::Turn);
        } else {
            self.phase = Phase::Waiting;
        }
        // As long as it cannot read, nobody knows whether it is silent.
        self.ingest.block();
        if self.reader_stands() == Some(Reader::AtEnd) {
            self.report(false, Reader::Blocked);
        }
        if self.phase == Phase::AtCut {
            self.out.push(FromSource::Cut { after: self.cut.after() });
        }
    }

    fn take(&mut self, batch: &mut RowBatch, stand: Stand) -> Taken {
        let has_records = !batch.is_empty();
        self.cut.read(batch.len());
        let mut taken = self.ingest.take(batch, self.around);
        self.ingest.stand(&self.partitions);
        let mut is_demanding = false;
        for (shard, batch) in std::mem::take(&mut taken.parts) {
            let credit = Credit { records: batch.len(), bytes: batch.bytes() };
            self.purse.take(credit);
            let was_full = self.is_epoch_full();
            self.epoch_bytes = self.epoch_bytes.saturating_add(credit.bytes);
            is_demanding |= !was_full && self.is_epoch_full();
            self.out.push(FromSource::Records { shard, batch, credit });
        }
        if is_demanding {
            self.out.push(FromSource::Demanded);
        }
        let reader = match stand {
            Stand::Pending => Reader::AtEnd,
            Stand::Unseen => Reader::Unseen,
            // The end is reported behind what was read.
            Stand::More | Stand::Away | Stand::End | Stand::Failed => Reader::Behind,
        };
        self.report(has_records, reader);
        match stand {
            Stand::More | Stand::Unseen | Stand::Away | Stand::Pending => self.go_on(),
            Stand::End => self.end(true),
            Stand::Failed => self.end(false),
        }
        taken
    }

    /// Where the reader stood when it was reported last.
    fn reader_stands(&self) -> Option<Reader> {
        self.reported.as_ref().map(|reported| reported.reader)
    }

    fn report(&mut self, has_records: bool, reader: Reader) {
        let estimates = self.ingest.estimates();
        let report = Progress {
            partition: self.partition,
            watermark: estimates.watermark(),
            shares: estimates.shares().to_vec(),
            head: estimates.head(),
            reader,
            has_records,
        };
        if has_records || self.reported.as_ref() != Some(&report) {
            self.out.push(FromSource::Progress(report.clone()));
            self.reported = Some(report);
        }
    }

    /// Where records take the time of their arrival, the time itself is progress, and where a
    /// partition is found to be idle among others.
    fn report_time(&mut self, reader: Option<Reader>) {
        let moves = self.ingest.estimates().move_with_clock();
        if let Some(reader) = reader.filter(|_| moves) {
            self.report(false, reader);
        }
    }

    /// Reports the end. A partition that has finished promises everything; one that was told to
    /// stop promises what it did before.
    fn end(&mut self, is_finished: bool) {
        self.phase = Phase::Ended;
        self.report(false, self.reader_stands().unwrap_or(Reader::Behind));
        if is_finished {
            self.report(false, Reader::Finished);
        }
        self.out.push(FromSource::Ended { is_finished });
    }
}
