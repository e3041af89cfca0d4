//! The outbox of a sink: what is written in an epoch goes to the store in blocks as they fill, ahead
//! of the epoch, and is published from there once the epoch is durable.
//!
//! A sink is cut where the barriers of all shards have come; what a shard sends behind its barrier
//! waits until then. Shards hear that their output has been handled when it has been encoded, but
//! for two cases: while the store is behind with blocks, and while an epoch waits to be published
//! and what waits with it is more than it may be. So neither the memory of a sink nor what a sink
//! that hangs leaves in the store grows without bound. What an epoch holds that nobody hangs on is
//! not bounded, since the barrier that would end it lies behind; so the next epoch is demanded.
//!
//! Invariants: nothing is given out to be published that was not cut for an epoch before; what a
//! shard is owed, it is told once; no shard waits for what only a barrier of its own can bring.

use crate::epoch::{Bounds, Epoch, SinkBarriers};

/// Bytes of output by the shard that they are of.
pub type Owed<S> = Vec<(S, usize)>;

/// What a sink does next to publish an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publish {
    /// It publishes a block that the store gives back, of this number.
    Stored(u32),
    /// It publishes the last block.
    Last {
        /// The block. It may be empty.
        block: Vec<u8>,
        /// Whether there was none before it.
        is_all: bool,
    },
}

/// The outbox of a sink. `M` is a message, `S` a shard.
#[derive(Debug)]
pub struct SinkOutbox<M, S> {
    bounds: Bounds,
    barriers: SinkBarriers,
    /// What lies behind the barrier of its shard, in the order in which it came.
    held: Vec<M>,
    /// Output that shards have not heard to be handled.
    owed: Owed<S>,
    /// Bytes that the store has been given and has not written.
    unwritten: usize,
    /// What was given to the store of the epoch that is open. Emptied by its cut.
    open: Ahead,
    /// The epoch that is being stored, or published. `None` once it is published.
    cut: Option<Cut>,
    /// The epoch that is open. Rises only.
    epoch: Epoch,
    /// Whether the next epoch was demanded. Cleared by the cut.
    has_demanded: bool,
    /// Whether no epoch is stored any more.
    is_over: bool,
}

/// Blocks that were written ahead.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    blocks: u32,
    bytes: usize,
}

/// An epoch behind its cut.
#[derive(Debug)]
struct Cut {
    ahead: Ahead,
    /// The block behind those, which is kept beside the store. Empty while it is given out.
    last: Vec<u8>,
    /// How many blocks have been given out, the last one counted.
    given: u32,
}

impl<M, S: PartialEq> SinkOutbox<M, S> {
    /// For what so many shards send, behind epoch `last`.
    pub fn new(shards: usize, last: Epoch, bounds: Bounds) -> Self {
        Self {
            bounds,
            barriers: SinkBarriers::new(shards),
            held: Vec::new(),
            owed: Vec::new(),
            unwritten: 0,
            open: Ahead::default(),
            cut: None,
            epoch: last.next(),
            has_demanded: false,
            is_over: false,
        }
    }

    /// Whether what `shard` sends waits for the cut.
    pub fn holds(&self, shard: usize) -> bool {
        self.barriers.holds(shard)
    }

    /// Holds a message that waits.
    pub fn hold(&mut self, message: M) {
        self.held.push(message);
    }

    /// Output of so many bytes has been encoded: `shard` hears of it when it is [`due`].
    ///
    /// [`due`]: SinkOutbox::due
    pub fn settle(&mut self, shard: S, bytes: usize) {
        match self.owed.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, owed)) => *owed = owed.saturating_add(bytes),
            None => self.owed.push((shard, bytes)),
        }
    }

    /// What the shards hear now to have been handled.
    #[must_use]
    pub fn due(&mut self) -> Owed<S> {
        let is_behind = self.unwritten > self.bounds.block_bytes.saturating_mul(4);
        let waiting = self.cut.as_ref().map(|cut| {
            cut.ahead.bytes.saturating_add(cut.last.len()).saturating_add(self.open.bytes)
        });
        let is_stuck = waiting.is_some_and(|waiting| waiting > self.bounds.unpublished_bytes_max);
        let waits = !self.is_over && (is_behind || is_stuck);
        if waits { Vec::new() } else { std::mem::take(&mut self.owed) }
    }

    /// How many bytes a block has at least, unless it is the last.
    pub const fn block_bytes(&self) -> usize {
        self.bounds.block_bytes
    }

    /// A block of so many bytes goes to the store: returns its epoch, and its number in it.
    pub const fn ahead(&mut self, bytes: usize) -> (Epoch, u32) {
        let number = self.open.blocks;
        self.open.blocks = number.saturating_add(1);
        self.open.bytes = self.open.bytes.saturating_add(bytes);
        self.unwritten = self.unwritten.saturating_add(bytes);
        (self.epoch, number)
    }

    /// The store has written a block of so many bytes.
    pub const fn written(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// Whether the next epoch is to begin since this one holds as much as may wait: once.
    pub const fn demands(&mut self) -> bool {
        let is_full = self.open.bytes > self.bounds.unpublished_bytes_max;
        let is_new = is_full && !self.has_demanded && !self.is_over;
        self.has_demanded |= is_new;
        is_new
    }

    /// The barrier of a shard has come; `true` if the sink is cut here. [`SinkOutbox::keep`]
    /// follows then, unless the sink is broken, and [`SinkOutbox::open`] behind it.
    pub fn came(&mut self, shard: usize) -> bool {
        self.barriers.came(shard)
    }

    /// Cuts: the epoch holds what was written ahead, and the block `last`, which may be empty.
    /// Returns how many blocks there are before it.
    pub fn keep(&mut self, last: Vec<u8>) -> u32 {
        let ahead = std::mem::take(&mut self.open);
        self.cut = Some(Cut { ahead, last, given: 0 });
        self.epoch = self.epoch.next();
        self.has_demanded = false;
        ahead.blocks
    }

    /// No epoch is stored any more: nobody waits for it. One that was stored may still be published.
    pub const fn give_up(&mut self) {
        self.is_over = true;
    }

    /// What was held goes on, in this order, and may be held again.
    #[must_use]
    pub fn open(&mut self) -> Vec<M> {
        std::mem::take(&mut self.held)
    }

    /// The epoch that was cut is durable, and all that was given out of it has been published: what
    /// is next. `None` if nothing was kept.
    pub fn publish(&mut self) -> Option<Publish> {
        let cut = self.cut.as_mut()?;
        let (number, blocks) = (cut.given, cut.ahead.blocks);
        if number > blocks {
            return None;
        }
        cut.given = number.saturating_add(1);
        if number < blocks {
            return Some(Publish::Stored(number));
        }
        Some(Publish::Last { block: std::mem::take(&mut cut.last), is_all: blocks == 0 })
    }

    /// All blocks of the epoch have been published.
    pub fn published(&mut self) {
        self.cut = None;
    }

    /// Nothing of the epoch has come out, though blocks of it were given: all are given again, from
    /// the first. `last` is the last block, if it was among them.
    pub fn again(&mut self, last: Option<Vec<u8>>) {
        if let Some(cut) = &mut self.cut {
            cut.given = 0;
            if let Some(last) = last {
                cut.last = last;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::EPOCH_2;

    const BOUNDS: Bounds =
        Bounds { block_bytes: 10, unpublished_bytes_max: 50, epoch_bytes_max: 0 };

    fn outbox() -> SinkOutbox<&'static str, char> {
        SinkOutbox::new(2, Epoch::from_number(6), BOUNDS)
    }

    #[test]
    fn what_is_written_is_published_once_its_epoch_is_durable() {
        let mut outbox = outbox();
        assert_eq!(outbox.ahead(11), (Epoch::from_number(7), 0));
        assert_eq!(outbox.ahead(12), (Epoch::from_number(7), 1));
        assert_eq!(outbox.publish(), None, "{EPOCH_2}");
        assert!(!outbox.came(0));
        assert!(outbox.holds(0) && !outbox.holds(1));
        outbox.hold("behind");
        assert!(outbox.came(1));
        assert_eq!(outbox.keep(b"last".to_vec()), 2);
        assert_eq!(outbox.open(), ["behind"]);
        assert_eq!(outbox.ahead(13), (Epoch::from_number(8), 0));
        let last = Publish::Last { block: b"last".to_vec(), is_all: false };
        for next in [Publish::Stored(0), Publish::Stored(1), last] {
            assert_eq!(outbox.publish(), Some(next));
        }
        assert_eq!(outbox.publish(), None, "once");
        outbox.published();
        assert_eq!(outbox.publish(), None);
    }

    #[test]
    fn an_epoch_of_which_nothing_came_out_is_given_again_from_its_first_block() {
        let mut outbox = outbox();
        outbox.ahead(11);
        outbox.keep(b"last".to_vec());
        let last = || Publish::Last { block: b"last".to_vec(), is_all: false };
        assert_eq!(outbox.publish(), Some(Publish::Stored(0)));
        outbox.again(None);
        assert_eq!(outbox.publish(), Some(Publish::Stored(0)));
        assert_eq!(outbox.publish(), Some(last()));
        outbox.again(Some(b"last".to_vec()));
        assert_eq!(outbox.publish(), Some(Publish::Stored(0)));
        assert_eq!(outbox.publish(), Some(last()));
        outbox.published();
        assert_eq!(outbox.publish(), None);
    }

    #[test]
    fn shards_wait_while_the_store_is_behind() {
        let mut outbox = outbox();
        outbox.settle('a', 3);
        outbox.settle('b', 1);
        outbox.settle('a', 4);
        assert_eq!(outbox.due(), [('a', 7), ('b', 1)], "encoded");
        assert_eq!(outbox.due(), []);
        outbox.ahead(41);
        outbox.settle('b', 9);
        assert_eq!(outbox.due(), []);
        outbox.written(41);
        assert_eq!(outbox.due(), [('b', 9)]);
    }

    #[test]
    fn shards_wait_for_a_sink_that_hangs_but_never_for_their_own_barrier() {
        let mut outbox = outbox();
        let write = |outbox: &mut SinkOutbox<_, _>, bytes| {
            outbox.ahead(bytes);
            outbox.written(bytes);
            outbox.settle('a', 1);
            outbox.due().len()
        };
        assert_eq!((write(&mut outbox, 50), outbox.demands()), (1, false));
        // More than may wait, and its barrier lies behind what comes next.
        assert_eq!((write(&mut outbox, 50), outbox.demands(), outbox.demands()), (1, true, false));
        outbox.keep(Vec::new());
        assert_eq!(write(&mut outbox, 1), 0, "the epoch before has to be published first");
        outbox.publish();
        outbox.publish();
        assert_eq!(outbox.due(), []);
        assert_eq!(outbox.publish(), Some(Publish::Last { block: Vec::new(), is_all: false }));
        outbox.published();
        assert_eq!(outbox.due(), [('a', 1)]);
        assert_eq!((write(&mut outbox, 50), outbox.demands()), (1, true));
        outbox.keep(Vec::new());
        assert_eq!(write(&mut outbox, 1), 0);
        outbox.give_up();
        assert_eq!(outbox.due(), [('a', 1)]);
        assert_eq!((write(&mut outbox, 100), outbox.demands()), (1, false));
    }
}
