//! Sequences: chains of steps, and what ends a session.

use super::groups::Scope;
use super::names::{check_unique, check_word};
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::lists::List;
use crate::config::raw::reader::Given;
use crate::config::raw::sequence::{
    RawBegins, RawOutputTime, RawOverflow, RawRegress, RawRelease, RawReleaseName, RawSequence,
    RawStep, RawWhich,
};
use nilometer_model::plan::{Grouping, KeyColumn};
use nilometer_model::row::Field;
use nilometer_model::sequence::check::{SequenceError, check};
use nilometer_model::sequence::spec::{
    Begins, Bounds, Carried, OutputTime, OverflowPolicy, Regress, Release, SequenceSpec, StepSpec,
    Which,
};

/// The sequences; one that is wrong is reported and left out.
pub(crate) fn sequences(
    raw: &RawConfig,
    scope: &Scope,
    problems: &mut Problems,
) -> Vec<(Grouping, Vec<Field>)> {
    let tables = raw.sequence.value().map_or(&[][..], |sequences| &sequences.tables);
    let fields = || scope.fields().to_vec();
    let made = tables.iter().filter_map(|raw| sequence(raw, scope, problems));
    made.map(|made| (made, fields())).collect()
}

fn sequence(raw: &RawSequence, scope: &Scope, problems: &mut Problems) -> Option<Grouping> {
    if let Given::Value(name) = &raw.name {
        check_word(&name.value, "sequence", name.place, problems);
    }
    let key = key(raw, scope, problems);
    let read = [Some(&raw.step), Some(&raw.status), Some(&raw.reason), Some(&raw.id)];
    let mut is_whole = true;
    for name in read.into_iter().flatten().filter_map(Given::get) {
        is_whole &= scope.look_up(&name.value, name.place, problems).is_some();
    }
    let carried = carried(raw, scope, problems);
    let steps = steps(raw, problems);
    let sinks = scope.sinks().of_group(&raw.sinks, problems);
    let late = scope.sinks().late_of_group(&raw.late, problems);
    let spec = spec(raw, steps?, carried?)?;
    let key = key?;
    if is_whole {
        let errors = check(&spec, &key, scope.fields());
        for error in &errors {
            problems.add(place(error, raw), error.to_string());
        }
    }
    is_whole.then_some(())?;
    Some(Grouping {
        allowed_lateness: raw.allowed_lateness.value()?.0,
        sinks,
        late: late?,
        ..Grouping::sequence(raw.name.value()?, key, spec)
    })
}

fn key(raw: &RawSequence, scope: &Scope, problems: &mut Problems) -> Option<Vec<KeyColumn>> {
    let list = raw.key.get()?;
    if list.value.is_empty() {
        problems.add_with_help(list.place, "no field is named", "name at least one");
        return None;
    }
    let names = || list.value.iter().map(|name| (name.value.as_str(), name.place));
    check_unique("column", names(), problems);
    let columns = names().map(|(name, place)| {
        let each = scope.look_up(name, place, problems)?;
        Some(KeyColumn { name: name.into(), each })
    });
    columns.collect::<Vec<_>>().into_iter().collect()
}

fn carried(raw: &RawSequence, scope: &Scope, problems: &mut Problems) -> Option<Vec<Carried>> {
    let names = raw.carry.value()?;
    let carried = names.names.iter().map(|(name, which)| {
        scope.look_up(&name.value, name.place, problems)?;
        let which = match which.value {
            RawWhich::First => Which::First,
            RawWhich::Last => Which::Last,
        };
        Some(Carried { field: name.value.as_str().into(), which })
    });
    let carried: Option<Vec<_>> = carried.collect::<Vec<_>>().into_iter().collect();
    carried.filter(|_| names.is_whole)
}

fn steps(raw: &RawSequence, problems: &mut Problems) -> Option<Vec<StepSpec>> {
    let tables = raw.steps.value()?;
    for name in tables.tables.iter().filter_map(|step| step.name.get()) {
        // Names of fields begin with it.
        check_word(&name.value, "field", name.place, problems);
    }
    let steps: Option<Vec<_>> = tables.tables.iter().map(step).collect();
    steps.filter(|_| tables.is_whole)
}

fn step(raw: &RawStep) -> Option<StepSpec> {
    Some(StepSpec {
        name: raw.name.value()?.as_str().into(),
        optional: *raw.optional.value()?,
        repeatable: *raw.repeatable.value()?,
        begins: match *raw.begins.value()? {
            RawBegins::Anew => Begins::Anew,
            RawBegins::First => Begins::First,
            RawBegins::Never => Begins::Never,
        },
        start: texts(&raw.start)?,
        success: texts(&raw.success)?,
        failure: texts(&raw.failure)?,
        step_timeout: optional(&raw.step_timeout)?.map(|timeout| timeout.0),
        slow_after: optional(&raw.slow_after)?.map(|slow| slow.0),
    })
}

fn spec(raw: &RawSequence, steps: Vec<StepSpec>, carried: Vec<Carried>) -> Option<SequenceSpec> {
    let name = |given: &Given<String>| Some(optional(given)?.map(|name| name.as_str().into()));
    let idle_timeout = raw.idle_timeout.value()?.0;
    Some(SequenceSpec {
        step: raw.step.value()?.as_str().into(),
        status: name(&raw.status)?,
        reason: name(&raw.reason)?,
        id: name(&raw.id)?,
        steps,
        ends: texts(&raw.ends)?,
        carried,
        release: match *raw.release.value()? {
            RawRelease::Named(RawReleaseName::Watermark) => Release::Watermark,
            RawRelease::Named(RawReleaseName::Eager) => Release::Eager,
            RawRelease::Named(RawReleaseName::OnTerminal) => Release::OnTerminal,
            RawRelease::WatermarkPlus(delay) => Release::WatermarkPlus(delay.0),
            RawRelease::BoundedWait(wait) => Release::BoundedWait(wait.0),
        },
        idle_timeout,
        idle_timeout_processing: match optional(&raw.idle_timeout_processing)? {
            Some(limit) => limit.0,
            None => Some(idle_timeout.saturating_add(idle_timeout)),
        },
        max_session_duration: raw.max_session_duration.value()?.0,
        max_events_per_session: u32::try_from(raw.max_events_per_session.value()?.0).ok()?,
        close_on_success: *raw.close_on_success.value()?,
        regress: match *raw.regress.value()? {
            RawRegress::Roam => Regress::Roam,
            RawRegress::Restart => Regress::Restart,
            RawRegress::Session => Regress::Session,
        },
        output_time: match *raw.output_time.value()? {
            RawOutputTime::First => OutputTime::First,
            RawOutputTime::Close => OutputTime::Close,
        },
        bounds: bounds(raw)?,
    })
}

fn bounds(raw: &RawSequence) -> Option<Bounds> {
    Some(Bounds {
        sessions: Some(raw.max_sessions.value()?.count() as u64),
        bytes: Some(raw.max_bytes.value()?.0 as u64),
        policy: match *raw.on_overflow.value()? {
            RawOverflow::EmitEarlyOldest => OverflowPolicy::EmitEarlyOldest,
            RawOverflow::DropNewest => OverflowPolicy::DropNewest,
            RawOverflow::PauseSource => OverflowPolicy::PauseSource,
            RawOverflow::Fail => OverflowPolicy::Fail,
        },
    })
}

/// What was typed, if anything was; `None` if it is wrong.
fn optional<T>(given: &Given<T>) -> Option<Option<&T>> {
    match given {
        Given::Absent => Some(None),
        Given::Wrong => None,
        Given::Value(value) => Some(Some(&value.value)),
    }
}

fn texts(given: &Given<List<String>>) -> Option<Vec<Box<str>>> {
    Some(given.value()?.iter().map(|text| text.value.as_str().into()).collect())
}

/// Where the mistake was typed.
fn place(error: &SequenceError, raw: &RawSequence) -> Place {
    let of = |place: Option<Place>| place.unwrap_or(raw.place);
    let steps = || raw.steps.value().map_or(&[][..], |steps| &steps.tables);
    let step_of = |name: &str| {
        let is_it = |step: &&RawStep| step.name.value().is_some_and(|known| known == name);
        steps().iter().rfind(is_it)
    };
    match error {
        SequenceError::NoStep => of(raw.steps.get().map(|steps| steps.place)),
        SequenceError::TooMany { what, .. } => of(match *what {
            "steps" => raw.steps.get().map(|steps| steps.place),
            "steps that end a session" => raw.ends.get().map(|ends| ends.place),
            _ => raw.carry.get().map(|carry| carry.place),
        }),
        SequenceError::StepTwice { step } => {
            let end =
                raw.ends.value().and_then(|ends| ends.iter().rfind(|end| *end.value == **step));
            of(end.map(|end| end.place).or_else(|| Some(step_of(step)?.name.get()?.place)))
        }
        SequenceError::StatusTwice { step, status } => {
            let lists = step_of(step).map(|step| [&step.start, &step.success, &step.failure]);
            let mut texts = lists.into_iter().flatten().filter_map(Given::value).flatten();
            of(texts.rfind(|text| *text.value == **status).map(|text| text.place))
        }
        SequenceError::NoSuccess { step } => {
            let is_empty = |step: &&RawStep| step.success.value().is_some_and(Vec::is_empty);
            let named = |known: &&RawStep| known.name.value().is_some_and(|name| **name == **step);
            let found = steps().iter().filter(is_empty).find(named);
            of(found.map(|step| step.success.get().map_or(step.place, |given| given.place)))
        }
        SequenceError::NoStatus { step } => {
            let lists = step_of(step).map(|step| [&step.start, &step.success, &step.failure]);
            let mut texts = lists.into_iter().flatten().filter_map(Given::value).flatten();
            of(texts.next().map(|text| text.place))
        }
        SequenceError::FieldType { setting, field, .. } => of(match *setting {
            "step" => raw.step.get().map(|name| name.place),
            "status" => raw.status.get().map(|name| name.place),
            "reason" => raw.reason.get().map(|name| name.place),
            _ => {
                let names = raw.carry.value().map_or(&[][..], |carry| &carry.names);
                let named = names.iter().find(|(name, _)| *name.value == **field);
                named.map(|(name, _)| name.place)
            }
        }),
        SequenceError::Copies { column } => {
            let key = raw.key.value().map_or(&[][..], |key| key);
            of(key.iter().find(|name| *name.value == **column).map(|name| name.place))
        }
        SequenceError::SameName { .. } => of(raw.name.get().map(|name| name.place)),
        SequenceError::TooSmall { .. } => raw.place,
        SequenceError::PausedForEver => of(raw.on_overflow.get().map(|policy| policy.place)),
        SequenceError::EarlyAtClose => of(raw.output_time.get().map(|time| time.place)),
    }
}
