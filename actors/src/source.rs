//! A source: one per reader, on its own thread, since reading may block. It reads, hands records on
//! to the shards against credits, and reports progress behind them.
//!
//! Turns: as long as it may read, one [`Turn`] lies in its own mailbox, so that whatever else has
//! come is handled between two reads. Where sources read in step, what was read waits in hand until
//! the coordinator says that its turn has come. Under micro-batches it stops at its cut until the
//! next cycle has begun. Invariants: nothing is read without credits; what
//! was read is handed on before the progress that covers it is reported, and while it waits no more
//! is promised than the earliest of it; the end is reported once.

use crate::coordinator::CoordinatorActor;
use crate::credit::{Credit, Purse};
use crate::deliver::{self, Reports};
use crate::message::{Cut, CycleBegun, Drain, Granted, Records, Returned, Tick, Turn, Waiting};
use crate::meter::Meters;
use crate::report::{Failure, Report, SourceReport};
use crate::shard::ShardActor;
use actix::{Actor, Addr, AsyncContext, Context, Handler};
use nilometer_connectors::account::Reason;
use nilometer_connectors::dead_letter::{DeadLetterFile, Place};
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::{Found, Polled, Source, SourceError, State};
use nilometer_model::engine;
use nilometer_model::ingest::{Ingest, Taken};
use nilometer_model::row::Position;
use nilometer_model::watermark::{Progress, Reader, Surroundings};
use std::sync::{Arc, Mutex, PoisonError};

/// The dead-letter file, which all sources write to.
pub(crate) type DeadLetters = Arc<Mutex<DeadLetterFile>>;

/// Whom a source sends to.
pub(crate) struct SourceLinks {
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) dead_letters: Option<DeadLetters>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reports: Reports,
}

/// Whether a source may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for the first tick, so that no record is handled before the time is known.
    Starting,
    /// A turn lies in its mailbox.
    Reading,
    /// It waits for credits.
    Waiting,
    /// It waits for its turn, with records in hand.
    Aligning,
    /// It waits for the next cycle to begin.
    AtCut,
    /// It reads no more.
    Ended,
}

/// Reads one partition.
pub(crate) struct SourceActor {
    pub(crate) name: Arc<str>,
    /// Its number: that of its partition and of its meter.
    pub(crate) partition: u32,
    pub(crate) reader: Box<dyn Source>,
    pub(crate) polled: Polled,
    pub(crate) ingest: Ingest,
    pub(crate) purse: Purse,
    /// Where it stops reading for now.
    pub(crate) cut: engine::Cut,
    pub(crate) phase: Phase,
    /// Whether what was read waits for its turn.
    pub(crate) is_in_step: bool,
    /// What the reader said behind the records in hand. `None` unless the phase is
    /// [`Phase::Aligning`].
    pub(crate) at_hand: Option<Result<State, SourceError>>,
    /// The last tick, and what the others had come to when its turn came last.
    pub(crate) around: Surroundings,
    /// The last report, so that silence is reported once.
    pub(crate) reported: Option<Progress>,
    pub(crate) links: SourceLinks,
}

impl SourceActor {
    /// Goes on reading, if it has not come to its cut and there are credits.
    fn go_on(&mut self, ctx: &Context<Self>) {
        if self.cut.is_reached() {
            self.phase = Phase::AtCut;
        } else if self.purse.room().is_some() {
            self.phase = Phase::Reading;
            return deliver::turn(&ctx.address());
        } else {
            self.phase = Phase::Waiting;
        }
        // As long as it cannot read, nobody knows whether it is silent.
        if self.reader_stands() == Some(Reader::AtEnd) {
            self.report_progress(false, Reader::Blocked);
        }
        if self.phase == Phase::AtCut {
            let (partition, after) = (self.partition, self.cut.after());
            deliver::cut(&self.links.coordinator, Cut { partition, after });
        }
    }

    fn read(&mut self, ctx: &Context<Self>) {
        let Some(room) = self.purse.room() else { return self.go_on(ctx) };
        let state = self.reader.poll(self.cut.room(room), &mut self.polled);
        match self.polled.batch.times().iter().min().copied() {
            Some(head) if self.is_in_step => {
                self.phase = Phase::Aligning;
                self.at_hand = Some(state);
                self.write_aside();
                let watermark = self.ingest.watermark_before(head, self.around);
                let waiting = Waiting { partition: self.partition, head, watermark };
                deliver::waiting(&self.links.coordinator, waiting);
            }
            Some(_) | None => self.take(state, ctx),
        }
    }

    /// Takes the records that the reader gave before it said `state`.
    fn take(&mut self, state: Result<State, SourceError>, ctx: &Context<Self>) {
        let has_records = !self.polled.batch.is_empty();
        self.cut.read(self.polled.batch.len());
        let taken = self.ingest.take(&mut self.polled.batch, self.around);
        self.hand_on(taken, ctx);
        self.write_aside();
        match state {
            Ok(State::More) => {
                self.report_progress(has_records, Reader::Behind);
                self.go_on(ctx);
            }
            Ok(State::Pending) => {
                self.report_progress(has_records, Reader::AtEnd);
                self.go_on(ctx);
            }
            Ok(State::End) => {
                self.report_progress(has_records, Reader::Behind);
                self.end(true);
            }
            Err(error) => {
                self.report_progress(has_records, Reader::Behind);
                let failure = Failure::Source { name: self.name.clone(), error };
                self.links.reports.report(Report::Failure(failure));
                self.end(false);
            }
        }
    }

    /// Hands records on to the shards and counts what became of the others.
    fn hand_on(&mut self, taken: Taken, ctx: &Context<Self>) {
        let account = &mut self.polled.account;
        account.filtered = account.filtered.saturating_add(taken.filtered);
        account.marks.add("reordered", taken.marks.reordered);
        account.marks.add("clamped", taken.marks.clamped);
        account.marks.add("watermark_went_back", taken.marks.went_back);
        account.marks.add("watermark_unreadable", taken.marks.unreadable);
        for too_far in taken.too_far {
            self.reject(too_far.position, Reason::TooFarAhead, &too_far.to_string());
        }
        for failed in taken.failed {
            self.reject(failed.position, Reason::Expression, &failed.to_string());
        }
        for (owner, batch) in taken.parts {
            let Some(shard) = self.links.shards.get(owner) else { continue };
            let credit = Credit { records: batch.len(), bytes: batch.bytes() };
            self.purse.take(credit);
            let accepted = &mut self.polled.account.accepted;
            *accepted = accepted.saturating_add(batch.len() as u64);
            deliver::records(shard, Records { batch, credit, source: ctx.address() });
        }
    }

    /// Rejects a record that was read and decoded.
    fn reject(&mut self, position: Position, reason: Reason, detail: &str) {
        // Counted from 1, as people do.
        let place = Place::Record(position.offset.saturating_add(1));
        self.polled.reject(Found::new(&self.name, place, &[]), reason, detail);
    }

    /// What the reader found beside records.
    fn write_aside(&mut self) {
        for text in self.polled.notices.drain(..) {
            self.links.reports.report(Report::Notice { name: self.name.clone(), text });
        }
        let letters = &mut self.polled.letters;
        if !letters.is_empty() {
            with_file(&mut self.links, |file| file.write(letters));
            letters.clear();
        }
    }

    /// Where the reader stood when it was reported last.
    fn reader_stands(&self) -> Option<Reader> {
        self.reported.as_ref().map(|reported| reported.reader)
    }

    fn report_progress(&mut self, has_records: bool, reader: Reader) {
        let index = self.partition as usize;
        if let Some(meter) = self.links.meters.sources().get(index) {
            meter.set(self.polled.account.read, self.reader.progress());
        }
        let estimate = self.ingest.generator();
        let report = Progress {
            partition: self.partition,
            watermark: estimate.watermark(),
            shares: estimate.shares().to_vec(),
            head: estimate.head(),
            reader,
            has_records,
        };
        if has_records || self.reported.as_ref() != Some(&report) {
            deliver::progress(&self.links.coordinator, report.clone());
            self.reported = Some(report);
        }
    }

    /// Where records take the time of their arrival, the time itself is progress.
    fn report_time(&mut self, reader: Option<Reader>) {
        let follows_clock = self.ingest.generator().arrival().is_some();
        if let Some(reader) = reader.filter(|_| follows_clock) {
            self.report_progress(false, reader);
        }
    }

    /// Reports the end. A partition that has finished promises everything; one that was told to
    /// stop promises what it did before.
    fn end(&mut self, is_finished: bool) {
        self.phase = Phase::Ended;
        self.report_progress(false, self.reader_stands().unwrap_or(Reader::Behind));
        if is_finished {
            self.report_progress(false, Reader::Finished);
        }
        deliver::ended(&self.links.coordinator, self.partition);
        with_file(&mut self.links, DeadLetterFile::flush);
        let (name, account) = (self.name.clone(), self.polled.account.clone());
        let report = SourceReport { name, account, is_finished };
        self.links.reports.report(Report::Source(report));
    }
}

/// Calls the dead-letter file, if there is one. A broken one is told of once and then let go: the
/// node stops because of it.
fn with_file(
    links: &mut SourceLinks,
    call: impl FnOnce(&mut DeadLetterFile) -> Result<(), SinkError>,
) {
    let Some(file) = &links.dead_letters else { return };
    let result = call(&mut file.lock().unwrap_or_else(PoisonError::into_inner));
    if let Err(error) = result {
        links.dead_letters = None;
        links.reports.report(Report::Failure(Failure::DeadLetters(error)));
    }
}

impl Actor for SourceActor {
    type Context = Context<Self>;
}

impl Handler<Tick> for SourceActor {
    type Result = ();

    fn handle(&mut self, Tick(now): Tick, ctx: &mut Self::Context) {
        self.around.now = Some(now);
        self.ingest.tick(now);
        with_file(&mut self.links, DeadLetterFile::flush);
        match self.phase {
            Phase::Starting => self.go_on(ctx),
            Phase::Reading => self.report_time(self.reader_stands()),
            Phase::Waiting | Phase::Aligning | Phase::AtCut => {
                self.report_time(Some(Reader::Blocked));
            }
            Phase::Ended => {}
        }
    }
}

impl Handler<Turn> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: Turn, ctx: &mut Self::Context) {
        if self.phase == Phase::Reading {
            self.read(ctx);
        }
    }
}

impl Handler<Returned> for SourceActor {
    type Result = ();

    fn handle(&mut self, Returned(credit): Returned, ctx: &mut Self::Context) {
        self.purse.give_back(credit);
        if self.phase == Phase::Waiting {
            self.go_on(ctx);
        }
    }
}

impl Handler<Granted> for SourceActor {
    type Result = ();

    fn handle(&mut self, message: Granted, ctx: &mut Self::Context) {
        if let Some(state) = self.at_hand.take() {
            self.around.others = message.others;
            self.take(state, ctx);
        }
    }
}

impl Handler<CycleBegun> for SourceActor {
    type Result = ();

    fn handle(&mut self, message: CycleBegun, ctx: &mut Self::Context) {
        self.cut.next(message.number);
        if self.phase == Phase::AtCut {
            self.go_on(ctx);
        }
    }
}

impl Handler<Drain> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) {
        // What has been read passes, whosever turn it is.
        if let Some(state) = self.at_hand.take() {
            self.take(state, ctx);
        }
        if self.phase != Phase::Ended {
            self.reader.stop(&mut self.polled);
            self.end(false);
        }
    }
}
