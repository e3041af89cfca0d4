//! A source: one per reader, on its own thread, since reading may block. A shell around
//! [`SourceNode`], which decides when to read and what to report: this one reads, counts what became
//! of records, and sends.
//!
//! Invariant: what a step gives is sent in order, and what was found beside records is written
//! before the end is reported.

use crate::checkpoint::{SourceCut, source_pieces};
use crate::clock::Stopwatch;
use crate::coordinator::CoordinatorActor;
use crate::deliver::{self, Reports};
use crate::figures::SourceFigures;
use crate::message::{
    Cut, CycleBegun, Drain, Durable, EpochBegun, Granted, Progress, Records, Returned, Tick, Turn,
    Waiting,
};
use crate::meter::Meters;
use crate::report::{Failure, PartitionReport, Report, SourceReport};
use crate::shard::ShardActor;
use crate::source_spans::SourceSpans;
use crate::store::StoreActor;
use actix::{Actor, Addr, AsyncContext, Context, Handler};
use nilometer_connectors::account::{Reason, SourceAccount};
use nilometer_connectors::dead_letter::{self, Place};
use nilometer_connectors::panes::write_record;
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::{
    Found, PartitionLag, Polled, Position, Source, SourceError, State,
};
use nilometer_model::epoch::OffsetRange;
use nilometer_model::ingest::Taken;
use nilometer_model::node::{FromSource, SourceNode, Stand};
use nilometer_model::row;
use nilometer_model::watermark::PartitionStanding;
use std::sync::{Arc, Mutex, PoisonError};

/// The dead-letter file, which all sources write to.
pub(crate) type DeadLetters = Arc<Mutex<dead_letter::DeadLetters>>;

/// Whom a source sends to.
pub(crate) struct SourceLinks {
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) dead_letters: Option<DeadLetters>,
    pub(crate) meters: Arc<Meters>,
    /// Where its part of an epoch goes; `None` where nothing is stored.
    pub(crate) store: Option<Addr<StoreActor>>,
    pub(crate) reports: Reports,
}

/// Reads one partition.
pub(crate) struct SourceActor {
    pub(crate) name: Arc<str>,
    /// Its number: that of its partition and of its meter.
    pub(crate) partition: u32,
    pub(crate) reader: Box<dyn Source>,
    /// What is left out of what it gives.
    pub(crate) skipped: Vec<OffsetRange>,
    /// How many of its partitions have told their names.
    pub(crate) named: usize,
    pub(crate) polled: Polled,
    pub(crate) machine: SourceNode,
    /// Where its reader stood before it read last, if that is stored and what it reads may have to
    /// wait for its turn. What it knows of records changes only with those that it hands on.
    pub(crate) before: Option<(Position, SourceAccount)>,
    /// Its position in the epoch that is in flight, or in the last one.
    pub(crate) stored: Option<Vec<u8>>,
    /// Since when it was reading what it read last.
    pub(crate) since: Stopwatch,
    /// Which of its partitions held it back when that was told last.
    pub(crate) holder: Option<u32>,
    pub(crate) spans: SourceSpans,
    /// Whether letters of its have been written since they were handed over last.
    pub(crate) has_letters: bool,
    pub(crate) links: SourceLinks,
}

impl SourceActor {
    fn read(&mut self) {
        let Some(room) = self.machine.turn() else { return };
        self.since = Stopwatch::start();
        let may_wait = self.links.store.is_some() && self.machine.is_in_step();
        self.before = may_wait.then(|| self.stands());
        self.spans.begin(&mut self.polled);
        let stand = match self.poll(room) {
            Ok(state) => stand(state),
            Err(error) => {
                let failure = Failure::Source { name: self.name.clone(), error };
                self.links.reports.report(Report::Failure(failure));
                Stand::Failed
            }
        };
        self.tell_names();
        self.skip();
        let partitions: Vec<_> = self.polled.partitions.iter().copied().map(self::stand).collect();
        self.machine.partitions_stand(&partitions);
        let taken = self.machine.read(&mut self.polled.batch, stand);
        self.reader.hold(self.machine.estimates().held());
        self.count(taken);
        self.spans.end(&self.name, self.partition, &mut self.polled);
    }

    /// Tells the names of partitions that are new, for whoever has to say where something failed.
    fn tell_names(&mut self) {
        let found = self.polled.partitions.len();
        if found > std::mem::replace(&mut self.named, found)
            && let Some(meter) = self.links.meters.sources().get(self.partition as usize)
        {
            let names = self.reader.partitions().into_iter().map(|known| known.name);
            meter.set_names(names.collect());
        }
    }

    fn poll(&mut self, room: usize) -> Result<State, SourceError> {
        let Self { reader, polled, machine, links, partition, .. } = self;
        let Some(meter) = links.meters.sources().get(*partition as usize) else {
            return reader.poll(room, polled);
        };
        // No tick is heard while its input keeps it.
        meter.set_account(&polled.account, machine.in_flight());
        meter.reading.during(|| reader.poll(room, polled))
    }

    /// Rejects the records that are to be left out, before anything is made of them.
    fn skip(&mut self) {
        let Self { skipped, polled, reader, name, .. } = self;
        if skipped.is_empty() {
            return;
        }
        let is_skipped = |position: row::Position| {
            let mut near = skipped.iter().filter(|range| range.has(position.offset)).peekable();
            near.peek().is_some() && {
                let found = reader.find(position).map(|(origin, _)| origin);
                let partition = found.as_deref().unwrap_or(name);
                near.any(|range| &*range.partition == partition)
            }
        };
        let (batch, mut out) = (&mut polled.batch, Vec::new());
        let positions: Vec<_> = (0..batch.len()).map(|index| batch.position(index)).collect();
        for (index, position) in positions.iter().enumerate() {
            if is_skipped(*position) {
                out.push((*position, Box::<[u64]>::from(batch.row(index))));
            }
        }
        batch.retain(|index| positions.get(index).is_none_or(|position| !is_skipped(*position)));
        for (position, row) in out {
            self.reject(position, Reason::Skipped, ("a run has failed with its batch", &row));
        }
    }

    /// Counts what became of records.
    fn count(&mut self, taken: Taken) {
        let account = &mut self.polled.account;
        account.accepted = account.accepted.saturating_add(taken.accepted);
        account.filtered = account.filtered.saturating_add(taken.filtered);
        account.marks.add("reordered", taken.marks.reordered);
        account.marks.add("clamped", taken.marks.clamped);
        account.marks.add("watermark_went_back", taken.marks.went_back);
        account.marks.add("watermark_unreadable", taken.marks.unreadable);
        let too_far = taken.too_far.into_iter();
        let too_far = too_far.map(|found| (found.position, Reason::TooFarAhead, found.to_string()));
        let failed = taken.failed.into_iter();
        let failed = failed.map(|found| (found.position, Reason::Expression, found.to_string()));
        for ((position, reason, detail), row) in too_far.chain(failed).zip(&taken.rejected) {
            self.reject(position, reason, (&detail, row));
        }
    }

    /// Rejects a record that was read and decoded: what is left of it are the fields in its row.
    fn reject(
        &mut self,
        position: row::Position,
        reason: Reason,
        (detail, fields): (&str, &[u64]),
    ) {
        // Counted from 1, as people do.
        let by_number = || (self.name.clone(), Place::Record(position.offset.saturating_add(1)));
        let (origin, place) = self.reader.find(position).unwrap_or_else(by_number);
        let mut text = String::new();
        write_record(self.polled.batch.layout(), fields, self.machine.symbols(), &mut text);
        self.polled.reject(Found::new(&origin, place, text.as_bytes()), reason, detail);
    }

    /// Writes what was found beside records, and sends what is to be sent.
    fn forward(&mut self, ctx: &Context<Self>) {
        self.forward_since(self.since, ctx);
    }

    /// As [`SourceActor::forward`]: of what has begun at `since`.
    fn forward_since(&mut self, since: Stopwatch, ctx: &Context<Self>) {
        self.write_aside();
        if let Some(meter) = self.links.meters.sources().get(self.partition as usize) {
            meter.set(self.polled.account.read, self.reader.progress());
        }
        self.tell_holder();
        let (partition, coordinator) = (self.partition, self.links.coordinator.clone());
        for send in self.machine.take_sends() {
            match send {
                FromSource::Turn => deliver::turn(&ctx.address()),
                FromSource::Records { shard, batch, credit } => {
                    let Some(shard) = self.links.shards.get(shard) else { continue };
                    let (source, context) = (ctx.address(), self.spans.context().cloned());
                    let records = Records { partition, batch, credit, source, since, context };
                    deliver::records(shard, records);
                }
                FromSource::Progress(report) => {
                    deliver::progress(&coordinator, Progress { report, since });
                }
                FromSource::Waiting { head, watermark } => {
                    deliver::waiting(&coordinator, Waiting { partition, head, watermark });
                }
                FromSource::Demanded => deliver::demanded(&coordinator),
                FromSource::Cut { after } => deliver::cut(&coordinator, Cut { partition, after }),
                FromSource::Ended { is_finished } => {
                    deliver::ended(&coordinator, partition);
                    self.report_end(is_finished);
                }
            }
        }
    }

    /// Tells which of its partitions holds it back, when that changes.
    fn tell_holder(&mut self) {
        let holder = self.machine.estimates().holder();
        if holder == std::mem::replace(&mut self.holder, holder) {
            return;
        }
        let name = holder.and_then(|number| {
            self.reader.partitions().into_iter().nth(number as usize).map(|known| known.name)
        });
        if let Some(meter) = self.links.meters.sources().get(self.partition as usize) {
            meter.set_holder(name);
        }
    }

    /// Where its reader stands, and what it has counted.
    fn stands(&self) -> (Position, SourceAccount) {
        (self.reader.position(), self.polled.account.clone())
    }

    /// Where it is cut: behind everything that it has handed on.
    fn source_cut(&self) -> SourceCut {
        let reader = self.machine.cut(self.before.clone(), || self.stands());
        let (Position { bytes, is_exact }, account) = reader;
        SourceCut {
            position: bytes,
            is_exact,
            account,
            estimates: self.machine.estimates().image(),
            cycle_records: self.machine.cycle_records(),
        }
    }

    /// What the reader found beside records.
    fn write_aside(&mut self) {
        for text in self.polled.notices.drain(..) {
            let (name, span) = (self.name.clone(), self.spans.context().cloned());
            self.links.reports.report(Report::Notice { name, text, span });
        }
        let letters = &mut self.polled.letters;
        if !letters.is_empty() {
            with_file(&mut self.links, |file| file.write(letters));
            letters.clear();
            self.has_letters = true;
        }
    }

    /// Hands over the letters that it has written. A source without any does not wait for those of
    /// others, which may take for ever.
    fn flush_letters(&mut self) {
        if std::mem::take(&mut self.has_letters) {
            with_file(&mut self.links, dead_letter::DeadLetters::flush);
        }
    }

    fn partitions(&self) -> Vec<PartitionReport> {
        let standing = self.machine.estimates().standing();
        let known = standing.into_iter().flat_map(|standing| standing.partitions);
        let known = self.reader.partitions().into_iter().zip(known);
        let report =
            |(lag, standing): (PartitionLag, PartitionStanding)| PartitionReport { lag, standing };
        known.map(report).collect()
    }

    /// Shows what it has counted.
    fn publish_figures(&self) {
        if let Some(meter) = self.links.meters.sources().get(self.partition as usize) {
            meter.set_figures(SourceFigures {
                account: self.polled.account.clone(),
                in_flight: self.machine.in_flight(),
                partitions: self.partitions(),
                has_ended: self.machine.has_ended(),
            });
        }
    }

    fn report_end(&mut self, is_finished: bool) {
        self.flush_letters();
        self.publish_figures();
        let (name, account) = (self.name.clone(), self.polled.account.clone());
        let partitions = self.partitions();
        let report = SourceReport { name, account, is_finished, partitions };
        self.links.reports.report(Report::Source(report));
    }
}

const fn stand(state: State) -> Stand {
    match state {
        State::More => Stand::More,
        State::Unseen => Stand::Unseen,
        State::Away => Stand::Away,
        State::Pending => Stand::Pending,
        State::End => Stand::End,
    }
}

/// Calls the dead-letter file, if there is one. A broken one is told of once and then let go: the
/// node stops because of it.
fn with_file(
    links: &mut SourceLinks,
    call: impl FnOnce(&mut dead_letter::DeadLetters) -> Result<(), SinkError>,
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

    fn handle(&mut self, Tick(tick): Tick, ctx: &mut Self::Context) {
        self.flush_letters();
        self.machine.tick(tick.now());
        self.forward_since(Stopwatch::start(), ctx);
        self.publish_figures();
    }
}

impl Handler<Turn> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: Turn, ctx: &mut Self::Context) {
        self.read();
        self.forward(ctx);
    }
}

impl Handler<Returned> for SourceActor {
    type Result = ();

    fn handle(&mut self, Returned(credit): Returned, ctx: &mut Self::Context) {
        self.machine.returned(credit);
        self.forward(ctx);
        if self.machine.has_ended() {
            self.publish_figures();
        }
    }
}

impl Handler<Granted> for SourceActor {
    type Result = ();

    fn handle(&mut self, message: Granted, ctx: &mut Self::Context) {
        let taken = self.machine.granted(&mut self.polled.batch, message.others);
        self.count(taken);
        self.forward(ctx);
    }
}

impl Handler<EpochBegun> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: EpochBegun, ctx: &mut Self::Context) {
        // What is read behind the epoch is not read again: its letters are to be there.
        self.flush_letters();
        let Some(store) = &self.links.store else { return };
        let span = self.spans.open_cut(&self.name);
        let cut = self.source_cut();
        deliver::part(store, source_pieces(&self.name, &cut).into());
        self.reader.cut(&cut.position);
        self.stored = Some(cut.position);
        deliver::barrier(&self.links.shards, self.partition);
        drop(span);
        self.machine.epoch_begun();
        self.forward(ctx);
    }
}

impl Handler<Durable> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: Durable, _: &mut Self::Context) {
        // One epoch is in flight at a time: it is this one.
        if let Some(position) = self.stored.take() {
            self.reader.stored(&position);
        }
    }
}

impl Handler<CycleBegun> for SourceActor {
    type Result = ();

    fn handle(&mut self, message: CycleBegun, ctx: &mut Self::Context) {
        self.machine.cycle_begun(message.number);
        self.forward(ctx);
    }
}

impl Handler<Drain> for SourceActor {
    type Result = ();

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) {
        let (taken, is_stopped) = self.machine.drain(&mut self.polled.batch);
        self.count(taken);
        if is_stopped {
            self.reader.stop(&mut self.polled);
        }
        self.forward(ctx);
    }
}
