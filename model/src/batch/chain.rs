//! What the records of one session say, by definition: sorted into attempt groups, each step looked
//! up in the whole group. Nothing goes on from record to record.

use super::items::Item;
use crate::sequence::spec::{Begins, Regress, SequenceSpec, StepSpec, Which};
use crate::sequence::{RecordField, StepField, record_fields};
use crate::time::{EventTime, Span};
use crate::value::Value;

/// What a status says of its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Start,
    Nothing,
    Success,
    Failure,
    /// The session ends.
    End,
}

/// How a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Why, as it is told.
    pub(super) cause: &'static str,
    pub(super) at: EventTime,
}

/// The records of a session, sorted into attempts at the chain.
pub(super) struct Chain<'a> {
    spec: &'a SequenceSpec,
    items: &'a [Item],
    /// The chain, begun anew each time.
    groups: Vec<Group<'a>>,
    /// What came after it was complete and the client had moved, begun anew each time.
    roams: Vec<Group<'a>>,
    pub(super) connected: Option<EventTime>,
    /// When the first step began of what led to the connection.
    begun: Option<EventTime>,
}

/// Records of one attempt at the chain.
#[derive(Default)]
struct Group<'a>(Vec<&'a Item>);

/// What a group says of a step.
struct Step<'a> {
    spec: &'a StepSpec,
    /// Up to its first success.
    own: Vec<&'a Item>,
    /// Behind that.
    more: Vec<&'a Item>,
}

/// The first step that must be there.
pub(super) fn first_step(spec: &SequenceSpec) -> usize {
    spec.steps.iter().position(|step| !step.optional).unwrap_or(0)
}

impl<'a> Group<'a> {
    fn step(&self, spec: &'a SequenceSpec, number: usize) -> Option<Step<'a>> {
        let of: Vec<_> = self.0.iter().copied().filter(|item| item.step == number).collect();
        let success = of.iter().position(|item| item.says == Says::Success);
        let (own, more) = of.split_at(success.map_or(of.len(), |at| at + 1));
        Some(Step { spec: spec.steps.get(number)?, own: own.to_vec(), more: more.to_vec() })
    }

    fn has_succeeded(&self, spec: &'a SequenceSpec, number: usize) -> bool {
        self.step(spec, number).is_some_and(|step| step.last() == Some(Says::Success))
    }

    /// The records that have changed how a step stands, in order.
    fn changing(&self, spec: &'a SequenceSpec) -> Vec<&'a Item> {
        let steps = (0..spec.steps.len()).filter_map(|number| self.step(spec, number));
        let mut changing: Vec<_> = steps.flat_map(|step| step.own).collect();
        changing.sort_by_key(|item| item.order());
        changing
    }

    /// When the last result came before `item`.
    fn result_before(&self, spec: &'a SequenceSpec, item: &Item) -> Option<EventTime> {
        let before = self.changing(spec).into_iter();
        let before = before.take_while(|known| known.order() < item.order());
        before.filter(|known| known.is_result()).last().map(|known| known.time)
    }

    fn goes_back(&self, spec: &'a SequenceSpec, item: &Item) -> bool {
        let Some(at) = self.changing(spec).iter().map(|item| item.step).max() else { return false };
        let step = spec.steps.get(item.step).filter(|step| step.begins == Begins::Anew);
        let Some(step) = step else { return false };
        let has_succeeded = self.has_succeeded(spec, item.step);
        let tells_starts = !step.start.is_empty();
        match (item.step.cmp(&at), item.says) {
            (std::cmp::Ordering::Greater, _) => false,
            _ if step.repeatable && has_succeeded => false,
            (std::cmp::Ordering::Less, says) => {
                !(has_succeeded && tells_starts && says == Says::Nothing)
            }
            (std::cmp::Ordering::Equal, Says::Start | Says::Failure) => has_succeeded,
            (std::cmp::Ordering::Equal, Says::Nothing) => has_succeeded && !tells_starts,
            (std::cmp::Ordering::Equal, Says::Success | Says::End) => false,
        }
    }

    fn is_complete(&self, spec: &'a SequenceSpec) -> bool {
        let required = (0..).zip(&spec.steps).filter(|(_, step)| !step.optional);
        let required: Vec<usize> = required.map(|(number, _)| number).collect();
        match required.as_slice() {
            [] => self.has_succeeded(spec, spec.steps.len().saturating_sub(1)),
            required => required.iter().all(|number| self.has_succeeded(spec, *number)),
        }
    }
}

impl Step<'_> {
    fn last(&self) -> Option<Says> {
        self.own.last().map(|item| item.says)
    }

    /// The records with which attempts begin.
    fn attempts(&self) -> Vec<&Item> {
        let mut before = None;
        let mut attempts = Vec::new();
        for item in &self.own {
            let begins = match before {
                None | Some(Says::Failure) => true,
                Some(_) => item.says == Says::Start,
            };
            if begins {
                attempts.push(*item);
            }
            before = Some(item.says);
        }
        attempts
    }

    /// Attempts behind the first success, where the step may be repeated.
    fn repeated(&self) -> usize {
        let is_attempt = |item: &&&Item| match item.says {
            Says::Start => true,
            Says::Success | Says::Failure => self.spec.start.is_empty(),
            Says::Nothing | Says::End => false,
        };
        if self.spec.repeatable { self.more.iter().filter(is_attempt).count() } else { 0 }
    }
}

impl<'a> Chain<'a> {
    /// Of the records of a session, in order.
    pub(super) fn new(spec: &'a SequenceSpec, items: &'a [Item]) -> Self {
        let groups = vec![Group::default()];
        let mut chain =
            Self { spec, items, groups, roams: Vec::new(), connected: None, begun: None };
        let only_follows = |item: &&Item| {
            spec.steps.get(item.step).is_some_and(|step| step.begins == Begins::Never)
        };
        let of_chain = items.iter().filter(|item| item.says != Says::End);
        of_chain.skip_while(only_follows).for_each(|item| chain.take(item));
        chain
    }

    fn take(&mut self, item: &'a Item) {
        if let Some(roam) = self.roams.last_mut() {
            if roam.goes_back(self.spec, item) {
                self.roams.push(Group(vec![item]));
            } else {
                roam.0.push(item);
            }
            return;
        }
        if self.groups.last().is_some_and(|group| group.goes_back(self.spec, item)) {
            if self.connected.is_some() && self.spec.regress == Regress::Roam {
                self.roams.push(Group(vec![item]));
                return;
            }
            self.groups.push(Group::default());
            if self.connected.take().is_some() {
                self.begun = None;
            }
        }
        if item.step == first_step(self.spec) && self.begun.is_none() {
            self.begun = Some(item.time);
        }
        if let Some(group) = self.groups.last_mut() {
            group.0.push(item);
            if self.connected.is_none() && group.is_complete(self.spec) {
                self.connected = Some(item.time);
            }
        }
    }

    /// Whether the chain begins anew with `item`.
    pub(super) fn goes_back(&self, item: &Item) -> bool {
        item.says != Says::End
            && self.groups.last().is_some_and(|group| group.goes_back(self.spec, item))
    }

    fn step(&self, number: usize) -> Option<Step<'a>> {
        self.groups.last()?.step(self.spec, number)
    }

    /// When an attempt began: a result without a beginning took as long as the result before is past.
    fn begun(&self, item: &Item) -> EventTime {
        let before = || self.groups.last()?.result_before(self.spec, item);
        let before = item.is_result().then(before).flatten();
        before.unwrap_or(item.time)
    }

    /// How it came out, and at which step.
    fn outcome(&self, end: End) -> (&'static str, Option<usize>) {
        if end.cause == "memory" {
            return ("overflow", None);
        }
        if self.connected.is_some() {
            return ("connected", None);
        }
        let first = first_step(self.spec);
        let mut taken = self.groups.iter().chain(&self.roams).flat_map(|group| &group.0);
        if !taken.any(|item| item.step == first) {
            return ("incomplete_start", None);
        }
        let last = |number: usize| self.step(number).and_then(|step| step.last());
        let numbers = || 0..self.spec.steps.len();
        let missing = (0..)
            .zip(&self.spec.steps)
            .find(|(number, step)| !step.optional && last(*number) != Some(Says::Success));
        let missing = missing.map_or(self.spec.steps.len().saturating_sub(1), |(number, _)| number);
        let furthest = || numbers().rev().find(|number| last(*number).is_some());
        let step = Some(missing).filter(|number| last(*number).is_some()).or_else(furthest);
        match step.and_then(last) {
            Some(Says::Failure) => ("failed", step),
            Some(Says::Start | Says::Nothing) => {
                let is_stuck = self.has_timed_out(step, end.at);
                (if is_stuck { "stuck" } else { "abandoned" }, step)
            }
            Some(Says::Success) if step > Some(missing) => ("stuck", Some(missing)),
            Some(Says::Success | Says::End) | None => ("abandoned", step),
        }
    }

    fn has_timed_out(&self, step: Option<usize>, closed: EventTime) -> bool {
        let Some(step) = step.and_then(|number| self.step(number)) else { return false };
        let begun = step.attempts().last().map(|item| self.begun(item));
        match (step.spec.step_timeout, begun) {
            (Some(timeout), Some(begun)) => length(closed, begun) >= timeout,
            (None, _) | (_, None) => true,
        }
    }

    /// What is told, by the fields of the record; `issued` are the name and the revision.
    pub(super) fn values(&self, end: End, issued: (u64, u32)) -> Vec<Value> {
        let fields = record_fields(self.spec);
        fields.iter().map(|(field, _)| self.value(*field, end, issued)).collect()
    }

    fn value(&self, field: RecordField, end: End, (id, revision): (u64, u32)) -> Value {
        let (outcome, step) = self.outcome(end);
        let failures = || self.roams.iter().flat_map(|group| &group.0);
        let failures = || failures().filter(|item| item.says == Says::Failure).count();
        let count =
            |is: fn(&Item) -> bool| number(self.items.iter().filter(|item| is(item)).count());
        match field {
            RecordField::Outcome => text(outcome),
            RecordField::Step => step
                .and_then(|step| self.spec.steps.get(step))
                .map_or(Value::Null, |step| text(&step.name)),
            RecordField::Reason => {
                let failed = step.filter(|_| outcome == "failed").and_then(|step| self.step(step));
                let last = failed.and_then(|step| step.own.last().map(|item| item.reason.clone()));
                last.unwrap_or(Value::Null)
            }
            RecordField::CloseCause => text(end.cause),
            RecordField::First => instant(self.items.first().map(|item| item.time)),
            RecordField::Last => instant(self.items.last().map(|item| item.time)),
            RecordField::Connected => instant(self.connected),
            RecordField::Closed => instant(Some(end.at)),
            RecordField::TimeToConnect => span(self.connected.zip(self.begun)),
            RecordField::Events => number(self.items.len()),
            RecordField::OutOfOrder => count(|item| item.is_out_of_order),
            RecordField::Late => count(|item| item.is_late),
            RecordField::Duplicate => {
                number(self.items.iter().map(|item| item.copies).sum::<usize>())
            }
            RecordField::Restarts => number(self.groups.len().saturating_sub(1)),
            RecordField::Roams => number(self.roams.len()),
            RecordField::RoamFailures => number(failures()),
            RecordField::SessionId => Value::Int(id.into()),
            RecordField::Revision => Value::Int(revision.into()),
            RecordField::Carried(field) => self.carried(field),
            RecordField::OfStep(step, field) => self.of_step(step, field),
        }
    }

    fn carried(&self, field: usize) -> Value {
        let values = self.items.iter().filter_map(|item| item.carried.get(field));
        let mut values = values.filter(|value| **value != Value::Null);
        let value = match self.spec.carried.get(field).map(|carried| carried.which) {
            Some(Which::First) => values.next(),
            Some(Which::Last) => values.next_back(),
            None => None,
        };
        value.cloned().unwrap_or(Value::Null)
    }

    fn of_step(&self, wanted: usize, field: StepField) -> Value {
        let Some(step) = self.step(wanted) else { return Value::Null };
        let start = step.own.first().map(|item| self.begun(item));
        let end = step.own.last().filter(|item| item.is_result()).map(|item| item.time);
        match field {
            StepField::Result => match step.last() {
                None | Some(Says::End) => Value::Null,
                Some(Says::Start | Says::Nothing) => text("open"),
                Some(Says::Success) => text("success"),
                Some(Says::Failure) => text("failure"),
            },
            StepField::Start => instant(start),
            StepField::End => instant(end),
            StepField::Duration => span(end.zip(start)),
            StepField::Attempts => {
                let groups = self.groups.iter().filter_map(|group| group.step(self.spec, wanted));
                number(groups.map(|step| step.attempts().len() + step.repeated()).sum())
            }
            StepField::Status => step.own.last().map_or(Value::Null, |item| item.status.clone()),
            StepField::Reason => {
                let result = step.own.last().filter(|item| item.is_result());
                result.map_or(Value::Null, |item| item.reason.clone())
            }
            StepField::Slow => match (end.zip(start), step.spec.slow_after) {
                (Some((end, start)), Some(limit)) => Value::Bool(length(end, start) > limit),
                (None, _) | (_, None) => Value::Null,
            },
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn number(number: usize) -> Value {
    Value::Int(number as i128)
}

fn instant(time: Option<EventTime>) -> Value {
    time.map_or(Value::Null, |time| Value::Int(time.as_millis().into()))
}

fn length(end: EventTime, start: EventTime) -> Span {
    end.since(start)
}

fn span(ends: Option<(EventTime, EventTime)>) -> Value {
    ends.map_or(Value::Null, |(end, start)| Value::Int(length(end, start).as_millis().into()))
}
