//! Both forms of sliding windows emit the same panes round by round, count the same, and leave
//! nothing: over random windows, lateness, modes, triggers, engines and restarts.

use crate::account::{Dropped, StageAccount};
use crate::aggregate::Function;
use crate::engine::{Cycle, Engine, Pace};
use crate::image::Log;
use crate::pane::AccumulationMode;
use crate::plan::{
    AggregateSpec, Grouping, Job, KeyColumn, LateSpec, Plan, Spread, Ties, TopKSpec,
};
use crate::planner::plan_for;
use crate::row::{Field, Position, RowBatch, read};
use crate::shard::{Machine, Output, Shard};
use crate::symbol::Symbols;
use crate::tick::Tick;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use crate::trigger::Trigger;
use crate::value::{Datum, Type};
use crate::window::WindowFn;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Step {
    /// Time, length, keys and value of each.
    Records(Vec<(i64, i64, [u32; 2], i64)>),
    Watermark(i64),
    Tick(i64),
    /// The watermark has stood still for too long.
    TimeOut,
    Restart,
}

#[derive(Debug, Clone)]
struct Case {
    job: Job,
    engine: Engine,
    steps: Vec<Step>,
}

const MICRO_BATCH: Engine = Engine::MicroBatch(Pace::Records(1));

fn early_late(early: Trigger) -> Trigger {
    let late = Some(Box::new(Trigger::AfterCount(1)));
    Trigger::AfterWatermark { early: Some(Box::new(early)), late }
}

fn triggers() -> impl Strategy<Value = Trigger> {
    let every = (1_i64..8).prop_map(|p| early_late(Trigger::Every(Span::from_millis(p))));
    prop_oneof![Just(Trigger::default_trigger()), every]
}

fn grouping(
    name: &str,
    key: &[&str],
    (window, trigger): (WindowFn, &Trigger),
    (mode, allowed_lateness): (AccumulationMode, Span),
) -> Grouping {
    let aggregates = [
        ("sum", Function::Sum),
        ("max", Function::Max),
        ("mean", Function::Mean),
        ("first", Function::First),
    ];
    let aggregates = aggregates.map(|(name, function)| AggregateSpec {
        spread: name == "sum",
        ..AggregateSpec::new(name, function, Some("v"))
    });
    Grouping {
        key: key.iter().map(|name| KeyColumn::plain(name)).collect(),
        trigger: trigger.clone(),
        mode,
        allowed_lateness,
        aggregates: aggregates.into(),
        sinks: vec!["out".into()],
        late: Some(LateSpec { sink: "late".into(), include_late: true }),
        ..Grouping::new(name, window)
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    let sizes = (1_i64..40, 1_i64..15, -20_i64..20);
    let windows = sizes.prop_map(|(size, period, offset)| WindowFn::Sliding {
        size: Span::from_millis(size),
        period: Span::from_millis(period),
        offset,
    });
    let modes = || prop_oneof![Just(Discarding), Just(Accumulating), Just(Retracting)];
    let lateness = prop_oneof![2 => Just(0), 2 => 1_i64..30, 1 => Just(i64::MAX)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (windows, triggers(), (modes(), modes()), lateness, flags).prop_map(
        |(window, trigger, modes, lateness, (is_spread, is_seen, has_list))| {
            let lateness = Span::from_millis(lateness);
            let sliding = (window, &trigger);
            let mut fine = grouping("fine", &["a", "b"], sliding, (modes.0, lateness));
            if !is_seen {
                fine.sinks.clear();
            }
            let coarse = grouping("coarse", &["a"], sliding, (modes.1, lateness));
            let mut list = grouping("list", &["a", "b"], sliding, (modes.1, lateness));
            list.aggregates.truncate(1);
            list.top_k = Some(TopKSpec {
                k: 1,
                entity: vec!["b".into()],
                rank: vec!["sum".into()],
                require: Vec::new(),
                other: false,
                ties: Ties::default(),
            });
            let narrow = ["a", "b"].map(|name| Field::new(name, Type::U32));
            let wide = ["v", "from", "to"].map(|name| Field::new(name, Type::I64));
            let mut groupings = vec![fine, coarse];
            groupings.extend(has_list.then_some(list));
            let mut job = Job::new("t", narrow.into_iter().chain(wide).collect(), groupings);
            let spread = Spread { first: "from".into(), last: "to".into(), max_duration: None };
            job.spread = is_spread.then_some(spread);
            job
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let time = || prop_oneof![8 => -60_i64..60, 1 => Just(i64::MIN), 1 => Just(i64::MAX - 3)];
    let key = [0_u32..2, 0_u32..2];
    let records = prop::collection::vec((time(), 0_i64..30, key, -5_i64..9), 1..6);
    let step = prop_oneof![
        4 => records.prop_map(Step::Records),
        3 => (-40_i64..90).prop_map(Step::Watermark),
        2 => (0_i64..40).prop_map(Step::Tick),
        1 => Just(Step::TimeOut),
        1 => Just(Step::Restart),
    ];
    let engines =
        prop_oneof![3 => Just(Engine::Streaming), 1 => Just(Engine::Batch), 2 => Just(MICRO_BATCH)];
    (jobs(), engines, prop::collection::vec(step, 1..24)).prop_map(|(job, engine, steps)| Case {
        job,
        engine,
        steps,
    })
}

/// What one round gives, in an order that does not depend on the form.
#[derive(Debug, PartialEq)]
struct Round {
    panes: Vec<String>,
    late: Vec<String>,
    dropped: Vec<Dropped>,
    windows: Vec<String>,
    incomplete: Vec<(usize, usize)>,
}

struct Run {
    plan: Arc<Plan>,
    shard: Shard,
    log: Log,
    cycle: u64,
}

impl Run {
    fn new(plan: Plan) -> Self {
        let plan = Arc::new(plan);
        let mut shard = Shard::new(plan.clone(), Arc::new(Symbols::default()), 0, 1);
        shard.trace_drops(true);
        Self { plan, shard, log: Log::default(), cycle: 0 }
    }

    fn records(&self, records: &[(i64, i64, [u32; 2], i64)]) -> RowBatch {
        let mut batch = RowBatch::new(self.plan.row.clone());
        for (time, length, keys, value) in records {
            let mut row = batch.push(EventTime::from_millis(*time), Position::default());
            let all = [
                ("a", i64::from(keys[0])),
                ("b", i64::from(keys[1])),
                ("v", *value),
                ("from", time.saturating_sub(*length)),
                ("to", *time),
            ];
            for (name, value) in all {
                if let Some(slot) = self.plan.row.slot(name) {
                    row.set(slot, Datum::Int(value.into()));
                }
            }
        }
        batch
    }

    fn step(&mut self, step: &Step) -> Round {
        let mut out = Output::default();
        match step {
            Step::Records(records) => {
                let batch = self.records(records);
                self.shard.records(&batch, &mut out).unwrap();
            }
            Step::Watermark(millis) => {
                let watermark = Watermark(EventTime::from_millis(*millis));
                match self.plan.engine {
                    Engine::Streaming => self.shard.watermark(watermark, &mut out).unwrap(),
                    Engine::MicroBatch(_) => {
                        self.cycle += 1;
                        let cycle = Cycle { number: self.cycle, watermark };
                        self.shard.cycle(cycle, &mut out).unwrap();
                    }
                    Engine::Batch if watermark == Watermark::MAX => {
                        self.shard.watermark(watermark, &mut out).unwrap();
                    }
                    Engine::Batch => {}
                }
            }
            Step::Tick(millis) => {
                let tick = Tick::after(None, ProcessingTime::from_millis(*millis));
                self.shard.tick(tick, &mut out).unwrap();
            }
            Step::TimeOut if self.plan.engine == Engine::Streaming => {
                self.cycle += 1;
                let cycle = Cycle { number: self.cycle, watermark: Watermark::MIN };
                self.shard.cycle(cycle, &mut out).unwrap();
            }
            Step::TimeOut => {}
            Step::Restart => {
                self.log.cut(&self.plan, std::slice::from_mut(&mut self.shard)).unwrap();
                let symbols = Arc::new(Symbols::default());
                self.shard = self.log.restore(&self.plan, &symbols, 1).unwrap().remove(0);
                self.shard.trace_drops(true);
            }
        }
        self.read(&out)
    }

    fn read(&self, out: &Output) -> Round {
        let mut panes = Vec::new();
        for batch in &out.panes {
            let stage = &self.plan.stages[batch.stage.index()];
            for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
                let results = (0..stage.aggregates.accumulators().len())
                    .map(|index| stage.aggregates.finish(values, index));
                let results: Vec<_> = results.collect();
                panes.push((stage.id, key.to_vec(), meta.window, format!("{meta:?} {results:?}")));
            }
        }
        // Those of one key and window stay in their order.
        panes.sort_by(|a, b| (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)));
        let late = out.late.iter().flat_map(|batch| {
            let value = batch.layout().slot("v");
            batch.iter().map(move |copy| {
                let value = value.map(|value| read(copy.row, value));
                format!(
                    "{:?} {} {:?} {} {value:?}",
                    batch.stage,
                    copy.reason.name(),
                    copy.key,
                    copy.window
                )
            })
        });
        // Of a stage that nobody sees, the short forms keep nothing that has fired.
        let is_seen = |stage: usize| !self.plan.stages[stage].sinks.is_empty();
        let windows = self.shard.windows();
        let windows = windows.iter().filter(|(stage, ..)| is_seen(stage.index()));
        let mut windows: Vec<_> = windows.map(|window| format!("{window:?}")).collect();
        windows.sort();
        let incomplete = self.shard.incomplete_windows().into_iter().enumerate();
        Round {
            panes: panes.into_iter().map(|pane| format!("{pane:?}")).collect(),
            late: late.collect(),
            dropped: out.dropped.clone(),
            windows,
            incomplete: incomplete.filter(|(stage, _)| is_seen(*stage)).collect(),
        }
    }

    /// Accounts without what the forms do differently: how often they add.
    fn accounts(&self) -> Vec<StageAccount> {
        let accounts = self.shard.accounts().into_iter();
        accounts.map(|account| StageAccount { operations: 0, ..account }).collect()
    }
}

/// The plan with every stage in its general form: its trigger is the same, but not known as such.
fn copying(mut plan: Plan) -> Plan {
    for stage in plan.stages.iter_mut().filter(|stage| stage.top_k.is_none()) {
        let same = Box::new(stage.trigger.clone());
        stage.trigger = Trigger::OrFinally(same, Box::new(Trigger::Never));
    }
    plan
}

fn is_sliced(shard: &Shard) -> bool {
    shard.machines.iter().any(|machine| matches!(machine, Machine::Sliding(..)))
}

proptest! {
    #[test]
    fn slices_and_copies_give_the_same(case in cases()) {
        let plan = plan_for(&case.job, case.engine).unwrap();
        let (mut sliced, mut copied) = (Run::new(plan.clone()), Run::new(copying(plan)));
        prop_assert!(is_sliced(&sliced.shard) && !is_sliced(&copied.shard));
        for step in case.steps.iter().chain([&Step::Watermark(i64::MAX)]) {
            prop_assert_eq!(sliced.step(step), copied.step(step), "{:?}", step);
            prop_assert_eq!(sliced.accounts(), copied.accounts());
        }
        prop_assert!(sliced.shard.is_empty() && copied.shard.is_empty());
    }
}
