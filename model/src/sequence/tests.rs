//! A sequence in a shard: what it tells of sessions whose records come in any order, early, late or
//! never; the accounts; restarts. One line for each record told.

use super::machine_tests::wifi;
use super::spec::{Bounds, OutputTime, OverflowPolicy, Release, SequenceSpec, StepSpec};
use crate::account::StageAccount;
use crate::aggregate::Function;
use crate::cold::{MemoryPages, Pages};
use crate::engine::{Cycle, Engine, Pace};
use crate::image::Log;
use crate::pane::{PaneKind, Timing};
use crate::plan::{AggregateSpec, Grouping, Job, KeyColumn, OfSpec, Plan};
use crate::planner::plan_for;
use crate::row::{Field, Position, RowBatch};
use crate::shard::{Output, Shard, StageError};
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use crate::value::{Type, Value};
use crate::window::{Phase, WindowFn};
use std::collections::BTreeSet;
use std::sync::Arc;

fn span(millis: i64) -> Span {
    Span::from_millis(millis)
}

/// The job of `spec`, by client, and the number of sessions by outcome in windows of 1 s.
fn job(spec: SequenceSpec, lateness: i64) -> Job {
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

pub(super) struct Scene {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    shard: Shard,
    log: Log,
    offset: u64,
    now: i64,
}

impl Scene {
    pub(super) fn new(spec: SequenceSpec, lateness: i64) -> Self {
        Self::on(Engine::Streaming, spec, lateness)
    }

    fn on(engine: Engine, spec: SequenceSpec, lateness: i64) -> Self {
        let plan = Arc::new(plan_for(&job(spec, lateness), engine).unwrap());
        let symbols = Arc::new(Symbols::default());
        let shard = Shard::new(plan.clone(), symbols.clone(), 0, 1);
        Self { plan, symbols, shard, log: Log::default(), offset: 0, now: 0 }
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

    /// Lets the clock run, tick by tick.
    fn clock(&mut self, millis: i64) -> Vec<String> {
        let mut lines = Vec::new();
        let until = self.now + millis;
        while self.now < until {
            self.now = (self.now + 200).min(until);
            let now = ProcessingTime::from_millis(self.now);
            lines.extend(self.step(|shard, out| shard.tick(now, out)).unwrap());
        }
        lines
    }

    /// Cuts the state, and goes on with what the cuts so far hold, in another process.
    fn restart(&mut self) {
        self.log.cut(&self.plan, std::slice::from_mut(&mut self.shard)).unwrap();
        let symbols = Arc::new(Symbols::default());
        let mut shards = self.log.restore(&self.plan, &symbols, 1).unwrap();
        (self.shard, self.symbols) = (shards.remove(0), symbols);
    }

    fn step(
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

    fn account(&self) -> StageAccount {
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

const GOOD: &str = "0 a assoc ok; 3 a auth ok; 4 a dns ok";

#[test]
fn records_in_any_order_give_one_record_and_one_row() {
    let mut scene = Scene::new(wifi(), 0);
    assert!(
        scene.records("4 a dns ok; 0 a assoc ok; 3 a auth ok; 3 a auth ok").unwrap().is_empty()
    );
    assert!(scene.watermark(103).is_empty());
    assert_eq!(scene.watermark(104), ["final a@0 #0 connected - [0,4] 3+0late+1copies idle"]);
    assert!(scene.watermark(999).is_empty());
    assert_eq!(scene.watermark(1000), ["0 on_time connected 1 (3)"]);
    let account = scene.account();
    assert_eq!((account.on_time, account.duplicate, account.assigned), (3, 1, 4));
    assert!(scene.end().is_empty());
}

#[test]
fn a_terminal_record_ends_a_session_and_what_follows_begins_another() {
    let mut scene = Scene::new(wifi(), 0);
    scene.records("0 a assoc ok; 9 a bye; 12 a assoc ok; 5 a auth bad").unwrap();
    // The watermark has not passed the record that ends it.
    assert!(scene.watermark(9).is_empty());
    assert_eq!(scene.watermark(10), ["final a@0 #0 failed auth [0,9] 3+0late+0copies terminal"]);
    assert_eq!(
        scene.end(),
        [
            "final a@12 #0 abandoned assoc [12,12] 1+0late+0copies idle",
            "0 on_time failed 1 (3)",
            "0 on_time abandoned 1 (1)",
        ]
    );
}

#[test]
fn late_records_correct_what_was_told_and_the_sums() {
    let mut scene = Scene::new(wifi(), 200);
    scene.records("0 a assoc ok; 4 a dns ok; 9 a bye; 20 b assoc ok").unwrap();
    assert_eq!(scene.watermark(10), ["final a@0 #0 stuck auth [0,9] 3+0late+0copies terminal"]);
    // The missing step comes, twice, and a record that changes nothing.
    assert_eq!(
        scene.records("3 a auth ok; 3 a auth ok; 4 a dns x").unwrap(),
        [
            "minus a@0 #0 stuck auth [0,9] 3+0late+0copies terminal",
            "correction a@0 #1 connected - [0,9] 5+2late+1copies terminal",
        ]
    );
    assert!(scene.records("5 a dns x").unwrap().is_empty());
    let account = scene.account();
    assert_eq!((account.late, account.late_no_effect, account.duplicate), (2, 1, 1));
    // What was told stays as it was told, until something changes.
    scene.restart();
    assert_eq!(
        scene.records("2 a auth bad").unwrap(),
        [
            "minus a@0 #1 connected - [0,9] 5+2late+1copies terminal",
            "correction a@0 #2 connected - [0,9] 7+4late+1copies terminal",
        ]
    );
    assert_eq!(
        scene.watermark(208),
        ["final b@20 #0 abandoned assoc [20,20] 1+0late+0copies idle"]
    );
    // The session is gone with close and allowed lateness.
    scene.watermark(209);
    assert!(scene.records("8 a dns bad").unwrap().is_empty());
    assert_eq!(scene.account().expired, 1);
    assert_eq!(scene.watermark(1000), ["0 on_time connected 1 (7)", "0 on_time abandoned 1 (1)"]);
    assert!(scene.end().is_empty());
}

#[test]
fn a_correction_reaches_windows_that_were_told() {
    let spec = SequenceSpec { max_session_duration: span(150), ..wifi() };
    let mut scene = Scene::new(spec, 2000);
    scene.records(GOOD).unwrap();
    scene.watermark(900);
    assert_eq!(scene.watermark(1500), ["0 on_time connected 1 (3)"]);
    assert_eq!(
        scene.records("1 a assoc ask").unwrap(),
        [
            "minus a@0 #0 connected - [0,4] 3+0late+0copies idle",
            "correction a@0 #1 stuck assoc [0,4] 4+1late+0copies idle",
            "0 late connected 0 (0)",
            "0 late stuck 1 (4)",
        ]
    );
    scene.end();
}

#[test]
fn a_late_record_goes_where_it_would_have_stood() {
    // In front of a session that goes on: its first record, under a name of its own still.
    let mut scene = Scene::new(wifi(), 500);
    scene.records("50 a auth ok; 60 a dns ok").unwrap();
    scene.watermark(100);
    assert!(scene.records("10 a assoc ok").unwrap().is_empty());
    assert_eq!(scene.watermark(160), ["final a@10 #0 connected - [10,60] 3+1late+0copies idle"]);
    // In front of one that is closed: the name that was told stays.
    assert_eq!(
        scene.records("-20 a assoc bad").unwrap(),
        [
            "minus a@10 #0 connected - [10,60] 3+1late+0copies idle",
            "correction a@10 #1 connected - [-20,60] 4+2late+0copies idle",
        ]
    );
    // Too far from all others: a session of its own.
    assert_eq!(
        scene.records("-200 a assoc bad").unwrap(),
        [
            "final a@-200 #0 failed assoc [-200,-200] 1+1late+0copies idle",
            "-1000 late failed 1 (1)",
        ]
    );
    // A late end within one that goes on cuts it there.
    scene.records("200 a assoc ok; 220 a auth ok; 230 a dns ok").unwrap();
    scene.watermark(240);
    assert_eq!(
        scene.records("225 a bye").unwrap(),
        ["final a@200 #0 abandoned auth [200,225] 3+1late+0copies terminal"]
    );
    let lines = scene.end();
    assert_eq!(lines[0], "final a@230 #0 incomplete_start - [230,230] 1+0late+0copies idle");
}

#[test]
fn a_late_end_ends_its_session_sooner() {
    let mut scene = Scene::new(wifi(), 500);
    scene.records("0 a assoc ok; 3 a auth ok; 5 a dhcp ask").unwrap();
    assert_eq!(scene.watermark(105), ["final a@0 #0 stuck dhcp [0,5] 3+0late+0copies idle"]);
    // The client did not wait for the address: it went.
    assert_eq!(
        scene.records("9 a bye").unwrap(),
        [
            "minus a@0 #0 stuck dhcp [0,5] 3+0late+0copies idle",
            "correction a@0 #1 abandoned dhcp [0,9] 4+1late+0copies terminal",
        ]
    );
    scene.end();
}

#[test]
fn an_eager_session_is_told_at_once_and_taken_back_when_it_changes() {
    let spec = SequenceSpec { release: Release::Eager, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    assert_eq!(
        scene.records("0 a assoc ok; 4 a dns ok").unwrap(),
        ["early a@0 #0 in_progress dns [0,4] 2+0late+0copies -"]
    );
    scene.restart();
    assert_eq!(
        scene.records("3 a auth bad").unwrap(),
        [
            "minus a@0 #0 in_progress dns [0,4] 2+0late+0copies -",
            "early a@0 #1 failed auth [0,4] 3+0late+0copies -",
        ]
    );
    // The name is that which was told first.
    let earlier = scene.records("-5 a assoc ask").unwrap();
    assert_eq!(earlier[1], "early a@0 #2 failed auth [-5,4] 4+0late+0copies -");
    assert_eq!(
        scene.watermark(104),
        [
            "minus a@0 #2 failed auth [-5,4] 4+0late+0copies -",
            "final a@0 #3 failed auth [-5,4] 4+0late+0copies idle",
        ]
    );
    scene.end();
}

#[test]
fn on_terminal_is_told_once_the_chain_is_complete() {
    let spec = SequenceSpec { release: Release::OnTerminal, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    assert!(scene.records("0 a assoc ok; 3 a auth ok").unwrap().is_empty());
    assert_eq!(
        scene.records("4 a dns ok").unwrap(),
        ["early a@0 #0 connected - [0,4] 3+0late+0copies -"]
    );
    // What comes between corrects it.
    let corrected = scene.records("2 a assoc bad").unwrap();
    assert_eq!(corrected[1], "early a@0 #1 failed assoc [0,4] 4+0late+0copies -");
    scene.end();
}

#[test]
fn the_clock_ends_what_the_watermark_leaves_open() {
    let mut scene = Scene::new(wifi(), 50);
    scene.clock(200);
    scene.records("0 a assoc ok; 4 a dns ok; 70000 a assoc ok").unwrap();
    // A second session of the same key, in the far future, does not keep the first one.
    assert!(scene.clock(100).is_empty());
    scene.restart();
    // What passes between two processes does not count.
    scene.now += 1_000_000;
    assert!(scene.clock(100).is_empty());
    let lines = scene.clock(400);
    assert_eq!(
        lines,
        [
            "clock a@0 #0 stuck auth [0,4] 2+0late+0copies idle",
            "clock a@70000 #0 abandoned assoc [70000,70000] 1+0late+0copies idle",
        ]
    );
    // What comes for it corrects it, in time or not.
    assert_eq!(
        scene.records("3 a auth ok").unwrap(),
        [
            "minus a@0 #0 stuck auth [0,4] 2+0late+0copies idle",
            "correction a@0 #1 connected - [0,4] 3+1late+0copies idle",
        ]
    );
    // By the clock it is gone, too.
    scene.clock(2_000);
    assert_eq!(scene.shard.sizes()[0].0, 0);
    scene.end();
}

#[test]
fn a_bounded_wait_lets_records_in_by_the_clock() {
    let spec = SequenceSpec { release: Release::BoundedWait(span(300)), ..wifi() };
    let mut scene = Scene::new(SequenceSpec { idle_timeout_processing: None, ..spec }, 50);
    scene.clock(200);
    scene.records("0 a assoc ok; 9 a bye").unwrap();
    assert!(scene.clock(200).is_empty());
    assert_eq!(scene.clock(200), ["clock a@0 #0 abandoned assoc [0,9] 2+0late+0copies terminal"]);
    scene.end();
}

#[test]
fn a_delay_behind_the_watermark_waits_for_it() {
    let spec = SequenceSpec { release: Release::WatermarkPlus(span(30)), ..wifi() };
    let mut scene = Scene::new(spec, 0);
    scene.records("0 a assoc ok; 9 a bye").unwrap();
    assert!(scene.watermark(39).is_empty());
    // Behind the watermark, and in time.
    scene.records("9 a auth ok").unwrap();
    assert_eq!(scene.watermark(40), ["final a@0 #0 abandoned auth [0,9] 3+0late+0copies terminal"]);
    assert_eq!(scene.account().late, 0);
    scene.end();
}

#[test]
fn an_endless_session_is_cut_by_number_and_by_age() {
    let mut scene = Scene::new(wifi(), 0);
    // A bot that never stops, with a watermark that stands still: released by number.
    let text: String = (0..40).map(|n| format!("{n} bot dns x{n};")).collect();
    let lines = scene.records(&text).unwrap();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[0], "clock bot@0 #0 incomplete_start - [0,7] 8+0late+0copies max_events");
    scene.end();
    // Slowly: by age, as the watermark goes on.
    let mut scene = Scene::new(SequenceSpec { max_events_per_session: 100, ..wifi() }, 0);
    let mut lines = Vec::new();
    for number in 0..30 {
        scene.records(&format!("{} slow dns x{number}", number * 90)).unwrap();
        lines.extend(scene.watermark(number * 90 - 100));
    }
    assert_eq!(lines[0], "final slow@0 #0 incomplete_start - [0,990] 12+0late+0copies max_age");
    scene.end();
}

#[test]
fn what_has_no_room_is_closed_dropped_or_ends_the_run() {
    let bound = |policy| {
        let bounds = Bounds { sessions: Some(2), bytes: None, policy };
        Scene::new(SequenceSpec { bounds, ..wifi() }, 0)
    };
    let text = "0 a assoc ok; 1 b assoc ok; 5 a auth ok; 6 c assoc ok; 7 c auth ok";
    let mut scene = bound(OverflowPolicy::EmitEarlyOldest);
    assert_eq!(
        scene.records(text).unwrap(),
        ["final b@1 #0 overflow - [1,1] 1+0late+0copies memory"]
    );
    assert_eq!(scene.shard.sizes()[0].0, 2);
    scene.end();

    let mut scene = bound(OverflowPolicy::DropNewest);
    assert!(scene.records(text).unwrap().is_empty());
    assert_eq!((scene.account().overflow, scene.account().on_time), (2, 3));
    assert!(!scene.shard.is_full());
    scene.end();

    let mut scene = bound(OverflowPolicy::PauseSource);
    assert!(scene.records(text).unwrap().is_empty());
    assert!(scene.shard.is_full());
    scene.watermark(200);
    assert!(!scene.shard.is_full());
    scene.end();

    let error = bound(OverflowPolicy::Fail).records(text).unwrap_err();
    assert!(error.to_string().starts_with("sequence `sessions` keeps 2 sessions"), "{error}");

    // Bytes, for ten times as many sessions as there is room for.
    let bounds =
        Bounds { sessions: None, bytes: Some(40_000), policy: OverflowPolicy::EmitEarlyOldest };
    let mut scene = Scene::new(SequenceSpec { bounds, ..wifi() }, 0);
    for number in 0..2_000 {
        scene.records(&format!("{number} k{number} assoc ok; {number} k{number} auth ok")).unwrap();
        let (_, bytes) = scene.shard.sizes()[0];
        assert!(bytes <= 41_000, "{bytes}");
    }
    scene.end();
}

#[test]
fn room_is_kept_whatever_a_round_brings() {
    let bounds = Bounds { sessions: Some(1), bytes: None, policy: OverflowPolicy::EmitEarlyOldest };
    let mut scene = Scene::new(SequenceSpec { bounds, ..wifi() }, 1_000);
    scene.watermark(500);
    // Both come late, and the first has made nothing due yet.
    scene.records("400 a assoc ok; 410 b assoc ok").unwrap();
    assert_eq!(scene.shard.sizes()[0].0, 1);
    // What is lost in any case takes nobody's room.
    scene.watermark(1_450);
    assert!(scene.records("400 c assoc ok").unwrap().is_empty());
    assert_eq!((scene.shard.sizes()[0].0, scene.account().expired), (1, 1));
    scene.end();
}

#[test]
fn sources_that_wait_for_sessions_that_were_told_do_not_wait_for_ever() {
    let bounds = Bounds { sessions: Some(1), bytes: None, policy: OverflowPolicy::PauseSource };
    let idle_timeout_processing = Some(span(600));
    let mut scene = Scene::new(SequenceSpec { bounds, idle_timeout_processing, ..wifi() }, 1_000);
    scene.records(GOOD).unwrap();
    // It is closed, and kept; while sources wait the watermark goes no further.
    assert_eq!(scene.watermark(150).len(), 1);
    assert!(scene.shard.is_full());
    scene.clock(1_600);
    assert!(scene.shard.is_full());
    scene.clock(200);
    assert!(!scene.shard.is_full());
    scene.end();
}

/// A cycle cannot end while sources wait, so what came late is not asked at its end.
#[test]
fn a_late_session_makes_sources_wait_no_longer_than_the_clock_lets_it() {
    let bounds = Bounds { sessions: Some(1), bytes: None, policy: OverflowPolicy::PauseSource };
    let idle_timeout_processing = Some(span(600));
    let spec = SequenceSpec { bounds, idle_timeout_processing, ..wifi() };
    let mut scene = Scene::on(Engine::MicroBatch(Pace::Records(6)), spec, 1_000);
    let cycle = Cycle { number: 1, watermark: Watermark(EventTime::from_millis(500)) };
    scene.step(|shard, out| shard.cycle(cycle, out)).unwrap();
    scene.records("400 a assoc ok").unwrap();
    assert_eq!(scene.account().late, 1);
    assert!(scene.shard.is_full());
    scene.clock(600 + 600 + 1_000 + 400);
    assert!(!scene.shard.is_full());
    assert_eq!(scene.shard.sizes()[0].0, 0);
}

#[test]
fn a_page_that_is_lost_fails_the_shard_and_hangs_nobody() {
    let mut scene = Scene::new(wifi(), 0);
    let pages = Arc::new(MemoryPages::default());
    scene.shard.keep_within(Some(0), pages.clone()).unwrap();
    scene.records(GOOD).unwrap();
    assert_eq!(pages.count(), 1);
    pages.retain(&BTreeSet::new()).unwrap();
    let watermark = Watermark(EventTime::from_millis(1_000));
    let error = scene.step(|shard, out| shard.watermark(watermark, out)).unwrap_err();
    assert!(matches!(error, StageError::Page { .. }), "{error}");
}

#[test]
fn steps_that_are_not_known_are_counted() {
    let mut scene = Scene::new(wifi(), 0);
    scene.records("0 a assoc ok; 1 a what ok; 2 a").unwrap();
    assert_eq!((scene.account().unknown_step, scene.account().on_time), (2, 1));
    scene.end();
}

#[test]
fn sessions_may_count_where_they_are_closed() {
    let spec = SequenceSpec { output_time: OutputTime::Close, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    scene.records("900 a assoc ok; 950 a auth ok").unwrap();
    assert_eq!(
        scene.watermark(1050),
        ["final a@900 #0 abandoned auth [900,950] 2+0late+0copies idle"]
    );
    assert_eq!(scene.end(), ["1000 on_time abandoned 1 (2)"]);
}

#[test]
fn the_output_watermark_waits_for_what_is_open() {
    let mut scene = Scene::new(wifi(), 0);
    scene.records("900 a assoc ok; 980 a auth ok; 1050 a dns ok").unwrap();
    scene.watermark(1100);
    assert_eq!(scene.shard.passed().0.as_millis(), 900);
    let lines = scene.watermark(1150);
    assert_eq!(
        lines,
        ["final a@900 #0 connected - [900,1050] 3+0late+0copies idle", "0 on_time connected 1 (3)",]
    );
    assert_eq!(scene.shard.passed().0.as_millis(), 1150);
    scene.end();
}

#[test]
fn other_engines_give_the_same_sessions_in_the_end() {
    for engine in [Engine::Batch, Engine::MicroBatch(Pace::Records(2))] {
        let mut scene = Scene::new(wifi(), 0);
        let planned = plan_for(&job(wifi(), 0), engine).unwrap();
        scene.plan = Arc::new(planned);
        scene.shard = Shard::new(scene.plan.clone(), scene.symbols.clone(), 0, 1);
        assert!(scene.records(GOOD).unwrap().is_empty());
        assert!(scene.clock(10_000).is_empty());
        let cycle = Cycle { number: 1, watermark: Watermark::MAX };
        let lines = match engine {
            Engine::Batch | Engine::Streaming => scene.watermark(i64::MAX),
            Engine::MicroBatch(_) => scene.step(|shard, out| shard.cycle(cycle, out)).unwrap(),
        };
        assert_eq!(lines[0], "final a@0 #0 connected - [0,4] 3+0late+0copies idle", "{engine:?}");
        assert_eq!(lines[1], "0 on_time connected 1 (3)");
        assert!(scene.shard.is_empty());
    }
}

#[test]
fn nothing_is_read_of_fields_that_are_not_there() {
    // A record is then all that a step needs.
    let step = |name: &str| StepSpec { name: name.into(), ..StepSpec::default() };
    let steps = ["assoc", "auth", "dns"].map(step).to_vec();
    let spec = SequenceSpec { status: None, steps, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    scene.records("0 a assoc; 3 a auth; 3 a auth; 500 b assoc; 504 b auth; 507 b dns").unwrap();
    let lines = scene.end();
    assert_eq!(lines[0], "final a@0 #0 abandoned auth [0,3] 2+0late+1copies idle");
    assert_eq!(lines[1], "final b@500 #0 connected - [500,507] 3+0late+0copies idle");
}
