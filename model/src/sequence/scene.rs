//! A sequence in a shard, for tests: records in, one line for each record told out.

use super::spec::SequenceSpec;
use crate::account::StageAccount;
use crate::aggregate::Function;
use crate::engine::Engine;
use crate::image::Log;
use crate::pane::{PaneKind, Timing};
use crate::plan::{AggregateSpec, Grouping, Job, KeyColumn, OfSpec, Plan};
use crate::planner::plan_for;
use crate::row::{Field, Position, RowBatch};
use crate::shard::{Output, Shard, StageError};
use crate::symbol::Symbols;
use crate::tick::Tick;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use crate::value::{Type, Value};
use crate::window::{Phase, WindowFn};
use std::sync::Arc;

pub(super) fn span(millis: i64) -> Span {
    Span::from_millis(millis)
}

/// The job of `spec`, by client, and the number of sessions by outcome in windows of 1 s.
pub(super) fn job(spec: SequenceSpec, lateness: i64) -> Job {
    let fields = ["client", "step", "status"].map(|name| Field::new(name, Type::Text));
    let needed = spec.corrected_within(span(lateness));
    let sessions = Grouping {
        allowed_lateness: span(lateness),
        sinks: vec!["out".into()],
        ..Grouping::sequence("sessions", vec![KeyColumn::plain("client")], spec)
    };
    let window = WindowFn::Fixed { size: span(1000), offset: 0, phase: Phase::Aligned };
    let outcomes = Grouping {
        key: vec![KeyColumn::plain("outcome")],
        allowed_lateness: needed,
        sinks: vec!["out".into()],
        aggregates: vec![
            AggregateSpec::new("sessions", Function::Count, None),
            AggregateSpec::new("records", Function::Sum, Some("n_events")),
        ],
        of: Some(OfSpec { grouping: "sessions".into(), derived: Vec::new(), filter: None }),
        ..Grouping::new("outcomes", window)
    };
    Job {
        shard_by: Some(vec!["client".into()]),
        ..Job::new("p", fields.to_vec(), vec![sessions, outcomes])
    }
}

/// A chain that is complete.
pub(super) const GOOD: &str = "0 a assoc ok; 3 a auth ok; 4 a dns ok";

pub(super) struct Scene {
    pub(super) plan: Arc<Plan>,
    pub(super) symbols: Arc<Symbols>,
    pub(super) shard: Shard,
    pub(super) log: Log,
    offset: u64,
    pub(super) now: i64,
    /// The last tick of this process.
    tick: Option<Tick>,
}

impl Scene {
    pub(super) fn new(spec: SequenceSpec, lateness: i64) -> Self {
        Self::on(Engine::Streaming, spec, lateness)
    }

    pub(super) fn on(engine: Engine, spec: SequenceSpec, lateness: i64) -> Self {
        let plan = Arc::new(plan_for(&job(spec, lateness), engine).unwrap());
        let symbols = Arc::new(Symbols::default());
        let shard = Shard::new(plan.clone(), symbols.clone(), 0, 1);
        Self { plan, symbols, shard, log: Log::default(), offset: 0, now: 0, tick: None }
    }

    /// Takes records given as `time client step status`, by `;`, in one batch.
    pub(super) fn records(&mut self, text: &str) -> Result<Vec<String>, StageError> {
        let mut batch = RowBatch::new(self.plan.row.clone());
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let mut words = part.split(' ');
            let time = EventTime::from_millis(words.next().unwrap().parse().unwrap());
            let mut row = batch.push(time, Position { partition: 0, offset: self.offset });
            self.offset += 1;
            for name in ["client", "step", "status"] {
                let Some(word) = words.next() else { continue };
                let value = Value::Text(word.into()).intern(&self.symbols).unwrap();
                row.set(self.plan.row.slot(name).unwrap(), value);
            }
        }
        self.step(|shard, out| shard.records(&batch, out))
    }

    pub(super) fn watermark(&mut self, millis: i64) -> Vec<String> {
        let watermark = Watermark(EventTime::from_millis(millis));
        self.step(|shard, out| shard.watermark(watermark, out)).unwrap()
    }

    /// Lets the clock run, and tells every tick.
    pub(super) fn clock(&mut self, millis: i64) -> Vec<String> {
        let mut lines = Vec::new();
        let until = self.now + millis;
        while self.now < until {
            self.go_on((until - self.now).min(200));
            lines.extend(self.tell_tick());
        }
        lines
    }

    /// Lets the clock run, and tells the last tick, which takes the place of all others.
    pub(super) fn clock_held(&mut self, millis: i64) -> Vec<String> {
        let until = self.now + millis;
        while self.now < until {
            self.go_on((until - self.now).min(200));
        }
        self.tell_tick()
    }

    fn go_on(&mut self, millis: i64) {
        self.now += millis;
        self.tick = Some(Tick::after(self.tick, ProcessingTime::from_millis(self.now)));
    }

    fn tell_tick(&mut self) -> Vec<String> {
        let Some(tick) = self.tick else { return Vec::new() };
        self.step(|shard, out| shard.tick(tick, out)).unwrap()
    }

    /// Cuts the state, and goes on with what the cuts so far hold, in another process.
    pub(super) fn restart(&mut self) {
        self.log.cut(&self.plan, std::slice::from_mut(&mut self.shard)).unwrap();
        let symbols = Arc::new(Symbols::default());
        let mut shards = self.log.restore(&self.plan, &symbols, 1).unwrap();
        (self.shard, self.symbols) = (shards.remove(0), symbols);
        self.tick = None;
    }

    pub(super) fn step(
        &mut self,
        step: impl FnOnce(&mut Shard, &mut Output) -> Result<(), StageError>,
    ) -> Result<Vec<String>, StageError> {
        let mut out = Output::default();
        step(&mut self.shard, &mut out)?;
        let mut lines = Vec::new();
        for batch in &out.panes {
            let stage = &self.plan.stages[batch.stage.index()];
            let (keys, values) = (stage.key.words(), stage.aggregates.words());
            for (meta, key, values) in batch.iter(keys, values) {
                let key = stage.key.read(key, 0).value(&self.symbols);
                let result = |name: &str| {
                    let index = stage.aggregates.find(name).unwrap();
                    stage.aggregates.finish(values, index).value(&self.symbols)
                };
                let text = |value: Value| match value {
                    Value::Text(text) => text.to_string(),
                    Value::Int(number) => number.to_string(),
                    _ => "-".to_owned(),
                };
                let key = text(key);
                if &*stage.name == "outcomes" {
                    let (sessions, records) = (result("sessions"), result("records"));
                    let (start, timing) = (meta.window.start(), meta.timing.name());
                    let (sessions, records) = (text(sessions), text(records));
                    lines.push(format!("{start} {timing} {key} {sessions} ({records})"));
                    continue;
                }
                let kind = match (meta.kind, meta.timing) {
                    (PaneKind::Retract, _) => "minus",
                    (PaneKind::Insert, Timing::Early) => "early",
                    (PaneKind::Insert, Timing::OnTime) => "final",
                    (PaneKind::Insert, Timing::TimedOut) => "clock",
                    (PaneKind::Insert, Timing::Late) if meta.index == 0 => "final",
                    (PaneKind::Insert, Timing::Late) => "correction",
                };
                let at = ["t_first", "t_last"].map(|name| text(result(name)));
                let count = |name: &str| text(result(name));
                lines.push(format!(
                    "{kind} {key}@{} #{} {} {} [{},{}] {}+{}late+{}copies {}",
                    meta.window.start(),
                    meta.index,
                    text(result("outcome")),
                    text(result("step")),
                    at[0],
                    at[1],
                    count("n_events"),
                    count("n_late"),
                    count("n_duplicate"),
                    text(result("close_cause")),
                ));
            }
        }
        Ok(lines)
    }

    pub(super) fn account(&self) -> StageAccount {
        self.shard.accounts()[0].clone()
    }

    /// Ends the input: nothing may be left.
    pub(super) fn end(&mut self) -> Vec<String> {
        let lines = self.watermark(i64::MAX);
        assert!(self.shard.is_empty());
        assert!(self.account().is_balanced());
        lines
    }
}
