//! A source: one per reader, on its own thread, since reading may block. It reads, hands records on
//! to the shards against credits, and reports progress behind them.
//!
//! Turns: as long as it may read, one [`Turn`] lies in its own mailbox, so that whatever else has
//! come is handled between two reads. Invariants: nothing is read without credits; what was read
//! is handed on before the progress that covers it is reported; the end is reported once.

use crate::coordinator::CoordinatorActor;
use crate::credit::{Credit, Purse};
use crate::deliver::{self, Reports};
use crate::message::{Drain, Records, Returned, Tick, Turn};
use crate::meter::Meters;
use crate::report::{Failure, Report, SourceReport};
use crate::shard::ShardActor;
use actix::{Actor, Addr, AsyncContext, Context, Handler};
use nilometer_connectors::account::Reason;
use nilometer_connectors::dead_letter::{DeadLetterFile, Place};
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::{Found, Polled, Source, State};
use nilometer_model::ingest::{Ingest, Taken};
use nilometer_model::time::ProcessingTime;
use nilometer_model::watermark::Progress;
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
    pub(crate) phase: Phase,
    /// The last tick.
    pub(crate) now: Option<ProcessingTime>,
    /// The last report, so that silence is reported once.
    pub(crate) reported: Option<Progress>,
    pub(crate) links: SourceLinks,
}

impl SourceActor {
    /// Goes on reading, if there are credits.
    fn go_on(&mut self, ctx: &Context<Self>) {
        if self.purse.room().is_none() {
            self.phase = Phase::Waiting;
        } else {
            self.phase = Phase::Reading;
            deliver::turn(&ctx.address());
        }
    }

    fn read(&mut self, ctx: &Context<Self>) {
        let Some(room) = self.purse.room() else { return self.go_on(ctx) };
        let state = self.reader.poll(room, &mut self.polled);
        let has_records = !self.polled.batch.is_empty();
        let taken = self.ingest.take(&mut self.polled.batch, self.now);
        self.hand_on(taken, ctx);
        self.write_aside();
        match state {
            Ok(state @ (State::More | State::Pending)) => {
                self.report_progress(has_records, state == State::Pending);
                self.go_on(ctx);
            }
            Ok(State::End) => self.end(true),
            Err(error) => {
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
        account.marks.add("reordered", taken.reordered);
        account.marks.add("clamped", taken.clamped);
        for failed in taken.failed {
            let detail = failed.to_string();
            // Counted from 1, as people do.
            let place = Place::Record(failed.position.offset.saturating_add(1));
            let found = Found::new(&self.name, place, &[]);
            self.polled.reject(found, Reason::Expression, &detail);
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

    fn report_progress(&mut self, has_records: bool, is_at_end: bool) {
        let index = self.partition as usize;
        if let Some(meter) = self.links.meters.sources().get(index) {
            meter.set(self.polled.account.read, self.reader.progress());
        }
        let report = Progress {
            partition: self.partition,
            watermark: self.ingest.watermark(),
            is_at_end,
            is_finished: false,
            has_records,
        };
        if has_records || self.reported != Some(report) {
            self.reported = Some(report);
            deliver::progress(&self.links.coordinator, report);
        }
    }

    /// Reports the end. A partition that has finished promises everything; one that was told to
    /// stop promises what it did before.
    fn end(&mut self, is_finished: bool) {
        self.phase = Phase::Ended;
        self.report_progress(false, false);
        if is_finished {
            let watermark = self.ingest.watermark();
            let last = Progress {
                partition: self.partition,
                watermark,
                is_at_end: true,
                is_finished,
                has_records: false,
            };
            deliver::progress(&self.links.coordinator, last);
        }
        deliver::ended(&self.links.coordinator);
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
        self.now = Some(now);
        with_file(&mut self.links, DeadLetterFile::flush);
        if self.phase == Phase::Starting {
            self.go_on(ctx);
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

impl Handler<Drain> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: Drain, _: &mut Self::Context) {
        if self.phase != Phase::Ended {
            self.reader.stop(&mut self.polled);
            self.end(false);
        }
    }
}
