//! Data sets that wait for their template.
//!
//! Bounded in bytes over all exporters: the set that has waited longest makes room. A set that
//! leaves without having been read is counted by whoever put it in.

use super::message::Message;
use std::collections::VecDeque;

/// A data set whose template has not come yet.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The message that it came in.
    pub(super) message: Message,
    /// Its number.
    pub(super) id: u16,
    /// Its content.
    pub(super) body: Box<[u8]>,
}

impl Waiting {
    /// What a set costs beside its content, in bytes.
    const OVERHEAD: usize = size_of::<Self>();

    fn bytes(&self) -> usize {
        self.body.len() + Self::OVERHEAD
    }

    fn is_of(&self, message: &Message, id: u16) -> bool {
        let mine = &self.message;
        self.id == id
            && (mine.exporter, mine.version, mine.domain)
                == (message.exporter, message.version, message.domain)
    }
}

/// All sets that wait, in the order in which they came.
#[derive(Debug)]
pub(super) struct Pending {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    bytes_max: usize,
}

impl Pending {
    /// Room for `bytes_max` bytes of sets; none wait if it is zero.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Lets a set wait; returns how many sets did not find or keep a place.
    pub(super) fn put(&mut self, message: Message, id: u16, body: &[u8]) -> u64 {
        if body.len() + Waiting::OVERHEAD > self.bytes_max {
            return 1;
        }
        let set = Waiting { message, id, body: body.into() };
        self.bytes += set.bytes();
        self.waiting.push_back(set);
        let mut lost = 0;
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.bytes -= oldest.bytes();
            lost += 1;
        }
        lost
    }

    /// Takes out the sets that waited for template `id` of the domain of `message`.
    pub(super) fn take(&mut self, message: &Message, id: u16) -> Vec<Waiting> {
        let mut taken = Vec::new();
        if self.waiting.iter().any(|set| set.is_of(message, id)) {
            let (mine, rest) =
                self.waiting.drain(..).partition::<Vec<_>, _>(|set| set.is_of(message, id));
            self.waiting = rest.into();
            taken = mine;
        }
        self.bytes -= taken.iter().map(Waiting::bytes).sum::<usize>();
        taken
    }

    /// How many sets wait.
    pub(super) fn len(&self) -> u64 {
        self.waiting.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_model::flow::FlowVersion;

    fn message(domain: u32) -> Message {
        Message {
            exporter: "192.0.2.1".parse().unwrap(),
            version: FlowVersion::V9,
            domain,
            header_ms: 0,
            uptime: None,
            arrival_ms: None,
            sequence: 0,
        }
    }

    #[test]
    fn sets_wait_for_their_own_template() {
        let mut pending = Pending::new(10_000);
        for (domain, id, byte) in [(1, 256, 1), (2, 256, 2), (1, 257, 3), (1, 256, 4)] {
            assert_eq!(pending.put(message(domain), id, &[byte]), 0);
        }
        let taken: Vec<_> = pending.take(&message(1), 256).iter().map(|set| set.body[0]).collect();
        assert_eq!(taken, [1, 4]);
        assert!(pending.take(&message(1), 256).is_empty());
        assert_eq!(pending.len(), 2);
    }

    #[test]
    fn the_oldest_makes_room() {
        let set = Waiting::OVERHEAD + 10;
        let mut pending = Pending::new(2 * set);
        let lost: Vec<_> = (0..4).map(|_| pending.put(message(1), 256, &[0; 10])).collect();
        assert_eq!(lost, [0, 0, 1, 1]);
        assert_eq!(pending.put(message(1), 256, &vec![0; 2 * set]), 1);
        assert_eq!(pending.take(&message(1), 256).len(), 2);
        assert_eq!(Pending::new(0).put(message(1), 256, &[]), 1);
    }
}
