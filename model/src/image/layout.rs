//! What is needed to read the images of a stage without its plan: the names and types of its key and
//! of its aggregates, in a form that is stored beside them.

use super::sequences::Records;
use crate::aggregate::side::{Millionths, SideFunction};
use crate::aggregate::{AggregateLayout, Function};
use crate::key::KeyLayout;
use crate::plan::{SequenceInput, Stage};
use crate::row::Field;
use crate::value::Type;
use crate::window::WindowFn;
use serde::{Deserialize, Serialize};

/// How the images of a stage are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageLayout {
    /// Key columns, in order.
    key: Vec<Column>,
    /// Numbers of the key columns that make up an entry of a list; `None` where there is no list.
    entity: Option<Vec<usize>>,
    /// Aggregates, in order.
    aggregates: Vec<Aggregate>,
    /// Whether each window of a key stands alone.
    is_apart: bool,
    /// Whether totals are kept.
    keeps_total: bool,
    /// Of a sequence.
    sequence: Option<SequenceLayout>,
}

/// How the records of a sequence are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SequenceLayout {
    /// The steps of the chain, then those that end a session.
    steps: Vec<Box<str>>,
    /// Fields that a session takes over.
    carried: Vec<Box<str>>,
    /// Whether records tell which of them are copies.
    has_id: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Column {
    name: Box<str>,
    #[serde(rename = "type")]
    ty: TypeName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Aggregate {
    name: Box<str>,
    function: StoredFunction,
    #[serde(rename = "type")]
    ty: TypeName,
}

/// A type, stored by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "Box<str>")]
struct TypeName(Type);

impl From<TypeName> for &'static str {
    fn from(ty: TypeName) -> Self {
        ty.0.name()
    }
}

impl TryFrom<Box<str>> for TypeName {
    type Error = String;

    fn try_from(name: Box<str>) -> Result<Self, String> {
        let found = Type::ALL.into_iter().find(|ty| ty.name() == &*name);
        found.map(TypeName).ok_or_else(|| format!("there is no type `{name}`"))
    }
}

/// A function as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredFunction {
    Fixed(Box<str>),
    Distinct { precision: u8 },
    Quantile { p_millionths: u32, accuracy_millionths: u32 },
    Frequent { k: u32, counters: u32 },
    Collect { values_max: u32, bytes_max: u32 },
    Custom(Box<str>),
}

/// An aggregate that the program which wrote the state brought along: only that can read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("aggregate `{aggregate}` is computed by `{function}`, which this program does not have")]
pub struct UnknownFunction {
    /// The aggregate.
    pub aggregate: Box<str>,
    /// What computes it.
    pub function: Box<str>,
}

impl StageLayout {
    /// How the images of `stage` are read.
    pub fn of(stage: &Stage) -> Self {
        let column = |field: &Field| Column { name: field.name.clone(), ty: TypeName(field.ty) };
        let aggregates = stage.aggregates.accumulators().iter().map(|known| Aggregate {
            name: known.name.clone(),
            function: StoredFunction::of(known.function),
            ty: TypeName(known.ty),
        });
        Self {
            key: stage.key.fields().iter().map(column).collect(),
            entity: stage.top_k.as_ref().map(|top_k| top_k.entity.clone()),
            aggregates: aggregates.collect(),
            is_apart: matches!(stage.window, WindowFn::Sliding { .. }),
            keeps_total: stage.keeps_total(),
            sequence: stage.sequence.as_ref().map(SequenceLayout::of),
        }
    }

    /// Whether windows of keys are named with the key, each by itself.
    pub(super) const fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Whether totals are kept.
    pub(super) const fn keeps_total(&self) -> bool {
        self.keeps_total
    }

    /// Of a sequence: the names of its steps, and how its records are written.
    pub(super) fn sequence(
        &self,
        aggregates: &AggregateLayout,
    ) -> Option<(Vec<Box<str>>, Records)> {
        let SequenceLayout { steps, carried, has_id } = self.sequence.as_ref()?;
        let carried = carried.iter().map(|field| &**field);
        Some((steps.clone(), Records::new(aggregates, carried, *has_id)))
    }

    /// The key.
    pub fn key(&self) -> KeyLayout {
        KeyLayout::new(self.key.iter().map(Column::field))
    }

    /// For a list: the key that its entries share.
    pub fn parent(&self) -> Option<KeyLayout> {
        let entity = self.entity.as_ref()?;
        let columns = self.key.iter().enumerate();
        let shared = columns.filter(|(number, _)| !entity.contains(number));
        Some(KeyLayout::new(shared.map(|(_, column)| column.field())))
    }

    /// The aggregates.
    ///
    /// # Errors
    /// One of them is none of this program.
    pub fn aggregates(&self) -> Result<AggregateLayout, UnknownFunction> {
        let aggregate = |aggregate: &Aggregate| {
            let function = aggregate.function.function().map_err(|function| UnknownFunction {
                aggregate: aggregate.name.clone(),
                function: function.into(),
            })?;
            Ok((aggregate.name.clone(), function, aggregate.ty.0))
        };
        let aggregates: Result<Vec<_>, _> = self.aggregates.iter().map(aggregate).collect();
        Ok(AggregateLayout::new(aggregates?))
    }
}

impl SequenceLayout {
    fn of(input: &SequenceInput) -> Self {
        let spec = &input.spec;
        let steps = spec.steps.iter().map(|step| &step.name).chain(&spec.ends);
        Self {
            steps: steps.cloned().collect(),
            carried: spec.carried.iter().map(|carried| carried.field.clone()).collect(),
            has_id: input.id.is_some(),
        }
    }
}

impl Column {
    fn field(&self) -> Field {
        Field { name: self.name.clone(), ty: self.ty.0 }
    }
}

impl StoredFunction {
    fn of(function: Function) -> Self {
        match function {
            Function::Side(SideFunction::Distinct { precision }) => Self::Distinct { precision },
            Function::Side(SideFunction::Quantile { p, accuracy }) => {
                Self::Quantile { p_millionths: p.0, accuracy_millionths: accuracy.0 }
            }
            Function::Side(SideFunction::Frequent { k, counters }) => {
                Self::Frequent { k, counters }
            }
            Function::Side(SideFunction::Collect { values_max, bytes_max }) => {
                Self::Collect { values_max, bytes_max }
            }
            Function::Side(SideFunction::Custom(custom)) => Self::Custom(custom.name().into()),
            Function::Count
            | Function::Sum
            | Function::Min
            | Function::Max
            | Function::Mean
            | Function::First
            | Function::Last
            | Function::Variance { .. } => Self::Fixed(function.name().into()),
        }
    }

    /// The function, or the name of one that there is not.
    fn function(&self) -> Result<Function, &str> {
        Ok(match self {
            Self::Fixed(name) => {
                let mut fixed = Function::FIXED.into_iter();
                fixed.find(|known| known.name() == &**name).ok_or(&**name)?
            }
            Self::Distinct { precision } => {
                Function::Side(SideFunction::Distinct { precision: *precision })
            }
            Self::Quantile { p_millionths, accuracy_millionths } => {
                let (p, accuracy) = (Millionths(*p_millionths), Millionths(*accuracy_millionths));
                Function::Side(SideFunction::Quantile { p, accuracy })
            }
            Self::Frequent { k, counters } => {
                Function::Side(SideFunction::Frequent { k: *k, counters: *counters })
            }
            Self::Collect { values_max, bytes_max } => {
                let (values_max, bytes_max) = (*values_max, *bytes_max);
                Function::Side(SideFunction::Collect { values_max, bytes_max })
            }
            Self::Custom(name) => return Err(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pane::AccumulationMode;
    use crate::plan::{AggregateSpec, TopKSpec};
    use crate::planner::plan;
    use crate::shard_tests::{grouping, job};

    #[test]
    fn layouts_survive_being_stored() {
        let sides = [
            SideFunction::Distinct { precision: 4 },
            SideFunction::Quantile { p: Millionths(990_000), accuracy: Millionths(100) },
            SideFunction::Frequent { k: 3, counters: 30 },
            SideFunction::Collect { values_max: 7, bytes_max: 1 << 20 },
        ];
        let functions = Function::FIXED.into_iter().chain(sides.map(Function::Side));
        let mut all = grouping("all", &["a", "b"], AccumulationMode::Accumulating);
        all.aggregates = functions
            .enumerate()
            .map(|(number, function)| {
                AggregateSpec::new(&format!("x{number}"), function, Some("v"))
            })
            .collect();
        let mut listed = grouping("listed", &["c", "b"], AccumulationMode::Accumulating);
        listed.top_k = Some(TopKSpec {
            k: 3,
            entity: vec!["b".into()],
            rank: vec!["sum".into()],
            require: Vec::new(),
            other: false,
            ties: crate::plan::Ties::Ascending,
        });
        for stage in &plan(&job(vec![all, listed])).unwrap().stages {
            let bytes = postcard::to_stdvec(&StageLayout::of(stage)).unwrap();
            let layout: StageLayout = postcard::from_bytes(&bytes).unwrap();
            assert_eq!(layout.key(), stage.key);
            assert_eq!(layout.aggregates().unwrap(), stage.aggregates);
            let parent = stage.top_k.as_ref().map(|top_k| top_k.parent.clone());
            assert_eq!(layout.parent(), parent);
        }
    }
}
