//! A late pane costs what came late, not what the window holds: shown by the count of aggregate
//! operations.

use crate::world::World;
use nilometer_model::aggregate::Function;
use nilometer_model::batch::Record;
use nilometer_model::pane::{AccumulationMode, Emission};
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Ties, TopKSpec};
use nilometer_model::planner::plan;
use nilometer_model::row::Field;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::{Phase, WindowFn};
use std::sync::Arc;

fn grouping(name: &str, key: &[&str], size: i64, mode: AccumulationMode) -> Grouping {
    let aggregate = |name: &str, function, fields: &[&str]| AggregateSpec {
        name: name.into(),
        function,
        fields: fields.iter().map(|field| (*field).into()).collect(),
        spread: false,
    };
    Grouping {
        name: name.into(),
        key: key.iter().map(|name| KeyColumn::plain(name)).collect(),
        window: WindowFn::Fixed { size: Span::from_millis(size), offset: 0, phase: Phase::Aligned },
        trigger: Trigger::default_trigger(),
        emission: Emission::default(),
        gap_field: None,
        allow_closing: false,
        mode,
        allowed_lateness: Span::from_millis(1_000),
        aggregates: vec![
            aggregate("sum", Function::Sum, &["v"]),
            aggregate("max", Function::Max, &["v"]),
        ],
        top_k: None,
        sinks: vec!["out".into()],
        late: None,
        of: None,
        sequence: None,
    }
}

/// Three levels and a list of 3.
fn job(mode: AccumulationMode) -> Job {
    let mut list = grouping("list", &["a", "b"], 10, mode);
    list.top_k = Some(TopKSpec {
        k: 3,
        entity: vec!["b".into()],
        rank: vec!["sum".into()],
        require: Vec::new(),
        other: true,
        ties: Ties::Ascending,
    });
    Job {
        name: "cost".into(),
        fields: [("a", Type::U8), ("b", Type::U32), ("v", Type::I64)]
            .map(|(name, ty)| Field::new(name, ty))
            .into(),
        groupings: vec![
            grouping("fine", &["a", "b"], 10, mode),
            grouping("middle", &["a"], 10, mode),
            grouping("coarse", &["a"], 20, mode),
            list,
        ],
        shard_by: None,
        key_groups: 16,
        extra_fields: Vec::new(),
        spread: None,
        phase: None,
        cascade: true,
    }
}

fn record(b: i128, v: i128) -> Record {
    let values = vec![Value::Int(1), Value::Int(b), Value::Int(v)];
    Record { time: EventTime::from_millis(5), values }
}

/// Operations that `late` records cost a window that has fired over `keys` keys of `each` records.
fn cost(mode: AccumulationMode, (keys, each): (i128, i128), late: i128) -> u64 {
    let job = job(mode);
    let plan = Arc::new(plan(&job).unwrap());
    assert_eq!(plan.record_reads(), 1);
    let mut world = World::new(plan, 1, 0);
    for v in 0..each {
        let records: Vec<_> = (0..keys).map(|b| record(b, v)).collect();
        world.records(&job, &records);
    }
    world.watermark(Watermark(EventTime::from_millis(20)));
    world.settle();
    let operations = |world: &World| world.accounts().iter().map(|a| a.operations).sum::<u64>();
    let before = operations(&world);
    let records: Vec<_> = (0..late).map(|b| record(b, 1)).collect();
    world.records(&job, &records);
    world.settle();
    operations(&world) - before
}

#[test]
fn a_late_pane_costs_what_came_late() {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    for mode in [Discarding, Accumulating, Retracting] {
        let small = cost(mode, (10, 1), 1);
        assert_eq!(cost(mode, (2_000, 1), 1), small, "more keys, {mode:?}");
        assert_eq!(cost(mode, (10, 200), 1), small, "more records, {mode:?}");
        // One record through four levels, and a look at the three that are listed.
        assert!(small <= 12, "{small}, {mode:?}");
        // Twice as much late data costs no more than twice as much.
        assert!(cost(mode, (10, 1), 8) <= 2 * cost(mode, (10, 1), 4), "{mode:?}");
    }
}
