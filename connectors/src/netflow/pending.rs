//! Data sets that wait for their template.
//!
//! Bounded in bytes over all exporters: the set that has waited longest makes room. A set that
//! leaves without having been read is counted by whoever put it in.

use super::message::Message;
use nilometer_model::flow::FlowVersion;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

/// A data set whose template has not come yet.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The message that it came in.
    pub(super) message: Message,
    /// Its number.
    pub(super) id: u16,
    /// Its content.
    pub(super) body: Box<[u8]>,
}

/// What a set waits for: exporter, version, domain and number of the template.
type Key = (IpAddr, FlowVersion, u32, u16);

fn key(message: &Message, id: u16) -> Key {
    (message.exporter, message.version, message.domain, id)
}

impl Waiting {
    /// What a set costs beside its content, in bytes, its places in the tables included.
    const OVERHEAD: usize = 2 * size_of::<Self>() + size_of::<Key>();

    fn bytes(&self) -> usize {
        self.body.len() + Self::OVERHEAD
    }
}

/// All sets that wait.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    /// By the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
    /// The places in `waiting` of what waits for one template, in their order; never empty.
    by_key: HashMap<Key, VecDeque<u64>>,
    /// Sets that ever waited.
    came: u64,
    bytes: usize,
    bytes_max: usize,
}

impl Pending {
    /// Room for `bytes_max` bytes of sets; none wait if it is zero.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (waiting, by_key) = (BTreeMap::new(), HashMap::new());
        Self { waiting, by_key, came: 0, bytes: 0, bytes_max }
    }

    /// Goes on with the sets that waited in `image`.
    pub(super) fn resume(&mut self, image: Self) {
        *self = Self { bytes_max: self.bytes_max, ..image };
    }

    /// Lets a set wait; returns how many sets did not find or keep a place.
    pub(super) fn put(&mut self, message: Message, id: u16, body: &[u8]) -> u64 {
        if body.len() + Waiting::OVERHEAD > self.bytes_max {
            return 1;
        }
        let set = Waiting { message, id, body: body.into() };
        self.bytes += set.bytes();
        self.by_key.entry(key(&message, id)).or_default().push_back(self.came);
        self.waiting.insert(self.came, set);
        self.came += 1;
        let mut lost = 0;
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.waiting.pop_first()
        {
            self.bytes -= oldest.bytes();
            let key = key(&oldest.message, oldest.id);
            if let Some(places) = self.by_key.get_mut(&key) {
                // The oldest of all is the oldest of its own.
                places.pop_front();
                if places.is_empty() {
                    self.by_key.remove(&key);
                }
            }
            lost += 1;
        }
        lost
    }

    /// Takes out the sets that waited for template `id` of the domain of `message`.
    pub(super) fn take(&mut self, message: &Message, id: u16) -> Vec<Waiting> {
        let places = self.by_key.remove(&key(message, id)).unwrap_or_default();
        let taken: Vec<_> = places.iter().filter_map(|place| self.waiting.remove(place)).collect();
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

    fn is_empty(pending: &Pending) -> bool {
        pending.waiting.is_empty() && pending.by_key.is_empty() && pending.bytes == 0
    }

    #[test]
    fn sets_wait_for_their_own_template() {
        let mut pending = Pending::new(10_000);
        for (domain, id, byte) in [(1, 256, 1), (2, 256, 2), (1, 257, 3), (1, 256, 4)] {
            assert_eq!(pending.put(message(domain), id, &[byte]), 0);
        }
        let mut take = |domain, id| {
            let taken = pending.take(&message(domain), id);
            taken.iter().map(|set| set.body[0]).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 256), [1, 4]);
        assert_eq!(take(1, 256), [0; 0]);
        assert_eq!((take(2, 256), take(1, 257)), (vec![2], vec![3]));
        assert!(is_empty(&pending));
    }

    #[test]
    fn the_oldest_makes_room() {
        let set = Waiting::OVERHEAD + 10;
        let mut pending = Pending::new(2 * set);
        let lost: Vec<_> =
            (0..4).map(|number| pending.put(message(1), 256 + number % 2, &[0; 10])).collect();
        assert_eq!((lost, pending.len()), (vec![0, 0, 1, 1], 2));
        assert_eq!(pending.put(message(1), 256, &vec![0; 2 * set]), 1);
        assert_eq!(pending.take(&message(1), 256).len(), 1);
        assert_eq!(pending.take(&message(1), 257).len(), 1);
        assert!(is_empty(&pending));
        assert_eq!(Pending::new(0).put(message(1), 256, &[]), 1);
    }
}
