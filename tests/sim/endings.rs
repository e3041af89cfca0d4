//! How processes end before their end, and how the next one starts.

use crate::letters::{Letter, Who};
use crate::node::Node;
use crate::options::{MEMORY, Stored};
use crate::storing::{Phase, SINKS, source_name};
use crate::world::{Sabotage, World};
use nilometer_actors::checkpoint::{Changes, Checkpoint, Shape, SinkCut, outbox_block};
use nilometer_connectors::store::Store;
use nilometer_model::epoch::Epoch;
use nilometer_model::invariant::EPOCH_2;
use std::sync::Arc;

/// A place of which there are few: each run has a favourite one, where its processes like to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Uncommitted,
    Unflushed,
    Untold,
    Unpublished,
    HalfPublished,
    BetweenSinks,
    Unmarked,
}

impl Place {
    pub(crate) const ALL: [Self; 8] = [
        Self::Start,
        Self::Uncommitted,
        Self::Unflushed,
        Self::Untold,
        Self::Unpublished,
        Self::HalfPublished,
        Self::BetweenSinks,
        Self::Unmarked,
    ];

    const fn probe(self) -> &'static str {
        match self {
            Self::Start => "crash while it starts again",
            Self::Uncommitted => "crash with all parts written and no commit row",
            Self::Unflushed => "crash with the commit row written and not flushed",
            Self::Untold => "crash with an epoch flushed and nobody told",
            Self::Unpublished => "crash with an epoch durable and nothing published",
            Self::HalfPublished => "crash with a block half published",
            Self::BetweenSinks => "crash between two sinks",
            Self::Unmarked => "crash with an epoch published and not marked",
        }
    }
}

impl World {
    /// Whether the process is killed behind this step. It may be asked to drain instead, or its
    /// disk may be about to fill up.
    pub(crate) fn dies(&mut self) -> bool {
        let Some(stored) = self.options.stored else { return false };
        // What is under way is what may break.
        let ends_in = if self.phase.has_begun { stored.ends_in / 8 } else { stored.ends_in };
        if self.endings == 0 || !self.dice.one_in(ends_in) {
            return false;
        }
        self.endings -= 1;
        match self.dice.below(8) {
            0 if !self.is_stopping => {
                self.probes.hit("drain, and a start behind it");
                self.is_stopping = true;
                self.send_sources(Who::Host, &Letter::Drain);
                false
            }
            1 if !self.is_stopping => {
                self.disk.fail_after(Some(self.dice.below(30) as u64));
                self.is_full = true;
                false
            }
            _ => {
                self.probe_crash();
                true
            }
        }
    }

    /// Whether the process is killed at this place.
    pub(crate) fn dies_at(&mut self, place: Place) -> bool {
        let is_favourite = self.options.stored.is_some_and(|stored| stored.favourite == place);
        let dies = is_favourite && self.deaths > 0 && self.dice.one_in(2);
        if dies {
            self.probes.hit(place.probe());
            self.deaths -= 1;
            self.is_dead = true;
        }
        dies
    }

    fn probe_crash(&mut self) {
        let (shards, sinks) = (self.node.shards.len(), self.node.sinks.len());
        self.probes.hit(match self.phase {
            Phase { has_begun: false, .. } => "crash with no epoch under way",
            Phase { is_durable: true, published: 0, .. } => Place::Unpublished.probe(),
            Phase { is_durable: true, published, .. } if published < sinks => {
                Place::BetweenSinks.probe()
            }
            Phase { is_durable: true, .. } => Place::Unmarked.probe(),
            Phase { shards_cut: 0, .. } => "crash before a shard is cut",
            Phase { shards_cut, .. } if shards_cut < shards => {
                "crash between the cuts of two shards"
            }
            Phase { .. } => "crash with some parts written",
        });
    }

    /// The process is gone, and the power with it: of what was not flushed something may have
    /// reached the disk.
    pub(crate) fn crash(&mut self) {
        self.note("the process is killed".to_owned());
        self.disk.fail_after(None);
        let dice = &mut self.dice;
        self.disk.tear(|| dice.one_in(2));
    }

    /// Starts a process behind the last epoch, if need be several times.
    pub(crate) fn start(&mut self) {
        while !self.has_started() {
            self.crash();
        }
        (self.is_dead, self.is_stopping, self.is_full) = (false, false, false);
        self.phase = Phase::default();
        self.now += self.dice.between(0, 50);
    }

    fn has_started(&mut self) -> bool {
        let Some(stored) = self.options.stored else { return true };
        let dies = self.dies_at(Place::Start);
        self.disk.fail_after(dies.then(|| self.dice.below(6) as u64));
        let Ok(store) = self.disk.open() else { return false };
        self.disk.fail_after(None);
        let sources: Vec<Arc<str>> =
            (0..self.options.partitions.len()).map(|source| source_name(source).into()).collect();
        let sinks = SINKS.map(Arc::from);
        let changes = Changes::default();
        let shape = Shape { sources: &sources, sinks: &sinks, changes: &changes };
        let checkpoint = Checkpoint::load(&store, shape);
        let checkpoint = checkpoint.unwrap_or_else(|error| panic!("{EPOCH_2}: {error}"));
        if checkpoint.is_some() && stored.shards_change && self.dice.one_in(2) {
            self.probes.hit("start with other shards");
            self.options.shards = self.dice.between(1, 4) as usize;
        }
        let memory = self.dice.pick(&MEMORY);
        if checkpoint.is_some() && memory != stored.memory && self.dice.one_in(3) {
            self.probes.hit("start with another budget of memory");
            self.options.stored = Some(Stored { memory, ..stored });
        }
        let shards = self.options.shards;
        self.note(format!("a process of {shards} shards starts behind epoch {}", store.last()));
        for (sink, name) in SINKS.iter().enumerate() {
            let cut = checkpoint.as_ref().and_then(|checkpoint| checkpoint.sinks[sink].as_ref());
            let block = |number| {
                outbox_block(&store, name, number)
                    .unwrap_or_else(|error| panic!("{EPOCH_2}: {error}"))
            };
            let all = cut.map(|cut| (0..cut.blocks).flat_map(block).collect::<Vec<_>>());
            self.outputs[sink].open(cut, all.as_deref().unwrap_or_default());
            for block in cut.map_or(0..0, SinkCut::missing).map(block) {
                if dies && !block.is_empty() && self.dice.one_in(3) {
                    let half = self.dice.below(block.len() / 4);
                    self.outputs[sink].publish_half(&block, half);
                    return false;
                }
                if self.sabotage != Some(Sabotage::NotRepublished) {
                    self.outputs[sink].publish(&block);
                }
            }
        }
        if dies {
            return false;
        }
        let epoch = checkpoint.as_ref().map_or(Epoch::NONE, |checkpoint| checkpoint.epoch);
        self.node = Node::new(&self.options, Some(Box::new(store)), checkpoint.as_ref());
        let mut memory = self.node.shards.iter().filter_map(|unit| unit.node.shard().memory());
        if memory.any(|memory| memory.cold_keys as u64 > memory.went) {
            self.probes.hit("start with keys in pages");
        }
        self.watch.restart(epoch, self.options.shards, &self.node.coordinator);
        self.watch.reads_with(self.node.symbols.clone());
        crate::sequences::found(self);
        true
    }
}
