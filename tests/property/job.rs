//! Random jobs: flat groupings, cascades, top-K lists, splits; few keys, small windows.

use nilometer_model::aggregate::Function;
use nilometer_model::aggregate::side::{CustomAggregate, CustomFunction, Millionths, SideFunction};
use nilometer_model::pane::{AccumulationMode, Emission};
use nilometer_model::plan::{
    AggregateSpec, Grouping, Job, KeyColumn, PhaseBy, Spread, Ties, TopKSpec,
};
use nilometer_model::row::Field;
use nilometer_model::time::{EventTime, Span};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::{Phase, WindowFn};
use proptest::prelude::*;

/// Which jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Any.
    Any,
    /// State is kept for longer than any record is late.
    Patient,
    /// Every grouping has the column `a` outside of its entries.
    SharedColumn,
}

/// Fields of every job: three key fields and a second address, numbers, an interval.
pub(crate) const FIELDS: [(&str, Type); 10] = [
    ("a", Type::U8),
    ("b", Type::Text),
    ("c", Type::Ip),
    ("d", Type::Ip),
    ("v", Type::I64),
    ("big", Type::Big),
    ("f", Type::F64),
    ("flag", Type::Bool),
    ("first", Type::I64),
    ("last", Type::I64),
];

/// Key columns by number.
pub(crate) fn column(number: usize) -> KeyColumn {
    match number {
        0 => KeyColumn::plain("a"),
        1 => KeyColumn::plain("b"),
        2 => KeyColumn::plain("c"),
        3 => KeyColumn::plain("d"),
        _ => KeyColumn { name: "host".into(), each: vec!["c".into(), "d".into()] },
    }
}

const fn quantile(p: u32, accuracy: u32) -> Function {
    let (p, accuracy) = (Millionths(p), Millionths(accuracy));
    Function::Side(SideFunction::Quantile { p, accuracy })
}

/// An aggregate as users write them: the bits of all values, and how many there were.
#[derive(Debug)]
struct Bits;

impl CustomAggregate for Bits {
    type State = (u64, u64);

    fn name(&self) -> &str {
        "bits"
    }

    fn accepts(&self, ty: Type) -> bool {
        ty.is_integer()
    }

    fn result_type(&self, _: Type) -> Type {
        Type::Text
    }

    fn zero(&self) -> Self::State {
        (0, 0)
    }

    fn add(&self, (bits, count): &mut Self::State, value: &Value, _: EventTime) {
        if let Value::Int(number) = value {
            *bits |= *number as u64;
            *count += 1;
        }
    }

    fn merge(&self, state: &mut Self::State, part: &Self::State) {
        *state = (state.0 | part.0, state.1 + part.1);
    }

    fn finish(&self, (bits, count): &Self::State) -> Value {
        Value::Text(format!("{bits:b} of {count}").into())
    }

    fn encode(&self, (bits, count): &Self::State) -> Vec<u8> {
        [bits.to_le_bytes(), count.to_le_bytes()].concat()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Self::State> {
        let (bits, count) = bytes.split_at_checked(8)?;
        let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        Some((number(bits)?, number(count)?))
    }
}

/// Room for four values.
const COLLECT: SideFunction = SideFunction::Collect { values_max: 5, bytes_max: 128 };

/// Every aggregate that a grouping may have: name, function, fields, whether it may be split.
pub(crate) const AGGREGATES: [(&str, Function, &[&str], bool); 21] = [
    ("n", Function::Count, &[], false),
    ("sum", Function::Sum, &["v"], false),
    ("big", Function::Sum, &["big"], true),
    ("smallest", Function::Min, &["v"], false),
    ("largest", Function::Max, &["f"], false),
    ("text", Function::Min, &["b"], false),
    ("any", Function::Max, &["flag"], false),
    ("mean", Function::Mean, &["v"], false),
    ("first", Function::First, &["v"], false),
    ("last", Function::Last, &["b"], false),
    ("floats", Function::Sum, &["f"], false),
    ("near", Function::Min, &["c", "d"], false),
    ("different", Function::Side(SideFunction::Distinct { precision: 12 }), &["c"], false),
    ("median", quantile(500_000, 10_000), &["v"], false),
    ("most", quantile(900_000, 50_000), &["f"], false),
    ("variance", Function::VARIANCE, &["v"], false),
    ("stddev", Function::STDDEV_SAMPLE, &["f"], false),
    ("spread", Function::VARIANCE_SAMPLE, &["big"], false),
    ("often", Function::Side(SideFunction::Frequent { k: 2, counters: 300 }), &["b"], false),
    ("list", Function::Side(COLLECT), &["v"], false),
    ("own", Function::Side(SideFunction::Custom(CustomFunction::new(&Bits))), &["v"], false),
];

/// The aggregate of a column that takes each of two fields.
pub(crate) const NEAR: usize = 11;

pub(crate) fn aggregate(number: usize, is_split: bool) -> AggregateSpec {
    let (name, function, fields, may_be_split) = AGGREGATES[number];
    AggregateSpec {
        name: ["x_", name].concat().into(),
        function,
        fields: fields.iter().map(|field| (*field).into()).collect(),
        spread: is_split && may_be_split,
    }
}

fn fixed(size: i64, offset: i64, phase: Phase) -> WindowFn {
    WindowFn::Fixed { size: Span::from_millis(size), offset, phase }
}

fn windows() -> impl Strategy<Value = WindowFn> {
    prop_oneof![
        1 => Just(WindowFn::Global),
        6 => (prop_oneof![Just(1), Just(10), Just(20), Just(30)], prop_oneof![3 => Just(0), 1 => Just(-7)])
            .prop_map(|(size, offset)| fixed(size, offset, Phase::Aligned)),
        1 => Just(fixed(10, 0, Phase::ByKey)),
        1 => (prop_oneof![Just(10), Just(20)], prop_oneof![Just(5), Just(7), Just(15)]).prop_map(
            |(size, period)| WindowFn::Sliding {
                size: Span::from_millis(size),
                period: Span::from_millis(period),
                offset: 3,
            }
        ),
    ]
}

pub(crate) fn modes() -> impl Strategy<Value = AccumulationMode> {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    prop_oneof![Just(Discarding), Just(Accumulating), Just(Retracting)]
}

fn ties() -> impl Strategy<Value = Ties> {
    prop_oneof![Just(Ties::Ascending), Just(Ties::Descending)]
}

pub(crate) fn lateness(style: Style) -> BoxedStrategy<Span> {
    let millis = match style {
        Style::Patient => Just(1 << 40).boxed(),
        Style::Any | Style::SharedColumn => {
            prop_oneof![1 => Just(0), 1 => Just(5), 2 => Just(30), 1 => Just(i64::MAX)].boxed()
        }
    };
    millis.prop_map(Span::from_millis).boxed()
}

/// Choices that make up one grouping.
#[derive(Debug, Clone)]
struct Choices {
    columns: Vec<usize>,
    window: WindowFn,
    lateness: Span,
    mode: AccumulationMode,
    aggregates: Vec<usize>,
    list: Option<(usize, usize, bool, bool, Ties)>,
    is_observed: bool,
}

fn choices(style: Style) -> impl Strategy<Value = Choices> {
    let columns = prop_oneof![
        3 => prop::sample::subsequence(vec![0_usize, 1, 2], 0..=3),
        1 => prop::sample::subsequence(vec![0_usize, 1, 4], 1..=3),
        1 => Just(vec![0, 2, 3]),
    ];
    let columns = (columns, any::<bool>()).prop_map(move |(mut columns, is_turned)| {
        if style == Style::SharedColumn && !columns.contains(&0) {
            columns.insert(0, 0);
        }
        if is_turned {
            columns.reverse();
        }
        columns
    });
    let numbers: Vec<_> = (0..AGGREGATES.len()).filter(|number| *number != NEAR).collect();
    let list = (1_usize..4, any::<prop::sample::Index>(), any::<bool>(), any::<bool>(), ties());
    let list = list
        .prop_map(|(k, entity, other, require, ties)| (k, entity.index(64), other, require, ties));
    (
        columns,
        windows(),
        lateness(style),
        modes(),
        prop::sample::subsequence(numbers, 0..=5),
        prop::option::weighted(0.3, list),
        prop::bool::weighted(0.85),
    )
        .prop_map(|(columns, window, lateness, mode, aggregates, list, is_observed)| Choices {
            columns,
            window,
            lateness,
            mode,
            aggregates,
            list,
            is_observed,
        })
}

fn grouping(name: &str, choices: Choices, is_split: bool, style: Style) -> Grouping {
    let key: Vec<_> = choices.columns.iter().map(|number| column(*number)).collect();
    let mut numbers = choices.aggregates;
    // Every grouping counts, so that a list can rank; some sum, so that ranks may fall.
    if !numbers.contains(&0) {
        numbers.insert(0, 0);
    }
    if key.iter().any(|column| column.each.len() > 1) {
        numbers.push(NEAR);
    }
    let may_be_entity = |column: &&KeyColumn| style != Style::SharedColumn || &*column.name != "a";
    let candidates: Vec<_> = key.iter().filter(may_be_entity).collect();
    let list = choices.list.filter(|_| !candidates.is_empty());
    if list.is_some() {
        // The totals of a list have a fixed size.
        numbers.retain(|number| !AGGREGATES[*number].1.has_side());
    }
    let aggregates: Vec<_> = numbers.iter().map(|n| aggregate(*n, is_split)).collect();
    let top_k = list.map(|(k, entity, other, require, ties)| {
        let first = entity % candidates.len();
        let count = 1 + entity / candidates.len() % (candidates.len() - first);
        let entity: Vec<Box<str>> =
            candidates[first..first + count].iter().map(|column| column.name.clone()).collect();
        let ranks = [0, 1, 2].iter().filter(|number| numbers.contains(number));
        TopKSpec {
            k,
            require: if require { vec![entity[0].clone()] } else { Vec::new() },
            entity,
            rank: ranks.map(|number| aggregate(*number, false).name).collect(),
            other,
            ties,
        }
    });
    Grouping {
        name: name.into(),
        key,
        window: choices.window,
        trigger: Trigger::default_trigger(),
        emission: Emission::default(),
        gap_field: None,
        allow_closing: false,
        mode: choices.mode,
        allowed_lateness: choices.lateness,
        aggregates,
        top_k,
        sinks: if choices.is_observed { vec!["out".into()] } else { Vec::new() },
        late: None,
        of: None,
        sequence: None,
    }
}

/// Up to three levels, each of a coarser key and window than the one before, all with the same
/// aggregates: what a planner can cascade.
fn levels(style: Style) -> impl Strategy<Value = Vec<Choices>> {
    (prop::collection::vec(choices(style), 1..=3), lateness(style)).prop_map(|(mut all, wait)| {
        let size = |level: usize| fixed([10, 20, 60][level], 0, Phase::Aligned);
        let aggregates = all[0].aggregates.clone();
        for (level, choices) in all.iter_mut().enumerate() {
            choices.columns = (0..3 - level).collect();
            choices.window = size(level);
            choices.lateness = wait;
            choices.aggregates.clone_from(&aggregates);
        }
        all
    })
}

/// Jobs of the given style.
pub(crate) fn jobs(style: Style) -> impl Strategy<Value = Job> {
    let flat = || prop::collection::vec(choices(style), 1..=4);
    // Groupings with the same aggregates and patience can often regroup each other.
    let alike = flat().prop_map(|mut all| {
        let (aggregates, lateness) = (all[0].aggregates.clone(), all[0].lateness);
        for choices in &mut all {
            choices.aggregates.clone_from(&aggregates);
            choices.lateness = lateness;
        }
        all
    });
    let mixed = (levels(style), prop::collection::vec(choices(style), 0..=2));
    let mixed = mixed.prop_map(|(levels, more)| levels.into_iter().chain(more).collect());
    let all = prop_oneof![1 => flat(), 2 => alike, 2 => levels(style), 1 => mixed];
    let spread = prop::option::weighted(0.3, prop::option::of(1_i64..40));
    let (phase, cascade) = (any::<bool>(), prop::bool::weighted(0.9));
    (all.prop_shuffle(), spread, phase, cascade).prop_map(move |(all, spread, phase, cascade)| {
        let names = ["one", "two", "three", "four", "five"];
        let groupings = all.into_iter().zip(names);
        let groupings = groupings
            .map(|(choices, name)| grouping(name, choices, spread.is_some(), style))
            .collect();
        Job {
            name: "random".into(),
            fields: FIELDS.iter().map(|(name, ty)| Field::new(name, *ty)).collect(),
            groupings,
            shard_by: None,
            key_groups: 16,
            extra_fields: Vec::new(),
            spread: spread.map(|longest| Spread {
                first: "first".into(),
                last: "last".into(),
                max_duration: longest.map(Span::from_millis),
            }),
            phase: phase.then(|| PhaseBy { field: "a".into(), column: "a".into() }),
            cascade,
        }
    })
}
