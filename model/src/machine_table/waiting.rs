//! What key actors wait for: the watermark, second ones, and the clock.
//!
//! Invariant: an actor has at most one registration of each kind that counts, the one it is armed
//! for, and that is never later than what it waits for. One that has moved on is registered anew when
//! the old one comes: a window that every batch prolongs has one deadline, not one for every batch.

use super::{ActorId, MachineTable};
use crate::machine_shares::Expected;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};

impl MachineTable {
    /// Whether an actor that has registered `deadline` still waits for it; one that has moved on is
    /// registered anew.
    pub(super) fn still_waits(
        &mut self,
        id: ActorId,
        deadline: EventTime,
        before: Watermark,
    ) -> bool {
        let Some(actor) = self.actors.get_mut(id) else { return false };
        if actor.armed != Some(deadline) {
            return false;
        }
        actor.armed = None;
        let next = actor.machine.next_deadline(&self.rules, before);
        if let Some(later) = next.filter(|next| *next > deadline) {
            self.arm(id, later);
            return false;
        }
        true
    }

    /// Registers an actor's deadlines and hold anew; retires it if it has no window left.
    pub(super) fn register(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(id) else { return };
        if let Some(dirty) = &mut self.dirty {
            if actor.machine.windows.is_empty() {
                dirty.remove(id, |name| name.extend_from_slice(&actor.key));
            } else {
                dirty.touch(id);
            }
        }
        let hold = actor.machine.hold();
        if hold != actor.hold {
            self.holds.remove(actor.hold);
            self.holds.add(hold);
            actor.hold = hold;
        }
        if actor.machine.windows.is_empty() {
            if let Some(gone) = self.actors.remove(id) {
                self.bytes -= gone.weight;
            }
            return;
        }
        let deadline = actor.machine.next_deadline(&self.rules, self.watermark);
        let armed = actor.armed;
        if let Some(deadline) = deadline.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            self.arm(id, deadline);
        }
        self.register_others(id);
        if self.is_weighed {
            self.weigh(id);
        }
    }

    /// Registers a deadline of an actor.
    pub(super) fn arm(&mut self, id: ActorId, deadline: EventTime) {
        if let Some(actor) = self.actors.get_mut(id) {
            actor.armed = Some(deadline);
            self.deadlines.entry(deadline).or_default().push(id);
        }
    }

    /// Registers what an actor waits for beside the watermark, second ones and the clock, where it
    /// comes before what it has registered.
    pub(super) fn register_others(&mut self, id: ActorId) {
        for number in 0..self.shares.known().len() {
            self.arm_share(id, number);
        }
        let Some(actor) = self.actors.get_mut(id) else { return };
        let tick = actor.machine.next_tick(&self.rules, self.now);
        let armed = actor.armed_tick;
        if let Some(tick) = tick.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            actor.armed_tick = Some(tick);
            self.ticks.entry(tick).or_default().push(id);
        }
    }

    /// Registers what an actor waits for by the second watermark of that number.
    pub(super) fn arm_share(&mut self, id: ActorId, number: usize) {
        let known = self.shares.known().get(number);
        let (Some((_, known)), Some(actor)) = (known, self.actors.get_mut(id)) else { return };
        let deadline = actor.machine.next_completion(&self.rules, *known);
        let Some(armed) = actor.armed_shares.get_mut(number) else { return };
        if let Some(deadline) = deadline.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            *armed = Some(deadline);
            self.shares.register(number, deadline, id);
        }
    }

    /// Takes back what an actor has registered with a second watermark; `false` if it is not what
    /// the actor is armed for.
    pub(super) fn disarm_share(&mut self, (deadline, number, id): Expected) -> bool {
        let actor = self.actors.get_mut(id);
        let armed = actor.and_then(|actor| actor.armed_shares.get_mut(number));
        let Some(armed) = armed.filter(|armed| **armed == Some(deadline)) else { return false };
        *armed = None;
        true
    }

    /// As [`still_waits`](Self::still_waits), of a deadline by a second watermark.
    pub(super) fn still_expects(&mut self, expected: Expected) -> bool {
        if !self.disarm_share(expected) {
            return false;
        }
        let (deadline, number, id) = expected;
        let known = self.shares.known().get(number).map(|(_, known)| known.0);
        let before = Watermark(deadline.saturating_sub(Span::from_millis(1)));
        let actor = self.actors.get(id);
        let next = actor.and_then(|actor| actor.machine.next_completion(&self.rules, before));
        let is_due = next.zip(known).is_some_and(|(next, known)| next <= known);
        if !is_due {
            self.arm_share(id, number);
        }
        is_due
    }

    /// As [`still_waits`](Self::still_waits), of a deadline on the clock.
    pub(super) fn still_waits_for_tick(&mut self, id: ActorId, due: ProcessingTime) -> bool {
        let Some(actor) = self.actors.get_mut(id) else { return false };
        if actor.armed_tick != Some(due) {
            return false;
        }
        actor.armed_tick = None;
        let before = due.saturating_sub(Span::from_millis(1));
        let next = actor.machine.next_tick(&self.rules, before);
        if let Some(later) = next.filter(|next| *next > self.now) {
            actor.armed_tick = Some(later);
            self.ticks.entry(later).or_default().push(id);
        }
        next.is_some_and(|next| next <= self.now)
    }

    /// The output watermark follows the input as far as holds let it, and never falls (WM-1).
    pub(super) fn settle_output(&mut self) {
        let held = self.holds.first().map_or(self.watermark, Watermark);
        self.output = self.output.max(self.watermark.min(held));
    }

    /// How many deadlines are registered, those that actors have moved on from included.
    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> usize {
        let by_watermark = self.deadlines.values().map(Vec::len).sum::<usize>();
        by_watermark + self.shares.len() + self.ticks.values().map(Vec::len).sum::<usize>()
    }
}
