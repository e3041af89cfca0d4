//! When key actors of a sequence are asked: those that got something, those that the watermark has
//! reached, and those that waited for the clock.
//!
//! Invariant: an actor is asked at the time that it is armed for, however often it is registered.

use super::{SequenceTable, cold};
use crate::aggregate::Overflow;
use crate::cold::Chills;
use crate::firing::{Fires, Flow, Otherwise};
use crate::sequence::outlet::Outlet;
use crate::sequence::sessions::{Corrected, Now, Sessions};
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::time::Watermark;

impl SequenceTable {
    /// What is due by the clock.
    fn run_clock(&mut self, fired: &mut Fired, symbols: &Symbols) -> Flow {
        loop {
            if self.shelf.is_some() {
                let hot = self.ticks.first().map(cold::instant);
                self.recall_ticking(hot, cold::instant(self.active), self.watermark.0);
            }
            let active = self.active;
            let Some((due, id)) = self.ticks.take(|due| due <= active) else { break };
            let Some(actor) = self.actors.get_mut(id) else { continue };
            if actor.armed_tick != Some(due) {
                continue;
            }
            actor.armed_tick = None;
            match actor.sessions.next_tick(&self.frame.rules) {
                Some(next) if next > self.active => self.register_tick(id),
                Some(_) => self.step(id, (&mut *fired, symbols), on_tick),
                None => {}
            }
            if fired.is_full() {
                return Flow::More;
            }
        }
        Flow::Done
    }

    /// Actors that got something are asked.
    fn ask_touched(&mut self, fired: &mut Fired, symbols: &Symbols) -> Flow {
        while let Some(id) = self.touched.pop_front() {
            self.step(id, (&mut *fired, symbols), Sessions::settle);
            if fired.is_full() {
                return Flow::More;
            }
        }
        Flow::Done
    }

    /// Actors that are due by the watermark are asked; `before` is what held before it.
    fn ask_due(&mut self, before: Now, fired: &mut Fired, symbols: &Symbols) -> Flow {
        let watermark = self.watermark;
        loop {
            if self.shelf.is_some() {
                self.recall_due(self.deadlines.first(), |at| at <= watermark.0, watermark.0);
            }
            let due = self.deadlines.take(|deadline| deadline <= watermark.0);
            let Some((deadline, id)) = due else { break };
            let Some(actor) = self.actors.get_mut(id) else { continue };
            if actor.armed != Some(deadline) {
                continue;
            }
            actor.armed = None;
            match actor.sessions.next_deadline(&self.frame.rules, before) {
                Some(due) if due > watermark.0 => self.arm(id, due),
                Some(_) | None => self.step(id, (&mut *fired, symbols), Sessions::settle),
            }
            if fired.is_full() {
                return Flow::More;
            }
        }
        Flow::Done
    }
}

/// What the clock does to the sessions of a key.
fn on_tick(sessions: &mut Sessions, now: Now, outlet: &mut Outlet<'_>) -> Corrected {
    let rules = &outlet.frame.rules;
    let waits = sessions.waits_since.zip(rules.wait_max());
    if waits.is_some_and(|(since, wait)| since.saturating_add(wait) <= now.active) {
        sessions.release_all();
    }
    if sessions.idle_tick(rules).is_some_and(|due| due <= now.active) {
        sessions.time_out(now, outlet);
    }
    sessions.settle(now, outlet)
}

impl Fires for SequenceTable {
    /// Actors that got something are asked once; if the watermark rises in the same round, then.
    fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        if upcoming.is_some_and(|upcoming| upcoming > self.watermark) {
            return Ok(Flow::Done);
        }
        if self.ask_touched(fired, symbols) == Flow::More
            || self.has_cycles && self.run_clock(fired, symbols) == Flow::More
        {
            return Ok(Flow::More);
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Delivers a watermark to the actors that are due.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let before = match self.advancing {
            Some(before) => before,
            None if watermark <= self.watermark => return Ok(Flow::Done),
            // What was due is asked of what held before.
            None => *self.advancing.insert(self.instants()),
        };
        self.watermark = watermark;
        if self.ask_touched(fired, symbols) == Flow::More
            || self.ask_due(before, fired, symbols) == Flow::More
        {
            return Ok(Flow::More);
        }
        self.advancing = None;
        if self.actors.is_empty() && self.cold_keys() == 0 {
            // Nobody is left who waits for the clock.
            self.ticks.clear();
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Sessions have a clock of their own.
    fn time_out(&mut self, _: &mut Fired, _: &Symbols) -> Result<Flow, Overflow> {
        Ok(Flow::Done)
    }

    fn otherwise(
        &mut self,
        what: &Otherwise,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        match what {
            Otherwise::Nothing | Otherwise::Shares(_) | Otherwise::Signal(_) => Ok(Flow::Done),
            Otherwise::Tick(tick) => {
                // The same tick again, for the next slice, adds nothing.
                self.hear(*tick);
                // Sources that wait for room end no cycle: the clock makes some at once.
                if self.has_cycles && !self.is_full() {
                    return Ok(Flow::Done);
                }
                let flow = self.run_clock(fired, symbols);
                if flow == Flow::Done && !self.has_cycles {
                    self.settle_output();
                }
                Ok(flow)
            }
        }
    }
}
