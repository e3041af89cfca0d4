//! What one grouping has told its sinks: the sums of its keys, as its mode puts them together.

use super::TotalsError;
use crate::aggregate::{Function, ValuesRef};
use crate::key::encode;
use crate::pane::{AccumulationMode, PaneBatch, PaneKind};
use crate::plan::{AggregateSpec, Grouping, Stage};
use crate::symbol::Symbols;
use crate::value::{Datum, Value};
use crate::window::WindowFn;
use std::collections::BTreeMap;

/// What one grouping has told its sinks.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) grouping: Grouping,
    /// Numbers of its key fields that are the same in all copies of a record and not listed.
    level: Vec<usize>,
    /// Copies that it makes of a record.
    pub(super) copies: i128,
    /// Numbers of the aggregates that add up, with what they add.
    sums: Vec<(usize, Added)>,
    /// By key, window and whether it is `other`: the sums so far.
    results: BTreeMap<Place, Vec<i128>>,
}

/// Bounds of a window, in an order.
pub(super) type Bounds = (i64, i64);

/// What tells results of a grouping apart: key, window, whether it is `other`.
type Place = (Box<[u64]>, Bounds, bool);

/// Sums of one grouping by coarser key (encoded) and window.
pub(super) type Level = BTreeMap<(Vec<u8>, Bounds), (Vec<Value>, Vec<i128>)>;

impl Told {
    pub(super) fn new(grouping: &Grouping, stage: &Stage) -> Self {
        let listed = grouping.top_k.as_ref().map_or(&[][..], |top_k| &top_k.entity);
        let columns = grouping.key.iter().enumerate();
        let level = columns
            .filter(|(_, column)| column.each.len() == 1 && !listed.contains(&column.name))
            .map(|(number, _)| number);
        let copies = grouping.key.iter().map(|column| column.each.len()).max().unwrap_or(1);
        let sums = grouping.aggregates.iter().filter_map(|spec| {
            let number = stage.aggregates.find(&spec.name)?;
            let is_exact =
                stage.aggregates.accumulators().get(number).is_some_and(|sum| sum.is_exact());
            Some((number, Added::of(spec)?)).filter(|_| is_exact)
        });
        Self {
            level: level.collect(),
            copies: i128::try_from(copies).unwrap_or(1),
            sums: sums.collect(),
            grouping: grouping.clone(),
            results: BTreeMap::new(),
        }
    }

    /// Takes panes of `stage`, whose grouping this is.
    pub(super) fn take(&mut self, stage: &Stage, panes: &PaneBatch) {
        for (meta, key, values) in panes.iter(stage.key.words(), stage.aggregates.words()) {
            let bounds = (meta.window.start().as_millis(), meta.window.end().as_millis());
            let at = (key.into(), bounds, meta.is_other);
            match (meta.kind, stage.mode) {
                // What is taken back is all that sinks know of the key, in every mode.
                (PaneKind::Retract, _) => {
                    self.results.remove(&at);
                }
                (PaneKind::Insert, AccumulationMode::Discarding) => {
                    let delta = self.amounts(stage, values);
                    let sums = self.results.entry(at).or_insert_with(|| vec![0; delta.len()]);
                    for (sum, amount) in sums.iter_mut().zip(delta) {
                        *sum = sum.saturating_add(amount);
                    }
                }
                (
                    PaneKind::Insert,
                    AccumulationMode::Accumulating | AccumulationMode::Retracting,
                ) => {
                    let total = self.amounts(stage, values);
                    self.results.insert(at, total);
                }
            }
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.grouping.top_k.as_ref().is_none_or(|top_k| top_k.other)
    }

    /// The sums of a pane.
    fn amounts(&self, stage: &Stage, values: ValuesRef<'_>) -> Vec<i128> {
        let amount = |(number, _): &(usize, _)| match stage.aggregates.finish(values, *number) {
            Datum::Int(amount) => amount,
            Datum::Null
            | Datum::Bool(_)
            | Datum::Float(_)
            | Datum::Text(_)
            | Datum::Object(_)
            | Datum::Ip(_) => 0,
        };
        self.sums.iter().map(amount).collect()
    }

    /// Places of the sums that both add up of the same field, in this and in `other`.
    pub(super) fn common<'a>(
        &'a self,
        other: &'a Told,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.sums.iter().enumerate().filter_map(|(mine, (_, added))| {
            let theirs = other.sums.iter().position(|(_, theirs)| theirs == added)?;
            Some((mine, theirs))
        })
    }

    /// Fields of the level; a column may have another name than its field.
    pub(super) fn level_names<'a>(&'a self, stage: &'a Stage) -> Vec<&'a str> {
        let name = |number: &usize| {
            let field = self.grouping.key.get(*number)?.each.first()?;
            stage.key.fields().get(*number).map(|_| &**field)
        };
        self.level.iter().filter_map(name).collect()
    }

    /// Sums by `fields`, which must be of the level.
    pub(super) fn by(&self, stage: &Stage, fields: &[&str], symbols: &Symbols) -> Level {
        let names = self.level_names(stage);
        let numbers: Vec<usize> = fields
            .iter()
            .filter_map(|field| {
                let at = names.iter().position(|name| name == field)?;
                self.level.get(at).copied()
            })
            .collect();
        let mut level = Level::new();
        for ((key, span, _), sums) in &self.results {
            let value = |number: &usize| stage.key.read(key, *number).value(symbols);
            let values: Vec<_> = numbers.iter().map(value).collect();
            let mut encoded = Vec::new();
            encode(&values, &mut encoded);
            let (_, total) =
                level.entry((encoded, *span)).or_insert_with(|| (values, vec![0; sums.len()]));
            for (total, sum) in total.iter_mut().zip(sums) {
                *total = total.saturating_add(*sum);
            }
        }
        level
    }

    /// Compares a count of records with their number; returns how many were compared.
    pub(super) fn check_records(&self, records: u64) -> Result<u64, TotalsError> {
        let Some(count) = self.sums.iter().position(|(_, added)| *added == Added::Records) else {
            return Ok(0);
        };
        if !self.is_complete() || !falls_in_one(self.grouping.window) {
            return Ok(0);
        }
        let counts = self.results.values().filter_map(|sums| sums.get(count));
        let found = counts.fold(0_i128, |sum, count| sum.saturating_add(*count));
        let expected = u128::from(records).saturating_mul(self.copies.unsigned_abs());
        if found < 0 || found.unsigned_abs() != expected {
            let grouping = self.grouping.name.clone();
            return Err(TotalsError::Records { grouping, expected, found });
        }
        Ok(1)
    }
}

/// What an aggregate adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Added {
    Records,
    Field(Box<str>),
}

impl Added {
    /// What `spec` adds up, if it does.
    fn of(spec: &AggregateSpec) -> Option<Self> {
        match (spec.function, spec.fields.as_slice()) {
            (Function::Count, []) => Some(Self::Records),
            (Function::Sum, [first, rest @ ..]) if rest.iter().all(|field| field == first) => {
                Some(Self::Field(first.clone()))
            }
            (
                Function::Count
                | Function::Sum
                | Function::Min
                | Function::Max
                | Function::Mean
                | Function::First
                | Function::Last
                | Function::Variance { .. }
                | Function::Side(_),
                _,
            ) => None,
        }
    }
}

impl Told {
    /// Name of the aggregate behind sum number `place`.
    pub(super) fn name_of(&self, place: usize) -> Box<str> {
        let wanted = self.sums.get(place).map(|(_, added)| added);
        let mut specs = self.grouping.aggregates.iter();
        let spec = specs.find(|spec| Added::of(spec).as_ref() == wanted);
        spec.map_or_else(Box::default, |spec| spec.name.clone())
    }
}

/// Whether every record falls in exactly one window.
fn falls_in_one(window: WindowFn) -> bool {
    match window {
        WindowFn::Global | WindowFn::Fixed { .. } | WindowFn::Calendar(_) => true,
        WindowFn::Sliding { .. } | WindowFn::Session { .. } | WindowFn::Custom(_) => false,
    }
}
