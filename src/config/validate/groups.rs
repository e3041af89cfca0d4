//! Groupings: keys, windows, top-K.

use super::aggregates::aggregates;
use super::inputs;
use super::names::{self, FLOW_EACH, check_unique, check_word, expand};
use super::outputs::SinkNames;
use super::results;
use super::triggers::{check_global, emission, trigger};
use super::windows::windows;
use crate::config::pipeline::Records;
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::group::{RawGroup, RawMode, RawTies, RawTopK};
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::text_or_table::RawColumn;
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::{AggregateSpec, Grouping, KeyColumn, Ties, TopKSpec};
use nilometer_model::row::Field;
use nilometer_model::value::Type;

/// What groupings may refer to.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Fields of the records, or results; `None` if they are not known, which has been reported.
    fields: Option<Vec<Field>>,
    /// Derived fields whose expressions are wrong: they exist, but have no type.
    broken: Vec<String>,
    /// Whether records are flows.
    pub(crate) is_flow: bool,
    /// Whether a source may go on for ever.
    pub(crate) is_live: bool,
    sinks: SinkNames,
}

impl Scope {
    /// What there is in a pipeline with these records.
    pub(crate) fn new(raw: &RawConfig, records: &Option<Records>, is_live: bool) -> Self {
        let (fields, is_flow) = match records {
            Some(Records::Flows(_)) => (Some(inputs::flow_fields()), true),
            Some(Records::Declared(record)) => (
                Some(record.fields.iter().map(|field| Field::new(&field.name, field.ty)).collect()),
                false,
            ),
            None => inputs::readable_fields(raw),
        };
        Self { fields, broken: Vec::new(), is_flow, is_live, sinks: SinkNames::new(raw) }
    }

    /// What there is in a group that reads results with `fields`, if these are known.
    pub(crate) fn of_results(&self, fields: Option<Vec<Field>>) -> Self {
        let Self { is_live, sinks, .. } = self.clone();
        Self { fields, broken: Vec::new(), is_flow: false, is_live, sinks }
    }

    /// The names of sinks.
    pub(crate) const fn sinks(&self) -> &SinkNames {
        &self.sinks
    }

    /// The fields of the records, if they are known.
    pub(crate) fn known_fields(&self) -> Option<&[Field]> {
        self.fields.as_deref()
    }

    /// Adds a derived field.
    pub(crate) fn add(&mut self, field: Field) {
        self.fields.get_or_insert_default().push(field);
    }

    /// Takes notice of a derived field that cannot be computed, which has been reported.
    pub(crate) fn forget(&mut self, name: &str) {
        self.broken.push(name.into());
    }

    /// The fields of the records.
    pub(crate) fn fields(&self) -> &[Field] {
        self.fields.as_deref().unwrap_or(&[])
    }

    /// Whether `name` is a derived field that cannot be computed.
    pub(crate) fn is_broken(&self, name: &str) -> bool {
        self.broken.iter().any(|known| known == name)
    }

    /// The fields that `name` stands for: itself, or each of several of a flow. Reports a name
    /// that is not known.
    pub(crate) fn look_up(
        &self,
        name: &str,
        place: Place,
        problems: &mut Problems,
    ) -> Option<Vec<Box<str>>> {
        let fields = self.fields.as_ref()?;
        let each = FLOW_EACH.iter().find(|(known, _)| self.is_flow && *known == name);
        if let Some((_, each)) = each {
            return Some(each.iter().map(|field| (*field).into()).collect());
        }
        if fields.iter().any(|field| &*field.name == name) {
            return Some(vec![name.into()]);
        }
        if self.is_broken(name) {
            return None;
        }
        let short = FLOW_EACH.iter().map(|(name, _)| *name).chain([names::CONVERSATION_NAME]);
        let short = short.filter(|_| self.is_flow);
        let known = short.chain(fields.iter().map(|field| &*field.name));
        problems.add_unknown(place, ("field", name), known);
        None
    }

    /// The type of field `name`.
    pub(crate) fn ty(&self, name: &str) -> Option<Type> {
        let field = self.fields().iter().find(|field| &*field.name == name)?;
        Some(field.ty)
    }
}

/// The groupings, sequences first; one that is wrong is reported and left out.
pub(crate) fn groups(raw: &RawConfig, scope: &Scope, problems: &mut Problems) -> Vec<Grouping> {
    let (Some(groups), Some(sequences)) = (raw.group.value(), raw.sequence.value()) else {
        return Vec::new();
    };
    let tables = &groups.tables;
    let has_sequences = !sequences.tables.is_empty() || !sequences.is_whole;
    if tables.is_empty() && groups.is_whole && !has_sequences {
        problems.add_with_help(
            raw.place,
            "there is nothing to compute",
            "add at least one [[group]] with `name`, `key`, `window` and `aggregates`",
        );
    }
    let names = tables.iter().filter_map(|group| group.name.get());
    let names = names.chain(sequences.tables.iter().filter_map(|sequence| sequence.name.get()));
    let what = if has_sequences { "group or sequence" } else { "group" };
    check_unique(what, names.map(|name| (name.value.as_str(), name.place)), problems);
    let mut made: Vec<(Grouping, Vec<Field>)> = super::sequences::sequences(raw, scope, problems);
    for group in results::in_order((tables, &sequences.tables), problems) {
        let Some((scope, of)) = results::reads(group, &made, scope, problems) else { continue };
        let grouping = grouping(group, &scope, problems);
        made.extend(grouping.map(|made| (Grouping { of, ..made }, scope.fields().to_vec())));
    }
    // As they were typed.
    let place = |name: &str| tables.iter().position(|group| is_called(group, name));
    made.sort_by_key(|(grouping, _)| place(&grouping.name));
    made.into_iter().map(|(grouping, _)| grouping).collect()
}

fn is_called(group: &RawGroup, name: &str) -> bool {
    group.name.value().is_some_and(|known| known == name)
}

fn grouping(raw: &RawGroup, scope: &Scope, problems: &mut Problems) -> Option<Grouping> {
    if let Given::Value(name) = &raw.name {
        check_word(&name.value, "group", name.place, problems);
    }
    let key = key(raw, scope, problems);
    let windows = windows(raw, key.as_deref(), scope, problems);
    let aggregates = aggregates(raw, key.as_deref(), scope, problems);
    let trigger = trigger(raw, aggregates.as_deref(), scope, problems);
    let emission = emission(raw, problems);
    let top_k = match &raw.top_k {
        Given::Absent => Some(None),
        Given::Wrong => None,
        Given::Value(top_k) => {
            let names = (key.as_deref(), aggregates.as_deref());
            top_k_spec(&top_k.value, names, scope, problems).map(Some)
        }
    };
    let sinks = scope.sinks.of_group(&raw.sinks, problems);
    let late = scope.sinks.late_of_group(&raw.late, problems);
    let mode = match raw.mode.value()? {
        RawMode::Discarding => AccumulationMode::Discarding,
        RawMode::Accumulating => AccumulationMode::Accumulating,
        RawMode::Retracting => AccumulationMode::Retracting,
    };
    let (windows, trigger) = (windows?, trigger?);
    check_global(raw, (windows.function, &trigger), scope, problems);
    Some(Grouping {
        name: raw.name.value()?.as_str().into(),
        key: key?,
        window: windows.function,
        gap_field: windows.gap_field,
        trigger,
        allow_closing: *raw.allow_closing.value()?,
        emission: emission?,
        mode,
        allowed_lateness: raw.allowed_lateness.value()?.0,
        aggregates: aggregates?,
        top_k: top_k?,
        sinks,
        late: late?,
        of: None,
        sequence: None,
    })
}

/// The key columns; `None` if one is wrong.
fn key(raw: &RawGroup, scope: &Scope, problems: &mut Problems) -> Option<Vec<KeyColumn>> {
    let list = raw.key.value()?;
    let mut columns: Vec<(KeyColumn, Place)> = Vec::new();
    let mut is_whole = true;
    for column in list {
        let (name, each) = match &column.value {
            RawColumn::Field(name) => {
                for name in expand(name, scope.is_flow) {
                    let each = scope.look_up(name, column.place, problems);
                    is_whole &= each.is_some();
                    let column_of = |each| (KeyColumn { name: name.into(), each }, column.place);
                    columns.extend(each.map(column_of));
                }
                continue;
            }
            RawColumn::Each(table) => (table.name.get(), table.each.get()),
        };
        let Some((name, each)) = name.zip(each) else {
            is_whole = false;
            continue;
        };
        check_word(&name.value, "column", name.place, problems);
        let fields = look_up_all((&each.value, each.place), scope, problems);
        is_whole &= fields.is_some();
        let column_of = |each| (KeyColumn { name: name.value.as_str().into(), each }, name.place);
        columns.extend(fields.map(column_of));
    }
    check_unique("column", columns.iter().map(|(column, place)| (&*column.name, *place)), problems);
    let mut copies = columns.iter().filter(|(column, _)| column.each.len() > 1);
    if let Some((first, _)) = copies.next() {
        for (column, place) in copies.filter(|(column, _)| column.each.len() != first.each.len()) {
            problems.add_with_help(
                *place,
                format!(
                    "column `{}` takes each of {} fields, and column `{}` each of {}",
                    column.name,
                    column.each.len(),
                    first.name,
                    first.each.len()
                ),
                "columns with `each` run in step: give them as many fields",
            );
        }
    }
    is_whole.then(|| columns.into_iter().map(|(column, _)| column).collect())
}

/// The fields of an `each` list, which must be of one type; reports what is wrong.
pub(crate) fn look_up_all(
    (each, place): (&[Spanned<String>], Place),
    scope: &Scope,
    problems: &mut Problems,
) -> Option<Vec<Box<str>>> {
    if each.is_empty() {
        problems.add_with_help(place, "no field is named", "name at least one");
        return None;
    }
    let mut fields: Vec<Box<str>> = Vec::new();
    for name in each {
        fields.extend(scope.look_up(&name.value, name.place, problems)?);
    }
    let types: Vec<_> = fields.iter().filter_map(|field| scope.ty(field)).collect();
    if let Some((first, other)) =
        types.first().zip(types.iter().find(|ty| Some(*ty) != types.first()))
    {
        problems.add_with_help(
            place,
            format!("fields of types {first} and {other} cannot stand for each other"),
            "name fields of one type",
        );
        return None;
    }
    Some(fields)
}

fn top_k_spec(
    raw: &RawTopK,
    (key, aggregates): (Option<&[KeyColumn]>, Option<&[AggregateSpec]>),
    scope: &Scope,
    problems: &mut Problems,
) -> Option<TopKSpec> {
    let columns: Option<Vec<&str>> =
        key.map(|key| key.iter().map(|column| &*column.name).collect());
    let ranks: Option<Vec<&str>> =
        aggregates.map(|all| all.iter().map(|aggregate| &*aggregate.name).collect());
    for (list, what) in [(&raw.entity, "key column"), (&raw.rank, "aggregate")] {
        if let Given::Value(list) = list
            && list.value.is_empty()
        {
            problems.add_with_help(list.place, format!("no {what} is named"), "name at least one");
        }
    }
    let is_flow = scope.is_flow;
    let entity = known_names(&raw.entity, ("key column", columns.as_deref(), is_flow), problems);
    let rank = known_names(&raw.rank, ("aggregate", ranks.as_deref(), false), problems);
    let require = known_names(&raw.require, ("key column", columns.as_deref(), is_flow), problems);
    check_rank(raw, aggregates, scope, problems);
    Some(TopKSpec {
        k: raw.k.value()?.count(),
        entity: entity?,
        rank: rank?,
        require: require?,
        other: *raw.other.value()?,
        ties: ties(*raw.ties.value()?),
    })
}

const fn ties(raw: RawTies) -> Ties {
    match raw {
        RawTies::Ascending => Ties::Ascending,
        RawTies::Descending => Ties::Descending,
    }
}

/// Only what adds up can rank.
fn check_rank(
    raw: &RawTopK,
    aggregates: Option<&[AggregateSpec]>,
    scope: &Scope,
    problems: &mut Problems,
) {
    use nilometer_model::aggregate::Function;
    let (Some(rank), Some(aggregates)) = (raw.rank.value(), aggregates) else { return };
    for name in rank {
        let Some(aggregate) = aggregates.iter().find(|known| *known.name == *name.value) else {
            continue;
        };
        let ty = aggregate.fields.first().and_then(|field| scope.ty(field));
        let adds_up = match aggregate.function {
            Function::Count => true,
            Function::Sum => ty.is_none_or(Type::is_numeric),
            Function::Min
            | Function::Max
            | Function::Mean
            | Function::First
            | Function::Last
            | Function::Variance { .. }
            | Function::Side(_) => false,
        };
        if !adds_up {
            problems.add_with_help(
                name.place,
                format!("entries cannot be ranked by `{}`", name.value),
                "rank by a count or a sum",
            );
        }
    }
}

/// The names of a list, which must be among `known`; `None` if one is not.
fn known_names(
    given: &Given<Vec<Spanned<String>>>,
    (what, known, is_flow): (&str, Option<&[&str]>, bool),
    problems: &mut Problems,
) -> Option<Vec<Box<str>>> {
    let (list, known) = (given.value()?, known?);
    check_unique(what, list.iter().map(|name| (name.value.as_str(), name.place)), problems);
    let mut names = Vec::new();
    let mut is_whole = true;
    for name in list {
        for column in expand(&name.value, is_flow) {
            if known.contains(&column) {
                names.push(column.into());
            } else {
                problems.add_unknown(name.place, (what, column), known.iter().copied());
                is_whole = false;
            }
        }
    }
    is_whole.then_some(names)
}
