//! What lies in front of a shard: messages that have come and wait for their turn.
//!
//! A shard is held while it has more to fire than sinks have room for; its inbox goes on where it
//! was when that is over. Invariant: messages are taken in the order in which they came. Only
//! [`Handled`](crate::message::Handled), which ends the wait, passes by.

use crate::clock::Stopwatch;
use crate::message::{Aligned, Barrier, Closed, Exchanged, Marked, Records, StageMarked, Tick};
use crate::shard::ShardActor;
use actix::{Context, Handler};
use nilometer_model::epoch::Origin;
use std::collections::VecDeque;

/// A message that is taken in its turn.
pub(crate) enum Inward {
    Records(Records),
    Marked(Marked),
    Exchanged(Exchanged),
    StageMarked(StageMarked),
    Tick(Tick),
    Closed(Closed),
    Barrier(Barrier),
    Aligned(Aligned),
}

impl Inward {
    /// When that began which it follows from.
    pub(crate) fn since(&self) -> Stopwatch {
        match self {
            Self::Records(message) => message.since,
            Self::Marked(message) => message.since,
            Self::Exchanged(message) => message.since,
            Self::StageMarked(message) => message.since,
            Self::Tick(_) | Self::Closed(_) | Self::Barrier(_) | Self::Aligned(_) => {
                Stopwatch::start()
            }
        }
    }

    /// What it is, for spans of what it lets fire.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Records(_) => "records",
            Self::Marked(_) => "watermark",
            Self::Exchanged(_) | Self::StageMarked(_) => "exchange",
            Self::Tick(_) => "clock",
            Self::Closed(_) => "end",
            Self::Barrier(_) | Self::Aligned(_) => "barrier",
        }
    }

    /// Where it comes from, if it may have to wait for a cut.
    pub(crate) const fn origin(&self) -> Option<Origin> {
        match self {
            Self::Records(message) => Some(Origin::Source(message.partition)),
            Self::Marked(message) => Some(Origin::Mark(message.epoch)),
            Self::Exchanged(message) => Some(Origin::Shard(message.shard)),
            Self::StageMarked(message) => Some(Origin::Shard(message.mark.from)),
            Self::Tick(_) => Some(Origin::Clock),
            Self::Closed(_) | Self::Barrier(_) | Self::Aligned(_) => None,
        }
    }
}

/// Messages that wait, in order.
#[derive(Default)]
pub(crate) struct Inbox(VecDeque<Inward>);

impl Inbox {
    fn push(&mut self, message: Inward) {
        // A later tick says all that an earlier one does: so they are few, however long it waits.
        if let (Inward::Tick(_), Some(last @ Inward::Tick(_))) = (&message, self.0.back_mut()) {
            *last = message;
            return;
        }
        self.0.push_back(message);
    }

    /// Puts back what came before all that waits.
    pub(crate) fn put_back(&mut self, messages: Vec<Inward>) {
        for message in messages.into_iter().rev() {
            self.0.push_front(message);
        }
    }
}

impl ShardActor {
    /// Takes what waits, until the shard is held.
    pub(crate) fn go_on(&mut self, ctx: &Context<Self>) {
        while !self.machine.is_held() {
            let Some(message) = self.inbox.0.pop_front() else { return };
            self.take(message, ctx);
        }
    }
}

macro_rules! inward {
    ($($name:ident),*) => {
        $(impl Handler<$name> for ShardActor {
            type Result = ();

            fn handle(&mut self, message: $name, ctx: &mut Self::Context) {
                self.inbox.push(Inward::$name(message));
                self.go_on(ctx);
            }
        })*
    };
}

inward!(Records, Marked, Exchanged, StageMarked, Tick, Closed, Barrier, Aligned);
