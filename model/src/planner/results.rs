//! Groupings of results: what their rows are, and what may be asked of them.
//!
//! A row has the key columns and the results of the grouping that it comes from, the bounds of its
//! window, and fields computed from these.

use super::{PlanError, nearest};
use crate::aggregate::{AggregateLayout, Function};
use crate::expr::Refinement;
use crate::pane::{AccumulationMode, TimestampCombiner};
use crate::plan::{Grouping, Job, OfSpec, ResultSource};
use crate::row::{Field, RowLayout};
use crate::sequence::record_fields;
use crate::symbol::Symbols;
use crate::time::Span;
use crate::value::Type;
use crate::window::{WindowFn, display_span};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What a row says of its window, in ms.
const WINDOW_FIELDS: [(&str, ResultSource); 3] = [
    ("window_start", ResultSource::WindowStart),
    ("window_end", ResultSource::WindowEnd),
    ("window_length", ResultSource::WindowLength),
];

/// The grouping called `name`.
pub(super) fn find<'a>(job: &'a Job, name: &str) -> Option<&'a Grouping> {
    job.groupings.iter().find(|grouping| &*grouping.name == name)
}

/// The groupings whose results make up those that `name` reads, nearest first: each reads the next.
/// `of` says what each one reads, if it is known.
///
/// # Errors
/// One of them is made of itself: all groupings on the way round.
pub fn chain<'a>(
    name: &'a str,
    of: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<&'a str>, Vec<&'a str>> {
    let mut names = vec![name];
    while let Some(next) = names.last().and_then(|last| of(last)) {
        if let Some(first) = names.iter().position(|known| *known == next) {
            return Err(names.split_off(first));
        }
        names.push(next);
    }
    names.remove(0);
    Ok(names)
}

/// The fields of the rows that a grouping reads: records, or results of another. Empty if it is not
/// known what these are.
pub fn fields_of<'a>(job: &'a Job, grouping: &Grouping) -> Cow<'a, [Field]> {
    let Some(of) = &grouping.of else { return Cow::Borrowed(&job.fields) };
    if check_chain(job, grouping).is_some() {
        return Cow::Borrowed(&[]);
    }
    let mut fields = find(job, &of.grouping)
        .map_or_else(Vec::new, |parent| result_fields(parent, &fields_of(job, parent)));
    fields.extend(derived_fields(of));
    Cow::Owned(fields)
}

/// The fields of the results of a grouping that reads rows with `fields`.
pub fn result_fields(grouping: &Grouping, fields: &[Field]) -> Vec<Field> {
    let column = |column: &crate::plan::KeyColumn| {
        let known = column.each.first();
        let known = known.and_then(|name| fields.iter().find(|field| field.name == *name));
        Field { name: column.name.clone(), ty: known.map_or(Type::U64, |field| field.ty) }
    };
    let aggregates = super::results_layout(grouping, fields);
    // A list that an aggregate makes is for sinks: no row holds it.
    let results = aggregates.accumulators().iter().filter(|aggregate| !aggregate.is_own_text());
    let results = results
        .map(|aggregate| Field { name: aggregate.name.clone(), ty: aggregate.result_type() });
    // A session tells its own times.
    let has_window = grouping.sequence.is_none();
    let bounds = WINDOW_FIELDS.iter().filter(|_| has_window);
    let bounds = bounds.map(|(name, _)| Field::new(name, Type::I64));
    grouping.key.iter().map(column).chain(results).chain(bounds).collect()
}

fn derived_fields(of: &OfSpec) -> impl Iterator<Item = Field> + '_ {
    let derived = of.derived.iter();
    derived.filter_map(|(name, expr)| Some(Field { name: name.clone(), ty: expr.ty()? }))
}

/// Where a field of a row of `parent`'s results comes from.
pub(super) fn source(parent: &Grouping, name: &str) -> ResultSource {
    let column = parent.key.iter().position(|column| &*column.name == name);
    let aggregate = || match &parent.sequence {
        Some(sequence) => record_fields(sequence).iter().position(|(_, known)| &**known == name),
        None => parent.aggregates.iter().position(|aggregate| &*aggregate.name == name),
    };
    let bound = || WINDOW_FIELDS.iter().find(|(known, _)| *known == name);
    column
        .map(ResultSource::Key)
        .or_else(|| aggregate().map(ResultSource::Aggregate))
        .or_else(|| bound().map(|(_, source)| *source))
        .unwrap_or(ResultSource::Derived)
}

/// The fields that rows must have for what the grouping, and its expressions, read.
pub(super) fn read_fields(job: &Job, grouping: &Grouping, of: &OfSpec) -> Vec<Field> {
    let columns = grouping.key.iter().flat_map(|column| &column.each);
    let aggregates = grouping.aggregates.iter().flat_map(|aggregate| &aggregate.fields);
    let mut read: BTreeSet<&str> = columns.chain(aggregates).map(|name| &**name).collect();
    read.extend(super::window_fields(grouping));
    read.extend(of.filter.iter().flat_map(|filter| filter.fields()));
    // A derived field uses only those above it, so one pass from the last finds all.
    for (name, expr) in of.derived.iter().rev() {
        if read.contains(&**name) {
            read.extend(expr.fields());
        }
    }
    let fields = fields_of(job, grouping);
    fields.iter().filter(|field| read.contains(&*field.name)).cloned().collect()
}

/// What is wrong with the names of the groupings whose results a grouping is made of.
pub(super) fn check_chain(job: &Job, grouping: &Grouping) -> Option<PlanError> {
    let of = |name: &str| find(job, name)?.of.as_ref().map(|of| &*of.grouping);
    let name = grouping.name.clone();
    match chain(&grouping.name, of) {
        Err(cycle) => {
            let cycle = cycle.into_iter().map(Into::into).collect();
            Some(PlanError::Circle { grouping: name, cycle })
        }
        Ok(names) => {
            let unknown = names.into_iter().find(|name| find(job, name).is_none())?;
            let known = job.groupings.iter().map(|known| &*known.name);
            let known = known.filter(|known| **known != *grouping.name);
            let suggestion = nearest(unknown, known);
            Some(PlanError::UnknownParent { grouping: name, of: unknown.into(), suggestion })
        }
    }
}

/// Everything that is wrong with how a grouping reads results.
pub(super) fn check(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    let Some(spec) = &grouping.of else { return };
    let Some(parent) = find(job, &spec.grouping) else { return };
    let (name, of) = (grouping.name.clone(), spec.grouping.clone());
    if parent.top_k.is_some() {
        errors.push(PlanError::OfList { grouping: name.clone(), of: of.clone() });
    }
    let columns = parent.key.iter().map(|column| &column.name);
    for result in columns.chain(parent.aggregates.iter().map(|aggregate| &aggregate.name)) {
        if WINDOW_FIELDS.iter().any(|(known, _)| **known == **result) {
            let (grouping, of) = (name.clone(), of.clone());
            errors.push(PlanError::ReservedName { grouping, of, name: result.clone() });
        }
    }
    let window = || grouping.window.to_string();
    if grouping.window.is_merging() {
        let (grouping, of) = (name.clone(), of.clone());
        errors.push(PlanError::MergingResults { grouping, of, window: window() });
    }
    let is_timeless = parent.window == WindowFn::Global
        && parent.sequence.is_none()
        && parent.emission.timestamp == TimestampCombiner::EndOfWindow;
    if is_timeless && grouping.window != WindowFn::Global {
        let (grouping, of) = (name.clone(), of.clone());
        errors.push(PlanError::EndlessResults { grouping, of, window: window() });
    }
    let corrected_within = parent.sequence.as_ref().map_or(parent.allowed_lateness, |sequence| {
        sequence.corrected_within(parent.allowed_lateness)
    });
    if grouping.allowed_lateness < corrected_within {
        let [own, needed] = [grouping.allowed_lateness, corrected_within].map(display_span);
        let (grouping, of) = (name.clone(), of.clone());
        errors.push(PlanError::ShorterLateness { grouping, of, own, needed });
    }
    if grouping.trigger.closing(Span::from_millis(1)).is_some() {
        let trigger = grouping.trigger.to_string();
        let (grouping, of) = (name.clone(), of.clone());
        errors.push(PlanError::ClosesResults { grouping, of, trigger });
    }
    check_kept(job, grouping, errors);
    check_counted(grouping, errors);
    let layout = RowLayout::new(read_fields(job, grouping, spec));
    let bound = Refinement::bind(&spec.derived, spec.filter.as_ref(), &layout, &Symbols::default());
    if let Err(error) = bound {
        errors.push(PlanError::Expression { grouping: name, error });
    }
}

/// A listed entry goes when its last row is taken back: only a count of rows tells.
fn check_counted(grouping: &Grouping, errors: &mut Vec<PlanError>) {
    let counts_rows = grouping.aggregates.iter().any(|spec| spec.function == Function::Count);
    if grouping.top_k.is_some() && !counts_rows {
        errors.push(PlanError::UncountedResults { grouping: grouping.name.clone() });
    }
}

/// Aggregates that keep values have no deltas.
fn check_kept(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    let aggregates: AggregateLayout =
        super::aggregate_layout(&grouping.aggregates, &fields_of(job, grouping));
    let kept = aggregates.accumulators().iter().filter(|aggregate| !aggregate.is_reversible());
    for aggregate in kept {
        let function = aggregate.function.name();
        let (grouping_name, name) = (grouping.name.clone(), aggregate.name.clone());
        if grouping.top_k.is_some() {
            let (grouping, aggregate) = (grouping_name, name);
            errors.push(PlanError::ListedResults { grouping, aggregate, function });
        } else if grouping.mode == AccumulationMode::Discarding {
            let (grouping, aggregate) = (grouping_name, name);
            errors.push(PlanError::DiscardedResults { grouping, aggregate, function });
        }
    }
}
