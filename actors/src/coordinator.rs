//! The coordinator: one per node. A shell around [`CoordinatorNode`], which decides the watermark, the
//! cycles, the epochs, whose turn it is to read, and the end: what it gives is sent at once, in order.

use crate::checkpoint::coordinator_pieces;
use crate::clock::Stopwatch;
use crate::deliver::{self, Reports};
use crate::message::{
    Concluded, Cut, CycleFinished, Demanded, Ended, GivenUp, Granted, Marked, Progress, Signalled,
    Tick, Waiting,
};
use crate::meter::Meters;
use crate::report::Report;
use crate::shard::ShardActor;
use crate::source::SourceActor;
use crate::store::StoreActor;
use crate::trace::{OpenSpan, Tracing};
use actix::{Actor, Addr, Context, Handler};
use nilometer_model::epoch::Epoch;
use nilometer_model::node::{CoordinatorNode, FromCoordinator};
use std::sync::Arc;

/// Takes progress per source partition, broadcasts the watermark and the end.
pub(crate) struct CoordinatorActor {
    pub(crate) machine: CoordinatorNode,
    /// Where epochs are stored, and what the host puts there; `None` where nothing is stored.
    pub(crate) state: Option<(Addr<StoreActor>, Vec<u8>)>,
    /// The epoch that began last. Rises only.
    pub(crate) epoch: Epoch,
    pub(crate) tracing: Tracing,
    /// The span of the epoch in flight, if there is one. Ends when that is concluded or given up.
    pub(crate) span: Option<OpenSpan>,
    /// All sources, by partition.
    pub(crate) sources: Vec<Addr<SourceActor>>,
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reports: Reports,
}

impl CoordinatorActor {
    /// Takes a fact, and tells everybody what follows from it.
    fn take(&mut self, fact: impl FnOnce(&mut CoordinatorNode)) {
        self.take_since(Stopwatch::start(), fact);
    }

    /// As [`CoordinatorActor::take`]: of what has begun at `since`.
    fn take_since(&mut self, since: Stopwatch, fact: impl FnOnce(&mut CoordinatorNode)) {
        fact(&mut self.machine);
        self.meters.set_watermark(self.machine.machine().watermark());
        for send in self.machine.take_sends() {
            match send {
                FromCoordinator::Marked(mark) => {
                    let marked = Marked { mark, epoch: self.epoch, since };
                    deliver::marked(&self.shards, &marked);
                }
                FromCoordinator::Granted { partition, others } => {
                    let Some(source) = self.sources.get(partition as usize) else { continue };
                    deliver::granted(source, Granted { others });
                }
                FromCoordinator::CycleBegun(number) => deliver::cycle_begun(&self.sources, number),
                FromCoordinator::StandsStill(standing) => {
                    self.reports.report(Report::StandsStill(standing));
                }
                FromCoordinator::Ended(standing) => {
                    if let Some((store, _)) = &self.state {
                        deliver::finished(store);
                    }
                    self.reports.report(Report::Coordinator(standing));
                }
            }
        }
        // Behind every mark that belongs to the epoch before.
        if let Some(epoch) = self.machine.take_epoch()
            && let Some((store, host)) = &self.state
        {
            self.epoch = epoch;
            self.span = self.tracing.epoch_begins(epoch);
            let pieces = coordinator_pieces(self.machine.machine(), self.shards.len(), host);
            deliver::part(store, pieces.into());
            deliver::epoch_begun(&self.sources);
        }
    }

    fn end_span(&mut self) {
        if self.span.take().is_some() {
            self.tracing.epoch_ends();
        }
    }
}

impl Actor for CoordinatorActor {
    type Context = Context<Self>;
}

impl Handler<Progress> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Progress { report, since }: Progress, _: &mut Self::Context) {
        self.take_since(since, |machine| machine.progress(&report));
    }
}

impl Handler<Waiting> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, message: Waiting, _: &mut Self::Context) {
        let Waiting { partition, head, watermark } = message;
        self.take(|machine| machine.waiting(partition, head, watermark));
    }
}

impl Handler<Tick> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Tick(tick): Tick, _: &mut Self::Context) {
        self.take(|machine| machine.tick(tick.now()));
        self.meters.set_standing(self.machine.machine().standing());
    }
}

impl Handler<Cut> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Cut { partition, after }: Cut, _: &mut Self::Context) {
        self.take(|machine| machine.cut(partition, after));
    }
}

impl Handler<CycleFinished> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, message: CycleFinished, _: &mut Self::Context) {
        self.take(|machine| machine.cycle_finished(message.shard, message.number));
    }
}

impl Handler<Ended> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Ended { partition }: Ended, _: &mut Self::Context) {
        self.take(|machine| machine.ended(partition));
    }
}

impl Handler<Concluded> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Concluded { epoch }: Concluded, _: &mut Self::Context) {
        self.end_span();
        self.take(|machine| machine.concluded(epoch));
    }
}

impl Handler<GivenUp> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, _: GivenUp, _: &mut Self::Context) {
        if let Some(span) = &mut self.span {
            span.fail("given up");
        }
        self.end_span();
        self.take(CoordinatorNode::give_up);
        if let Some((store, _)) = &self.state {
            deliver::store_given_up(store);
        }
    }
}

impl Handler<Signalled> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Signalled { name }: Signalled, _: &mut Self::Context) {
        self.take(|machine| machine.signal(name));
    }
}

impl Handler<Demanded> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, _: Demanded, _: &mut Self::Context) {
        self.take(CoordinatorNode::demanded);
    }
}
