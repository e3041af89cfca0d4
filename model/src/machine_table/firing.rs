//! How key actors are asked: one after the other, in slices that sinks can keep up with.
//!
//! Invariant: a slice that is full ends between two actors, or between two windows of one; the next
//! goes on there.

use super::{ActorId, Inside, MachineTable};
use crate::aggregate::Overflow;
use crate::cold::Chills;
use crate::firing::{Due, Fires, Flow, Otherwise};
use crate::key_machine::{Instants, KeyMachine, MachineRules};
use crate::open_window::Outlet;
use crate::pane::{PaneBatch, PaneKind};
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::time::{ProcessingTime, Watermark};
use crate::watermark::Percentile;

impl MachineTable {
    /// Delivers second watermarks to the actors that are due by them.
    fn share(
        &mut self,
        promised: &[(Percentile, Watermark)],
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        loop {
            let rising = self.work.rising.take();
            let mut rising = rising.unwrap_or_else(|| Due::of(self.shares.rise(promised)));
            while let Some(expected) = rising.first() {
                if fired.is_full() {
                    self.work.rising = Some(rising);
                    return Ok(Flow::More);
                }
                if self.work.inside.is_some() || self.still_expects(expected) {
                    let out = (&mut *fired, symbols);
                    let flow = self.step(expected.2, self.watermark, out, KeyMachine::advance)?;
                    if flow == Flow::More {
                        self.work.rising = Some(rising);
                        return Ok(Flow::More);
                    }
                }
                rising.pass();
            }
            if !self.recall_any_shared() {
                break;
            }
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Delivers a tick to the actors that are due.
    fn tick(
        &mut self,
        now: ProcessingTime,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        self.now = self.now.max(now);
        loop {
            if let Some((due, mut ids)) = self.work.ticking.take() {
                while let Some(id) = ids.first() {
                    if fired.is_full() {
                        self.work.ticking = Some((due, ids));
                        return Ok(Flow::More);
                    }
                    if self.work.inside.is_some() || self.still_waits_for_tick(id, due) {
                        let out = (&mut *fired, symbols);
                        if self.step(id, self.watermark, out, KeyMachine::advance)? == Flow::More {
                            self.work.ticking = Some((due, ids));
                            return Ok(Flow::More);
                        }
                    }
                    ids.pass();
                }
            }
            if self.shelf.is_some() {
                let hot = self.ticks.first_key_value().map(|(tick, _)| *tick);
                self.recall_ticking(hot, self.now, self.watermark.0);
            }
            match self.ticks.first_entry() {
                Some(first) if *first.key() <= self.now => {
                    self.work.ticking = Some((*first.key(), Due::of(first.remove())));
                }
                Some(_) | None => break,
            }
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Gives a signal to every actor that waits for it.
    fn signal(
        &mut self,
        name: &str,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        // Those that wait are asked once; then it has been given.
        if self.work.asked.is_none() {
            self.recall_each();
            self.signal_to(self.ids().collect(), name);
        }
        loop {
            if self.end_round(None, fired, symbols)? == Flow::More {
                return Ok(Flow::More);
            }
            let Some(ids) = self.recall_next(self.watermark.0) else { return Ok(Flow::Done) };
            self.signal_to(ids, name);
        }
    }

    /// Tells actors of a signal; those that wait for it are asked at the end of the round.
    fn signal_to(&mut self, ids: Vec<ActorId>, name: &str) {
        for id in ids {
            let actor = self.actors.get_mut(id);
            if actor.is_some_and(|actor| actor.machine.signal(&self.rules, name)) {
                self.touch(id);
            }
        }
    }

    /// Asks actors one after the other, from where it was on.
    fn ask(
        &mut self,
        all: impl FnOnce(&mut Self) -> Vec<ActorId>,
        (fired, symbols): (&mut Fired, &Symbols),
        step: impl Fn(
            &mut KeyMachine,
            (&MachineRules, Instants<'_>),
            &mut usize,
            &mut Outlet<'_>,
        ) -> Result<Flow, Overflow>,
    ) -> Result<Flow, Overflow> {
        let mut asked = match self.work.asked.take() {
            Some(asked) => asked,
            None => Due::of(all(self)),
        };
        while let Some(id) = asked.first() {
            if fired.is_full() {
                self.work.asked = Some(asked);
                return Ok(Flow::More);
            }
            if self.step(id, self.watermark, (&mut *fired, symbols), &step)? == Flow::More {
                self.work.asked = Some(asked);
                return Ok(Flow::More);
            }
            asked.pass();
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Delivers the watermark to the actors of the bucket that is being worked on.
    fn fire_bucket(
        &mut self,
        (watermark, before): (Watermark, Watermark),
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let Some((deadline, mut due)) = self.work.bucket.take() else { return Ok(Flow::Done) };
        while let Some(id) = due.first() {
            if fired.is_full() {
                self.work.bucket = Some((deadline, due));
                return Ok(Flow::More);
            }
            if self.work.inside.is_some() || self.still_waits(id, deadline, before) {
                self.watermark = watermark;
                let out = (&mut *fired, symbols);
                if self.step(id, before, out, KeyMachine::advance)? == Flow::More {
                    self.work.bucket = Some((deadline, due));
                    return Ok(Flow::More);
                }
            }
            due.pass();
        }
        Ok(Flow::Done)
    }

    /// One step of one actor, and what it then registers; `before` is the watermark before it. If
    /// the slice is full before all of its windows have been asked, the step goes on with the next.
    fn step(
        &mut self,
        id: ActorId,
        before: Watermark,
        (fired, symbols): (&mut Fired, &Symbols),
        step: impl FnOnce(
            &mut KeyMachine,
            (&MachineRules, Instants<'_>),
            &mut usize,
            &mut Outlet<'_>,
        ) -> Result<Flow, Overflow>,
    ) -> Result<Flow, Overflow> {
        let Some(actor) = self.actors.get_mut(id) else { return Ok(Flow::Done) };
        actor.is_touched = false;
        let begun = self.work.inside.take();
        let mut inside = begun.unwrap_or_else(|| Inside { held: actor.machine.hold(), asked: 0 });
        let (held, shares) = (inside.held, self.shares.known());
        let at = Instants { watermark: self.watermark, before, held, shares, now: self.now };
        let panes = fired.panes.get_or_insert_with(|| PaneBatch::new(self.rules.stage));
        let before = panes.panes.len();
        let (deltas, changes, slice) = (&mut fired.deltas, &mut fired.changes, fired.slice);
        let mut outlet = Outlet { key: &actor.key, deltas, changes, panes, symbols, slice };
        let flow = step(&mut actor.machine, (&self.rules, at), &mut inside.asked, &mut outlet)?;
        for meta in panes.panes.iter().skip(before) {
            match meta.kind {
                PaneKind::Insert => self.account.panes += 1,
                PaneKind::Retract => self.account.retracts += 1,
            }
        }
        match flow {
            Flow::More => self.work.inside = Some(inside),
            Flow::Done => self.register(id),
        }
        Ok(flow)
    }
}

impl Fires for MachineTable {
    /// Ends what a round brought: actors that got something are asked once. Windows that `upcoming`,
    /// the watermark of the same round, completes are asked when it is delivered.
    fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let touched = |table: &mut Self| std::mem::take(&mut table.touched);
        self.ask(touched, (fired, symbols), |machine, at, asked, outlet| {
            machine.end_round(upcoming, at, asked, outlet)
        })
    }

    /// Delivers a watermark to the actors that are due.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let before = match self.work.before {
            Some(before) => before,
            None if watermark <= self.watermark => return Ok(Flow::Done),
            None => {
                // Those that wait for the end of the round have not said what they are due.
                for id in self.touched.clone() {
                    self.register(id);
                }
                for expected in self.shares.follow(watermark) {
                    if self.disarm_share(expected) {
                        self.arm_share(expected.2, expected.1);
                    }
                }
                *self.work.before.insert(self.watermark)
            }
        };
        // One instant at a time: windows fire in the order of their ends.
        loop {
            if self.fire_bucket((watermark, before), fired, symbols)? == Flow::More {
                return Ok(Flow::More);
            }
            if self.shelf.is_some() {
                let hot = self.deadlines.first_key_value().map(|(deadline, _)| *deadline);
                self.recall_due(hot, |at| at <= watermark.0, watermark.0);
            }
            match self.deadlines.first_entry() {
                Some(first) if *first.key() <= watermark.0 => {
                    self.work.bucket = Some((*first.key(), Due::of(first.remove())));
                }
                Some(_) | None => break,
            }
        }
        self.work.before = None;
        self.watermark = watermark;
        if self.actors.is_empty() {
            // Nobody is left who waits for the clock.
            self.ticks.clear();
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// The watermark has stood still for too long: every actor emits what its windows hold.
    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<Flow, Overflow> {
        let mut ids = Vec::new();
        if self.work.asked.is_none() {
            self.recall_each();
            ids = self.ids().collect();
        }
        loop {
            if self.ask(|_| ids, (&mut *fired, symbols), KeyMachine::time_out)? == Flow::More {
                return Ok(Flow::More);
            }
            let Some(next) = self.recall_next(self.watermark.0) else { return Ok(Flow::Done) };
            ids = next;
        }
    }

    fn otherwise(
        &mut self,
        what: &Otherwise,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        match what {
            Otherwise::Nothing => Ok(Flow::Done),
            Otherwise::Shares(promised) => self.share(promised, fired, symbols),
            Otherwise::Tick(tick) => self.tick(tick.now(), fired, symbols),
            Otherwise::Signal(name) => self.signal(name, fired, symbols),
        }
    }
}
