//! The shell around the [`SinkOutbox`] of a sink, which decides what is held, and when it is
//! published.

use crate::checkpoint::sink_pieces;
use crate::deliver;
use crate::message::{Durable, Late, Panes, Passed, Published};
use crate::shard::ShardActor;
use crate::sink::SinkActor;
use crate::store::StoreActor;
use actix::{Addr, Context, Handler};
use nilometer_connectors::sink::Writer;
use nilometer_model::node::SinkOutbox;

/// The part of a sink that knows of epochs.
pub(crate) struct Outbox {
    machine: SinkOutbox<HeldOutput, Addr<ShardActor>>,
    pub(crate) store: Addr<StoreActor>,
}

/// A message that waits for the cut.
pub(crate) enum HeldOutput {
    Panes(Panes),
    Late(Late),
    Passed(Passed),
}

impl Outbox {
    /// For what so many shards send; parts go to `store`.
    pub(crate) fn new(store: Addr<StoreActor>, shards: usize) -> Self {
        Self { machine: SinkOutbox::new(shards), store }
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

    /// Tells `sender` that so much of its output has been handled, or notes to do so later.
    pub(crate) fn settle(&mut self, sender: Addr<ShardActor>, bytes: usize) {
        // A broken sink publishes nothing any more, and holds nobody.
        let outbox = self.outbox.as_mut().filter(|_| !self.report.has_failed);
        let Some(outbox) = outbox else { return deliver::handled(&sender, bytes) };
        outbox.machine.settle(sender, bytes);
    }

    /// The barrier of a shard has come.
    pub(crate) fn barrier(&mut self, shard: usize, ctx: &mut Context<Self>) {
        let Some(outbox) = &mut self.outbox else { return };
        if !outbox.machine.came(shard) {
            return;
        }
        // A broken sink has no part in an epoch, so none is durable any more.
        if self.report.has_failed {
            for (shard, bytes) in outbox.machine.let_go() {
                deliver::handled(&shard, bytes);
            }
        } else {
            let taken = self.writer.take();
            let (block, begins) = taken.map(|held| (held.block, held.begins)).unwrap_or_default();
            let counts = (self.report.panes, self.report.retracts, self.report.late);
            let pieces = sink_pieces(&self.report.name, begins, counts, block.clone());
            deliver::part(&outbox.store, pieces.into());
            outbox.machine.keep(block);
        }
        for message in outbox.machine.open() {
            match message {
                HeldOutput::Panes(panes) => self.handle(panes, ctx),
                HeldOutput::Late(late) => self.handle(late, ctx),
                HeldOutput::Passed(passed) => self.handle(passed, ctx),
            }
        }
    }
}

impl Handler<Durable> for SinkActor {
    type Result = ();

    fn handle(&mut self, Durable { epoch }: Durable, _: &mut Self::Context) {
        let cut = self.outbox.as_mut().and_then(|outbox| outbox.machine.durable());
        let Some((block, owed)) = cut else { return };
        let publish = |writer: &mut Writer| {
            if block.is_empty() { Ok(()) } else { writer.publish(&block) }
        };
        if self.attempt(publish)
            && let Some(outbox) = &self.outbox
        {
            let sink = self.report.name.clone();
            deliver::published(&outbox.store, Published { sink, epoch });
        }
        for (shard, bytes) in owed {
            deliver::handled(&shard, bytes);
        }
    }
}
