//! One stage of the pure model, driven by hand: records, watermarks and ticks in, panes out.
//!
//! Whatever a test looks at, the kit checks of every pane that timings follow `EARLY* ON_TIME?
//! LATE*` (PANE-1) and that indices have no gap (PANE-2), and at the end that no window, timer, hold
//! or key is left (GC-1).

use nilometer_model::account::StageAccount;
use nilometer_model::aggregate::Function;
use nilometer_model::engine::{Cycle, Engine};
use nilometer_model::image::Log;
use nilometer_model::pane::{AccumulationMode, PaneKind, Timing};
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Plan};
use nilometer_model::planner::plan_for;
use nilometer_model::row::{Field, Position, RowBatch};
use nilometer_model::shard::{Output, Shard};
use nilometer_model::symbol::Symbols;
use nilometer_model::tick::Tick;
use nilometer_model::time::{EventTime, ProcessingTime, Span, Watermark, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Datum, Type, Value};
use nilometer_model::window::{Phase, Touching, WindowFn};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

pub(crate) const fn span(millis: i64) -> Span {
    Span::from_millis(millis)
}

pub(crate) const fn fixed(size: i64) -> WindowFn {
    WindowFn::Fixed { size: span(size), offset: 0, phase: Phase::Aligned }
}

pub(crate) const fn sliding(size: i64, period: i64) -> WindowFn {
    WindowFn::Sliding { size: span(size), period: span(period), offset: 0 }
}

pub(crate) const fn sessions(gap: i64, touching: Touching) -> WindowFn {
    WindowFn::Session { gap: span(gap), max_duration: None, touching }
}

/// The trigger that fires at the end of the window, and early and late as told.
pub(crate) fn after_watermark(early: Option<Trigger>, late: Option<Trigger>) -> Trigger {
    Trigger::AfterWatermark { early: early.map(Box::new), late: late.map(Box::new) }
}

pub(crate) fn repeat(inner: Trigger) -> Trigger {
    Trigger::Repeat(Box::new(inner))
}

/// A grouping by `key` with the sum of `v`; all else can be changed.
pub(crate) fn sums(window: WindowFn, trigger: Trigger, mode: AccumulationMode) -> Grouping {
    Grouping {
        key: vec![KeyColumn::plain("key")],
        trigger,
        mode,
        allow_closing: true,
        aggregates: vec![AggregateSpec::new("sum", Function::Sum, Some("v"))],
        sinks: vec!["out".into()],
        ..Grouping::new("sums", window)
    }
}

/// The job of one grouping over records with `key`, `v`, and other fields.
pub(crate) fn job(grouping: Grouping, fields: &[(&str, Type)]) -> Job {
    let own = [("key", Type::Text), ("v", Type::I64)];
    let fields = own.iter().chain(fields).map(|(name, ty)| Field::new(name, *ty));
    Job::new("semantics", fields.collect(), vec![grouping])
}

/// A pane as the sinks see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pane {
    pub(crate) key: Value,
    pub(crate) window: Window,
    /// The sum; negative for a retraction.
    pub(crate) value: i128,
    pub(crate) is_retraction: bool,
    pub(crate) timing: Timing,
    pub(crate) index: u32,
    /// Number of the pane among those of its window that are not early, from 0; -1 while early. Of a
    /// retraction: 0.
    pub(crate) nonspeculative: i64,
    pub(crate) is_last: bool,
    pub(crate) event_time: EventTime,
}

impl fmt::Display for Pane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, value, index, event_time, .. } = self;
        let timing = self.timing.name();
        write!(f, "{window} {value:+} #{index} {timing} @{event_time}")?;
        if self.is_last { f.write_str(" last") } else { Ok(()) }
    }
}

/// A record: its key, event time and value.
pub(crate) type Record<'a> = (&'a str, i64, i64);

/// What was last emitted of a window.
#[derive(Clone, Copy)]
struct Emitted {
    index: u32,
    timing: Timing,
    nonspeculative: i64,
}

/// A stage at work.
pub(crate) struct Run {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    pub(crate) shard: Shard,
    /// What it was at its restarts.
    log: Log,
    emitted: BTreeMap<(String, Window), Emitted>,
    /// Number of the last cycle.
    cycle: u64,
}

impl Run {
    pub(crate) fn new(grouping: Grouping) -> Self {
        Self::with_fields(grouping, &[])
    }

    /// A stage whose records have fields beside `key` and `v`.
    pub(crate) fn with_fields(grouping: Grouping, fields: &[(&str, Type)]) -> Self {
        Self::made(Engine::Streaming, grouping, fields)
    }

    /// A stage that another engine runs.
    pub(crate) fn on(engine: Engine, grouping: Grouping) -> Self {
        Self::made(engine, grouping, &[])
    }

    fn made(engine: Engine, grouping: Grouping, fields: &[(&str, Type)]) -> Self {
        let plan = Arc::new(plan_for(&job(grouping, fields), engine).unwrap());
        let symbols = Arc::new(Symbols::default());
        let shard = Shard::new(plan.clone(), symbols.clone(), 0, 1);
        Self { plan, symbols, shard, log: Log::default(), emitted: BTreeMap::new(), cycle: 0 }
    }

    /// One batch.
    pub(crate) fn records(&mut self, records: &[Record<'_>]) -> Vec<Pane> {
        let rows = records.iter().map(|(key, time, value)| {
            let values =
                vec![("key", Value::Text((*key).into())), ("v", Value::Int(i128::from(*value)))];
            (*time, values)
        });
        self.rows(&rows.collect::<Vec<_>>())
    }

    /// One batch of records with any fields.
    pub(crate) fn rows(&mut self, rows: &[(i64, Vec<(&str, Value)>)]) -> Vec<Pane> {
        let mut batch = RowBatch::new(self.plan.row.clone());
        for (time, values) in rows {
            let mut row = batch.push(EventTime::from_millis(*time), Position::default());
            for (name, value) in values {
                let slot = self.plan.row.slot(name).unwrap();
                row.set(slot, value.intern(&self.symbols).unwrap());
            }
        }
        let mut out = Output::default();
        self.shard.records(&batch, &mut out).unwrap();
        self.read(&out)
    }

    pub(crate) fn watermark(&mut self, millis: i64) -> Vec<Pane> {
        let mut out = Output::default();
        self.shard.watermark(Watermark(EventTime::from_millis(millis)), &mut out).unwrap();
        self.read(&out)
    }

    /// The end of a cycle of micro-batches.
    pub(crate) fn cycle(&mut self, millis: i64) -> Vec<Pane> {
        self.cycle += 1;
        let watermark = Watermark(EventTime::from_millis(millis));
        let mut out = Output::default();
        self.shard.cycle(Cycle { number: self.cycle, watermark }, &mut out).unwrap();
        assert_eq!(self.shard.finished_cycle(), self.cycle);
        self.read(&out)
    }

    pub(crate) fn tick(&mut self, millis: i64) -> Vec<Pane> {
        let mut out = Output::default();
        let tick = Tick::after(None, ProcessingTime::from_millis(millis));
        self.shard.tick(tick, &mut out).unwrap();
        self.read(&out)
    }

    pub(crate) fn signal(&mut self, name: &str) -> Vec<Pane> {
        let mut out = Output::default();
        self.shard.signal(name, &mut out).unwrap();
        self.read(&out)
    }

    /// The end of the input: what is left comes out, and nothing stays.
    pub(crate) fn end(&mut self) -> Vec<Pane> {
        let has_cycles = self.plan.engine.pace().is_some();
        let panes = if has_cycles { self.cycle(i64::MAX) } else { self.watermark(i64::MAX) };
        assert!(self.shard.is_empty(), "something is left: {:?}", self.shard.windows());
        assert!(self.account().is_balanced(), "{:?}", self.account());
        panes
    }

    /// Drops everything but the bytes of a snapshot, and goes on from there.
    pub(crate) fn restart(&mut self) {
        self.log.cut(&self.plan, std::slice::from_mut(&mut self.shard)).unwrap();
        self.symbols = Arc::new(Symbols::default());
        self.shard = self.log.restore(&self.plan, &self.symbols, 1).unwrap().remove(0);
    }

    pub(crate) fn account(&self) -> StageAccount {
        self.shard.accounts()[0].clone()
    }

    fn read(&mut self, out: &Output) -> Vec<Pane> {
        let stage = &self.plan.stages[0];
        let mut panes = Vec::new();
        for batch in &out.panes {
            for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
                let Datum::Int(value) = stage.aggregates.finish(values, 0) else { panic!() };
                let is_retraction = meta.kind == PaneKind::Retract;
                panes.push(Pane {
                    key: stage.key.values(key, &self.symbols)[0].clone(),
                    window: meta.window,
                    value: if is_retraction { -value } else { value },
                    is_retraction,
                    timing: meta.timing,
                    index: meta.index,
                    nonspeculative: 0,
                    is_last: meta.is_last,
                    event_time: meta.event_time,
                });
            }
        }
        for pane in panes.iter_mut().filter(|pane| !pane.is_retraction) {
            pane.nonspeculative = follow(&mut self.emitted, pane);
        }
        panes
    }
}

/// Checks that a pane may follow the one before it of its window, and numbers it.
fn follow(emitted: &mut BTreeMap<(String, Window), Emitted>, pane: &Pane) -> i64 {
    let place = (format!("{:?}", pane.key), pane.window);
    let before = emitted.get(&place).filter(|_| pane.index > 0).copied();
    let is_early = pane.timing == Timing::Early;
    let nonspeculative = match before {
        None => {
            assert_eq!(pane.index, 0, "PANE-2: {pane}");
            if is_early { -1 } else { 0 }
        }
        Some(before) => {
            assert_eq!(pane.index, before.index + 1, "PANE-2: {pane}");
            let may_follow = match before.timing {
                Timing::Early => true,
                Timing::OnTime | Timing::TimedOut | Timing::Late => pane.timing == Timing::Late,
            };
            assert!(may_follow, "PANE-1: {pane} after {:?}", before.timing);
            if is_early { -1 } else { before.nonspeculative + 1 }
        }
    };
    let last = Emitted { index: pane.index, timing: pane.timing, nonspeculative };
    emitted.insert(place, last);
    nonspeculative
}

/// Plays a script on a stage and says what happens, line by line: what is done, and below it,
/// indented, what comes out.
///
/// `records 1=5 2=7` is one batch with (event time, value) of each record of one key; `watermark`
/// and `tick` take an instant, `signal` a name; `restart` goes on from a snapshot; `dropped` and
/// `passed` tell the account and the output watermark; `end` is the end of the input.
fn play(run: &mut Run, script: &str) -> String {
    let mut told = String::new();
    for line in script.lines().map(str::trim_end).filter(|line| !line.starts_with(' ')) {
        writeln!(told, "{line}").unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let panes = match words.as_slice() {
            ["records", records @ ..] => {
                let records = records.iter().map(|record| {
                    let (time, value) = record.split_once('=').unwrap();
                    ("k", time.parse().unwrap(), value.parse().unwrap())
                });
                run.records(&records.collect::<Vec<_>>())
            }
            ["watermark", instant] => run.watermark(instant.parse().unwrap()),
            ["cycle", instant] => run.cycle(instant.parse().unwrap()),
            ["tick", instant] => run.tick(instant.parse().unwrap()),
            ["signal", name] => run.signal(name),
            ["restart"] => {
                run.restart();
                Vec::new()
            }
            ["dropped"] => {
                let StageAccount { expired, closed, refused, .. } = run.account();
                writeln!(told, "  expired {expired} closed {closed} refused {refused}").unwrap();
                Vec::new()
            }
            ["passed"] => {
                writeln!(told, "  {}", run.shard.passed()).unwrap();
                Vec::new()
            }
            ["end"] => run.end(),
            _ => panic!("`{line}` is nothing to do"),
        };
        for pane in panes {
            writeln!(told, "  {pane}").unwrap();
        }
    }
    told
}

/// Plays a script and compares it with what happened; once more with a restart after each line,
/// which must change nothing.
pub(crate) fn check(grouping: &Grouping, script: &str) {
    check_on(Engine::Streaming, grouping, script);
}

/// As [`check`], run by an engine.
pub(crate) fn check_on(engine: Engine, grouping: &Grouping, script: &str) {
    let margin = script.lines().find(|line| !line.trim().is_empty()).unwrap();
    let margin = margin.len() - margin.trim_start().len();
    let lines = script.lines().filter(|line| !line.trim().is_empty());
    let script: String = lines.map(|line| format!("{}\n", &line[margin..])).collect();
    let told = play(&mut Run::on(engine, grouping.clone()), &script);
    assert_eq!(told, script, "{}", grouping.trigger);

    let is_done = |line: &str| !line.starts_with(' ');
    let with_restarts: String = script
        .lines()
        .map(|line| if is_done(line) { format!("restart\n{line}\n") } else { format!("{line}\n") })
        .collect();
    let told = play(&mut Run::on(engine, grouping.clone()), &with_restarts);
    assert_eq!(told, with_restarts, "restarts change {}", grouping.trigger);
}
