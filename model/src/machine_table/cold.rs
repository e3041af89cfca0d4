//! Keys of a table of machines as they go into pages and come back.
//!
//! One that holds the output watermark back does so while it is cold: its hold stays counted.

use super::{Actor, ActorId, MachineTable};
use crate::cold::{Candidate, Chills, Shelf, Wants};
use crate::open_window::OpenWindow;
use crate::time::{EventTime, Watermark};

impl Actor {
    /// Bytes that the actor takes, roughly.
    pub(super) fn bytes(&self) -> usize {
        let windows = self.machine.windows.iter();
        let held = windows.map(|open| open.delta.bytes() + open.total.bytes() + open.kept.bytes());
        let shares = self.armed_shares.iter().flatten().count();
        let waiting = usize::from(self.armed.is_some()) + usize::from(self.armed_tick.is_some());
        self.key.len() * 8
            + size_of::<Option<Self>>()
            + self.armed_shares.len() * size_of::<Option<EventTime>>()
            + (waiting + shares) * size_of::<ActorId>()
            + held.sum::<usize>()
            + self.machine.windows.capacity() * size_of::<OpenWindow>()
    }
}

impl MachineTable {
    /// The actor of a key that is not in memory, if it is cold: it has come back.
    #[cold]
    pub(super) fn recall_actor(&mut self, key: &[u64]) -> Option<ActorId> {
        self.recall(key)
    }

    /// Counts anew what an actor takes, where that is asked for.
    pub(super) fn weigh(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(id) {
            let bytes = actor.bytes();
            self.bytes = self.bytes + bytes - std::mem::replace(&mut actor.weight, bytes);
        }
    }

    /// Whether something waits for what has come already.
    fn is_due(&self, actor: &Actor, until: EventTime) -> bool {
        let shares = self.shares.known().iter().zip(&actor.armed_shares);
        let mut shares = shares.filter_map(|((_, share), armed)| Some((share, (*armed)?)));
        actor.is_touched
            || actor.armed.is_some_and(|armed| armed <= until)
            || actor.armed_tick.is_some_and(|tick| tick <= self.now)
            || shares.any(|(share, armed)| armed <= share.0)
    }

    /// Brings back a page that is due by a second watermark; `false` if there is none.
    pub(super) fn recall_any_shared(&mut self) -> bool {
        let shares = self.shares.known().iter().map(|(_, share)| share.0);
        let mut shares = shares.collect::<Vec<_>>().into_iter().enumerate();
        let until = self.watermark.0;
        self.shelf.is_some() && shares.any(|share| self.recall_shared(share, until))
    }
}

impl Chills for MachineTable {
    fn shelf(&mut self) -> &mut Option<Box<Shelf>> {
        &mut self.shelf
    }

    fn shelf_ref(&self) -> Option<&Shelf> {
        self.shelf.as_deref()
    }

    fn reached(&self) -> EventTime {
        self.watermark.0
    }

    fn shares(&self) -> usize {
        self.shares.known().len()
    }

    fn weigh_all(&mut self) {
        self.is_weighed = true;
        for id in self.ids().collect::<Vec<_>>() {
            self.weigh(id);
        }
    }

    fn held(&self) -> usize {
        self.bytes
    }

    fn candidates(&self, until: EventTime) -> Vec<Candidate> {
        let candidate = |id: ActorId| {
            let actor = self.get(id).filter(|actor| !self.is_due(actor, until))?;
            let (is_used, deadline) = (actor.is_used, actor.armed);
            Some(Candidate { entry: id, is_used, deadline })
        };
        self.ids().filter_map(candidate).collect()
    }

    fn wants(&self, entry: u32) -> Wants {
        let Some(actor) = self.get(entry) else { return Wants::default() };
        let complete_at = |open: &OpenWindow| self.rules.complete_at(open.window);
        let windows = actor.machine.windows.iter();
        let open = windows.filter(|open| self.watermark < Watermark(complete_at(open))).count();
        Wants {
            deadline: actor.armed,
            tick: actor.armed_tick,
            shares: actor.armed_shares.clone(),
            hold: actor.hold,
            open: open as u32,
        }
    }

    fn let_go(&mut self, entry: u32, wants: &Wants) {
        if let Some(actor) = self.actors.get_mut(entry) {
            actor.machine.windows.clear();
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
        (actor.armed, actor.armed_tick) = (wants.deadline, wants.tick);
        actor.armed_shares.clone_from(&wants.shares);
        self.enlist(entry);
    }

    fn settle(&mut self) {
        self.deadlines.clear();
        self.ticks.clear();
        self.shares.clear();
        for id in self.ids().collect::<Vec<_>>() {
            if let Some(actor) = self.actors.get_mut(id) {
                actor.is_used = false;
                // What has come was seen when it came.
                let known = self.shares.known().iter().map(|(_, share)| *share);
                for (armed, known) in actor.armed_shares.iter_mut().zip(known) {
                    *armed = actor.machine.next_completion(&self.rules, known);
                }
            }
            self.enlist(id);
        }
    }
}

impl MachineTable {
    /// Puts an actor where those are found that wait for what it does.
    fn enlist(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get(id) else { return };
        if let Some(deadline) = actor.armed {
            self.deadlines.entry(deadline).or_default().push(id);
        }
        if let Some(tick) = actor.armed_tick {
            self.ticks.entry(tick).or_default().push(id);
        }
        for (number, deadline) in actor.armed_shares.iter().enumerate() {
            if let Some(deadline) = deadline {
                self.shares.register(number, *deadline, id);
            }
        }
    }
}
