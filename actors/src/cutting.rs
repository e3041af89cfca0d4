//! How a shard is cut for an epoch: it takes in what lies before the barriers, holds what lies
//! behind them, and hands its state over in between. See [`nilometer_model::epoch`], which decides.
//!
//! Invariant POS-1: the state that is handed over has taken exactly the records that lie before the
//! barriers, and the barrier goes on to the sinks behind the last pane of them.

use crate::checkpoint::shard_part;
use crate::clock;
use crate::deliver;
use crate::message::{Aligned, Barrier, Exchanged, Marked, Records, StageMarked, Tick};
use crate::report::{Failure, Report};
use crate::shard::ShardActor;
use crate::store::StoreActor;
use actix::{Addr, Context, Handler};
use nilometer_model::epoch::{Barriers, Origin, Step};
use nilometer_model::node::Gate;
use std::time::Duration;

/// The part of a shard that knows of epochs.
pub(crate) struct Cutting {
    gate: Gate<Held>,
    store: Addr<StoreActor>,
    /// The longest time that a cut took. Rises only.
    pub(crate) pause_max: Duration,
}

/// A message that waits for the cut.
pub(crate) enum Held {
    Records(Records),
    Marked(Marked),
    Exchanged(Exchanged),
    StageMarked(StageMarked),
    Tick(Tick),
}

macro_rules! holdable {
    ($($name:ident),*) => {
        $(impl From<$name> for Held {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        })*
    };
}

holdable!(Records, Marked, Exchanged, StageMarked, Tick);

impl Cutting {
    /// Behind the epoch that `barriers` know of; parts go to `store`.
    pub(crate) const fn new(store: Addr<StoreActor>, barriers: Barriers) -> Self {
        Self { gate: Gate::new(barriers), store, pause_max: Duration::ZERO }
    }
}

impl ShardActor {
    /// The message, unless it waits for the cut.
    pub(crate) fn admit<M: Into<Held>>(&mut self, origin: Origin, message: M) -> Option<M> {
        match &mut self.cutting {
            Some(cutting) => cutting.gate.admit(origin, message),
            None => Some(message),
        }
    }

    fn go_on(&mut self, step: Step, ctx: &mut Context<Self>) {
        match step {
            Step::Wait => {}
            Step::Tell { round } => {
                let aligned = Aligned { shard: self.id, round };
                deliver::aligned(&self.links.shards, aligned);
            }
            Step::Cut => self.cut(ctx),
        }
    }

    fn cut(&mut self, ctx: &mut Context<Self>) {
        let Some(cutting) = &mut self.cutting else { return };
        let epoch = cutting.gate.epoch();
        let (cut, took) = clock::timed(|| self.machine.cut(epoch));
        cutting.pause_max = took.max(cutting.pause_max);
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
        deliver::passed_barrier(&self.links.sinks, self.id);
        for held in cutting.gate.open() {
            match held {
                Held::Records(message) => self.handle(message, ctx),
                Held::Marked(message) => self.handle(message, ctx),
                Held::Exchanged(message) => self.handle(message, ctx),
                Held::StageMarked(message) => self.handle(message, ctx),
                Held::Tick(message) => self.handle(message, ctx),
            }
        }
    }
}

impl Handler<Barrier> for ShardActor {
    type Result = ();

    fn handle(&mut self, Barrier { partition }: Barrier, ctx: &mut Self::Context) {
        let step = self.cutting.as_mut().map(|cutting| cutting.gate.came(partition));
        self.go_on(step.unwrap_or(Step::Wait), ctx);
    }
}

impl Handler<Aligned> for ShardActor {
    type Result = ();

    fn handle(&mut self, Aligned { shard, round }: Aligned, ctx: &mut Self::Context) {
        let step = self.cutting.as_mut().map(|cutting| cutting.gate.told(shard, round));
        self.go_on(step.unwrap_or(Step::Wait), ctx);
    }
}
