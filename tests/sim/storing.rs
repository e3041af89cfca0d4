//! What shards, sinks, the coordinator and the store do for an epoch: what the shells of `actors` do,
//! with letters for messages, and a death now and then in the midst of it.

use crate::endings::Place;
use crate::letters::{Letter, Who};
use crate::node::{ShardUnit, Source};
use crate::output::block;
use crate::world::{Sabotage, World};
use nilometer_actors::checkpoint::{
    Part, Piece, SourceCut, coordinator_pieces, outbox_name, shard_part, sink_name, sink_pieces,
    source_pieces, write_part,
};
use nilometer_connectors::account::{Reason, SourceAccount};
use nilometer_connectors::store::StoreError;
use nilometer_model::epoch::{Epoch, Origin, Step};
use nilometer_model::ingest::Taken;
use nilometer_model::node::Publish;
use nilometer_model::node::credit::Taker;

/// Names of the sinks.
pub(crate) const SINKS: [&str; 2] = ["out", "late"];

/// How far the epoch in flight has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Phase {
    /// Whether there is one.
    pub(crate) has_begun: bool,
    pub(crate) shards_cut: usize,
    pub(crate) parts: usize,
    pub(crate) is_durable: bool,
    pub(crate) published: usize,
    pub(crate) marked: usize,
}

/// Name of a source.
pub(crate) fn source_name(source: usize) -> String {
    format!("s{source}")
}

/// Where the reader of a source stands, and what it has counted.
pub(crate) fn stands(source: &Source) -> (Vec<u8>, SourceAccount) {
    (source.partition.position(), source.account.clone())
}

/// Where a source is cut: behind everything that it has handed on.
fn source_cut(source: &Source) -> SourceCut {
    let (position, account) = source.node.cut(source.before.clone(), || stands(source));
    SourceCut {
        position,
        is_exact: true,
        account,
        estimates: source.node.estimates().image(),
        cycle_records: source.node.cycle_records(),
    }
}

/// Counts what became of records.
pub(crate) fn count(account: &mut SourceAccount, taken: &Taken) {
    account.accepted += taken.accepted;
    account.malformed.add(Reason::TooFarAhead.name(), taken.too_far.len() as u64);
}

/// Where a message to a shard comes from, if it may have to wait for the cut.
fn origin(letter: &Letter) -> Option<Origin> {
    match letter {
        Letter::Records { source, .. } => Some(Origin::Source(*source as u32)),
        Letter::Marked { epoch, .. } => Some(Origin::Mark(*epoch)),
        Letter::Tick(_) => Some(Origin::Clock),
        Letter::Exchanged { sender, .. } => Some(Origin::Shard(*sender)),
        Letter::StageMarked(mark) => Some(Origin::Shard(mark.from)),
        _ => None,
    }
}

impl World {
    pub(crate) fn begin_epoch(&mut self, epoch: Epoch) {
        self.node.epoch = epoch;
        self.watch.epoch_begun(epoch);
        self.phase = Phase { has_begun: true, ..Phase::default() };
        let pieces =
            coordinator_pieces(self.node.coordinator.machine(), self.options.shards, b"host");
        self.send(Who::Coordinator, Who::Store, Letter::Part(pieces.into()));
        self.send_sources(Who::Coordinator, &Letter::EpochBegun);
    }

    pub(crate) fn cut_source(&mut self, number: usize) {
        let source = &self.node.sources[number];
        let cut = source_cut(source);
        assert_eq!(cut.account.in_flight(), Some(0));
        let counts = (source.handed_on, cut.account.read, cut.account.malformed.total());
        self.watch.source_cut(self.node.epoch, number, counts);
        let pieces = source_pieces(&source_name(number), &cut);
        self.send(Who::Source(number), Who::Store, Letter::Part(pieces.into()));
        self.send_shards(Who::Source(number), &Letter::Barrier(number as u32));
    }

    /// The message, unless it waits for the cut.
    pub(crate) fn admit(&mut self, shard: usize, letter: Letter) -> Option<Letter> {
        let is_let_through = match self.sabotage {
            Some(Sabotage::MarkNotHeld) => matches!(letter, Letter::Marked { .. }),
            Some(Sabotage::RecordsNotHeld) => matches!(letter, Letter::Records { .. }),
            _ => false,
        };
        let gate = self.node.shards[shard].gate.as_mut().filter(|_| !is_let_through);
        let (Some(gate), Some(origin)) = (gate, origin(&letter)) else { return Some(letter) };
        let is_record = matches!(letter, Letter::Records { .. });
        let admitted = gate.admit(origin, letter);
        if admitted.is_none() && is_record {
            self.probes.hit("record waits for a cut");
        }
        admitted
    }

    pub(crate) fn barrier_came(&mut self, shard: usize, source: u32) {
        let step = self.node.shards[shard].gate.as_mut().unwrap().came(source);
        self.go_on(shard, step);
    }

    pub(crate) fn aligned(&mut self, shard: usize, (from, round): (usize, usize)) {
        let step = self.node.shards[shard].gate.as_mut().unwrap().told(from, round);
        self.go_on(shard, step);
    }

    fn go_on(&mut self, shard: usize, step: Step) {
        match step {
            Step::Wait => {}
            Step::Tell { round } => {
                self.send_shards(Who::Shard(shard), &Letter::Aligned { shard, round });
            }
            Step::Cut => self.cut_shard(shard),
        }
    }

    fn cut_shard(&mut self, number: usize) {
        let ShardUnit { node, gate, .. } = &mut self.node.shards[number];
        let epoch = gate.as_ref().unwrap().epoch();
        // The state of a failed step is no state: without this part the epoch never counts.
        let cut = (!node.has_failed()).then(|| node.cut(epoch));
        let (records, memory) = (node.records_taken(), node.shard().memory().unwrap_or_default());
        if memory.cold_keys > 0 {
            self.probes.hit("keys lie in pages");
        }
        if memory.came > 0 {
            self.probes.hit("keys have come back from pages");
        }
        match cut {
            Some(Ok(cut)) => {
                let part = shard_part(number, records, cut);
                self.watch.shard_cut(self.node.epoch, number);
                self.phase.shards_cut += 1;
                self.send(Who::Shard(number), Who::Store, Letter::Part(part));
            }
            Some(Err(error)) => {
                assert!(self.is_full, "a shard is not cut: {error}");
                self.host_hears(&error.to_string());
            }
            None => {}
        }
        self.send_sinks(Who::Shard(number), &Letter::PassedBarrier(number));
        // In front of what has come since.
        let unit = &mut self.node.shards[number];
        for letter in unit.gate.as_mut().unwrap().open().into_iter().rev() {
            unit.inbox.push_front(letter);
        }
    }

    /// The message to a sink, unless it waits for the cut.
    pub(crate) fn admit_output(&mut self, sink: usize, letter: Letter) -> Option<Letter> {
        let shard = match &letter {
            Letter::Panes { shard, .. }
            | Letter::Late { shard, .. }
            | Letter::Passed { shard, .. }
            | Letter::PassedAll(shard) => *shard,
            _ => return Some(letter),
        };
        let outbox = self.node.sinks[sink].outbox.as_mut();
        let Some(outbox) = outbox.filter(|outbox| outbox.holds(shard)) else {
            return Some(letter);
        };
        outbox.hold(letter);
        self.probes.hit("output waits for a cut");
        None
    }

    /// A sink has written; it says so to the shard, or does so later.
    pub(crate) fn write(&mut self, sink: usize, written: Vec<u32>, (shard, bytes): (usize, usize)) {
        let unit = &mut self.node.sinks[sink];
        let Some(outbox) = &mut unit.outbox else {
            self.outputs[sink].publish(&block(&written));
            let letter = Letter::Handled(Taker::Sink, bytes);
            return self.send(Who::Sink(sink), Who::Shard(shard), letter);
        };
        unit.written.extend(written);
        outbox.settle(shard, bytes);
        let (is_full, mut ahead) = (unit.written.len() * 4 >= outbox.block_bytes(), None);
        if is_full {
            let block = block(&std::mem::take(&mut unit.written));
            let (epoch, number) = outbox.ahead(block.len());
            let piece = (outbox_name(SINKS[sink], number).into(), block);
            ahead = Some(Letter::Block { epoch, piece, sink });
        }
        let is_demanding = outbox.demands();
        if let Some(letter) = ahead {
            self.send(Who::Sink(sink), Who::Store, letter);
        }
        if is_demanding {
            self.send(Who::Sink(sink), Who::Coordinator, Letter::Demanded);
        }
        self.tell_handled(sink);
    }

    /// A sink tells the shards what they are to hear now.
    pub(crate) fn tell_handled(&mut self, sink: usize) {
        for (shard, bytes) in self.node.sinks[sink].outbox.as_mut().unwrap().due() {
            let letter = Letter::Handled(Taker::Sink, bytes);
            self.send(Who::Sink(sink), Who::Shard(shard), letter);
        }
    }

    pub(crate) fn output_barrier_came(&mut self, number: usize, shard: usize) {
        let sink = &mut self.node.sinks[number];
        let outbox = sink.outbox.as_mut().unwrap();
        if !outbox.came(shard) {
            return;
        }
        let last = block(&std::mem::take(&mut sink.written));
        let begins = self.outputs[number].begins();
        let ahead = outbox.keep(last.clone());
        let pieces = sink_pieces(SINKS[number], (begins, (0, 0, 0)), (ahead, last));
        let held = outbox.open();
        self.watch.sink_cut(self.node.epoch, number);
        self.send(Who::Sink(number), Who::Store, Letter::Part(pieces.into()));
        if self.sabotage == Some(Sabotage::PublishedEarly) {
            self.durable(number, self.node.epoch);
        }
        for letter in held {
            self.sink_handles(number, letter);
        }
    }

    pub(crate) fn durable(&mut self, number: usize, epoch: Epoch) {
        if self.phase.published > 0 && self.dies_at(Place::BetweenSinks) {
            return;
        }
        self.node.sinks[number].durable = epoch;
        self.publish(number);
    }

    pub(crate) fn given(&mut self, number: usize, block: &[u8]) {
        self.probes.hit("block is published from the store");
        if self.publish_block(number, block) {
            self.publish(number);
        }
    }

    /// A sink publishes what is next of the epoch that is durable.
    fn publish(&mut self, number: usize) {
        let sink = &mut self.node.sinks[number];
        let epoch = sink.durable;
        match sink.outbox.as_mut().unwrap().publish() {
            None => {}
            Some(Publish::Stored(block)) => {
                let name = outbox_name(SINKS[number], block);
                self.send(Who::Sink(number), Who::Store, Letter::Wanted { name, sink: number });
            }
            Some(Publish::Last { block, .. }) => {
                if !self.publish_block(number, &block) {
                    return;
                }
                self.node.sinks[number].outbox.as_mut().unwrap().published();
                self.phase.published += 1;
                let letter = Letter::Published { sink: number, epoch };
                self.send(Who::Sink(number), Who::Store, letter);
                self.tell_handled(number);
            }
        }
    }

    /// Publishes a block, unless the process dies in the midst of it.
    fn publish_block(&mut self, number: usize, block: &[u8]) -> bool {
        if !block.is_empty() && self.dies_at(Place::HalfPublished) {
            let half = self.dice.below(block.len() / 4);
            self.outputs[number].publish_half(block, half);
            return false;
        }
        self.outputs[number].publish(block);
        true
    }

    pub(crate) fn store_handles(&mut self, letter: Letter) {
        match letter {
            Letter::Part(part) => self.part_came(part),
            Letter::Block { epoch, piece, sink } => self.block_came(epoch, piece, sink),
            Letter::Wanted { name, sink } => {
                let store = self.node.storing.as_ref().unwrap().store.as_ref();
                let block = store.and_then(|store| store.read(&name).unwrap());
                if let Some(block) = block {
                    self.send(Who::Store, Who::Sink(sink), Letter::Given(block));
                }
            }
            Letter::GivenUp => self.send_sinks(Who::Store, &Letter::GivenUp),
            Letter::Published { sink, epoch } => {
                if self.phase.published == SINKS.len() && self.dies_at(Place::Unmarked) {
                    return;
                }
                let storing = self.node.storing.as_mut().unwrap();
                let Some(store) = &mut storing.store else { return };
                let noted = store.note(&sink_name(SINKS[sink]), epoch);
                self.phase.marked += 1;
                if let Err(error) = noted {
                    self.store_failed(&error);
                }
                if self.node.storing.as_mut().unwrap().node.published() {
                    self.phase = Phase::default();
                    self.send(Who::Store, Who::Coordinator, Letter::Concluded(epoch));
                }
            }
            Letter::Finished => {
                let storing = self.node.storing.as_mut().unwrap();
                storing.open -= 1;
                if storing.open == 0 {
                    storing.store = None;
                }
            }
            other => panic!("not for a store: {other:?}"),
        }
    }

    fn block_came(&mut self, epoch: Epoch, piece: Piece, sink: usize) {
        let storing = self.node.storing.as_mut().unwrap();
        let Some(store) = &mut storing.store else { return };
        if epoch > storing.node.epoch() {
            self.probes.hit("block of the next epoch comes before the commit");
            storing.early.push((epoch, piece, sink));
            return;
        }
        let (name, bytes) = piece;
        match store.put(epoch, &name, &bytes) {
            Ok(()) => self.send(Who::Store, Who::Sink(sink), Letter::Written(bytes.len())),
            Err(error) => self.store_failed(&error),
        }
    }

    fn part_came(&mut self, part: Part) {
        let storing = self.node.storing.as_mut().unwrap();
        let Some(store) = &mut storing.store else { return };
        let epoch = storing.node.epoch();
        let is_lost = self.sabotage == Some(Sabotage::PartMissing) && self.dice.one_in(4);
        storing.node.needs(part.oldest.unwrap_or(epoch));
        if !is_lost && let Err(error) = write_part(&mut **store, epoch, part, &self.options.plan) {
            return self.store_failed(&error);
        }
        self.phase.parts += 1;
        if storing.node.part_came() {
            self.watch.epoch_cut(epoch, &self.options);
            self.commit(epoch);
        }
    }

    fn commit(&mut self, epoch: Epoch) {
        // A commit is some writes: the process may die behind any of them.
        let places = [Place::Uncommitted, Place::Unflushed, Place::Untold];
        let dies = (0..3).find(|writes| !self.is_stopping && self.dies_at(places[*writes]));
        if let Some(writes) = dies {
            self.disk.fail_after(Some(writes as u64));
        }
        let storing = self.node.storing.as_mut().unwrap();
        let oldest = storing.node.oldest();
        let committed = storing.store.as_mut().unwrap().commit(epoch, oldest);
        if dies.is_some() {
            return;
        }
        if let Err(error) = committed {
            return self.store_failed(&error);
        }
        self.probes.hit("epoch is stored");
        self.phase.is_durable = true;
        if self.dies_at(Place::Unpublished) {
            return;
        }
        let (epoch, _) = self.node.storing.as_mut().unwrap().node.committed();
        self.send_sinks(Who::Store, &Letter::Durable(epoch));
        let early = std::mem::take(&mut self.node.storing.as_mut().unwrap().early);
        for (epoch, piece, sink) in early {
            self.block_came(epoch, piece, sink);
        }
    }

    /// The host hears that nothing can be stored any more.
    fn store_failed(&mut self, error: &StoreError) {
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        self.node.storing.as_mut().unwrap().store = None;
        self.send_sinks(Who::Store, &Letter::GivenUp);
        self.host_hears(&error.to_string());
    }

    /// Somebody tells the host that he cannot go on.
    pub(crate) fn host_hears(&mut self, error: &str) {
        self.note(format!("the host hears: {error}"));
        self.probes.hit("disk that fills up");
        self.is_stopping = true;
        self.send_sources(Who::Host, &Letter::Drain);
        self.send(Who::Host, Who::Coordinator, Letter::GivenUp);
    }
}
