//! The machine of a session: its records, in order, make a verdict. Pure, and run anew over the
//! records that are kept whenever one has come between them: so a correction is what the records in
//! their order give, and nothing else.
//!
//! The records of a chain form attempt groups. In a group each step goes from open to succeeded or
//! failed; what comes again after a failure is another attempt. Going back to an earlier step
//! begins a new group: the chain anew, or, once it was complete, a roam, which takes nothing back.

use super::entry::{Class, Entry};
use super::rules::Rules;
use super::spec::{Begins, CARRIED_MAX, Regress, Which};
use super::verdict::{Cause, Closing, Outcome, Standing, StepVerdict, Verdict};
use crate::time::EventTime;

/// Judges the records of a session, which are given in order; `closing` if it is closed. `None` if
/// there is no record.
pub(crate) fn judge<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    rules: &Rules,
    closing: Option<Closing>,
) -> Option<Verdict> {
    let mut machine = Machine::new(rules);
    let mut span: Option<(EventTime, EventTime)> = None;
    for entry in entries {
        machine.take(entry, rules);
        span = Some(span.map_or((entry.time, entry.time), |(first, _)| (first, entry.time)));
    }
    let (first, last) = span?;
    let (outcome, step) = machine.outcome(rules, closing);
    let reason = match outcome {
        Outcome::Failed => {
            step.and_then(|step| machine.group.steps.get(step)).and_then(|step| step.reason)
        }
        Outcome::Connected
        | Outcome::Stuck
        | Outcome::Abandoned
        | Outcome::IncompleteStart
        | Outcome::Overflow
        | Outcome::InProgress => None,
    };
    Some(Verdict {
        outcome,
        step,
        reason,
        first,
        last,
        connected: machine.connected,
        begun: machine.begun,
        steps: machine.group.steps,
        restarts: machine.restarts,
        roams: machine.roams,
        roam_failures: machine.roam_failures,
        carried: machine.carried,
        closing,
    })
}

/// The state of a session after some of its records.
#[derive(Debug)]
pub(crate) struct Machine {
    group: Group,
    /// The group of a roam, once there is one.
    roam: Option<Group>,
    connected: Option<EventTime>,
    begun: Option<EventTime>,
    /// Whether a record has come that begins something.
    is_begun: bool,
    /// Whether the first step was seen.
    has_start: bool,
    restarts: u32,
    roams: u32,
    roam_failures: u32,
    carried: [Option<u32>; CARRIED_MAX],
}

impl Machine {
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            group: Group::new(rules),
            roam: None,
            connected: None,
            begun: None,
            is_begun: false,
            has_start: false,
            restarts: 0,
            roams: 0,
            roam_failures: 0,
            carried: [None; CARRIED_MAX],
        }
    }

    /// Whether the chain is complete.
    pub(crate) const fn is_complete(&self) -> bool {
        self.connected.is_some()
    }

    /// Whether the chain begins anew with this record.
    pub(crate) fn goes_back(&self, entry: &Entry, rules: &Rules) -> bool {
        self.group.goes_back(entry, rules)
    }

    pub(crate) fn take(&mut self, entry: &Entry, rules: &Rules) {
        for (field, carried) in rules.spec.carried.iter().enumerate() {
            let value = entry.carried(field);
            if let Some(known) = self.carried.get_mut(field) {
                *known = match carried.which {
                    Which::First => known.or(value),
                    Which::Last => value.or(*known),
                };
            }
        }
        let step = usize::from(entry.step);
        let begins = rules.steps().get(step).map(|spec| spec.begins);
        self.is_begun |= begins.is_some_and(|begins| begins != Begins::Never);
        if entry.class == Class::End || !self.is_begun {
            return;
        }
        if step == rules.first_step {
            self.has_start = true;
        }
        if self.roam.is_some() {
            return self.take_roam(entry, rules);
        }
        if self.group.goes_back(entry, rules) {
            if self.is_complete() && rules.spec.regress == Regress::Roam {
                return self.take_roam(entry, rules);
            }
            self.restarts = self.restarts.saturating_add(1);
            self.group.restart();
            if self.connected.take().is_some() {
                self.begun = None;
            }
        }
        if step == rules.first_step && self.begun.is_none() {
            self.begun = Some(entry.time);
        }
        self.group.take(entry, rules);
        if self.connected.is_none() && self.group.is_complete(rules) {
            self.connected = Some(entry.time);
        }
    }

    /// What comes after the chain was complete and the client has moved.
    fn take_roam(&mut self, entry: &Entry, rules: &Rules) {
        let goes_on = self.roam.take().filter(|group| !group.goes_back(entry, rules));
        let mut group = goes_on.unwrap_or_else(|| {
            self.roams = self.roams.saturating_add(1);
            Group::new(rules)
        });
        if entry.class == Class::Failure {
            self.roam_failures = self.roam_failures.saturating_add(1);
        }
        group.take(entry, rules);
        self.roam = Some(group);
    }

    /// How the session stands, and at which step.
    fn outcome(&self, rules: &Rules, closing: Option<Closing>) -> (Outcome, Option<usize>) {
        if closing.is_some_and(|closing| closing.cause == Cause::Memory) {
            return (Outcome::Overflow, None);
        }
        if self.is_complete() {
            return (Outcome::Connected, None);
        }
        let (outcome, step) = self.group.outcome(rules, closing.map(|closing| closing.at));
        if self.has_start || outcome == Outcome::InProgress {
            (outcome, step)
        } else {
            (Outcome::IncompleteStart, None)
        }
    }
}

/// One attempt group: how far each step has come.
#[derive(Debug)]
struct Group {
    steps: Vec<StepVerdict>,
    /// The last of the steps of its records.
    at: Option<usize>,
    /// When the last result came.
    result_at: Option<EventTime>,
}

impl Group {
    fn new(rules: &Rules) -> Self {
        Self { steps: vec![StepVerdict::default(); rules.steps().len()], at: None, result_at: None }
    }

    /// Begins anew; attempts go on counting.
    fn restart(&mut self) {
        for step in &mut self.steps {
            *step = StepVerdict { attempts: step.attempts, ..StepVerdict::default() };
        }
        (self.at, self.result_at) = (None, None);
    }

    fn standing(&self, step: usize) -> Standing {
        self.steps.get(step).map_or(Standing::Unseen, |step| step.standing)
    }

    /// Whether the record is of a step that lies behind: the client has begun anew.
    fn goes_back(&self, entry: &Entry, rules: &Rules) -> bool {
        let (step, Some(at)) = (usize::from(entry.step), self.at) else { return false };
        let Some(spec) = rules.steps().get(step) else { return false };
        let has_succeeded = self.standing(step) == Standing::Succeeded;
        if step > at || spec.begins != Begins::Anew || spec.repeatable && has_succeeded {
            return false;
        }
        let tells_starts = !spec.start.is_empty();
        if step < at {
            // What trails behind a success is no new attempt, where attempts say that they begin.
            return !(has_succeeded && tells_starts && entry.class == Class::Other);
        }
        // Behind its own success a step may still say something.
        has_succeeded
            && match entry.class {
                Class::Start | Class::Failure => true,
                Class::Other => !tells_starts,
                Class::Success | Class::End => false,
            }
    }

    /// Takes a record that does not go back.
    fn take(&mut self, entry: &Entry, rules: &Rules) {
        let number = usize::from(entry.step);
        let result_at = self.result_at;
        let (Some(spec), Some(step)) = (rules.steps().get(number), self.steps.get_mut(number))
        else {
            return;
        };
        if step.standing == Standing::Succeeded {
            let is_attempt = match entry.class {
                Class::Start => true,
                Class::Success | Class::Failure => spec.start.is_empty(),
                Class::Other | Class::End => false,
            };
            if spec.repeatable && is_attempt {
                step.attempts = step.attempts.saturating_add(1);
            }
            return;
        }
        let is_result = matches!(entry.class, Class::Success | Class::Failure);
        let is_new = match step.standing {
            Standing::Unseen | Standing::Failed => true,
            Standing::Open => entry.class == Class::Start,
            Standing::Succeeded => false,
        };
        if is_new {
            step.attempts = step.attempts.saturating_add(1);
            // A result without a beginning took as long as what lies before it is past.
            let begun = if is_result { result_at.unwrap_or(entry.time) } else { entry.time };
            step.attempt = Some(begun);
            step.start = step.start.or(Some(begun));
            (step.end, step.reason) = (None, None);
        }
        step.standing = match entry.class {
            Class::Success => Standing::Succeeded,
            Class::Failure => Standing::Failed,
            Class::Start | Class::Other | Class::End => Standing::Open,
        };
        step.status = entry.status();
        if is_result {
            (step.end, step.reason) = (Some(entry.time), entry.reason());
            self.result_at = Some(entry.time);
        }
        self.at = self.at.max(Some(number));
    }

    /// Whether every step that must be there has succeeded.
    fn is_complete(&self, rules: &Rules) -> bool {
        let mut steps = rules.steps().iter().zip(&self.steps);
        let is_done = |step: &StepVerdict| step.standing == Standing::Succeeded;
        // A chain of nothing but optional steps is complete with its last one.
        let has_required = rules.steps().iter().any(|spec| !spec.optional);
        if has_required {
            steps.all(|(spec, step)| spec.optional || is_done(step))
        } else {
            self.steps.last().is_some_and(is_done)
        }
    }

    /// How an incomplete chain came out, if it was `closed`.
    fn outcome(&self, rules: &Rules, closed: Option<EventTime>) -> (Outcome, Option<usize>) {
        let required = rules.steps().iter().enumerate().filter(|(_, spec)| !spec.optional);
        let missing = required
            .map(|(number, _)| number)
            .find(|number| self.standing(*number) != Standing::Succeeded);
        let missing = missing.unwrap_or(self.steps.len().saturating_sub(1));
        let seen = |number: &usize| self.standing(*number) != Standing::Unseen;
        let furthest = (0..self.steps.len()).rev().find(seen);
        // What is wanting if it was begun, else what was begun last.
        let step = Some(missing).filter(seen).or(furthest);
        let standing = step.map_or(Standing::Unseen, |step| self.standing(step));
        match (standing, closed) {
            (Standing::Failed, _) => (Outcome::Failed, step),
            (Standing::Unseen | Standing::Open | Standing::Succeeded, None) => {
                (Outcome::InProgress, step)
            }
            (Standing::Open, Some(closed)) => {
                let outcome = if self.has_timed_out(step, rules, closed) {
                    Outcome::Stuck
                } else {
                    Outcome::Abandoned
                };
                (outcome, step)
            }
            // Later ones went on without it.
            (Standing::Succeeded, Some(_)) if step > Some(missing) => {
                (Outcome::Stuck, Some(missing))
            }
            (Standing::Unseen | Standing::Succeeded, Some(_)) => (Outcome::Abandoned, step),
        }
    }

    fn has_timed_out(&self, step: Option<usize>, rules: &Rules, closed: EventTime) -> bool {
        let Some(number) = step else { return false };
        let timeout = rules.steps().get(number).and_then(|spec| spec.step_timeout);
        let begun = self.steps.get(number).and_then(|step| step.attempt);
        match (timeout, begun) {
            (Some(timeout), Some(begun)) => closed.since(begun) >= timeout,
            (None, _) | (_, None) => true,
        }
    }
}
