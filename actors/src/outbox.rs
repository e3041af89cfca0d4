//! The shell around the [`SinkOutbox`] of a sink, which decides what is held, what shards wait for,
//! and what is published.

use crate::checkpoint::{outbox_name, sink_pieces};
use crate::clock;
use crate::coordinator::CoordinatorActor;
use crate::deliver;
use crate::figures::Outgoing;
use crate::message::{Block, Durable, Given, GivenUp, Late, Panes, Passed, Published};
use crate::message::{Wanted, Written};
use crate::shard::ShardActor;
use crate::sink::SinkActor;
use crate::store::StoreActor;
use crate::trace::{OpenSpan, Work};
use actix::{Addr, AsyncContext, Context, Handler};
use nilometer_connectors::sink::Receipt;
use nilometer_model::epoch::{Bounds, Epoch};
use nilometer_model::node::credit::Taker;
use nilometer_model::node::{Owed, Publish, SinkOutbox};

/// The part of a sink that knows of epochs.
pub(crate) struct Outbox {
    machine: SinkOutbox<HeldOutput, Addr<ShardActor>>,
    /// The epoch that is being published. Rises only.
    durable: Epoch,
    /// Panes of the epoch that is cut and not published yet.
    outgoing: Outgoing,
    /// The span of that, while it is under way and traced.
    span: Option<OpenSpan>,
    pub(crate) store: Addr<StoreActor>,
    coordinator: Addr<CoordinatorActor>,
}

/// A message that waits for the cut.
pub(crate) enum HeldOutput {
    Panes(Panes),
    Late(Late),
    Passed(Passed),
}

impl Outbox {
    /// For what so many shards send, behind epoch `last`; parts go to `store`.
    pub(crate) fn new(
        (store, coordinator): (Addr<StoreActor>, Addr<CoordinatorActor>),
        (shards, last): (usize, Epoch),
        bounds: Bounds,
    ) -> Self {
        let machine = SinkOutbox::new(shards, last, bounds);
        let outgoing = Outgoing::default();
        Self { machine, durable: last, outgoing, span: None, store, coordinator }
    }
}

fn tell(owed: Owed<Addr<ShardActor>>) {
    for (shard, bytes) in owed {
        deliver::handled(&shard, Taker::Sink, bytes);
    }
}

impl SinkActor {
    /// Whether what `shard` sends waits for the cut.
    pub(crate) fn holds(&self, shard: usize) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| outbox.machine.holds(shard))
    }

    pub(crate) fn hold(&mut self, message: HeldOutput) {
        if let Some(outbox) = &mut self.outbox {
            outbox.machine.hold(message);
        }
    }

    /// Output of `sender` has been written: a block of it may go ahead to the store, and `sender`
    /// hears of it, now or later.
    pub(crate) fn settle(
        &mut self,
        (sender, bytes): (Addr<ShardActor>, usize),
        ctx: &Context<Self>,
    ) {
        let Some(outbox) = &mut self.outbox else {
            return deliver::handled(&sender, Taker::Sink, bytes);
        };
        outbox.machine.settle(sender, bytes);
        let held = self.writer.take(outbox.machine.block_bytes());
        // A broken sink has no part in an epoch.
        if let Some(held) = held.filter(|_| !self.report.has_failed) {
            let (epoch, number) = outbox.machine.ahead(held.block.len());
            let piece = (outbox_name(&self.report.name, number).into(), held.block);
            deliver::block(&outbox.store, Block { epoch, piece, sink: ctx.address() });
        }
        if outbox.machine.demands() {
            deliver::demanded(&outbox.coordinator);
        }
        tell(outbox.machine.due());
    }

    /// Nothing is published any more.
    pub(crate) fn give_up(&mut self) {
        if let Some(outbox) = &mut self.outbox {
            outbox.machine.give_up();
            outbox.span = None;
            tell(outbox.machine.due());
        }
    }

    /// The barrier of a shard has come.
    pub(crate) fn barrier(&mut self, shard: usize, ctx: &mut Context<Self>) {
        let Some(outbox) = &mut self.outbox else { return };
        if !outbox.machine.came(shard) {
            return;
        }
        // A broken sink has no part in an epoch, so none is durable any more.
        if !self.report.has_failed {
            let taken = self.writer.take(0);
            let (last, begins) = taken.map(|held| (held.block, held.begins)).unwrap_or_default();
            let counts = (self.report.panes, self.report.retracts, self.report.late);
            let ahead = outbox.machine.keep(last.clone());
            let pieces = sink_pieces(&self.report.name, (begins, counts), (ahead, last));
            deliver::part(&outbox.store, pieces.into());
        }
        // One epoch is in flight at a time: what was cut before has been published.
        outbox.outgoing = std::mem::take(&mut self.outgoing);
        for message in outbox.machine.open() {
            match message {
                HeldOutput::Panes(panes) => self.handle(panes, ctx),
                HeldOutput::Late(late) => self.handle(late, ctx),
                HeldOutput::Passed(passed) => self.handle(passed, ctx),
            }
        }
    }

    /// Publishes what is next of the epoch that is durable.
    fn publish(&mut self, ctx: &Context<Self>) {
        while let Some(outbox) = &mut self.outbox {
            match outbox.machine.publish() {
                None => return,
                Some(Publish::Stored(number)) => {
                    let (name, sink) = (self.report.name.clone(), ctx.address());
                    return deliver::wanted(&outbox.store, Wanted { name, number, sink });
                }
                Some(Publish::Last { block, is_all }) => {
                    if !self.publish_last(block, is_all) {
                        return;
                    }
                }
            }
        }
    }

    /// Publishes the last block of an epoch; returns whether all are to be published again.
    fn publish_last(&mut self, block: Vec<u8>, is_all: bool) -> bool {
        let has_nothing = is_all && block.is_empty();
        let receipt = if has_nothing { Some(Receipt::Taken) } else { self.give(&block, true) };
        let Some(outbox) = &mut self.outbox else { return false };
        match receipt {
            Some(Receipt::Again) => {
                outbox.machine.again(Some(block));
                return true;
            }
            Some(Receipt::Taken) => {
                outbox.machine.published();
                outbox.outgoing.out(clock::now(), &mut self.figures);
                outbox.span = None;
                let (sink, epoch) = (self.report.name.clone(), outbox.durable);
                deliver::published(&outbox.store, Published { sink, epoch });
            }
            None => {}
        }
        tell(outbox.machine.due());
        false
    }

    /// Gives the writer a block to publish; `None` if it is broken.
    fn give(&mut self, block: &[u8], is_last: bool) -> Option<Receipt> {
        let mut receipt = None;
        self.attempt(|writer| {
            receipt = Some(writer.publish(block, is_last)?);
            Ok(())
        });
        receipt
    }
}

impl Handler<Written> for SinkActor {
    type Result = ();

    fn handle(&mut self, Written { bytes }: Written, _: &mut Self::Context) {
        if let Some(outbox) = &mut self.outbox {
            outbox.machine.written(bytes);
            tell(outbox.machine.due());
        }
    }
}

impl Handler<Durable> for SinkActor {
    type Result = ();

    fn handle(&mut self, Durable { epoch }: Durable, ctx: &mut Self::Context) {
        if let Some(outbox) = &mut self.outbox {
            outbox.durable = epoch;
            outbox.span = self.tracing.open_in_epoch(Work::EpochPublish, self.tracing.now());
            if let Some(span) = &mut outbox.span {
                span.set("nilometer.sink", self.report.name.to_string());
            }
        }
        self.publish(ctx);
    }
}

impl Handler<Given> for SinkActor {
    type Result = ();

    fn handle(&mut self, Given { block }: Given, ctx: &mut Self::Context) {
        match self.give(&block, false) {
            Some(Receipt::Taken) => self.publish(ctx),
            Some(Receipt::Again) => {
                if let Some(outbox) = &mut self.outbox {
                    outbox.machine.again(None);
                }
                self.publish(ctx);
            }
            None => {}
        }
    }
}

impl Handler<GivenUp> for SinkActor {
    type Result = ();

    fn handle(&mut self, _: GivenUp, _: &mut Self::Context) {
        self.give_up();
    }
}
