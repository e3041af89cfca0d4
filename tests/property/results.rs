//! Groups of results: whatever was told and taken back on the way, in the end they are the batch
//! over the final results of the group below.

use crate::engines::{all, micro};
use crate::job::{FIELDS, Style, lateness, modes};
use crate::laws::sorted;
use crate::records::{arrivals, clocked_scripts};
use crate::sinks::is_near;
use crate::told::held;
use crate::triggers::triggers;
use crate::windows::{only_grows, windows};
use crate::world::World;
use crate::{Case, check_dropped, config, oracle, run, run_on_any_shards};
use nilometer_model::account::StageAccount;
use nilometer_model::aggregate::Function;
use nilometer_model::aggregate::side::SideFunction;
use nilometer_model::engine::Engine;
use nilometer_model::expr::{Arithmetic, Binary, Literal, Relation, TypedExpr};
use nilometer_model::invariant::GC_1;
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::{
    AggregateSpec, Grouping, Job, KeyColumn, OfSpec, StageInput, Ties, TopKSpec,
};
use nilometer_model::row::Field;
use nilometer_model::time::Span;
use nilometer_model::trigger::Trigger;
use nilometer_model::value::Type;
use nilometer_model::window::WindowFn;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What makes up one grouping.
#[derive(Debug, Clone)]
struct Choices {
    window: WindowFn,
    trigger: Trigger,
    mode: AccumulationMode,
    lateness: Span,
    columns: Vec<usize>,
    aggregates: Vec<usize>,
    is_filtered: bool,
    is_listed: bool,
}

/// Boxed: the trees of windows and triggers are large, and two of them lie in a case.
fn choices() -> BoxedStrategy<Choices> {
    let windows = windows().prop_filter("rows do not move back", |window| only_grows(*window));
    let columns = prop::sample::subsequence(vec![0_usize, 1, 2, 3], 0..=2);
    let aggregates = prop::sample::subsequence((0..9_usize).collect::<Vec<_>>(), 0..=4);
    let what = (windows, triggers(), modes(), lateness(Style::Any));
    let may = prop::bool::weighted;
    (what, columns, aggregates, may(0.3), may(0.2))
        .prop_map(
            |((window, trigger, mode, lateness), columns, aggregates, is_filtered, is_listed)| {
                Choices {
                    window,
                    trigger,
                    mode,
                    lateness,
                    columns,
                    aggregates,
                    is_filtered,
                    is_listed,
                }
            },
        )
        .boxed()
}

fn repeated(trigger: Trigger, lateness: Span) -> Trigger {
    // With the shortest lateness: what closes then may close sooner or later.
    let closes = |wait| trigger.closing(wait).is_some();
    if closes(lateness) || closes(Span::from_millis(1)) {
        Trigger::Repeat(Box::new(trigger))
    } else {
        trigger
    }
}

/// A grouping of records, with results of several types.
fn parent(choices: Choices) -> Grouping {
    let columns = choices.columns.iter().filter(|number| **number < 2);
    let spec = AggregateSpec::new;
    Grouping {
        key: columns.map(|number| KeyColumn::plain(["a", "b"][*number])).collect(),
        trigger: repeated(choices.trigger, choices.lateness),
        mode: choices.mode,
        allowed_lateness: choices.lateness,
        aggregates: vec![
            spec("x_n", Function::Count, None),
            spec("sum", Function::Sum, Some("v")),
            spec("least", Function::Min, Some("v")),
            spec("text", Function::Last, Some("b")),
            spec("quarters", Function::Max, Some("f")),
        ],
        sinks: if choices.is_listed { Vec::new() } else { vec!["out".into()] },
        ..Grouping::new("one", choices.window)
    }
}

const DISTINCT: Function = Function::Side(SideFunction::Distinct { precision: 12 });

/// What a grouping of results may compute, of those of [`parent`].
const AGGREGATES: [(&str, Function, &str); 9] = [
    ("sums", Function::Sum, "sum"),
    ("longest", Function::Max, "length"),
    ("least", Function::Min, "sum"),
    ("text", Function::Max, "text"),
    ("last", Function::Last, "least"),
    ("floats", Function::Sum, "quarters"),
    ("different", DISTINCT, "text"),
    ("variance", Function::VARIANCE, "x_n"),
    ("mean", Function::Mean, "length"),
];

fn child(choices: Choices, parent: &Grouping) -> Grouping {
    let integer = |name: &str| TypedExpr::field(&Field::new(name, Type::I64));
    let literal = |number| TypedExpr::literal(Literal::Int(number));
    let seventh = Binary::Arithmetic(Arithmetic::Divide);
    let bucket = TypedExpr::binary(seventh, integer("window_length"), literal(7)).unwrap();
    let count = TypedExpr::field(&Field::new("x_n", Type::U64));
    let many = TypedExpr::binary(Binary::Compare(Relation::Greater), count, literal(1)).unwrap();
    let column = |name: &str, of: &str| KeyColumn { name: name.into(), each: vec![of.into()] };
    let columns = [
        column("size", "length"),
        KeyColumn::plain("bucket"),
        column("said", "text"),
        column("count", "x_n"),
    ];
    let key: Vec<_> = choices.columns.iter().map(|number| columns[*number].clone()).collect();
    let is_list = choices.is_listed && !key.is_empty();
    let mut aggregates = vec![AggregateSpec::new("x_n", Function::Count, None)];
    aggregates.extend(choices.aggregates.iter().map(|number| {
        let (name, function, field) = AGGREGATES[*number];
        AggregateSpec::new(name, function, Some(field))
    }));
    let is_reversible = |spec: &AggregateSpec| &*spec.name == "sums" || &*spec.name == "x_n";
    if is_list || choices.mode == AccumulationMode::Discarding {
        aggregates.retain(is_reversible);
    }
    let is_endless = parent.window == WindowFn::Global;
    let window = match choices.window {
        window if window.is_merging() || matches!(window, WindowFn::Custom(_)) => WindowFn::Global,
        _ if is_endless => WindowFn::Global,
        window => window,
    };
    let lateness = choices.lateness.max(parent.allowed_lateness);
    let top_k = is_list.then(|| TopKSpec {
        k: 2,
        entity: vec![key[0].name.clone()],
        // By sums where there are any: they may be zero or less.
        rank: aggregates.last().map(|ranked| ranked.name.clone()).into_iter().collect(),
        require: Vec::new(),
        other: choices.is_filtered,
        ties: Ties::Ascending,
    });
    Grouping {
        key,
        trigger: repeated(choices.trigger, lateness),
        mode: choices.mode,
        allowed_lateness: lateness,
        aggregates,
        top_k,
        sinks: vec!["out".into()],
        of: Some(OfSpec {
            grouping: parent.name.clone(),
            derived: vec![("length".into(), integer("window_length")), ("bucket".into(), bucket)],
            filter: choices.is_filtered.then_some(many),
        }),
        ..Grouping::new("two", window)
    }
}

/// How many of the rows of `parent` have how many rows.
fn grandchild(parent: &Grouping) -> Grouping {
    Grouping {
        key: vec![KeyColumn { name: "rows".into(), each: vec!["x_n".into()] }],
        mode: AccumulationMode::Retracting,
        allowed_lateness: parent.allowed_lateness,
        aggregates: vec![
            AggregateSpec::new("x_n", Function::Count, None),
            AggregateSpec::new("latest", Function::Max, Some("window_end")),
        ],
        sinks: vec!["out".into()],
        of: Some(OfSpec { grouping: parent.name.clone(), derived: Vec::new(), filter: None }),
        ..Grouping::new("three", WindowFn::Global)
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    (choices(), choices()).prop_map(|(below, above)| {
        let parent = parent(below);
        let child = child(above, &parent);
        let mut groupings = vec![child.clone(), parent];
        if child.top_k.is_none() {
            groupings.insert(0, grandchild(&child));
        }
        let fields = FIELDS.iter().map(|(name, ty)| Field::new(name, *ty)).collect();
        Job { key_groups: 16, ..Job::new("results", fields, groupings) }
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let shards = prop_oneof![Just(1_usize), Just(2), Just(7)];
    (jobs(), clocked_scripts(), any::<u64>(), shards).prop_map(|(job, script, seed, shards)| Case {
        job,
        script,
        seed,
        shards,
        engine: Engine::Streaming,
    })
}

/// Whether a change came too late: it is refused as a unit, so what it would have taken back stands.
fn has_refused(world: &World) -> bool {
    let mut stages = world.plan.stages.iter().zip(world.accounts());
    stages.any(|(stage, account)| {
        matches!(stage.input, StageInput::Changes(_)) && account.expired > 0
    })
}

/// Every group of results holds the batch over the final results of the one below, unless a change
/// came too late for it.
fn check(case: &Case, world: &World) -> Result<(), TestCaseError> {
    prop_assert!(world.is_empty(), "{GC_1}");
    prop_assert!(world.accounts().iter().all(StageAccount::is_balanced));
    if has_refused(world) {
        return Ok(());
    }
    let arrivals = match case.engine {
        Engine::Streaming | Engine::MicroBatch(_) => arrivals(&case.script),
        Engine::Batch => all(case),
    };
    let expected = oracle(case, &arrivals, world);
    for name in ["two", "three"] {
        let Some(stage) = world.plan.stage(name) else { continue };
        let held = held(stage, &world.panes).map_err(TestCaseError::fail)?;
        let wanted = expected.totals.iter().filter(|(place, _)| &*place.grouping == name);
        let wanted: BTreeMap<_, _> = wanted.collect();
        let places: (Vec<_>, Vec<_>) = (held.keys().collect(), wanted.keys().copied().collect());
        prop_assert_eq!(places.0, places.1, "{}", name);
        for (place, values) in &held {
            let functions = stage.aggregates.accumulators().iter().map(|known| known.function);
            let mut pairs = functions.zip(values.iter().zip(wanted[place]));
            let is_same = pairs.all(|(function, (got, exact))| is_near(function, got, exact));
            prop_assert!(is_same, "{place:?}: {values:?}, the batch has {:?}", wanted[place]);
        }
    }
    check_dropped(case, world, &expected)
}

proptest! {
    #![proptest_config(config())]

    /// P1, P2, P5, P7, P8, P9 of groups of results.
    #[test]
    fn results_of_results_are_those_of_the_final_ones(case in cases(), restarts in any::<bool>()) {
        check(&case, &run(&case, restarts))?;
        check(&case, &run_on_any_shards(&case, case.seed))?;
    }

    /// The same on all engines.
    #[test]
    fn results_are_the_same_on_all_engines(case in cases(), choices in any::<u64>()) {
        let batch = Case { engine: Engine::Batch, ..case.clone() };
        for case in [micro(&case, choices), batch] {
            check(&case, &run(&case, true))?;
        }
    }

    /// P2 to the pane.
    #[test]
    fn restarts_change_no_pane_of_results(case in cases()) {
        let alone = Case { shards: 1, ..case };
        let (before, after) = (run(&alone, false), run(&alone, true));
        prop_assert_eq!(sorted(&before.panes), sorted(&after.panes));
        prop_assert_eq!(before.accounts(), after.accounts());
    }
}
