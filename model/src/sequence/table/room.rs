//! What bounds a sequence: whether there is room for a key or a record, and how it is made.

use super::SequenceTable;
use crate::cold::Chills;
use crate::roster::ActorId;
use crate::sequence::sessions::Sessions;
use crate::sequence::spec::OverflowPolicy;
use crate::symbol::Symbols;
use crate::table::Fired;

impl SequenceTable {
    /// Whether another record, or another key, has room.
    pub(super) fn has_room(&self, is_new_key: bool) -> bool {
        let (sessions, bytes) = self.limits;
        !(is_new_key && self.actors.len() + self.cold_keys() >= sessions)
            && (bytes == usize::MAX || self.bytes() < bytes)
    }

    /// Whether sources should wait for room.
    pub(crate) fn is_full(&self) -> bool {
        let pauses = self.frame.rules.spec.bounds.policy == OverflowPolicy::PauseSource;
        // Without a clock there would never be room again.
        self.is_live && pauses && !self.has_room(true)
    }

    /// Makes room, if that is how it is to be; returns whether the record may come in.
    pub(super) fn make_room(
        &mut self,
        is_new_key: bool,
        (fired, symbols): (&mut Fired, &Symbols),
    ) -> bool {
        match self.frame.rules.spec.bounds.policy {
            OverflowPolicy::DropNewest => false,
            // What is on its way already comes in.
            OverflowPolicy::PauseSource => true,
            OverflowPolicy::Fail => {
                self.no_room = Some((self.actors.len() + self.cold_keys(), self.bytes()));
                false
            }
            OverflowPolicy::EmitEarlyOldest => {
                while !self.has_room(is_new_key) {
                    let Some(oldest) = self.oldest() else { break };
                    self.step(oldest, (&mut *fired, symbols), Sessions::evict);
                }
                true
            }
        }
    }

    /// The actor that is due first: the one without a record for the longest time, or with the
    /// oldest session.
    fn oldest(&mut self) -> Option<ActorId> {
        let now = self.instants();
        loop {
            if self.shelf.is_some() {
                self.recall_due(self.deadlines.first(), |_| true, self.watermark.0);
            }
            let Some((deadline, id)) = self.deadlines.take(|_| true) else {
                // What came late in this round has registered nothing yet.
                return self.touched.pop_front();
            };
            let Some(actor) = self.actors.get_mut(id) else { continue };
            if actor.armed != Some(deadline) {
                continue;
            }
            actor.armed = None;
            match actor.sessions.next_deadline(&self.frame.rules, now) {
                Some(due) if due > deadline => self.arm(id, due),
                Some(_) | None => return Some(id),
            }
        }
    }
}
