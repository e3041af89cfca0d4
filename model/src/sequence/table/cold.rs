//! Keys of a sequence as they go into pages and come back: those that nothing came for, with their
//! sessions, open or closed.
//!
//! What such a key waits for, and what it holds back, is as if it were in memory. The clock of a
//! sequence counts active time; pages know it as an instant of the clock that began at zero.

use super::{Actor, ActorId, SequenceTable};
use crate::cold::{Candidate, Chills, Shelf, Wants};
use crate::sequence::sessions::Sessions;
use crate::time::{EventTime, ProcessingTime, Span};

/// Active time, as pages know it.
pub(super) const fn instant(active: Span) -> ProcessingTime {
    ProcessingTime::from_millis(active.as_millis())
}

impl SequenceTable {
    /// The actor of a key that is not in memory, if it is cold: it has come back.
    #[cold]
    pub(super) fn recall_actor(&mut self, key: &[u64]) -> Option<ActorId> {
        self.recall(key)
    }

    /// Keys that are not in memory.
    pub(super) fn cold_keys(&self) -> usize {
        self.shelf.as_ref().map_or(0, |shelf| shelf.cold.keys())
    }

    /// Whether something waits for what has come already.
    fn is_due(&self, actor: &Actor, until: EventTime) -> bool {
        actor.is_touched
            || actor.armed.is_some_and(|armed| armed <= until)
            || actor.armed_tick.is_some_and(|tick| tick <= self.active)
    }

    /// Puts an actor where those are found that wait for what it does.
    fn enlist(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get(id) else { return };
        if let Some(deadline) = actor.armed {
            self.deadlines.add(deadline, id);
        }
        if let Some(tick) = actor.armed_tick {
            self.ticks.add(tick, id);
        }
    }
}

impl Chills for SequenceTable {
    fn shelf(&mut self) -> &mut Option<Box<Shelf>> {
        &mut self.shelf
    }

    fn shelf_ref(&self) -> Option<&Shelf> {
        self.shelf.as_deref()
    }

    fn reached(&self) -> EventTime {
        self.watermark.0
    }

    fn held(&self) -> usize {
        self.bytes()
    }

    fn candidates(&self, until: EventTime) -> Vec<Candidate> {
        let candidate = |id: ActorId| {
            let actor = self.actor(id).filter(|actor| !self.is_due(actor, until))?;
            let (is_used, deadline) = (actor.is_used, actor.armed);
            Some(Candidate { entry: id, is_used, deadline })
        };
        self.ids().filter_map(candidate).collect()
    }

    fn wants(&self, entry: u32) -> Wants {
        let Some(actor) = self.actor(entry) else { return Wants::default() };
        Wants {
            deadline: actor.armed,
            tick: actor.armed_tick.map(instant),
            shares: Vec::new(),
            hold: actor.hold,
            open: u32::from(!actor.sessions.entries.is_empty()),
        }
    }

    fn let_go(&mut self, entry: u32, wants: &Wants) {
        if let Some(actor) = self.actors.get_mut(entry) {
            self.records = self.records.saturating_sub(actor.sessions.records());
            actor.sessions = Sessions::default();
        }
        self.register(entry);
        self.holds.add(wants.hold);
    }

    fn hold(&mut self, wants: &Wants, is_held: bool) {
        self.holds.set(wants.hold, is_held);
    }

    fn rearm(&mut self, entry: u32, wants: &Wants) {
        let Some(actor) = self.actors.get_mut(entry) else { return };
        actor.is_used = true;
        actor.armed = wants.deadline;
        actor.armed_tick = wants.tick.map(|tick| Span::from_millis(tick.as_millis()));
        self.enlist(entry);
    }

    fn settle(&mut self) {
        self.deadlines.clear();
        self.ticks.clear();
        for id in self.ids().collect::<Vec<_>>() {
            if let Some(actor) = self.actors.get_mut(id) {
                actor.is_used = false;
            }
            self.enlist(id);
        }
    }
}
