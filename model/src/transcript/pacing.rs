//! Micro-batches in a transcript: which of its inputs end a cycle. One shard finishes each at once.

use crate::engine::{Begin, Cut, Cycles, Engine};
use crate::time::ProcessingTime;
use serde::{Deserialize, Serialize};

/// When cycles begin on the virtual clock; part of what a restart keeps.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pacing {
    cycles: Cycles,
    /// By partition.
    cuts: Vec<Cut>,
}

impl Pacing {
    /// `None` if the engine has no cycles.
    pub(super) fn new(engine: Engine, partitions: usize) -> Option<Self> {
        let cycles = Cycles::new(engine.pace()?, partitions, 1);
        Some(Self { cycles, cuts: vec![Cut::new(engine); partitions] })
    }

    /// A partition has read records. Those beyond its cut belong to the same cycle, as if they had
    /// come in the middle of what cannot be parted.
    pub(super) fn read(&mut self, partition: u32, records: usize) -> Option<Begin> {
        let cut = self.cuts.get_mut(partition as usize)?;
        let is_reached = cut.read(records);
        let after = cut.after();
        if is_reached { self.begun(|cycles| cycles.cut(partition as usize, after)) } else { None }
    }

    /// The clock ticks.
    pub(super) fn tick(&mut self, now: ProcessingTime) -> Option<Begin> {
        self.begun(|cycles| cycles.tick(now))
    }

    /// A partition has nothing to read for long.
    pub(super) fn rest(&mut self, partition: u32) -> Option<Begin> {
        self.begun(|cycles| cycles.rest(partition as usize))
    }

    /// A partition has ended.
    pub(super) fn ended(&mut self, partition: u32) -> Option<Begin> {
        self.begun(|cycles| cycles.ended(partition as usize))
    }

    /// The shard has finished a cycle.
    pub(super) fn finished(&mut self, number: u64) -> Option<Begin> {
        self.begun(|cycles| cycles.finished(0, number))
    }

    fn begun(&mut self, fact: impl FnOnce(&mut Cycles) -> Option<Begin>) -> Option<Begin> {
        let begun = fact(&mut self.cycles)?;
        self.cuts.iter_mut().for_each(|cut| cut.next(begun.number));
        Some(begun)
    }
}
