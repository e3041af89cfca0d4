//! How a shard runs a round, stage by stage and slice by slice.
//!
//! What the round brings from outside is taken first. Then each stage, in order, takes what the stage
//! below has fired and fires itself. When its slice is full, the stages above take what is in it, the
//! rest goes out, and the round waits until somebody lets it go on. They do not fire before they hear
//! of the watermark, which is when the stage below is done; so slices change no result. Invariant:
//! nothing else happens to the shard before the round has come to its end.

use crate::aggregate::Overflow;
use crate::firing::{Fires, Firing, Flow, Otherwise, Part};
use crate::plan::{Plan, Stage, StageInput};
use crate::round::{Feed, Passing, Start, Step, trailing};
use crate::shard::{ExchangeDeltas, ExchangeMark, Machine, Output, Shard, StageError};
use crate::time::Watermark;
use std::sync::Arc;

impl Shard {
    /// The same shard, which fires at most `panes` panes (or deltas to stages above, or rows of
    /// changes) of a stage at a time; but one window, list or session may exceed it.
    #[must_use]
    pub fn in_slices(mut self, panes: usize) -> Self {
        for fired in &mut self.fired {
            fired.slice = panes.max(1);
        }
        self
    }

    /// Whether there is more to fire: before anything else happens, [`Shard::go_on`] has to be
    /// called until this is over.
    pub const fn is_firing(&self) -> bool {
        self.round.is_open
    }

    /// Begins a round, and runs its first slice.
    pub(crate) fn run(&mut self, start: Start<'_>, out: &mut Output) -> Result<(), StageError> {
        debug_assert!(!self.round.is_open, "a round begins before the last has ended");
        let plan = Arc::clone(&self.plan);
        if self.memory.is_some() {
            self.grow();
        }
        self.round.begin(&start, plan.stages.len());
        for stage in plan.stages.iter().filter(|stage| start.brings_to(stage)) {
            let given = self.give(stage, Some(&start));
            given.map_err(|overflow| self.failed(stage, overflow))?;
        }
        self.go_on(out)
    }

    /// Runs the next slice of a round that has not come to its end.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn go_on(&mut self, out: &mut Output) -> Result<(), StageError> {
        let plan = Arc::clone(&self.plan);
        while let Some(stage) = plan.stages.get(self.round.at).filter(|_| self.round.is_open) {
            let step = self.step(stage, out);
            if step.map_err(|overflow| self.failed(stage, overflow))? == Flow::More {
                let spilled = self.spill(&plan, stage, out);
                return spilled.map_err(|overflow| self.failed(stage, overflow));
            }
        }
        self.round.is_open = false;
        for fired in &mut self.fired {
            fired.deltas.clear();
            fired.changes.clear();
        }
        self.hand_out(out);
        self.check_room()?;
        if self.memory.is_some() {
            self.shrink();
            self.check_stages()?;
        }
        Ok(())
    }

    /// Nothing more is fired.
    fn failed(&mut self, stage: &Stage, overflow: Overflow) -> StageError {
        self.round.is_open = false;
        StageError::Overflow { stage: stage.name.clone(), overflow }
    }

    /// The stage whose turn it is fires, until it is done or its slice is full.
    fn step(&mut self, stage: &Stage, out: &mut Output) -> Result<Flow, Overflow> {
        let mut step = match self.round.step {
            Some(step) => step,
            None => self.begin_step(stage, out)?,
        };
        while let Some(part) = step.firing.parts().get(step.parts) {
            if self.fire(stage, *part, step)? == Flow::More {
                self.round.step = Some(step);
                return Ok(Flow::More);
            }
            step.parts += 1;
        }
        let output = self.output(stage);
        let watermark = (output > step.output).then_some(output);
        self.round.pass(Passing { watermark, ..step.passing });
        Ok(Flow::Done)
    }

    /// A stage takes the last of what the stage below has fired, and hears what the round is to it.
    fn begin_step(&mut self, stage: &Stage, out: &mut Output) -> Result<Step, Overflow> {
        let inherited = self.round.inherited(stage);
        let passing = if self.is_exchanged(stage) {
            self.send_on(stage, out);
            self.mark_sent(stage, inherited, out);
            self.round.for_exchanged(stage.id)
        } else {
            self.give(stage, None)?;
            inherited
        };
        let firing = match (self.has_cycles(), passing.ends_cycle) {
            (false, false) => Firing::AtOnce,
            (false, true) => Firing::TimedOut,
            (true, true) => Firing::InCycle,
            (true, false) => Firing::Held,
        };
        Ok(Step { firing, passing, output: self.output(stage), parts: 0 })
    }

    /// The stages above take the slice of `stage`, which is full; the rest of it goes out.
    fn spill(&mut self, plan: &Plan, stage: &Stage, out: &mut Output) -> Result<(), Overflow> {
        let above = plan.stages.iter().filter(|above| above.input.parent() == Some(stage.id));
        for above in above {
            if self.is_exchanged(above) {
                self.send_on(above, out);
            } else {
                self.give(above, None)?;
                if self.memory.is_some() {
                    self.tidy(above.id);
                }
            }
        }
        if let Some(fired) = self.fired.get_mut(stage.id.index()) {
            fired.deltas.clear();
            fired.changes.clear();
        }
        self.hand_out(out);
        Ok(())
    }

    fn hand_out(&mut self, out: &mut Output) {
        for fired in &mut self.fired {
            out.panes.extend(fired.panes.take().filter(|panes| !panes.panes.is_empty()));
            out.dropped.append(&mut fired.aside.dropped);
            out.late.extend(fired.aside.late.take());
        }
    }

    fn is_exchanged(&self, stage: &Stage) -> bool {
        self.exchanges.get(stage.id.index()).is_some_and(Option::is_some)
    }

    fn output(&self, stage: &Stage) -> Watermark {
        self.machines.get(stage.id.index()).map_or(Watermark::MIN, Machine::output)
    }

    /// A stage takes what `start` brings to it; without one, what the stage below has fired.
    fn give(&mut self, stage: &Stage, start: Option<&Start<'_>>) -> Result<(), Overflow> {
        let index = stage.id.index();
        let Self { plan, symbols, machines, readers, fired, .. } = self;
        // Parents come first: what a stage reads lies before what it writes.
        let (below, own) = fired.split_at_mut(index);
        let (Some(machine), Some(own)) = (machines.get_mut(index), own.first_mut()) else {
            return Ok(());
        };
        let feed = match start {
            Some(start) => Feed::outer(stage, start, symbols),
            None => Feed::inner(stage, (plan, below), symbols),
        };
        let aside = &mut own.aside;
        match machine {
            Machine::Keys(table, shape) => feed.give(&mut **table, shape, aside),
            Machine::Sliding(table, shape) => feed.give_sliced(table, shape, aside),
            Machine::Machines(table, shape) => {
                feed.give(&mut **table, shape, aside)?;
                match readers.get_mut(index) {
                    Some(Some(reader)) => feed.give_rows(table, reader, aside),
                    Some(None) | None => Ok(()),
                }
            }
            Machine::TopK(table) => feed.give_list(table, aside),
            Machine::Sequence(table) => {
                if let Some(batch) = feed.records() {
                    table.take(batch, symbols, own);
                }
                Ok(())
            }
        }
    }

    /// A stage fires one part of what is to fire.
    fn fire(&mut self, stage: &Stage, part: Part, step: Step) -> Result<Flow, Overflow> {
        let index = stage.id.index();
        let Self { symbols, machines, fired, round, .. } = self;
        let (Some(machine), Some(own)) = (machines.get_mut(index), fired.get_mut(index)) else {
            return Ok(Flow::Done);
        };
        let otherwise = match &round.otherwise {
            // Under micro-batches nothing fires before its cycle ends.
            Otherwise::Signal(_) if step.firing != Firing::AtOnce => &Otherwise::Nothing,
            otherwise => otherwise,
        };
        let what = (step.passing.watermark, otherwise);
        match machine {
            Machine::Keys(table, _) => table.fire(part, what, own, symbols),
            Machine::Sliding(table, _) => table.fire(part, what, own, symbols),
            Machine::Machines(table, _) => table.fire(part, what, own, symbols),
            Machine::TopK(table) => table.fire(part, what, own, symbols),
            Machine::Sequence(table) => table.fire(part, what, own, symbols),
        }
    }

    /// The sending end of an exchanged stage: what its parent has fired, regrouped and placed.
    fn send_on(&mut self, stage: &Stage, out: &mut Output) {
        let Self { plan, symbols, exchanges, readers, fired, machines, .. } = self;
        let index = stage.id.index();
        let (below, own) = fired.split_at_mut(index);
        let (Some(parent), Some(own), Some(Some(ends))) = (
            stage.input.parent().and_then(|parent| plan.stages.get(parent.index())),
            own.first_mut(),
            exchanges.get_mut(index),
        ) else {
            return;
        };
        let Some(fired) = below.get(parent.id.index()) else { return };
        match &stage.input {
            StageInput::Panes(input) if !fired.deltas.is_empty() => {
                out.exchanges.extend(ends.place(&fired.deltas, (parent, stage, input), symbols));
            }
            StageInput::Changes(_) if !fired.changes.is_empty() => {
                if let (Some(Some(reader)), Some(machine)) =
                    (readers.get_mut(index), machines.get_mut(index))
                {
                    let aside = (machine.account_mut(), &mut own.aside);
                    let told = (&fired.changes, parent);
                    let parts = ends.place_rows(reader, told, aside, symbols).into_iter();
                    let sent = |(to, brought)| (to, ExchangeDeltas { stage: stage.id, brought });
                    out.exchanges.extend(parts.map(sent));
                }
            }
            StageInput::Panes(_) | StageInput::Changes(_) | StageInput::Records(_) => {}
        }
    }

    /// Behind all that was placed: the mark of the sending end. A cycle ends for the receiver,
    /// whether the watermark has risen in it or not.
    fn mark_sent(&mut self, stage: &Stage, passing: Passing, out: &mut Output) {
        if passing.watermark.is_none() && !passing.ends_cycle {
            return;
        }
        let parent = stage.input.parent().and_then(|parent| self.machines.get(parent.index()));
        let Some(output) = parent.map(Machine::output) else { return };
        let watermark = if stage.trails() { trailing(output) } else { output };
        if let Some(Some(ends)) = self.exchanges.get_mut(stage.id.index()) {
            ends.sent = watermark.max(ends.sent);
            let (from, cycle) = (self.id, self.cycle);
            out.marks.push(ExchangeMark { stage: stage.id, from, watermark, cycle });
        }
    }
}
