//! Aggregates without a fixed size on their way through a shard: windows, modes, cascades, other
//! shards, restarts.

use crate::aggregate::AggregateLayout;
use crate::aggregate::Function;
use crate::aggregate::side::{CustomAggregate, CustomFunction, Millionths, Side, SideFunction};
use crate::epoch::Epoch;
use crate::image::{ImageError, Restoration, pack};
use crate::pane::{AccumulationMode, PaneKind};
use crate::plan::{AggregateSpec, Grouping};
use crate::planner::{PlanError, plan};
use crate::shard::Output;
use crate::shard_tests::{Run, grouping, job};
use crate::symbol::Symbols;
use crate::time::{EventTime, Watermark};
use crate::value::{Datum, Type, Value};
use std::sync::Arc;

/// Counts of records and of different values, and the median.
fn spread(name: &str, key: &[&str], mode: AccumulationMode) -> Grouping {
    let median = Function::Side(SideFunction::Quantile {
        p: Millionths(500_000),
        accuracy: Millionths(100),
    });
    Grouping {
        aggregates: vec![
            AggregateSpec::new("n", Function::Count, None),
            AggregateSpec::new(
                "different",
                Function::Side(SideFunction::Distinct { precision: 12 }),
                Some("v"),
            ),
            AggregateSpec::new("median", median, Some("v")),
        ],
        ..grouping(name, key, mode)
    }
}

/// Sign, count, different values, and the median as a whole number.
fn lines(run: &Run, out: &Output) -> Vec<String> {
    let symbols = Symbols::default();
    let mut lines = Vec::new();
    for batch in &out.panes {
        let stage = &run.plan.stages[batch.stage.index()];
        for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
            let results =
                (0..3).map(|index| match stage.aggregates.finish(values, index).value(&symbols) {
                    Value::Float(number) => format!("{number:.0}"),
                    Value::Int(number) => number.to_string(),
                    other => format!("{other:?}"),
                });
            let results: Vec<_> = results.collect();
            let sign = if meta.kind == PaneKind::Insert { '+' } else { '-' };
            let key: Vec<_> =
                stage.key.values(key, &symbols).iter().map(|key| format!("{key:?}")).collect();
            lines.push(format!("{sign}{} {} {}", stage.name, key.join(","), results.join(" ")));
        }
    }
    lines
}

fn watermark(run: &mut Run, time: i64) -> Vec<String> {
    let mut out = Output::default();
    run.shard.watermark(Watermark(EventTime::from_millis(time)), &mut out).unwrap();
    lines(run, &out)
}

fn records(run: &mut Run, values: &[(u32, i64)]) -> Vec<String> {
    let records: Vec<_> = values.iter().map(|(a, v)| (1, [*a, *a % 2, 0], *v)).collect();
    let batch = run.batch(&records);
    let mut out = Output::default();
    run.shard.records(&batch, &mut out).unwrap();
    lines(run, &out)
}

#[test]
fn every_mode_shows_what_it_should_and_a_restart_changes_nothing() {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    for (mode, expected) in [
        (Discarding, vec!["+s Int(1) 2 1 9"]),
        (Accumulating, vec!["+s Int(1) 5 3 7"]),
        (Retracting, vec!["-s Int(1) 3 2 5", "+s Int(1) 5 3 7"]),
    ] {
        let mut run = Run::new(vec![spread("s", &["a"], mode)]);
        assert!(!run.plan.stages[0].is_plain());
        assert_eq!(records(&mut run, &[(1, 5), (1, 7), (1, 5)]), Vec::<String>::new());
        run.restart();
        assert_eq!(watermark(&mut run, 10), ["+s Int(1) 3 2 5"], "{mode:?}");
        run.restart();
        assert_eq!(records(&mut run, &[(1, 9), (1, 9)]), expected, "{mode:?}");
        run.restart();
        assert_eq!(watermark(&mut run, i64::MAX), Vec::<String>::new());
        assert!(run.shard.is_empty());
    }
}

#[test]
fn a_rollup_merges_what_its_parent_kept_and_a_median_feeds_another_quantile() {
    let fine = spread("fine", &["a", "b"], AccumulationMode::Discarding);
    let mut coarse = spread("coarse", &["b"], AccumulationMode::Accumulating);
    coarse.aggregates[2].function = Function::Side(SideFunction::Quantile {
        p: Millionths(999_999),
        accuracy: Millionths(100),
    });
    let mut run = Run::new(vec![fine, coarse]);
    assert_eq!(run.plan.record_reads(), 1);
    let all: Vec<_> = (1..=6).map(|n| (n, i64::from(n / 2))).collect();
    records(&mut run, &all);
    let last = watermark(&mut run, 10).into_iter().filter(|line| line.starts_with("+coarse"));
    // Of the odd ones 0, 1 and 2, of the even ones 1, 2 and 3: the last but one of three.
    assert_eq!(last.collect::<Vec<_>>(), ["+coarse Int(1) 3 3 1", "+coarse Int(0) 3 3 2"]);
}

#[test]
fn an_image_of_other_settings_is_refused() {
    let mut run = Run::new(vec![spread("s", &["a"], AccumulationMode::Discarding)]);
    records(&mut run, &[(1, 5)]);
    let cut = run.shard.cut(Epoch::from_number(1)).unwrap();
    let pieces: Vec<_> = pack(&run.plan, cut.segments, 1 << 20).collect();
    let decode = |change: fn(&mut Function)| {
        let mut other = spread("s", &["a"], AccumulationMode::Discarding);
        other.aggregates.iter_mut().for_each(|aggregate| change(&mut aggregate.function));
        let plan = Arc::new(plan(&job(vec![other])).unwrap());
        let symbols = Arc::new(Symbols::default());
        let mut restoration = Restoration::new(plan, symbols, 1, std::slice::from_ref(&cut.part))?;
        pieces.iter().try_for_each(|piece| restoration.take(Epoch::from_number(1), piece))
    };
    assert!(decode(|_| {}).is_ok());
    for change in [
        |function: &mut Function| {
            if let Function::Side(SideFunction::Distinct { precision }) = function {
                *precision = 13;
            }
        },
        |function: &mut Function| {
            if let Function::Side(SideFunction::Quantile { accuracy, .. }) = function {
                *accuracy = Millionths(200);
            }
        },
    ] {
        let result = decode(change);
        assert!(matches!(result, Err(ImageError::OtherPlan { .. })), "{result:?}");
    }
}

/// How many values are odd.
#[derive(Debug)]
struct Odd;

impl CustomAggregate for Odd {
    type State = i64;

    fn name(&self) -> &str {
        "odd"
    }

    fn accepts(&self, ty: Type) -> bool {
        ty.is_integer()
    }

    fn result_type(&self, _: Type) -> Type {
        Type::I64
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn zero(&self) -> i64 {
        0
    }

    fn add(&self, state: &mut i64, value: &Value, _: EventTime) {
        *state += i64::from(matches!(value, Value::Int(number) if number % 2 != 0));
    }

    fn merge(&self, state: &mut i64, part: &i64) {
        *state += part;
    }

    fn is_subtractable(&self) -> bool {
        true
    }

    fn subtract(&self, state: &mut i64, part: &i64) {
        *state -= part;
    }

    fn finish(&self, state: &i64) -> Value {
        Value::Int((*state).into())
    }

    fn encode(&self, state: &i64) -> Vec<u8> {
        state.to_le_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<i64> {
        bytes.try_into().ok().map(i64::from_le_bytes)
    }
}

const ODD: Function = Function::Side(SideFunction::Custom(CustomFunction::new(&Odd)));

#[test]
fn an_aggregate_of_the_users_goes_all_the_way_and_can_be_taken_out() {
    let mut own = spread("s", &["a"], AccumulationMode::Retracting);
    own.aggregates[1].function = ODD;
    let mut run = Run::new(vec![own]);
    let known = &run.plan.stages[0].aggregates.accumulators()[1];
    assert_eq!((known.function.name(), known.is_exact()), ("odd", false));
    assert_eq!(known.error().unwrap(), "as odd says");
    records(&mut run, &[(1, 5), (1, 7), (1, 4)]);
    run.restart();
    assert_eq!(watermark(&mut run, 10), ["+s Int(1) 3 2 5"]);
    run.restart();
    assert_eq!(records(&mut run, &[(1, 9)]), ["-s Int(1) 3 2 5", "+s Int(1) 4 3 5"]);

    let layout = AggregateLayout::new([("odd".into(), ODD, Type::I64)]);
    let symbols = Symbols::default();
    let of = |numbers: &[i128]| {
        let mut values = layout.empty();
        for number in numbers {
            let input = (Datum::Int(*number), EventTime::MIN);
            layout.add(&mut values, 0, input, &symbols).unwrap();
        }
        values
    };
    let (mut whole, part, mut none) = (of(&[1, 2, 3]), of(&[3, 4]), layout.empty());
    layout.subtract_all(&mut whole, &part).unwrap();
    assert_eq!(layout.finish(&whole, 0), Datum::Int(1));
    layout.subtract_all(&mut none, &part).unwrap();
    assert_eq!(layout.finish(&none, 0), Datum::Int(-1));
    layout.merge_all(&mut none, &part, &symbols).unwrap();
    assert_eq!(layout.finish(&none, 0), layout.finish(&layout.empty(), 0));
}

#[test]
fn a_state_that_its_aggregate_cannot_read_is_refused() {
    let function = SideFunction::Custom(CustomFunction::new(&Odd));
    let mut side: Side = postcard::from_bytes(&[5, 3, 1, 2, 3]).unwrap();
    assert!(matches!(side, Side::Custom(_)) && !side.give_to(function));
    let mut side: Side = postcard::from_bytes(&[5, 8, 7, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert!(side.give_to(function));
    assert_eq!(side.finish(function), Value::Int(7));
    assert!(!side.give_to(SideFunction::Distinct { precision: 12 }));
}

#[test]
fn a_list_of_the_largest_refuses_them_by_name() {
    use crate::plan::{Ties, TopKSpec};
    let mut listed = spread("s", &["a"], AccumulationMode::Discarding);
    listed.top_k = Some(TopKSpec {
        k: 1,
        entity: vec!["a".into()],
        rank: vec!["n".into()],
        require: Vec::new(),
        other: false,
        ties: Ties::Ascending,
    });
    let errors = plan(&job(vec![listed])).unwrap_err();
    let named: Vec<_> = errors
        .iter()
        .map(|error| match error {
            PlanError::TopKOfSide { aggregate, function, .. } => (&**aggregate, *function),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(named, [("different", "distinct"), ("median", "quantile")]);
}
