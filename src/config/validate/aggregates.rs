//! Aggregates of a grouping.

use super::groups::{Scope, look_up_all};
use super::names::check_word;
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::group::{RawFunction, RawGroup};
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::scalar::Choice;
use crate::config::raw::text_or_table::RawAggregate;
use nilometer_model::aggregate::Function;
use nilometer_model::plan::{AggregateSpec, KeyColumn};

/// Amounts of a flow, whose sums are split over the windows that the flow touches.
const AMOUNTS: [&str; 8] = [
    "bytes",
    "packets",
    "num_bytes",
    "num_packets",
    "bytes_ingress",
    "bytes_egress",
    "packets_ingress",
    "packets_egress",
];

/// The aggregates; `None` if one is wrong.
pub(crate) fn aggregates(
    raw: &RawGroup,
    key: Option<&[KeyColumn]>,
    scope: &Scope,
    problems: &mut Problems,
) -> Option<Vec<AggregateSpec>> {
    let all = raw.aggregates.get()?;
    if all.value.names.is_empty() && all.value.is_whole {
        let help = "name at least one: aggregates = { records = \"count()\" }";
        problems.add_with_help(all.place, "the group computes nothing", help);
        return None;
    }
    let mut specs = Vec::new();
    let mut is_whole = all.value.is_whole;
    for (name, aggregate) in &all.value.names {
        check_word(&name.value, "aggregate", name.place, problems);
        let spec = spec(name, aggregate, (key, scope), problems);
        is_whole &= spec.is_some();
        specs.extend(spec);
    }
    is_whole.then_some(specs)
}

fn spec(
    name: &Spanned<String>,
    raw: &Spanned<RawAggregate>,
    (key, scope): (Option<&[KeyColumn]>, &Scope),
    problems: &mut Problems,
) -> Option<AggregateSpec> {
    let function = raw.value.function.get()?;
    let (fields, place) = match fields(raw, function, scope, problems)? {
        Some((fields, place)) => (fields, place),
        None => (Vec::new(), raw.place),
    };
    check_copies(name, (&fields, place), key, problems)?;
    let ty = fields.first().and_then(|field| scope.ty(field));
    let function = model_function(function.value);
    if let Some(ty) = ty.filter(|ty| !function.accepts(*ty)) {
        problems.add_with_help(
            place,
            format!("the {} of a field of type {ty} is not defined", function.name()),
            "use count, min, max, first or last, or a field that holds numbers",
        );
        return None;
    }
    let is_amount = fields.iter().all(|field| AMOUNTS.contains(&&**field));
    let spread = scope.is_flow && function == Function::Sum && is_amount;
    Some(AggregateSpec { name: name.value.as_str().into(), function, fields, spread })
}

/// The fields of an aggregate and where they were typed; `Some(None)` for a count, `None` if they
/// are wrong.
fn fields(
    raw: &Spanned<RawAggregate>,
    function: &Spanned<RawFunction>,
    scope: &Scope,
    problems: &mut Problems,
) -> Option<Option<(Vec<Box<str>>, Place)>> {
    let is_count = function.value == RawFunction::Count;
    match (&raw.value.field, &raw.value.each) {
        (Given::Wrong, _) | (_, Given::Wrong) => None,
        (Given::Absent, Given::Absent) if is_count => Some(None),
        (Given::Absent, Given::Absent) => {
            let name = function.value.name();
            let help = format!("write \"{name}(field)\"");
            problems.add_with_help(raw.place, format!("`{name}` lacks a field"), help);
            None
        }
        (Given::Value(Spanned { place, .. }), _) | (_, Given::Value(Spanned { place, .. }))
            if is_count =>
        {
            problems.add_with_help(*place, "`count` takes no field", "write \"count()\"");
            None
        }
        (Given::Value(_), Given::Value(each)) => {
            let message = "an aggregate has either `field` or `each`";
            problems.add_with_help(each.place, message, "leave one of them out");
            None
        }
        (Given::Value(field), Given::Absent) => {
            let fields = scope.look_up(&field.value, field.place, problems)?;
            Some(Some((fields, field.place)))
        }
        (Given::Absent, Given::Value(each)) => {
            Some(Some((look_up_all(each, scope, problems)?, each.place)))
        }
    }
}

/// Several fields need a key column of as many; `None` if there is none.
fn check_copies(
    name: &Spanned<String>,
    (fields, place): (&[Box<str>], Place),
    key: Option<&[KeyColumn]>,
    problems: &mut Problems,
) -> Option<()> {
    if fields.len() < 2 {
        return Some(());
    }
    let copies = key?.iter().map(|column| column.each.len()).find(|copies| *copies > 1);
    if copies == Some(fields.len()) {
        return Some(());
    }
    let found = match copies {
        None => "no key column takes each of several fields".into(),
        Some(copies) => format!("the key has copies for each of {copies}"),
    };
    problems.add_with_help(
        place,
        format!("aggregate `{}` takes each of {} fields, but {found}", name.value, fields.len()),
        "fields of an aggregate run in step with those of a key column",
    );
    None
}

const fn model_function(raw: RawFunction) -> Function {
    match raw {
        RawFunction::Count => Function::Count,
        RawFunction::Sum => Function::Sum,
        RawFunction::Min => Function::Min,
        RawFunction::Max => Function::Max,
        RawFunction::Mean => Function::Mean,
        RawFunction::First => Function::First,
        RawFunction::Last => Function::Last,
    }
}
