//! Groupings of results, by definition: the final results of the grouping below are the records.
//!
//! Nothing is taken back here: there is one row for each key and window in the end, and that is all
//! that counts.

use super::input::Reader;
use super::total::Inputs;
use super::{KeyValues, Place, Record, Session, total};
use crate::aggregate::Overflow;
use crate::expr::Refinement;
use crate::plan::{Grouping, Job, OfSpec};
use crate::planner::{fields_of, result_fields};
use crate::row::{Position, RowBatch, RowLayout, read};
use crate::sequence::record_fields;
use crate::symbol::Symbols;
use crate::time::{EventTime, Window};
use crate::value::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Adds the results of every grouping of results to `totals`, which has all others; `sessions` are
/// the results of sequences.
pub(super) fn finish(
    job: &Job,
    totals: &mut BTreeMap<Place, Vec<Value>>,
    sessions: &[Session],
) -> Result<(), Overflow> {
    let mut waiting: Vec<_> = job.groupings.iter().filter(|group| group.of.is_some()).collect();
    // Each is ready once the one below is done; a validated job has no circle.
    while let Some(at) = waiting.iter().position(|group| is_ready(group, &waiting)) {
        let grouping = waiting.swap_remove(at);
        if let Some(of) = &grouping.of {
            evaluate(job, (grouping, of), (&mut *totals, sessions))?;
        }
    }
    Ok(())
}

fn is_ready(grouping: &Grouping, waiting: &[&Grouping]) -> bool {
    let of = grouping.of.as_ref().map(|of| &of.grouping);
    waiting.iter().all(|other| Some(&other.name) != of)
}

fn evaluate(
    job: &Job,
    (grouping, of): (&Grouping, &OfSpec),
    (totals, sessions): (&mut BTreeMap<Place, Vec<Value>>, &[Session]),
) -> Result<(), Overflow> {
    let fields = fields_of(job, grouping).into_owned();
    // The same job, over rows of results.
    let rows_job = Job { fields, spread: None, phase: None, ..job.clone() };
    let reader = Reader { job: &rows_job, grouping };
    let mut inputs: BTreeMap<(KeyValues, Window), Inputs> = BTreeMap::new();
    for record in rows(job, (&rows_job, of), (&*totals, sessions)) {
        for copy in reader.copies(&record) {
            for window in reader.windows(&record, &copy, None) {
                let values = reader.values((&record, &copy), None, window, &[]);
                inputs.entry((copy.key.clone(), window)).or_default().add(record.time, values);
            }
        }
    }
    total::finish(&rows_job, grouping, inputs, totals)
}

/// The results of the grouping below, with the fields computed from them, less what the filter
/// leaves out.
fn rows(
    job: &Job,
    (rows_job, of): (&Job, &OfSpec),
    (totals, sessions): (&BTreeMap<Place, Vec<Value>>, &[Session]),
) -> Vec<Record> {
    let Some(parent) = job.groupings.iter().find(|parent| parent.name == of.grouping) else {
        return Vec::new();
    };
    let known = result_fields(parent, &fields_of(job, parent));
    let layout = Arc::new(RowLayout::new(rows_job.fields.iter().cloned()));
    let symbols = Symbols::default();
    let mut batch = RowBatch::new(layout.clone());
    let mut push = |time: EventTime, value: &dyn Fn(&str) -> Value| {
        let mut row = batch.push(time, Position::default());
        for (field, slot) in known.iter().zip(layout.slots()) {
            if let Ok(datum) = value(&field.name).intern(&symbols) {
                row.set(*slot, datum);
            }
        }
    };
    for (place, results) in totals.iter().filter(|(place, _)| place.grouping == parent.name) {
        push(place.window.last_instant(), &|name| value(parent, (place, results), name));
    }
    for session in sessions.iter().filter(|session| session.grouping == parent.name) {
        push(session.time, &|name| of_session(parent, session, name));
    }
    if let Ok(refinement) = Refinement::bind(&of.derived, of.filter.as_ref(), &layout, &symbols) {
        refinement.apply(&mut batch, &symbols);
    }
    let record = |index| Record {
        time: batch.time(index),
        values: layout
            .slots()
            .iter()
            .map(|slot| read(batch.row(index), *slot).value(&symbols))
            .collect(),
    };
    (0..batch.len()).map(record).collect()
}

/// What a session says of `name`.
fn of_session(parent: &Grouping, session: &Session, name: &str) -> Value {
    let column = parent.key.iter().position(|column| &*column.name == name);
    let field = || {
        let fields = record_fields(parent.sequence.as_deref()?);
        session.values.get(fields.iter().position(|(_, known)| &**known == name)?)
    };
    let found = match column {
        Some(column) => session.key.0.get(column),
        None => field(),
    };
    found.cloned().unwrap_or(Value::Null)
}

/// What a row says of `name`.
fn value(parent: &Grouping, (place, results): (&Place, &[Value]), name: &str) -> Value {
    let millis = |time: EventTime| Value::Int(time.as_millis().into());
    let column = parent.key.iter().position(|column| &*column.name == name);
    let aggregate = parent.aggregates.iter().position(|spec| &*spec.name == name);
    let found = match (column, aggregate, name) {
        (Some(column), _, _) => place.key.0.get(column).cloned(),
        (None, Some(aggregate), _) => results.get(aggregate).cloned(),
        (None, None, "window_start") => Some(millis(place.window.start())),
        (None, None, "window_end") => Some(millis(place.window.end())),
        (None, None, _) => {
            let (start, end) = (place.window.start().as_millis(), place.window.end().as_millis());
            Some(Value::Int(end.saturating_sub(start).max(0).into()))
        }
    };
    found.unwrap_or(Value::Null)
}
