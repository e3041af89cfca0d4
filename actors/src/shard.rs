//! A shard: one per core, on its own thread. A shell around [`ShardNode`], which hosts the key actors
//! of a run of key groups, for every stage: each message is one step of it, and what it gives is sent
//! at once, in order.

use crate::at;
use crate::clock::{PERIOD, Stopwatch};
use crate::coordinator::CoordinatorActor;
use crate::cutting::Cutting;
use crate::deliver::{self, Reports};
use crate::figures::{Measuring, ShardFigures};
use crate::inbox::{Inbox, Inward};
use crate::message::{
    Asked, CycleFinished, Exchanged, Handled, Late, Panes, Records, StageMarked, Tick,
};
use crate::meter::Meters;
use crate::report::{Failure, Report, ShardReport};
use crate::shard_spans::ShardSpans;
use crate::sink::SinkActor;
use crate::source::SourceActor;
use actix::{Actor, Addr, AsyncContext, Context, Handler};
use nilometer_model::node::credit::Taker;
use nilometer_model::node::{FromShard, ShardNode};
use std::sync::Arc;

/// Whom a shard sends to.
pub(crate) struct ShardLinks {
    /// All shards, this one included, by number.
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) sinks: Vec<Addr<SinkActor>>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reports: Reports,
}

/// Hosts the key actors of a run of key groups.
pub(crate) struct ShardActor {
    pub(crate) id: usize,
    pub(crate) machine: ShardNode<Addr<SourceActor>>,
    pub(crate) inbox: Inbox,
    /// `None` where nothing is stored.
    pub(crate) cutting: Option<Cutting>,
    /// When that began which it hands on what follows from.
    pub(crate) since: Stopwatch,
    pub(crate) measuring: Measuring,
    pub(crate) spans: ShardSpans,
    pub(crate) links: ShardLinks,
}

impl ShardActor {
    fn forward(&mut self, ctx: &Context<Self>) {
        for send in self.machine.take_sends() {
            self.forward_one(send, ctx);
        }
    }

    fn forward_one(&mut self, send: FromShard<Addr<SourceActor>>, ctx: &Context<Self>) {
        let Self { id, links, since, spans, .. } = self;
        let (shard, sender, since) = (*id, ctx.address(), *since);
        match send {
            FromShard::Panes { sink, panes, bytes } => {
                if let Some(sink) = links.sinks.get(sink) {
                    let origin = spans.origin(&panes);
                    deliver::panes(sink, Panes { panes, since, bytes, shard, sender, origin });
                }
            }
            FromShard::Late { sink, late, bytes } => {
                if let Some(sink) = links.sinks.get(sink) {
                    deliver::late(sink, Late { shard, late, bytes, sender });
                }
            }
            FromShard::Exchanged { to, deltas, bytes } => {
                if let Some(to) = links.shards.get(to) {
                    let batches = spans.batches();
                    let deltas = Exchanged { shard, deltas, bytes, sender, since, batches };
                    deliver::exchanged(to, deltas);
                }
            }
            FromShard::StageMarked(mark) => {
                deliver::stage_marked(&links.shards, StageMarked { mark, since });
            }
            FromShard::Passed(watermark) => deliver::passed(&links.sinks, shard, watermark),
            FromShard::PassedAll => deliver::passed_all(&links.sinks, shard),
            FromShard::CycleFinished(number) => {
                deliver::cycle_finished(&links.coordinator, CycleFinished { shard, number });
            }
            FromShard::Closed { round } => deliver::closed(&links.shards, round),
            FromShard::Returned { to, credit } => deliver::returned(&to, credit),
            FromShard::Failed(error) => {
                let place = at::at();
                let failure = Failure::Stage { shard, error, place, span: spans.context() };
                links.reports.report(Report::Failure(failure));
            }
            FromShard::Ended => self.report_end(),
        }
    }

    /// Shows what it has counted, and the sizes of its stages.
    fn publish_figures(&self, sizes: Vec<(usize, usize)>) {
        let shard = self.machine.shard();
        self.links.meters.set_shard(
            self.id,
            ShardFigures {
                records: self.machine.records_taken(),
                accounts: shard.accounts(),
                panes: self.machine.panes_sent().to_vec(),
                sizes,
                sequences: shard.sequences().collect(),
                memory: shard.memory(),
                waiting_bytes: self.machine.in_front_of_sinks(),
                passed: shard.passed(),
                pauses: self.cutting.as_ref().map(|cutting| cutting.pauses).unwrap_or_default(),
            },
        );
    }

    fn report_end(&self) {
        let shard = self.machine.shard();
        self.publish_figures(sizes(&self.machine, &self.links.meters));
        self.links.reports.report(Report::Shard(ShardReport {
            records: self.machine.records_taken(),
            accounts: shard.accounts(),
            incomplete_windows: shard.incomplete_windows(),
            is_empty: shard.is_empty(),
            pause_max: self.cutting.as_ref().map(|cutting| cutting.pause_max),
            memory: shard.memory(),
            sequences: shard.sequences().collect(),
        }));
    }

    /// Takes a message from its inbox.
    pub(crate) fn take(&mut self, message: Inward, ctx: &Context<Self>) {
        let Some(message) = self.admit(message) else { return };
        self.since = message.since();
        self.spans.begin(message.name());
        match message {
            Inward::Records(Records { partition, batch, credit, source, since: _, context }) => {
                self.spans.takes(context.as_ref(), partition, &batch);
                at::during((partition, &batch), || {
                    self.machine.records(&batch, credit, source);
                    self.forward(ctx);
                });
            }
            Inward::Marked(message) => self.machine.marked(message.mark),
            Inward::Exchanged(message) => {
                self.spans.brought(message.batches);
                self.machine.exchanged(&message.deltas);
                self.forward(ctx);
                deliver::handled(&message.sender, Taker::Shard, message.bytes);
            }
            Inward::StageMarked(message) => self.machine.stage_marked(&message.mark),
            Inward::Tick(Tick(tick)) => {
                self.machine.tick(tick);
                let Self { machine, links, measuring, .. } = self;
                let sizes = measuring.at_tick(PERIOD, || sizes(machine, &links.meters));
                self.publish_figures(sizes);
            }
            Inward::Closed(message) => self.machine.closed(message.round),
            Inward::Barrier(message) => self.barrier(message.partition),
            Inward::Aligned(message) => self.aligned(message),
        }
        self.forward(ctx);
        self.spans.end();
    }
}

/// The sizes of its stages, which take a walk over all keys; none where nobody would see them.
fn sizes<T>(machine: &ShardNode<T>, meters: &Meters) -> Vec<(usize, usize)> {
    if meters.is_watched() { machine.shard().sizes() } else { Vec::new() }
}

impl Actor for ShardActor {
    type Context = Context<Self>;
}

impl Handler<Asked> for ShardActor {
    type Result = ();

    fn handle(&mut self, message: Asked, _: &mut Self::Context) {
        let look = self.machine.look(message.stage, &message.key);
        deliver::answered(message.reply, look);
    }
}

impl Handler<Handled> for ShardActor {
    type Result = ();

    fn handle(&mut self, message: Handled, ctx: &mut Self::Context) {
        self.spans.begin("room");
        self.machine.handled(message.by, message.bytes);
        self.forward(ctx);
        self.spans.end();
        self.go_on(ctx);
    }
}
