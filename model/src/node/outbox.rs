//! The outbox of a sink: what is written in an epoch is held until the epoch is durable, then
//! published.
//!
//! A sink is cut where the barriers of all shards have come; what a shard sends behind its barrier
//! waits until then. Shards hear that their output has been handled when it is published: so what
//! is not published counts as in flight, and stops the sources when it is too much.
//!
//! Invariants: nothing is given out to be published that was not cut for an epoch before; what a
//! shard is owed, it is told once.

use crate::epoch::SinkBarriers;

/// Bytes of output by the shard that they are of.
pub type Owed<S> = Vec<(S, usize)>;

/// The outbox of a sink. `M` is a message, `S` a shard.
#[derive(Debug)]
pub struct SinkOutbox<M, S> {
    barriers: SinkBarriers,
    /// What lies behind the barrier of its shard, in the order in which it came.
    held: Vec<M>,
    /// Output since the last cut that shards have not heard to be handled.
    owed: Owed<S>,
    /// The block of the epoch that is being stored, and what shards will hear of it. `None` once it
    /// is published.
    cut: Option<(Vec<u8>, Owed<S>)>,
}

impl<M, S: PartialEq> SinkOutbox<M, S> {
    /// For what so many shards send.
    pub fn new(shards: usize) -> Self {
        let barriers = SinkBarriers::new(shards);
        Self { barriers, held: Vec::new(), owed: Vec::new(), cut: None }
    }

    /// Whether what `shard` sends waits for the cut.
    pub fn holds(&self, shard: usize) -> bool {
        self.barriers.holds(shard)
    }

    /// Holds a message that waits.
    pub fn hold(&mut self, message: M) {
        self.held.push(message);
    }

    /// Output of so many bytes has been written: `shard` hears of it when it is published.
    pub fn settle(&mut self, shard: S, bytes: usize) {
        match self.owed.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, owed)) => *owed = owed.saturating_add(bytes),
            None => self.owed.push((shard, bytes)),
        }
    }

    /// The barrier of a shard has come; `true` if the sink is cut here. [`SinkOutbox::keep`] or
    /// [`SinkOutbox::let_go`] follows then, and [`SinkOutbox::open`] behind it.
    pub fn came(&mut self, shard: usize) -> bool {
        self.barriers.came(shard)
    }

    /// Keeps what the sink has written in the epoch that is cut, until it is durable.
    pub fn keep(&mut self, block: Vec<u8>) {
        self.cut = Some((block, std::mem::take(&mut self.owed)));
    }

    /// A sink that is broken keeps nothing: what the shards hear at once.
    #[must_use]
    pub fn let_go(&mut self) -> Owed<S> {
        std::mem::take(&mut self.owed)
    }

    /// What was held goes on, in this order, and may be held again.
    #[must_use]
    pub fn open(&mut self) -> Vec<M> {
        std::mem::take(&mut self.held)
    }

    /// The epoch that was cut is durable: what is to be published, and what the shards hear behind
    /// it. `None` if nothing was kept.
    pub const fn durable(&mut self) -> Option<(Vec<u8>, Owed<S>)> {
        self.cut.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::EPOCH_2;

    #[test]
    fn what_is_written_is_published_once_its_epoch_is_durable() {
        let mut outbox: SinkOutbox<&str, char> = SinkOutbox::new(2);
        outbox.settle('a', 3);
        outbox.settle('b', 1);
        outbox.settle('a', 4);
        assert_eq!(outbox.durable(), None, "{EPOCH_2}");
        assert!(!outbox.came(0));
        assert!(outbox.holds(0) && !outbox.holds(1));
        outbox.hold("behind");
        assert!(outbox.came(1));
        outbox.keep(b"block".to_vec());
        assert_eq!(outbox.open(), ["behind"]);
        outbox.settle('b', 9);
        assert_eq!(outbox.durable(), Some((b"block".to_vec(), vec![('a', 7), ('b', 1)])));
        assert_eq!(outbox.durable(), None, "once");
        assert_eq!(outbox.let_go(), [('b', 9)]);
    }
}
