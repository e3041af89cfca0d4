//! What each machine makes of a message, and to whom it sends what that gives: what the shells of
//! `actors` do, with letters for messages.

use crate::letters::{Letter, Who};
use crate::node::{ShardUnit, Source};
use crate::storing::{count, stands};
use crate::world::{LATE, PANES, SLEEP, World};
use nilometer_model::node::credit::Taker;
use nilometer_model::node::{FromCoordinator, FromShard, FromSource, Mark};
use nilometer_model::shard::StageError;
use std::sync::Arc;

/// Something that a shard has given.
#[derive(PartialEq, Eq)]
enum Sent {
    Panes,
    Credit,
}

impl World {
    pub(crate) fn coordinator_handles(&mut self, letter: Letter) {
        let node = &mut self.node.coordinator;
        match letter {
            Letter::Tick(tick) => {
                let now = tick.now();
                let (before, heard) = (node.machine().watermark(), self.node.heard);
                node.tick(now);
                self.node.heard = heard.max(Some(now));
                if heard.is_some_and(|heard| now.since(heard) > SLEEP) {
                    let after = node.machine().watermark();
                    assert_eq!(before, after, "promised while nobody looked");
                }
            }
            Letter::Progress { report, handed_on } => {
                let covered = Arc::make_mut(&mut self.node.covered);
                let known = &mut covered[report.partition as usize];
                *known = handed_on.max(*known);
                node.progress(&report);
            }
            Letter::Waiting { partition, head, watermark } => {
                node.waiting(partition, head, watermark);
            }
            Letter::Cut { partition, after } => node.cut(partition, after),
            Letter::Ended(partition) => node.ended(partition),
            Letter::CycleFinished { shard, number } => node.cycle_finished(shard, number),
            Letter::Concluded(epoch) => node.concluded(epoch),
            Letter::Demanded => {
                self.probes.hit("epoch is demanded");
                node.demanded();
            }
            Letter::GivenUp => {
                node.give_up();
                self.send(Who::Coordinator, Who::Store, Letter::GivenUp);
            }
            other => panic!("not for a coordinator: {other:?}"),
        }
        self.watch.coordinator(&self.node.coordinator, &mut self.probes);
        let from = Who::Coordinator;
        for send in self.node.coordinator.take_sends() {
            match send {
                FromCoordinator::Marked(mark) => {
                    let (covered, epoch) = (self.node.covered.clone(), self.node.epoch);
                    self.send_shards(from, &Letter::Marked { mark, covered, epoch });
                }
                FromCoordinator::Granted { partition, others } => {
                    self.send(from, Who::Source(partition as usize), Letter::Granted(others));
                }
                FromCoordinator::CycleBegun(number) => {
                    self.probes.hit("cycle of micro-batches");
                    self.send_sources(from, &Letter::CycleBegun(number));
                }
                FromCoordinator::StandsStill(_) => {}
                FromCoordinator::Ended(_) => {
                    if self.node.storing.is_some() {
                        self.send(from, Who::Store, Letter::Finished);
                    }
                }
            }
        }
        if let Some(epoch) = self.node.coordinator.take_epoch() {
            self.begin_epoch(epoch);
        }
    }

    pub(crate) fn source_handles(&mut self, number: usize, letter: Letter) {
        let (partition, now) = (number as u32, self.now);
        if matches!(letter, Letter::EpochBegun) {
            self.cut_source(number);
            self.node.sources[number].node.epoch_begun();
            return self.source_sends(number);
        }
        let may_wait = self.node.storing.is_some() && self.node.sources[number].node.is_in_step();
        let source = &mut self.node.sources[number];
        let taken = match letter {
            Letter::Tick(tick) => {
                source.node.tick(tick.now());
                None
            }
            Letter::Turn => source.node.turn().map(|room| {
                let place = (&self.options.job, partition);
                source.before = may_wait.then(|| stands(source));
                let Source { node, partition, batch, is_pending, account, .. } = &mut *source;
                // A reader may give less than it could.
                let room = self.dice.between(1, room.max(1) as i64) as usize;
                let stand = partition.poll((room, now), batch, place, &self.node.symbols);
                *is_pending = batch.is_empty();
                account.read += batch.len() as u64;
                node.read(batch, stand)
            }),
            Letter::Returned(credit) => {
                source.node.returned(credit);
                None
            }
            Letter::Granted(others) => Some(source.node.granted(&mut source.batch, others)),
            Letter::CycleBegun(number) => {
                source.node.cycle_begun(number);
                None
            }
            Letter::Drain => {
                let (taken, _) = source.node.drain(&mut source.batch);
                Some(taken)
            }
            other => panic!("not for a source: {other:?}"),
        };
        if source.node.is_out_of_credits() {
            self.probes.hit("source is out of credits");
        }
        if let Some(taken) = taken {
            count(&mut source.account, &taken);
            self.watch.taken(&taken, &mut self.probes);
        }
        self.source_sends(number);
    }

    fn source_sends(&mut self, number: usize) {
        let (from, partition) = (Who::Source(number), number as u32);
        for send in self.node.sources[number].node.take_sends() {
            match send {
                FromSource::Turn => self.send(from, from, Letter::Turn),
                FromSource::Records { shard, batch, credit } => {
                    self.node.sources[number].handed_on += batch.len() as u64;
                    self.watch.handed_on(number, &batch);
                    let letter = Letter::Records { batch, credit, source: number };
                    self.send(from, Who::Shard(shard), letter);
                }
                FromSource::Progress(report) => {
                    let handed_on = self.node.sources[number].handed_on;
                    self.send(from, Who::Coordinator, Letter::Progress { report, handed_on });
                }
                FromSource::Waiting { head, watermark } => {
                    let letter = Letter::Waiting { partition, head, watermark };
                    self.send(from, Who::Coordinator, letter);
                }
                FromSource::Cut { after } => {
                    self.send(from, Who::Coordinator, Letter::Cut { partition, after });
                }
                FromSource::Demanded => self.send(from, Who::Coordinator, Letter::Demanded),
                FromSource::Ended { is_finished } => {
                    assert!(is_finished || self.is_stopping, "nobody has stopped it");
                    self.send(from, Who::Coordinator, Letter::Ended(partition));
                }
            }
        }
    }

    pub(crate) fn shard_handles(&mut self, number: usize, letter: Letter) {
        if let Letter::Handled(by, bytes) = letter {
            self.node.shards[number].node.handled(by, bytes);
            self.shard_forwards(number);
        } else {
            self.wait_for_turn(number, letter);
        }
        while !self.node.shards[number].node.is_held() {
            let Some(letter) = self.node.shards[number].inbox.pop_front() else { return };
            self.shard_takes(number, letter);
        }
        if !self.node.shards[number].inbox.is_empty() {
            self.probes.hit("message waits for a shard that is held");
        }
    }

    /// Puts a message behind what a shard has in front of it, as `actors::inbox` does.
    fn wait_for_turn(&mut self, number: usize, letter: Letter) {
        let inbox = &mut self.node.shards[number].inbox;
        if let (Letter::Tick(_), Some(last @ Letter::Tick(_))) = (&letter, inbox.back_mut()) {
            self.probes.hit("tick takes the place of one that waits");
            *last = letter;
            return;
        }
        inbox.push_back(letter);
    }

    fn shard_takes(&mut self, number: usize, letter: Letter) {
        let Some(letter) = self.admit(number, letter) else { return };
        self.watch.before(number, &letter, &self.options, &mut self.probes);
        let ShardUnit { node, has_ended, .. } = &mut self.node.shards[number];
        let (mut is_tick, mut owes, mut told) = (false, false, None);
        match letter {
            Letter::Tick(tick) => {
                is_tick = true;
                node.tick(tick);
                // Else it has not heard of it, or not everywhere yet.
                if !*has_ended && !node.has_failed() && !node.shard().is_firing() {
                    self.watch.lived(tick, node.shard());
                }
            }
            Letter::Records { batch, credit, source } => {
                owes = true;
                node.records(&batch, credit, source);
            }
            Letter::Marked { mark, .. } => {
                *has_ended |= mark == Mark::End;
                node.marked(mark);
            }
            Letter::Barrier(source) => return self.barrier_came(number, source),
            Letter::Aligned { shard, round } => return self.aligned(number, (shard, round)),
            Letter::Exchanged { deltas, bytes, sender } => {
                node.exchanged(&deltas);
                // Behind what the step gives.
                told = Some((sender, bytes));
            }
            Letter::StageMarked(mark) => node.stage_marked(&mark),
            Letter::Closed(round) => node.closed(round),
            other => panic!("not for a shard: {other:?}"),
        }
        let sends = self.shard_forwards(number);
        if owes && !sends.contains(&Sent::Credit) {
            self.probes.hit("shard keeps credits while its output waits");
        }
        if is_tick && sends.contains(&Sent::Panes) {
            self.probes.hit("pane because the clock ticked");
        }
        if let Some((sender, bytes)) = told {
            let letter = Letter::Handled(Taker::Shard, bytes);
            self.send(Who::Shard(number), Who::Shard(sender), letter);
        }
    }

    /// Sends what a shard gives; what kinds of it there were.
    fn shard_forwards(&mut self, number: usize) -> Vec<Sent> {
        let sends = self.node.shards[number].node.take_sends();
        let kinds = sends.iter().filter_map(|send| match send {
            FromShard::Panes { .. } => Some(Sent::Panes),
            FromShard::Returned { .. } => Some(Sent::Credit),
            _ => None,
        });
        let kinds = kinds.collect();
        for send in sends {
            self.shard_sends(number, send);
        }
        let shard = self.node.shards[number].node.shard();
        if shard.is_firing() {
            self.probes.hit("shard fires in slices");
        } else {
            self.watch.after(number, shard, &mut self.probes);
        }
        kinds
    }

    fn shard_sends(&mut self, shard: usize, send: FromShard<usize>) {
        let from = Who::Shard(shard);
        match send {
            FromShard::Panes { sink, panes, bytes } => {
                self.send(from, Who::Sink(sink), Letter::Panes { panes, bytes, shard });
            }
            FromShard::Late { sink, late, bytes } => {
                self.send(from, Who::Sink(sink), Letter::Late { late, bytes, shard });
            }
            FromShard::Exchanged { to, deltas, bytes } => {
                if to != shard {
                    self.probes.hit("deltas go from one shard to another");
                }
                self.send(from, Who::Shard(to), Letter::Exchanged { deltas, bytes, sender: shard });
            }
            FromShard::StageMarked(mark) => self.send_shards(from, &Letter::StageMarked(mark)),
            FromShard::Passed(watermark) => {
                self.send_sinks(from, &Letter::Passed { shard, watermark });
            }
            FromShard::PassedAll => self.send_sinks(from, &Letter::PassedAll(shard)),
            FromShard::CycleFinished(number) => {
                self.send(from, Who::Coordinator, Letter::CycleFinished { shard, number });
            }
            FromShard::Closed { round } => {
                self.probes.hit("round of closing");
                self.send_shards(from, &Letter::Closed(round));
            }
            FromShard::Returned { to, credit } => {
                self.send(from, Who::Source(to), Letter::Returned(credit));
            }
            FromShard::Failed(error) => {
                let is_of_disk = matches!(error, StageError::Page { .. });
                assert!(self.is_full && is_of_disk, "a shard fails: {error}");
                self.probes.hit("page cannot be written");
                self.host_hears(&error.to_string());
            }
            FromShard::Ended => {}
        }
    }

    pub(crate) fn sink_handles(&mut self, number: usize, letter: Letter) {
        let Some(letter) = self.admit_output(number, letter) else { return };
        match letter {
            Letter::Panes { panes, bytes, shard } => {
                assert_eq!(number, PANES);
                let order = &self.node.sinks[number].order;
                let written = self.watch.panes(shard, &panes, order, &mut self.probes);
                self.write(number, written, (shard, bytes));
            }
            Letter::Late { late, bytes, shard } => {
                assert_eq!(number, LATE);
                let written = self.watch.late(&late, &mut self.probes);
                self.write(number, written, (shard, bytes));
            }
            Letter::Passed { shard, watermark } => {
                self.watch.passed((number, shard), watermark);
                self.node.sinks[number].order.passed(shard, watermark);
            }
            Letter::PassedBarrier(shard) => self.output_barrier_came(number, shard),
            Letter::Durable(epoch) => self.durable(number, epoch),
            Letter::Given(block) => self.given(number, &block),
            Letter::Written(bytes) => {
                self.node.sinks[number].outbox.as_mut().unwrap().written(bytes);
                self.tell_handled(number);
            }
            Letter::GivenUp => {
                self.node.sinks[number].outbox.as_mut().unwrap().give_up();
                self.tell_handled(number);
            }
            Letter::PassedAll(_) => {
                if self.node.sinks[number].order.ended() {
                    self.node.open_sinks -= 1;
                    if self.node.storing.is_some() {
                        self.send(Who::Sink(number), Who::Store, Letter::Finished);
                    }
                }
            }
            other => panic!("not for a sink: {other:?}"),
        }
    }
}
