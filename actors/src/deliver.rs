//! Sends every message between actors; nobody else does. Order is argued here, and only here.
//!
//! A mailbox is one unbounded queue, and `do_send` appends to it at once, from any thread. (With a
//! bounded mailbox `do_send` overtakes senders that are parked, so a watermark could overtake
//! records; therefore the capacity is 0, which means unbounded, and `send` and `try_send` are not
//! used. Memory is bounded by [`crate::credit`].) Two messages of one sender to one receiver
//! therefore keep their order. What has to be argued is order across senders:
//!
//! - ORDER-1, a record is not overtaken by a watermark that covers it. A source appends a batch to
//!   the mailboxes of the shards before it appends, to the coordinator's, the progress that covers
//!   the batch. The coordinator appends a watermark to the shards' mailboxes after it has handled
//!   that progress. So in every mailbox the watermark lies behind the batch. The end lies behind
//!   everything for the same reason: it follows the [`Ended`] of all sources.
//! - A cycle of micro-batches is a mark like the others: it lies behind all records that belong to
//!   it, since a source says that it has read them behind the progress that covers them. The next
//!   one begins after every shard has said that it has finished, which it says behind its last
//!   delta of the cycle. So nothing of two cycles is ever on the way, and the end follows the last.
//! - A delta is not overtaken by the stage watermark of its sender: one sender, one receiver. The
//!   receiver's stage watermark is the minimum over senders, so no other sender can raise it past
//!   that delta. Rounds of closing lie behind both, see
//!   [`nilometer_model::node::closing`].
//! - A pane is not overtaken by the watermark that fired it: the shard appends panes to the sink's
//!   mailbox, then the watermark, and a sink takes the minimum over shards.
//! - The first tick is not overtaken by a record: the clock appends it to the shards' mailboxes
//!   before it appends it to the sources', which read nothing until then.
//! - Records that wait for their turn are overtaken by no watermark that covers them: what their
//!   source promises meanwhile is no more than the earliest of them.
//! - A barrier is overtaken by nothing that lies before it and overtakes nothing: from a source to a
//!   shard, from a shard to a shard and from a shard to a sink it goes the way of what it divides.
//!   Marks come another way, from the coordinator; they say which epoch had begun, and wait for it.
//!   The coordinator begins an epoch after it has broadcast every mark before it, and the next one
//!   after the store has said that the last is concluded, which it says behind everything.
//! - That an epoch is durable comes to a sink before the end does: the store tells it before it
//!   tells the coordinator, which lets the end follow.
//! - A block of an outbox comes to the store before the part that it belongs to: one sender. What
//!   the store says of blocks may come at any time: it only says "more", or answers.
//! - A source hears of it for those who keep account of readers only; nothing depends on when.
//! - Credits, later ticks, turns and drain may be overtaken by anything: they only say "more" or "stop".

use crate::checkpoint::Part;
use crate::coordinator::CoordinatorActor;
use crate::message::{
    Aligned, Asked, Barrier, Block, Closed, Concluded, Cut, CycleBegun, CycleFinished, Demanded,
    Drain, Durable, Ended, EpochBegun, Exchanged, Finished, Given, GivenUp, Granted, Handled, Late,
    Marked, Panes, Passed, Progress, Published, Records, Returned, Signalled, StageMarked, Tick,
    Turn, Waiting, Wanted, Written,
};
use crate::report::Report;
use crate::shard::ShardActor;
use crate::sink::SinkActor;
use crate::source::SourceActor;
use crate::store::StoreActor;
use actix::dev::ToEnvelope;
use actix::dev::channel::{AddressReceiver, channel};
use actix::{Actor, Addr, ArbiterHandle, Context, Handler, Message};
use nilometer_model::epoch::Epoch;
use nilometer_model::node::credit::Taker;
use nilometer_model::time::Watermark;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// An address before its actor lives, so that actors can know each other from their first message
/// on.
pub(crate) fn mailbox<A: Actor>() -> (Addr<A>, AddressReceiver<A>) {
    let (sender, receiver) = channel(0);
    (Addr::new(sender), receiver)
}

/// Starts the actor of a mailbox on `arbiter`; `make` runs there.
pub(crate) fn start<A>(
    arbiter: &ArbiterHandle,
    receiver: AddressReceiver<A>,
    make: impl FnOnce() -> A + Send + 'static,
) where
    A: Actor<Context = Context<A>>,
{
    // An arbiter that has gone takes no actor; the host then hears of no end and its reports close.
    arbiter.spawn_fn(move || {
        Context::with_receiver(receiver).run(make());
    });
}

fn append<A, M>(to: &Addr<A>, message: M)
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send,
{
    to.do_send(message);
}

/// A source hands on records.
pub(crate) fn records(to: &Addr<ShardActor>, records: Records) {
    append(to, records);
}

/// A source reports, after [`records`] of everything that the report covers.
pub(crate) fn progress(to: &Addr<CoordinatorActor>, progress: Progress) {
    append(to, progress);
}

/// A source waits for its turn to hand on what it has read.
pub(crate) fn waiting(to: &Addr<CoordinatorActor>, waiting: Waiting) {
    append(to, waiting);
}

/// The coordinator tells a source that its turn has come.
pub(crate) fn granted(to: &Addr<SourceActor>, granted: Granted) {
    append(to, granted);
}

/// A source has read what belongs to a cycle, after the [`progress`] that covers it.
pub(crate) fn cut(to: &Addr<CoordinatorActor>, cut: Cut) {
    append(to, cut);
}

/// The coordinator lets the sources read on, after it has [`marked`] the cycle.
pub(crate) fn cycle_begun(sources: &[Addr<SourceActor>], number: u64) {
    for source in sources {
        append(source, CycleBegun { number });
    }
}

/// A shard has finished a cycle, after everything that the cycle gave.
pub(crate) fn cycle_finished(to: &Addr<CoordinatorActor>, finished: CycleFinished) {
    append(to, finished);
}

/// A source ends, after its last [`progress`].
pub(crate) fn ended(to: &Addr<CoordinatorActor>, partition: u32) {
    append(to, Ended { partition });
}

/// The coordinator broadcasts a mark, after it has handled what allows it.
pub(crate) fn marked(shards: &[Addr<ShardActor>], marked: &Marked) {
    for shard in shards {
        append(shard, marked.clone());
    }
}

/// The coordinator begins an epoch, after it has [`marked`] what belongs to the one before.
pub(crate) fn epoch_begun(sources: &[Addr<SourceActor>]) {
    for source in sources {
        append(source, EpochBegun);
    }
}

/// A source is cut, after its last [`records`].
pub(crate) fn barrier(shards: &[Addr<ShardActor>], partition: u32) {
    for shard in shards {
        append(shard, Barrier { partition });
    }
}

/// A shard tells of a round of the barriers, after everything that the round covers.
pub(crate) fn aligned(shards: &[Addr<ShardActor>], aligned: Aligned) {
    for shard in shards {
        append(shard, aligned);
    }
}

/// A shard is cut, after its last [`panes`] and [`late`].
pub(crate) fn passed_barrier(sinks: &[Addr<SinkActor>], shard: usize) {
    for sink in sinks {
        append(sink, Passed::Barrier { shard });
    }
}

/// Anybody hands over a part of an epoch.
pub(crate) fn part(to: &Addr<StoreActor>, part: Part) {
    append(to, part);
}

/// A sink hands over a block of its outbox, ahead of its [`part`].
pub(crate) fn block(to: &Addr<StoreActor>, block: Block) {
    append(to, block);
}

/// The store has written a [`block`].
pub(crate) fn written(to: &Addr<SinkActor>, bytes: usize) {
    append(to, Written { bytes });
}

/// A sink wants a [`block`] back, of the epoch that is durable.
pub(crate) fn wanted(to: &Addr<StoreActor>, wanted: Wanted) {
    append(to, wanted);
}

/// The store gives a block back.
pub(crate) fn given(to: &Addr<SinkActor>, block: Vec<u8>) {
    append(to, Given { block });
}

/// A source, a sink or the host waits for the next epoch to begin.
pub(crate) fn demanded(to: &Addr<CoordinatorActor>) {
    append(to, Demanded);
}

/// The host passes on a signal from outside.
pub(crate) fn signalled(to: &Addr<CoordinatorActor>, name: Arc<str>) {
    append(to, Signalled { name });
}

/// The store has made an epoch durable.
pub(crate) fn durable((sources, sinks): (&[Addr<SourceActor>], &[Addr<SinkActor>]), epoch: Epoch) {
    for source in sources {
        append(source, Durable { epoch });
    }
    for sink in sinks {
        append(sink, Durable { epoch });
    }
}

/// A sink has published what is durable.
pub(crate) fn published(to: &Addr<StoreActor>, published: Published) {
    append(to, published);
}

/// The store has heard of all sinks that they have [`published`].
pub(crate) fn concluded(to: &Addr<CoordinatorActor>, epoch: Epoch) {
    append(to, Concluded { epoch });
}

/// The coordinator or a sink has nothing more to store.
pub(crate) fn finished(to: &Addr<StoreActor>) {
    append(to, Finished);
}

/// The host lets epochs be.
pub(crate) fn given_up(to: &Addr<CoordinatorActor>) {
    append(to, GivenUp);
}

/// The coordinator lets them be.
pub(crate) fn store_given_up(to: &Addr<StoreActor>) {
    append(to, GivenUp);
}

/// The store lets them be, whoever was the first.
pub(crate) fn sinks_given_up(sinks: &[Addr<SinkActor>]) {
    for sink in sinks {
        append(sink, GivenUp);
    }
}

/// A shard gives up deltas of an exchanged stage.
pub(crate) fn exchanged(to: &Addr<ShardActor>, deltas: Exchanged) {
    append(to, deltas);
}

/// A shard broadcasts its watermark of an exchanged stage, after [`exchanged`] of what it fired.
pub(crate) fn stage_marked(shards: &[Addr<ShardActor>], marked: StageMarked) {
    for shard in shards {
        append(shard, marked);
    }
}

/// A shard tells of a round of closing, after everything that the round covers.
pub(crate) fn closed(shards: &[Addr<ShardActor>], round: usize) {
    for shard in shards {
        append(shard, Closed { round });
    }
}

/// A shard emits panes.
pub(crate) fn panes(to: &Addr<SinkActor>, panes: Panes) {
    append(to, panes);
}

/// A shard tells of copies that came late. Nobody waits for their order with panes or marks.
pub(crate) fn late(to: &Addr<SinkActor>, late: Late) {
    append(to, late);
}

/// A shard lets a watermark pass to the sinks, after the [`panes`] that it fired.
pub(crate) fn passed(sinks: &[Addr<SinkActor>], shard: usize, watermark: Watermark) {
    for sink in sinks {
        append(sink, Passed::Watermark { shard, watermark });
    }
}

/// A shard has given the sinks all that it will give.
pub(crate) fn passed_all(sinks: &[Addr<SinkActor>], shard: usize) {
    for sink in sinks {
        append(sink, Passed::All { shard });
    }
}

/// A sink or a shard has handled output of `to`.
pub(crate) fn handled(to: &Addr<ShardActor>, by: Taker, bytes: usize) {
    append(to, Handled { by, bytes });
}

/// A shard gives credits back.
pub(crate) fn returned(to: &Addr<SourceActor>, credit: crate::credit::Credit) {
    append(to, Returned(credit));
}

/// A source gives itself the next turn, behind whatever waits in its mailbox.
pub(crate) fn turn(to: &Addr<SourceActor>) {
    append(to, Turn);
}

/// The clock ticks.
pub(crate) fn tick<A>(to: &[Addr<A>], tick: Tick)
where
    A: Actor + Handler<Tick>,
    A::Context: ToEnvelope<A, Tick>,
{
    for actor in to {
        append(actor, tick);
    }
}

/// The host asks the sources to read no more.
pub(crate) fn drain(sources: &[Addr<SourceActor>]) {
    for source in sources {
        append(source, Drain);
    }
}

/// The host asks a shard what it holds of a key.
pub(crate) fn asked(to: &Addr<ShardActor>, asked: Asked) {
    append(to, asked);
}

/// The shard answers, if somebody still waits for it.
pub(crate) fn answered<T>(reply: oneshot::Sender<T>, answer: T) {
    reply.send(answer).ok();
}

/// Where actors report to the host: what happened, and at their end what they counted.
#[derive(Debug, Clone)]
pub(crate) struct Reports(UnboundedSender<Report>);

impl Reports {
    /// A way to report, and its end.
    pub(crate) fn new() -> (Self, UnboundedReceiver<Report>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// Reports. A host that listens no more has given up the node.
    pub(crate) fn report(&self, report: Report) {
        self.0.send(report).ok();
    }
}
