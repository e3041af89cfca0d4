//! The machine of a session: its records, in order, make a verdict. Pure, and run anew over the
//! records that are kept whenever one has come between them: so a correction is what the records in
//! their order give, and nothing else.
//!
//! The records of a chain form attempt groups. In a group each step goes from open to succeeded or
//! failed; what comes again after a failure is another attempt. Going back to an earlier step
//! begins a new group: the chain anew, or, once it was complete, a roam, which takes nothing back.

use super::entry::{Class, Entry};
use super::rules::Rules;
use super::spec::{CARRIED_MAX, Regress, StepSpec, Which};
use crate::time::{EventTime, Span};

/// How a session came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every step that must be there has succeeded, in order.
    Connected,
    /// A step has failed, and did not succeed afterwards.
    Failed,
    /// A step got no result, or was left out by the later ones.
    Stuck,
    /// The client went away.
    Abandoned,
    /// The first step was not seen.
    IncompleteStart,
    /// The session was closed for want of memory.
    Overflow,
    /// It goes on.
    InProgress,
}

impl Outcome {
    /// Every outcome, in the order of their numbers.
    pub(crate) const ALL: [Self; 7] = [
        Self::Connected,
        Self::Failed,
        Self::Stuck,
        Self::Abandoned,
        Self::IncompleteStart,
        Self::Overflow,
        Self::InProgress,
    ];

    /// The name in output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::Stuck => "stuck",
            Self::Abandoned => "abandoned",
            Self::IncompleteStart => "incomplete_start",
            Self::Overflow => "overflow",
            Self::InProgress => "in_progress",
        }
    }
}

/// Why a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Cause {
    /// A record that ends it, or success where that does.
    Terminal,
    /// Nothing came for too long.
    Idle,
    /// It lasted too long.
    MaxAge,
    /// It has too many records.
    MaxEvents,
    /// There was no room.
    Memory,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] =
        [Self::Terminal, Self::Idle, Self::MaxAge, Self::MaxEvents, Self::Memory];

    /// The name in output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Idle => "idle",
            Self::MaxAge => "max_age",
            Self::MaxEvents => "max_events",
            Self::Memory => "memory",
        }
    }
}

/// How and when a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Closing {
    pub(crate) cause: Cause,
    /// At which instant of event time.
    pub(crate) at: EventTime,
}

/// How a step of a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    /// Nothing came of it.
    #[default]
    Unseen,
    /// There is no result yet.
    Open,
    /// It went well.
    Succeeded,
    /// It did not.
    Failed,
}

impl Standing {
    /// The name in output; `None` where nothing came.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Unseen => None,
            Self::Open => Some("open"),
            Self::Succeeded => Some("success"),
            Self::Failed => Some("failure"),
        }
    }
}

/// What a session says of one step: of the last attempt group of the chain; the number of attempts
/// is that of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepVerdict {
    pub(crate) standing: Standing,
    /// When the first attempt of the group began.
    pub(crate) start: Option<EventTime>,
    /// When its result came.
    pub(crate) end: Option<EventTime>,
    /// When the last attempt began.
    attempt: Option<EventTime>,
    pub(crate) attempts: u32,
    pub(crate) status: Option<u32>,
    pub(crate) reason: Option<u32>,
}

impl StepVerdict {
    /// From the start to the result.
    pub(crate) fn duration(&self) -> Option<Span> {
        Some(self.end?.since(self.start?))
    }

    /// Whether it took longer than it should; `None` if there is nothing to say.
    pub(crate) fn is_slow(&self, step: &StepSpec) -> Option<bool> {
        Some(self.duration()? > step.slow_after?)
    }
}

/// What the records of a session say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// The step that failed, is stuck, or was the last before the client went away.
    pub(crate) step: Option<usize>,
    /// Why the step failed.
    pub(crate) reason: Option<u32>,
    pub(crate) first: EventTime,
    pub(crate) last: EventTime,
    pub(crate) connected: Option<EventTime>,
    /// When the first step began of what led to the connection.
    pub(crate) begun: Option<EventTime>,
    pub(crate) steps: Vec<StepVerdict>,
    pub(crate) restarts: u32,
    pub(crate) roams: u32,
    pub(crate) roam_failures: u32,
    pub(crate) carried: [Option<u32>; CARRIED_MAX],
    pub(crate) closing: Option<Closing>,
}

/// Numbers of the records of a session: not part of the verdict, since what changes nothing else is
/// not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) records: u32,
    pub(crate) out_of_order: u32,
    pub(crate) late: u32,
    pub(crate) copies: u32,
}

impl Counts {
    /// Of these records.
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        entries.fold(Self::default(), |counts, entry| Self {
            records: counts.records.saturating_add(1),
            out_of_order: counts.out_of_order + u32::from(entry.marks.is_out_of_order()),
            late: counts.late + u32::from(entry.marks.is_late()),
            copies: counts.copies.saturating_add(entry.marks.copies()),
        })
    }
}

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
        if entry.class == Class::End {
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
    /// The step of the last record.
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
        if step > at || spec.repeatable && has_succeeded {
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
        self.at = Some(number);
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
