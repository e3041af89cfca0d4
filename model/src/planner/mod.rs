//! The cascade planner: from the groupings wanted to stages that read records as seldom as can be.
//!
//! A grouping may regroup the panes of another one when its key can be made of the other's key,
//! the other's windows nest in its own, and its aggregates can be merged from the other's; it then
//! reads a stream of panes, at most one per key and firing, in place of all records. Of several
//! parents the one with the smallest key wins, then the coarsest window. A top-K is a stage behind
//! the full sums of its grouping: totals never pass through a top-K.
//!
//! A grouping may also name the one whose results it groups: it then takes changes of its totals.
//!
//! Decisions are in `derive`, compilation to slots in `compile`; `results` knows the rows of results
//! and what may be asked of them.

mod compile;
mod derive;
mod error;
mod results;
mod sequences;

pub use error::PlanError;
pub use results::{chain, fields_of, result_fields};

use crate::aggregate::{AggregateLayout, Function};
use crate::engine::Engine;
use crate::plan::{AggregateSpec, Grouping, Job, Plan};
use crate::row::Field;
use crate::sequence::record_layout;
use crate::sliding::Manner;
use crate::time::Span;
use crate::value::Type;
use crate::window::WindowFn;

/// The name among `names` that is nearest to `name`, if one is near enough to be a slip.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<Box<str>> {
    let scored = names.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let (distance, known) = scored.min_by_key(|(distance, _)| *distance)?;
    // At least one letter must be right.
    (distance <= known.len().div_ceil(3) && distance < known.len()).then(|| known.into())
}

/// Plans `job` as a stream.
///
/// # Errors
/// Everything that is wrong with the job, at once.
pub fn plan(job: &Job) -> Result<Plan, Vec<PlanError>> {
    plan_for(job, Engine::Streaming)
}

/// Plans `job` for an engine. What is wrong with it is wrong for all.
///
/// # Errors
/// Everything that is wrong with the job, at once.
pub fn plan_for(job: &Job, engine: Engine) -> Result<Plan, Vec<PlanError>> {
    let errors = check(job);
    if !errors.is_empty() {
        return Err(errors);
    }
    let job = engine.adapt(job);
    let nodes = derive::derive(&job);
    let plan = compile::compile(&job, &nodes).map_err(|error| vec![error])?;
    Ok(Plan { engine, ..plan })
}

/// Everything that is wrong with a job.
fn check(job: &Job) -> Vec<PlanError> {
    let mut errors = Vec::new();
    if job.groupings.is_empty() {
        errors.push(PlanError::NoGroupings);
    }
    for (index, grouping) in job.groupings.iter().enumerate() {
        if job.groupings.iter().take(index).any(|other| other.name == grouping.name) {
            errors.push(PlanError::DuplicateGrouping { grouping: grouping.name.clone() });
        }
        if let Some(error) = results::check_chain(job, grouping) {
            // What its fields are is not known.
            errors.push(error);
            continue;
        }
        results::check(job, grouping, &mut errors);
        sequences::check(job, grouping, &mut errors);
        check_columns(job, grouping, &mut errors);
        check_aggregates(job, grouping, &mut errors);
        check_top_k(job, grouping, &mut errors);
        check_window(job, grouping, &mut errors);
        check_trigger(grouping, &mut errors);
    }
    if let Some(spread) = &job.spread {
        for field in [&spread.first, &spread.last] {
            let known = job.fields.iter().find(|known| known.name == *field);
            if !known.is_some_and(|known| known.ty.is_integer()) {
                errors.push(PlanError::NotAnInstant { field: field.clone() });
            }
        }
    }
    errors
}

/// Most windows that may hold one record, where it is copied into each: the trigger looks at
/// records, or panes tell their times.
pub const OVERLAP_MAX: i64 = 64;

/// Most windows that may hold one record, where it is kept once: a day of seconds.
pub const OVERLAP_MAX_SLICED: i64 = 86_400;

/// Whether a grouping keeps a record once, however many of its windows hold it.
fn is_sliced(job: &Job, grouping: &Grouping) -> bool {
    let is_parent =
        |other: &Grouping| other.of.as_ref().is_some_and(|of| of.grouping == grouping.name);
    if grouping.of.is_some() || job.groupings.iter().any(is_parent) {
        return false;
    }
    let manner = Manner {
        window: grouping.window,
        trigger: &grouping.trigger,
        emission: grouping.emission,
        allowed_lateness: grouping.allowed_lateness,
        has_sides: grouping.aggregates.iter().any(|aggregate| aggregate.function.has_side()),
        has_cycles: false,
    };
    manner.early().is_some()
}

fn check_window(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    let lengths: &[(Span, &'static str)] = match grouping.window {
        WindowFn::Global | WindowFn::Calendar(_) | WindowFn::Custom(_) => &[],
        WindowFn::Fixed { size, .. } => &[(size, "window.fixed")],
        WindowFn::Sliding { size, period, .. } => {
            &[(size, "window.sliding"), (period, "window.every")]
        }
        WindowFn::Session { gap, max_duration, .. } => {
            let longest = max_duration.unwrap_or(Span::from_millis(1));
            &[(gap, "window.session"), (longest, "window.max_duration")]
        }
    };
    for (length, what) in lengths {
        if length.as_millis() < 1 {
            errors.push(PlanError::TooSmall { grouping: grouping.name.clone(), what });
        }
    }
    let (overlap, name) = (grouping.window.overlap(), &grouping.name);
    if is_sliced(job, grouping) && overlap > OVERLAP_MAX_SLICED {
        let (grouping, max) = (name.clone(), OVERLAP_MAX_SLICED);
        errors.push(PlanError::TooManyWindows { grouping, overlap, max });
    } else if !is_sliced(job, grouping) && overlap > OVERLAP_MAX {
        let (grouping, max) = (name.clone(), OVERLAP_MAX);
        errors.push(PlanError::TooManyCopies { grouping, overlap, max });
    }
    if grouping.window.is_merging() && grouping.top_k.is_some() {
        errors.push(PlanError::TopKOfSessions { grouping: grouping.name.clone() });
    }
    if let Some(gap) = &grouping.gap_field {
        check_fields(job, grouping, std::slice::from_ref(gap), errors);
    }
    let read: Vec<Box<str>> = window_fields(grouping).iter().map(|name| (*name).into()).collect();
    check_fields(job, grouping, &read, errors);
}

/// The fields that the window function of a grouping looks at.
fn window_fields(grouping: &Grouping) -> &[&str] {
    match grouping.window {
        WindowFn::Custom(custom) => custom.0.fields(),
        WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Session { .. }
        | WindowFn::Calendar(_) => &[],
    }
}

fn check_trigger(grouping: &Grouping, errors: &mut Vec<PlanError>) {
    if let Some(what) = grouping.trigger.too_small() {
        errors.push(PlanError::TooSmall { grouping: grouping.name.clone(), what });
    }
    if let Some(closing) = grouping.trigger.closing(grouping.allowed_lateness)
        && !grouping.allow_closing
    {
        errors.push(PlanError::LosesData { grouping: grouping.name.clone(), closing });
    }
}

/// The grouping that a stage is of: its own, or that of the list above its full sums.
pub fn grouping_of<'a>(job: &'a Job, stage: &str) -> Option<&'a Grouping> {
    let find = |name: &str| results::find(job, name);
    find(stage).or_else(|| find(stage.strip_suffix(compile::ALL)?))
}

/// The type of a field of the rows that a grouping reads.
fn type_of(job: &Job, grouping: &Grouping, name: &str) -> Option<Type> {
    let fields = fields_of(job, grouping);
    fields.iter().find(|field| &*field.name == name).map(|field| field.ty)
}

/// The accumulators of `specs` over records with `fields`.
pub fn aggregate_layout(specs: &[AggregateSpec], fields: &[Field]) -> AggregateLayout {
    let type_of = |name: Option<&Box<str>>| {
        let field = name.and_then(|name| fields.iter().find(|field| field.name == *name));
        field.map_or(Type::U64, |field| field.ty)
    };
    AggregateLayout::new(specs.iter().map(|spec| {
        let ty = match spec.function {
            Function::Count => Type::U64,
            Function::Sum
            | Function::Min
            | Function::Max
            | Function::Mean
            | Function::First
            | Function::Last
            | Function::Variance { .. }
            | Function::Side(_) => type_of(spec.fields.first()),
        };
        (spec.name.clone(), spec.function, ty)
    }))
}

/// The results of a grouping of rows with `fields`: its accumulators, or the records of its sessions.
pub(crate) fn results_layout(grouping: &Grouping, fields: &[Field]) -> AggregateLayout {
    match &grouping.sequence {
        Some(sequence) => record_layout(sequence, fields),
        None => aggregate_layout(&grouping.aggregates, fields),
    }
}

fn check_fields(job: &Job, grouping: &Grouping, names: &[Box<str>], errors: &mut Vec<PlanError>) {
    for name in names {
        let fields = fields_of(job, grouping);
        if fields.iter().any(|field| field.name == *name) {
            continue;
        }
        let suggestion = nearest(name, fields.iter().map(|field| &*field.name));
        let (grouping, field, of) = (grouping.name.clone(), name.clone(), grouping.of.as_ref());
        errors.push(match of.map(|of| of.grouping.clone()) {
            None => PlanError::UnknownField { grouping, field, suggestion },
            Some(of) => PlanError::UnknownResult { grouping, of, field, suggestion },
        });
    }
}

/// How many copies of a record a grouping makes: the length of its longest column.
fn copies(grouping: &Grouping) -> usize {
    let columns = grouping.key.iter().map(|column| column.each.len());
    let aggregates = grouping.aggregates.iter().map(|aggregate| aggregate.fields.len());
    columns.chain(aggregates).max().unwrap_or(1).max(1)
}

fn check_columns(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    let copies = copies(grouping);
    for (index, column) in grouping.key.iter().enumerate() {
        if grouping.key.iter().take(index).any(|other| other.name == column.name) {
            errors.push(PlanError::DuplicateName {
                grouping: grouping.name.clone(),
                name: column.name.clone(),
            });
        }
        check_fields(job, grouping, &column.each, errors);
        check_even(job, grouping, (&column.name, &column.each), errors);
        if column.each.is_empty() {
            errors.push(PlanError::UnevenCopies {
                grouping: grouping.name.clone(),
                name: column.name.clone(),
                found: 0,
                expected: copies,
            });
        }
    }
}

/// Fields listed together must be one, or one for each copy, all of one type.
fn check_even(
    job: &Job,
    grouping: &Grouping,
    (name, fields): (&str, &[Box<str>]),
    errors: &mut Vec<PlanError>,
) {
    let expected = copies(grouping);
    let mut types = fields.iter().filter_map(|field| type_of(job, grouping, field));
    let first = types.next();
    let is_mixed = types.any(|ty| Some(ty) != first);
    if is_mixed || fields.len() > 1 && fields.len() != expected {
        errors.push(PlanError::UnevenCopies {
            grouping: grouping.name.clone(),
            name: name.into(),
            found: fields.len(),
            expected,
        });
    }
}

fn check_aggregates(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    for (index, aggregate) in grouping.aggregates.iter().enumerate() {
        let in_key = grouping.key.iter().any(|column| column.name == aggregate.name);
        let before = grouping.aggregates.iter().take(index);
        if in_key || before.into_iter().any(|other| other.name == aggregate.name) {
            errors.push(PlanError::DuplicateName {
                grouping: grouping.name.clone(),
                name: aggregate.name.clone(),
            });
        }
        check_fields(job, grouping, &aggregate.fields, errors);
        check_even(job, grouping, (&aggregate.name, &aggregate.fields), errors);
        let needs_field = aggregate.function != crate::aggregate::Function::Count;
        if needs_field && aggregate.fields.is_empty() {
            errors.push(PlanError::UnevenCopies {
                grouping: grouping.name.clone(),
                name: aggregate.name.clone(),
                found: 0,
                expected: copies(grouping),
            });
        }
        let wrong = aggregate
            .fields
            .iter()
            .filter_map(|field| type_of(job, grouping, field))
            .find(|ty| !aggregate.function.accepts(*ty));
        if let Some(ty) = wrong {
            errors.push(PlanError::WrongType {
                grouping: grouping.name.clone(),
                aggregate: aggregate.name.clone(),
                function: aggregate.function.name(),
                ty: ty.name(),
            });
        }
    }
}

fn check_top_k(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    use crate::aggregate::Function;
    let Some(top_k) = &grouping.top_k else { return };
    for aggregate in grouping.aggregates.iter().filter(|spec| spec.function.has_side()) {
        errors.push(PlanError::TopKOfSide {
            grouping: grouping.name.clone(),
            aggregate: aggregate.name.clone(),
            function: aggregate.function.name(),
        });
    }
    if top_k.k == 0 {
        errors.push(PlanError::TooSmall { grouping: grouping.name.clone(), what: "top_k.k" });
    }
    for (names, what) in [(&top_k.entity, "top_k.entity"), (&top_k.rank, "top_k.rank")] {
        if names.is_empty() {
            errors.push(PlanError::TooSmall { grouping: grouping.name.clone(), what });
        }
    }
    for name in top_k.entity.iter().chain(&top_k.require) {
        if !grouping.key.iter().any(|column| column.name == *name) {
            errors.push(PlanError::UnknownName {
                grouping: grouping.name.clone(),
                name: name.clone(),
                what: "a key column",
                suggestion: nearest(name, grouping.key.iter().map(|column| &*column.name)),
            });
        }
    }
    for name in &top_k.rank {
        let aggregate = grouping.aggregates.iter().find(|aggregate| aggregate.name == *name);
        let Some(aggregate) = aggregate else {
            let known = grouping.aggregates.iter().map(|aggregate| &*aggregate.name);
            errors.push(PlanError::UnknownName {
                grouping: grouping.name.clone(),
                name: name.clone(),
                what: "an aggregate",
                suggestion: nearest(name, known),
            });
            continue;
        };
        let is_integer_sum = aggregate.function == Function::Sum
            && aggregate
                .fields
                .iter()
                .filter_map(|field| type_of(job, grouping, field))
                .all(Type::is_integer);
        if aggregate.function != Function::Count && !is_integer_sum {
            errors.push(PlanError::NotRankable {
                grouping: grouping.name.clone(),
                aggregate: name.clone(),
            });
        }
    }
}
