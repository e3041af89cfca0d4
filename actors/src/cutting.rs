//! How a shard is cut for an epoch: it takes in what lies before the barriers, holds what lies
//! behind them, and hands its state over in between. See [`nilometer_model::epoch`], which decides.
//!
//! Invariant POS-1: the state that is handed over has taken exactly the records that lie before the
//! barriers, and the barrier goes on to the sinks behind the last pane of them.

use crate::checkpoint::shard_part;
use crate::clock;
use crate::deliver;
use crate::histogram::Histogram;
use crate::inbox::Inward;
use crate::message::Aligned;
use crate::report::{Failure, Report};
use crate::shard::ShardActor;
use crate::store::StoreActor;
use actix::Addr;
use nilometer_model::epoch::{Barriers, Step};
use nilometer_model::node::Gate;
use std::time::Duration;

/// The part of a shard that knows of epochs.
pub(crate) struct Cutting {
    gate: Gate<Inward>,
    store: Addr<StoreActor>,
    /// The longest time that a cut took. Rises only.
    pub(crate) pause_max: Duration,
    /// All of these times.
    pub(crate) pauses: Histogram,
    /// Whether it was told that the state takes more memory than it may.
    is_tight: bool,
}

impl Cutting {
    /// Behind the epoch that `barriers` know of; parts go to `store`.
    pub(crate) const fn new(store: Addr<StoreActor>, barriers: Barriers) -> Self {
        Self {
            gate: Gate::new(barriers),
            store,
            pause_max: Duration::ZERO,
            pauses: Histogram::new(),
            is_tight: false,
        }
    }
}

impl ShardActor {
    /// The message, unless it waits for the cut.
    pub(crate) fn admit(&mut self, message: Inward) -> Option<Inward> {
        match (&mut self.cutting, message.origin()) {
            (Some(cutting), Some(origin)) => cutting.gate.admit(origin, message),
            (Some(_), None) | (None, _) => Some(message),
        }
    }

    /// The barrier of a source has come.
    pub(crate) fn barrier(&mut self, partition: u32) {
        let step = self.cutting.as_mut().map(|cutting| cutting.gate.came(partition));
        self.follow(step.unwrap_or(Step::Wait));
    }

    /// A shard has told of a round of the barriers.
    pub(crate) fn aligned(&mut self, Aligned { shard, round }: Aligned) {
        let step = self.cutting.as_mut().map(|cutting| cutting.gate.told(shard, round));
        self.follow(step.unwrap_or(Step::Wait));
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Tell { round } => {
                let aligned = Aligned { shard: self.id, round };
                deliver::aligned(&self.links.shards, aligned);
            }
            Step::Cut => self.cut(),
        }
    }

    fn cut(&mut self) {
        let Some(cutting) = &mut self.cutting else { return };
        let epoch = cutting.gate.epoch();
        let span = self.spans.open_cut();
        let (cut, took) = clock::timed(|| self.machine.cut(epoch));
        cutting.pause_max = took.max(cutting.pause_max);
        cutting.pauses.observe(took, 1);
        self.links.meters.set_pause(took);
        match cut {
            // The state of a failed step is no state: without this part the epoch never counts.
            _ if self.machine.has_failed() => {}
            Ok(cut) => {
                let records = self.machine.records_taken();
                deliver::part(&cutting.store, shard_part(self.id, records, cut));
            }
            Err(error) => {
                let failure = Failure::State { shard: self.id, error };
                self.links.reports.report(Report::Failure(failure));
            }
        }
        if let Some((bytes, budget)) = self.machine.shard().excess().filter(|_| !cutting.is_tight) {
            cutting.is_tight = true;
            self.links.reports.report(Report::Tight { shard: self.id, bytes, budget });
        }
        drop(span);
        deliver::passed_barrier(&self.links.sinks, self.id);
        self.inbox.put_back(cutting.gate.open());
    }
}
