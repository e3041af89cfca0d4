//! What can be wrong with a declared sequence: all of it at once, each mistake with the name it is
//! about.

use super::record::record_fields;
use super::spec::{CARRIED_MAX, ENDS_MAX, OutputTime, OverflowPolicy, STEPS_MAX, SequenceSpec};
use crate::plan::KeyColumn;
use crate::row::Field;
use crate::time::Span;
use crate::value::Type;

/// A mistake in a declared sequence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// The chain is empty.
    #[error("it has no step: declare at least one")]
    NoStep,
    /// There are more than the program can tell apart.
    #[error("it has {found} {what}, more than {max}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// A step, or a step that ends a session, is named twice.
    #[error("step `{step}` is named twice")]
    StepTwice {
        /// Its name.
        step: Box<str>,
    },
    /// A status says two things of one step.
    #[error("status `{status}` of step `{step}` is named twice: it can say only one thing")]
    StatusTwice {
        /// The step.
        step: Box<str>,
        /// The status.
        status: Box<str>,
    },
    /// Nothing makes a step succeed.
    #[error("step `{step}` can never succeed: name the statuses in `success`")]
    NoSuccess {
        /// The step.
        step: Box<str>,
    },
    /// Statuses are named, and none are read.
    #[error(
        "step `{step}` names statuses, and the sequence reads none: set `status` to the field that has them, or name none, then a step has succeeded once its record comes"
    )]
    NoStatus {
        /// The step.
        step: Box<str>,
    },
    /// A field does not have the type that it must have.
    #[error("field `{field}` is of type {ty}, but {wanted} is needed")]
    FieldType {
        /// The setting that names it.
        setting: &'static str,
        /// The field.
        field: Box<str>,
        /// Its type.
        ty: Type,
        /// What would do.
        wanted: &'static str,
    },
    /// A key column takes each of several fields.
    #[error("column `{column}` takes each of several fields: a record belongs to one session")]
    Copies {
        /// The column.
        column: Box<str>,
    },
    /// Two fields of the session would have one name.
    #[error("the session already has a field `{name}`: give the column or the step another name")]
    SameName {
        /// The name.
        name: Box<str>,
    },
    /// A length of time or a number is too small.
    #[error("{what} must be at least {least}")]
    TooSmall {
        /// The setting.
        what: &'static str,
        /// The smallest that works.
        least: &'static str,
    },
    /// What is told early cannot count where a session is closed.
    #[error(
        "a session that is told before it is closed cannot count at the time of its closing: set output_time = \"first\", or another `release`"
    )]
    EarlyAtClose,
    /// Sources that wait would wait for ever: the watermark stands still then.
    #[error(
        "sources that wait for room need the clock to make some: set `idle_timeout_processing`, or another `on_overflow`"
    )]
    PausedForEver,
}

/// Everything that is wrong with `spec` for records with `fields`, by `key`; names that are no
/// fields are not its business.
pub fn check(spec: &SequenceSpec, key: &[KeyColumn], fields: &[Field]) -> Vec<SequenceError> {
    let mut errors = Vec::new();
    check_chain(spec, &mut errors);
    check_fields(spec, fields, &mut errors);
    check_names(spec, key, &mut errors);
    let one = "1 ms";
    for (span, what) in [
        (spec.idle_timeout, "idle_timeout"),
        (spec.max_session_duration, "max_session_duration"),
        (spec.idle_timeout_processing.unwrap_or(Span::from_millis(1)), "idle_timeout_processing"),
    ] {
        if span == Span::ZERO {
            errors.push(SequenceError::TooSmall { what, least: one });
        }
    }
    if spec.max_events_per_session == 0 {
        let what = "max_events_per_session";
        errors.push(SequenceError::TooSmall { what, least: "1" });
    }
    if spec.release.is_early() && spec.output_time == OutputTime::Close {
        errors.push(SequenceError::EarlyAtClose);
    }
    let pauses = spec.bounds.policy == OverflowPolicy::PauseSource;
    if pauses && spec.idle_timeout_processing.is_none() {
        errors.push(SequenceError::PausedForEver);
    }
    errors
}

fn check_chain(spec: &SequenceSpec, errors: &mut Vec<SequenceError>) {
    if spec.steps.is_empty() {
        errors.push(SequenceError::NoStep);
    }
    for (what, found, max) in [
        ("steps", spec.steps.len(), STEPS_MAX),
        ("steps that end a session", spec.ends.len(), ENDS_MAX),
        ("fields that a session takes over", spec.carried.len(), CARRIED_MAX),
    ] {
        if found > max {
            errors.push(SequenceError::TooMany { what, found, max });
        }
    }
    let names: Vec<_> = spec.steps.iter().map(|step| &step.name).chain(&spec.ends).collect();
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|known| known == name) {
            errors.push(SequenceError::StepTwice { step: (*name).clone() });
        }
    }
    for step in &spec.steps {
        let has_status = spec.status.is_some();
        if has_status && step.success.is_empty() {
            errors.push(SequenceError::NoSuccess { step: step.name.clone() });
        }
        let statuses: Vec<_> =
            step.start.iter().chain(&step.success).chain(&step.failure).collect();
        if !has_status && !statuses.is_empty() {
            errors.push(SequenceError::NoStatus { step: step.name.clone() });
        }
        for (index, status) in statuses.iter().enumerate() {
            if statuses.iter().take(index).any(|known| known == status) {
                let (step, status) = (step.name.clone(), (*status).clone());
                errors.push(SequenceError::StatusTwice { step, status });
            }
        }
    }
}

fn check_fields(spec: &SequenceSpec, fields: &[Field], errors: &mut Vec<SequenceError>) {
    let mut check = |(setting, name): (&'static str, &str), fits: fn(Type) -> bool, wanted| {
        let known = fields.iter().find(|field| &*field.name == name);
        if let Some(Field { name, ty }) = known.filter(|field| !fits(field.ty)) {
            let (field, ty) = (name.clone(), *ty);
            errors.push(SequenceError::FieldType { setting, field, ty, wanted });
        }
    };
    let is_text = |ty| ty == Type::Text;
    check(("step", &spec.step), is_text, "a text");
    if let Some(status) = &spec.status {
        check(("status", status), is_text, "a text");
    }
    if let Some(reason) = &spec.reason {
        let fits = |ty| matches!(ty, Type::Text | Type::U8 | Type::U16 | Type::U32);
        check(
            ("reason", reason),
            fits,
            "a text or a whole number of at most 32 bits, without a sign,",
        );
    }
    for carried in &spec.carried {
        let fits = |ty| matches!(ty, Type::Text | Type::Bool | Type::U8 | Type::U16 | Type::U32);
        let wanted = "a text, a truth value or a whole number of at most 32 bits, without a sign,";
        check(("carry", &carried.field), fits, wanted);
    }
}

fn check_names(spec: &SequenceSpec, key: &[KeyColumn], errors: &mut Vec<SequenceError>) {
    for column in key.iter().filter(|column| column.each.len() > 1) {
        errors.push(SequenceError::Copies { column: column.name.clone() });
    }
    let fields = record_fields(spec);
    let names = fields.iter().map(|(_, name)| name);
    let names: Vec<_> = key.iter().map(|column| &column.name).chain(names).collect();
    let mut same: Vec<Box<str>> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|known| known == name) && !same.contains(name) {
            same.push((*name).clone());
        }
    }
    // A step that is named twice has been told of.
    let is_of_twin = |name: &str| {
        let of = |step: &&super::spec::StepSpec| {
            name.strip_prefix(&*step.name).is_some_and(|rest| rest.starts_with('_'))
        };
        spec.steps.iter().filter(of).count() > 1
    };
    let named = same.into_iter().filter(|name| !is_of_twin(name));
    errors.extend(named.map(|name| SequenceError::SameName { name }));
}
