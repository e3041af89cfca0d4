//! Key actors by number and by key: where the tables keep theirs whose actors are objects of their
//! own.
//!
//! Invariant: an actor is found by its key exactly as long as it has a number. When the last one
//! goes, what a burst of keys took goes with it.

use crate::cells::hash_words;
use crate::key::is_same_key;
use hashbrown::HashTable;

/// Number of a key actor in its table. That of one which is gone goes to another.
pub(crate) type ActorId = u32;

/// Places that are kept for those to come when the last actor goes.
const PLACES_KEPT: usize = 1_024;

/// What has a packed key that does not change.
pub(crate) trait HasKey {
    /// The packed key.
    fn key(&self) -> &[u64];
}

/// All key actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct Roster<A> {
    actors: Vec<Option<A>>,
    /// Numbers to be used again.
    free: Vec<ActorId>,
    /// Each with the hash of its key: a table that grows looks at no actor.
    by_key: HashTable<(u32, ActorId)>,
    hasher: foldhash::fast::RandomState,
}

/// What the table wants of a hash: its low bits choose the place, its high bits tell tenants apart.
const fn spread(hash: u32) -> u64 {
    hash as u64 | (hash as u64) << 32
}

impl<A> Default for Roster<A> {
    fn default() -> Self {
        Self {
            actors: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
        }
    }
}

impl<A: HasKey> Roster<A> {
    /// Hash of a packed key here.
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        hash_words(&self.hasher, key)
    }

    /// The actor of a key with this hash, if there is one.
    pub(crate) fn find(&self, hash: u64, key: &[u64]) -> Option<ActorId> {
        let known = self
            .by_key
            .find(spread(hash as u32), |(known, id)| *known == hash as u32 && self.is_of(*id, key));
        known.map(|(_, id)| *id)
    }

    /// Whether the actor with this number, if there is one, has this key.
    pub(crate) fn is_of(&self, id: ActorId, key: &[u64]) -> bool {
        self.get(id).is_some_and(|actor| is_same_key(actor.key(), key))
    }

    /// Takes an actor in whose key has this hash, and no actor yet.
    pub(crate) fn insert(&mut self, hash: u64, actor: A) -> ActorId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.actors.push(None);
            (self.actors.len() - 1) as ActorId
        });
        if let Some(place) = self.actors.get_mut(id as usize) {
            *place = Some(actor);
        }
        let hash = hash as u32;
        self.by_key.insert_unique(spread(hash), (hash, id), |(known, _)| spread(*known));
        id
    }

    /// Lets an actor go.
    pub(crate) fn remove(&mut self, id: ActorId) -> Option<A> {
        let gone = self.actors.get_mut(id as usize)?.take()?;
        let hash = hash_words(&self.hasher, gone.key()) as u32;
        if let Ok(entry) = self.by_key.find_entry(spread(hash), |(_, known)| *known == id) {
            entry.remove();
        }
        self.free.push(id);
        if self.by_key.is_empty() && self.actors.len() > PLACES_KEPT {
            (self.actors, self.free, self.by_key) = (Vec::new(), Vec::new(), HashTable::new());
        }
        Some(gone)
    }
}

impl<A> Roster<A> {
    pub(crate) fn get(&self, id: ActorId) -> Option<&A> {
        self.actors.get(id as usize).and_then(Option::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: ActorId) -> Option<&mut A> {
        self.actors.get_mut(id as usize).and_then(Option::as_mut)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Bytes of what finds actors by their keys, and of places without an actor.
    pub(crate) fn index_bytes(&self) -> usize {
        let places = self.actors.capacity() - self.by_key.len();
        let free = self.free.capacity() * size_of::<ActorId>();
        self.by_key.allocation_size() + free + places * size_of::<Option<A>>()
    }

    /// All actors, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &A> {
        self.actors.iter().flatten()
    }

    /// The numbers of all actors.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ActorId> {
        let actors = (0..).zip(&self.actors).filter(|(_, actor)| actor.is_some());
        actors.map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasKey for [u64; 1] {
        fn key(&self) -> &[u64] {
            self
        }
    }

    #[test]
    fn numbers_are_used_again_and_the_room_of_a_burst_goes_with_the_last_actor() {
        let mut roster = Roster::default();
        let insert =
            |roster: &mut Roster<[u64; 1]>, key: u64| roster.insert(roster.hash(&[key]), [key]);
        let ids: Vec<_> = (0..5_000).map(|key| insert(&mut roster, key)).collect();
        let full = roster.index_bytes();
        for id in &ids[1..] {
            roster.remove(*id);
        }
        assert!(roster.index_bytes() >= full, "the places stay");
        let again = insert(&mut roster, 7);
        assert!(ids.contains(&again));
        assert_eq!(roster.find(roster.hash(&[0]), &[0]), Some(ids[0]));
        for id in [ids[0], again] {
            roster.remove(id);
        }
        assert!(roster.is_empty());
        assert_eq!((roster.index_bytes(), roster.ids().count()), (0, 0));
        assert_eq!(insert(&mut roster, 8), 0);
        assert_eq!(roster.find(roster.hash(&[8]), &[8]), Some(0));
    }
}
