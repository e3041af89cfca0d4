//! Where windows have an edge: at both ends of time, where their bounds change behind them, where
//! nothing may fire yet.

use crate::kit::{Run, after_watermark, check, check_on, fixed, repeat, sessions, span, sums};
use nilometer_model::aggregate::Function;
use nilometer_model::custom::{Custom, CustomWindow};
use nilometer_model::engine::{Engine, Pace};
use nilometer_model::pane::{AccumulationMode, Emission, TimestampCombiner};
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Spread};
use nilometer_model::planner::plan;
use nilometer_model::row::{Field, Position, RowBatch};
use nilometer_model::shard::{Output, Shard};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Watermark, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Datum, Type, Value};
use nilometer_model::window::{Touching, WindowFn};
use std::sync::Arc;

use AccumulationMode::{Accumulating, Discarding, Retracting};

#[test]
fn the_first_instant_of_time_has_a_session() {
    for touching in [Touching::Merge, Touching::Separate] {
        let (first, end) = (i64::MIN, i64::MIN + 10);
        let next = i64::MIN + 3;
        let script = format!(
            "
            records {first}=1 {next}=2
            dropped
              expired 0 closed 0 refused 0
            end
              [-inf,{}) +3 #0 on_time @{} last
            ",
            end + 3,
            end + 2,
        );
        check(&sums(sessions(10, touching), Trigger::default_trigger(), Discarding), &script);
    }
}

#[test]
fn at_the_last_instant_of_time_there_is_one_session() {
    let script = format!(
        "
        records {0}=1
          [+inf,+inf) +1 #0 early @+inf last
        records {0}=2
        dropped
          expired 0 closed 1 refused 0
        end
        ",
        i64::MAX
    );
    check(&sums(sessions(10, Touching::Separate), Trigger::AfterCount(1), Discarding), &script);
}

/// From each instant with a record to the next.
#[derive(Debug)]
struct UntilTheNext;

impl CustomWindow for UntilTheNext {
    fn name(&self) -> &str {
        "edges_until_the_next"
    }

    fn assign(&self, time: EventTime, _: &[Value], windows: &mut Vec<Window>) {
        windows.push(Window::new(time, EventTime::MAX));
    }

    fn is_merging(&self) -> bool {
        true
    }

    fn merge(&self, windows: &mut [Window]) {
        let starts: Vec<_> = windows.iter().map(|window| window.start()).collect();
        for (window, next) in windows.iter_mut().zip(&starts[1..]) {
            *window = Window::new(window.start(), window.end().min(*next));
        }
    }
}

#[test]
fn a_closed_window_whose_bounds_change_is_told_of_once_more() {
    // Nothing more comes into it; but what was sent stands under bounds that are no more.
    let stage = |mode| Grouping {
        allowed_lateness: span(30),
        ..sums(WindowFn::Custom(Custom(&UntilTheNext)), after_watermark(None, None), mode)
    };
    let script = "
        records 20=1 31=2
        watermark 31
          [20,31) +1 #0 on_time @30 last
        records 0=4
          [0,20) +4 #0 late @19 last
        records 10=8
          [0,20) -4 #0 late @19
          [0,10) +4 #0 late @9 last
          [10,20) +8 #0 late @19 last
        end
          [31,+inf) +2 #0 on_time @+inf last
        ";
    check(&stage(Retracting), script);
    let script = "
        records 20=1 31=2
        watermark 31
          [20,31) +1 #0 on_time @30 last
        records 0=4
          [0,20) +4 #0 late @19 last
        records 10=8
          [0,10) +4 #0 late @9 last
          [10,20) +8 #0 late @19 last
        end
          [31,+inf) +2 #0 on_time @+inf last
        ";
    check(&stage(Accumulating), script);
}

#[test]
fn a_signal_does_not_break_a_micro_batch() {
    let trigger = repeat(Trigger::OnSignal("now".into()));
    let script = "
        records 1=1
        signal now
        records 2=2
        cycle 3
          [0,10) +3 #0 early @9
        signal now
        tick 5
        end
        ";
    let engine = Engine::MicroBatch(Pace::Records(1));
    check_on(engine, &sums(fixed(10), trigger, Discarding), script);
}

/// The sum of `v`, split over windows, of one record that covers 5 to 29; by window, with the event
/// time of its pane.
fn split(window: WindowFn) -> Vec<(String, i128, i64)> {
    let fields = ["first", "last", "v"].map(|name| Field::new(name, Type::I64)).to_vec();
    let mut sum = AggregateSpec::new("sum", Function::Sum, Some("v"));
    sum.spread = true;
    let timestamp = TimestampCombiner::Latest;
    let grouping = Grouping {
        key: Vec::<KeyColumn>::new(),
        aggregates: vec![sum],
        emission: Emission { timestamp, ..Emission::default() },
        sinks: vec!["out".into()],
        ..Grouping::new("sums", window)
    };
    let spread = Some(Spread { first: "first".into(), last: "last".into(), max_duration: None });
    let plan =
        Arc::new(plan(&Job { spread, ..Job::new("split", fields, vec![grouping]) }).unwrap());
    let symbols = Arc::new(Symbols::default());
    let mut shard = Shard::new(plan.clone(), symbols.clone(), 0, 1);
    let mut batch = RowBatch::new(plan.row.clone());
    let mut row = batch.push(EventTime::from_millis(29), Position::default());
    for (name, value) in [("first", 5), ("last", 29), ("v", 100)] {
        if let Some(slot) = plan.row.slot(name) {
            row.set(slot, Datum::Int(value));
        }
    }
    let mut out = Output::default();
    shard.records(&batch, &mut out).unwrap();
    shard.watermark(Watermark::MAX, &mut out).unwrap();
    let stage = &plan.stages[0];
    let mut told = Vec::new();
    for (meta, _, values) in
        out.panes.iter().flat_map(|panes| panes.iter(0, stage.aggregates.words()))
    {
        let Datum::Int(value) = stage.aggregates.finish(values, 0) else { panic!() };
        told.push((meta.window.to_string(), value, meta.event_time.as_millis()));
    }
    told
}

#[test]
fn what_covers_several_windows_is_split_but_for_windows_that_follow_from_records() {
    assert_eq!(
        split(fixed(10)),
        [
            ("[0,10)".to_owned(), 20, 9),
            ("[10,20)".to_owned(), 40, 19),
            ("[20,30)".to_owned(), 40, 29)
        ]
    );
    assert_eq!(split(sessions(10, Touching::Merge)), [("[29,39)".to_owned(), 100, 29)]);
    assert_eq!(split(WindowFn::Custom(Custom(&UntilTheNext))), [("[29,+inf)".to_owned(), 100, 29)]);
}

#[test]
fn state_goes_with_its_window_also_where_nobody_waits_for_it() {
    // A trigger that never fires, and one that has finished, at the very expiry.
    for trigger in [Trigger::Never, Trigger::AfterCount(1)] {
        let mut run = Run::new(Grouping {
            allowed_lateness: span(5),
            ..sums(sessions(10, Touching::Merge), trigger, Retracting)
        });
        run.records(&[("a", 0, 1), ("b", 3, 1)]);
        run.watermark(15);
        assert_eq!(run.shard.windows().len(), 2);
        run.watermark(16);
        assert_eq!(run.shard.windows().len(), 1);
        run.watermark(19);
        assert!(run.shard.is_empty());
    }
}
