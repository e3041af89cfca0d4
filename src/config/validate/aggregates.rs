//! Aggregates of a grouping.

use super::groups::{Scope, look_up_all};
use super::names::check_word;
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::aggregate::{
    RawAggregate, RawCall, RawCollect, RawDistinct, RawFrequent, RawFunction, RawQuantile,
};
use crate::config::raw::group::RawGroup;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::scalar::Choice;
use crate::config::raw::text_or_table::RawFields;
use nilometer_model::aggregate::Function;
use nilometer_model::aggregate::side::SideFunction;
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
    let (function, fields) = match &raw.value {
        RawAggregate::Call(call) => {
            let function = call.function.get()?;
            (by_name(function, problems), fields((call, raw.place), function, scope, problems)?)
        }
        RawAggregate::Distinct(table) => {
            (distinct(table), each_or_one(&table.distinct, scope, problems)?)
        }
        RawAggregate::Quantile(table) => {
            (quantile(table), each_or_one(&table.quantile, scope, problems)?)
        }
        RawAggregate::Frequent(table) => {
            (frequent(table, problems), each_or_one(&table.frequent, scope, problems)?)
        }
        RawAggregate::Collect(table) => {
            (collect(table, problems), each_or_one(&table.collect, scope, problems)?)
        }
    };
    let (fields, place) = fields.unwrap_or((Vec::new(), raw.place));
    check_copies(name, (&fields, place), key, problems)?;
    let ty = fields.first().and_then(|field| scope.ty(field));
    let function = function?;
    if let Some(ty) = ty.filter(|ty| !function.accepts(*ty)) {
        problems.add_with_help(
            place,
            format!("the {} of a field of type {ty} is not defined", function.name()),
            "use count, min, max, first, last, distinct, frequent or collect, or a field that \
             holds numbers",
        );
        return None;
    }
    let is_amount = fields.iter().all(|field| AMOUNTS.contains(&&**field));
    let spread = scope.is_flow && function == Function::Sum && is_amount;
    Some(AggregateSpec { name: name.value.as_str().into(), function, fields, spread })
}

/// The fields of an aggregate and where they were typed; `None` for a count.
type Fields = Option<(Vec<Box<str>>, Place)>;

/// What a name stands for stands for each of several fields; `None` if it is wrong.
fn field(name: &Given<String>, scope: &Scope, problems: &mut Problems) -> Option<Fields> {
    let name = name.get()?;
    Some(Some((scope.look_up(&name.value, name.place, problems)?, name.place)))
}

/// One field, or each of several; `None` if they are wrong.
fn each_or_one(given: &Given<RawFields>, scope: &Scope, problems: &mut Problems) -> Option<Fields> {
    let given = given.get()?;
    let fields = match &given.value {
        RawFields::One(name) => scope.look_up(name, given.place, problems)?,
        RawFields::Each(names) => look_up_all((names, given.place), scope, problems)?,
    };
    Some(Some((fields, given.place)))
}

/// The fields of an aggregate that names its function; `None` if they are wrong.
fn fields(
    (raw, place): (&RawCall, Place),
    function: &Spanned<RawFunction>,
    scope: &Scope,
    problems: &mut Problems,
) -> Option<Fields> {
    let is_count = function.value == RawFunction::Count;
    match (&raw.field, &raw.each) {
        (Given::Wrong, _) | (_, Given::Wrong) => None,
        (Given::Absent, Given::Absent) if is_count => Some(None),
        (Given::Absent, Given::Absent) => {
            let name = function.value.name();
            let help = format!("write \"{name}(field)\"");
            problems.add_with_help(place, format!("`{name}` lacks a field"), help);
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
        (Given::Value(_), Given::Absent) => field(&raw.field, scope, problems),
        (Given::Absent, Given::Value(each)) => {
            Some(Some((look_up_all((&each.value, each.place), scope, problems)?, each.place)))
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

/// A function that needs no settings; `None` if it does.
fn by_name(raw: &Spanned<RawFunction>, problems: &mut Problems) -> Option<Function> {
    let mut refuse = |help: &str| {
        problems.add_with_help(raw.place, format!("`{}` lacks settings", raw.value.name()), help);
        None
    };
    Some(match raw.value {
        RawFunction::Count => Function::Count,
        RawFunction::Sum => Function::Sum,
        RawFunction::Min => Function::Min,
        RawFunction::Max => Function::Max,
        RawFunction::Mean => Function::Mean,
        RawFunction::First => Function::First,
        RawFunction::Last => Function::Last,
        RawFunction::Variance => Function::VARIANCE,
        RawFunction::Stddev => Function::STDDEV,
        RawFunction::VarianceSample => Function::VARIANCE_SAMPLE,
        RawFunction::StddevSample => Function::STDDEV_SAMPLE,
        RawFunction::Distinct => {
            Function::Side(SideFunction::Distinct { precision: SideFunction::PRECISION })
        }
        RawFunction::Frequent => {
            let k = SideFunction::K;
            let counters = k * SideFunction::COUNTERS_PER_K;
            Function::Side(SideFunction::Frequent { k, counters })
        }
        RawFunction::Quantile => return refuse("write { quantile = \"field\", p = 0.99 }"),
        RawFunction::Collect => {
            return refuse("write { collect = \"field\", max = 100, max_bytes = \"64KiB\" }");
        }
    })
}

fn distinct(raw: &RawDistinct) -> Option<Function> {
    let precision = u8::try_from(raw.precision.value()?.0).ok()?;
    Some(Function::Side(SideFunction::Distinct { precision }))
}

fn quantile(raw: &RawQuantile) -> Option<Function> {
    let (p, accuracy) = (raw.p.value()?.0, raw.accuracy.value()?.0);
    Some(Function::Side(SideFunction::Quantile { p, accuracy }))
}

fn frequent(raw: &RawFrequent, problems: &mut Problems) -> Option<Function> {
    let k = u32::try_from(raw.k.value()?.0).ok()?;
    let most = SideFunction::COUNTERS_MAX;
    let counters = match &raw.counters {
        Given::Wrong => return None,
        Given::Absent => k.saturating_mul(SideFunction::COUNTERS_PER_K).min(most),
        Given::Value(counters) => {
            let given = u32::try_from(counters.value.0).ok()?;
            if given < k {
                let message = format!("{given} counters do not suffice to show {k} values");
                let help = "counters are at least k; ten times as many are a good start";
                problems.add_with_help(counters.place, message, help);
                return None;
            }
            given
        }
    };
    Some(Function::Side(SideFunction::Frequent { k, counters }))
}

fn collect(raw: &RawCollect, problems: &mut Problems) -> Option<Function> {
    let (values_max, bytes) = (u32::try_from(raw.max.value()?.0).ok()?, raw.max_bytes.get()?);
    let overhead = SideFunction::COLLECT_OVERHEAD;
    let bytes_max = u32::try_from(bytes.value.0).unwrap_or(u32::MAX);
    if !(overhead..=SideFunction::COLLECT_BYTES_MAX).contains(&bytes_max) {
        let message = format!("{} bytes are no bound for collected values", bytes.value.0);
        let help = format!("a single value takes {overhead} and its text; at most 64 MiB");
        problems.add_with_help(bytes.place, message, help);
        return None;
    }
    Some(Function::Side(SideFunction::Collect { values_max, bytes_max }))
}
