//! A shard's rounds by hand: a three-level cascade and a top-K, pane by pane.

use crate::aggregate::Function;
use crate::epoch::Epoch;
use crate::image::{ImageError, Log, Restoration, pack};
use crate::pane::{AccumulationMode, PaneKind, Timing};
use crate::plan::{AggregateSpec, Grouping, Job, KeyColumn, Plan, Ties, TopKSpec};
use crate::planner::plan;
use crate::row::{Field, Position, RowBatch};
use crate::shard::{Output, Shard};
use crate::symbol::Symbols;
use crate::tick::Tick;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use crate::trigger::Trigger;
use crate::value::{Datum, Type};
use crate::window::{Phase, WindowFn};
use std::sync::Arc;

pub(crate) fn grouping(name: &str, key: &[&str], mode: AccumulationMode) -> Grouping {
    Grouping {
        name: name.into(),
        key: key.iter().map(|name| KeyColumn::plain(name)).collect(),
        window: WindowFn::Fixed { size: Span::from_millis(10), offset: 0, phase: Phase::Aligned },
        trigger: Trigger::default_trigger(),
        emission: crate::pane::Emission::default(),
        gap_field: None,
        allow_closing: false,
        mode,
        allowed_lateness: Span::from_millis(100),
        aggregates: vec![AggregateSpec {
            name: "sum".into(),
            function: Function::Sum,
            fields: vec!["v".into()],
            spread: false,
        }],
        top_k: None,
        sinks: vec!["out".into()],
        late: None,
        of: None,
        sequence: None,
    }
}

pub(crate) fn job(groupings: Vec<Grouping>) -> Job {
    Job {
        name: "test".into(),
        fields: ["a", "b", "c"]
            .map(|name| Field::new(name, Type::U32))
            .into_iter()
            .chain([Field::new("v", Type::I64)])
            .collect(),
        groupings,
        shard_by: None,
        key_groups: 256,
        extra_fields: Vec::new(),
        spread: None,
        phase: None,
        cascade: true,
    }
}

pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    pub(crate) shard: Shard,
    pub(crate) log: Log,
}

impl Run {
    pub(crate) fn new(groupings: Vec<Grouping>) -> Self {
        let plan = Arc::new(plan(&job(groupings)).unwrap());
        let shard = Shard::new(plan.clone(), Arc::new(Symbols::default()), 0, 1);
        Self { plan, shard, log: Log::default() }
    }

    /// Panes as text: stage, key, window start, index, timing, sign, value.
    pub(crate) fn read(&self, out: &Output) -> Vec<String> {
        let mut lines = Vec::new();
        for batch in &out.panes {
            let stage = &self.plan.stages[batch.stage.index()];
            for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
                let key: Vec<_> = (0..stage.key.fields().len())
                    .map(|field| match stage.key.read(key, field) {
                        Datum::Int(number) => number.to_string(),
                        _ => "-".to_owned(),
                    })
                    .collect();
                let sign = if meta.kind == PaneKind::Insert { '+' } else { '-' };
                let timing = match meta.timing {
                    Timing::Early => "early",
                    Timing::OnTime => "on",
                    Timing::TimedOut => "out",
                    Timing::Late => "late",
                };
                let Datum::Int(value) = stage.aggregates.finish(values, 0) else { panic!() };
                lines.push(format!(
                    "{} {} {}#{} {timing} {sign}{value}{}",
                    stage.name,
                    key.join(","),
                    meta.window,
                    meta.index,
                    if meta.is_last { " last" } else { "" }
                ));
            }
        }
        lines
    }

    /// Drops everything but the bytes of an image, and goes on from there.
    pub(crate) fn restart(&mut self) {
        self.log.cut(&self.plan, std::slice::from_mut(&mut self.shard)).unwrap();
        let symbols = Arc::new(Symbols::default());
        self.shard = self.log.restore(&self.plan, &symbols, 1).unwrap().remove(0);
    }

    /// Records as rows of the plan.
    pub(crate) fn batch(&self, records: &[(i64, [u32; 3], i64)]) -> RowBatch {
        let mut batch = RowBatch::new(self.plan.row.clone());
        for (offset, (time, key, value)) in (0..).zip(records) {
            let position = Position { partition: 0, offset };
            let mut row = batch.push(EventTime::from_millis(*time), position);
            for (name, part) in ["a", "b", "c"].iter().zip(key) {
                if let Some(slot) = self.plan.row.slot(name) {
                    row.set(slot, Datum::Int(i128::from(*part)));
                }
            }
            row.set(self.plan.row.slot("v").unwrap(), Datum::Int(i128::from(*value)));
        }
        batch
    }

    pub(crate) fn records(&mut self, records: &[(i64, [u32; 3], i64)]) -> Vec<String> {
        let batch = self.batch(records);
        let mut out = Output::default();
        self.shard.records(&batch, &mut out).unwrap();
        self.read(&out)
    }

    pub(crate) fn tick(&mut self, millis: i64) -> Vec<String> {
        let mut out = Output::default();
        let tick = Tick::after(None, ProcessingTime::from_millis(millis));
        self.shard.tick(tick, &mut out).unwrap();
        self.read(&out)
    }

    /// A second watermark, of the only share that triggers wait for.
    pub(crate) fn share(&mut self, millis: i64) -> Vec<String> {
        let mut out = Output::default();
        let promised = Watermark(EventTime::from_millis(millis));
        self.shard.shares(&[promised], &mut out).unwrap();
        self.read(&out)
    }

    pub(crate) fn watermark(&mut self, millis: i64) -> Vec<String> {
        let mut out = Output::default();
        let watermark = Watermark(EventTime::from_millis(millis));
        self.shard.watermark(watermark, &mut out).unwrap();
        self.read(&out)
    }
}

#[test]
fn a_late_pane_is_counted_once_at_every_level_in_every_mode() {
    for (mode, late) in [
        (AccumulationMode::Discarding, ["#1 late +5", ""]),
        (AccumulationMode::Accumulating, ["#1 late +12", ""]),
        (AccumulationMode::Retracting, ["#0 on -7", "#1 late +12"]),
    ] {
        let mut run = Run::new(vec![
            grouping("top", &["a"], mode),
            grouping("middle", &["a", "b"], mode),
            grouping("fine", &["a", "b", "c"], mode),
        ]);
        assert_eq!(run.plan.record_reads(), 1);
        assert_eq!(run.records(&[(1, [1, 2, 3], 7)]), Vec::<String>::new());
        run.restart();
        assert_eq!(
            run.watermark(10),
            ["fine 1,2,3 [0,10)#0 on +7", "middle 1,2 [0,10)#0 on +7", "top 1 [0,10)#0 on +7"]
        );
        run.restart();
        let before = run.shard.accounts().iter().map(|account| account.operations).sum::<u64>();
        let expected: Vec<_> = ["fine 1,2,3", "middle 1,2", "top 1"]
            .iter()
            .flat_map(|key| late.iter().filter(|l| !l.is_empty()).map(move |l| (key, l)))
            .map(|(key, late)| format!("{key} [0,10){late}"))
            .collect();
        assert_eq!(run.records(&[(2, [1, 2, 3], 5)]), expected, "{mode:?}");
        let after = run.shard.accounts().iter().map(|account| account.operations).sum::<u64>();
        assert_eq!(after - before, 3, "one operation a level");
        assert_eq!(run.watermark(110), Vec::<String>::new());
        assert!(run.shard.is_empty());
        assert_eq!(run.records(&[(2, [1, 2, 3], 5)]), Vec::<String>::new());
        assert_eq!(run.shard.accounts()[0].expired, 1);
    }
}

#[test]
fn the_last_pane_says_so_when_end_and_expiry_come_in_one_jump() {
    let mut run = Run::new(vec![grouping("sums", &["a"], AccumulationMode::Discarding)]);
    run.records(&[(1, [1, 0, 0], 7), (11, [1, 0, 0], 8)]);
    assert_eq!(run.watermark(1_000), ["sums 1 [0,10)#0 on +7 last", "sums 1 [10,20)#0 on +8 last"]);
    assert!(run.shard.is_empty());
}

fn listed(mode: AccumulationMode) -> Vec<Grouping> {
    let mut list = grouping("list", &["a", "b"], mode);
    list.top_k = Some(TopKSpec {
        k: 1,
        entity: vec!["b".into()],
        rank: vec!["sum".into()],
        require: Vec::new(),
        other: true,
        ties: Ties::Ascending,
    });
    vec![list, grouping("total", &["a"], mode)]
}

#[test]
fn late_data_lifts_an_entry_and_the_displaced_one_is_retracted() {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    let lifted = "list 1,8 [0,10)#1 late +11";
    for (mode, expected) in [
        (
            Discarding,
            vec![
                "list 1,7 [0,10)#0 on -7",
                lifted,
                "list 1,- [0,10)#1 late +2",
                "total 1 [0,10)#1 late +6",
            ],
        ),
        (
            Accumulating,
            vec![
                "list 1,7 [0,10)#0 on -7",
                lifted,
                "list 1,- [0,10)#1 late +7",
                "total 1 [0,10)#1 late +18",
            ],
        ),
        (
            Retracting,
            vec![
                "list 1,7 [0,10)#0 on -7",
                lifted,
                "list 1,- [0,10)#0 on -5",
                "list 1,- [0,10)#1 late +7",
                "total 1 [0,10)#0 on -12",
                "total 1 [0,10)#1 late +18",
            ],
        ),
    ] {
        let mut run = Run::new(listed(mode));
        run.records(&[(1, [1, 7, 0], 7), (1, [1, 8, 0], 5)]);
        let mut on_time = run.watermark(10);
        on_time.sort();
        assert_eq!(
            on_time,
            ["list 1,- [0,10)#0 on +5", "list 1,7 [0,10)#0 on +7", "total 1 [0,10)#0 on +12"]
        );
        run.restart();
        let mut got = run.records(&[(2, [1, 8, 0], 6)]);
        // The stage of totals may come before or after the list.
        got.sort_by_key(|line| line.starts_with("total"));
        assert_eq!(got, expected, "{mode:?}");
        run.watermark(i64::MAX);
        assert!(run.shard.is_empty());
    }
}

#[test]
fn an_image_of_another_plan_version_or_a_damaged_one_is_refused() {
    let mut run = Run::new(vec![grouping("sums", &["a"], AccumulationMode::Discarding)]);
    run.records(&[(1, [1, 0, 0], 7)]);
    let cut = run.shard.cut(Epoch::from_number(1)).unwrap();
    let piece = &pack(&run.plan, cut.segments, 1 << 20).next().unwrap();
    let decode = |groupings: Vec<Grouping>, part: &[u8], piece: &[u8]| {
        let plan = Arc::new(plan(&job(groupings)).unwrap());
        let symbols = Arc::new(Symbols::default());
        let mut restoration = Restoration::new(plan, symbols, 1, &[part.to_vec()])?;
        restoration.take(Epoch::from_number(1), piece)
    };
    let same = || vec![grouping("sums", &["a"], AccumulationMode::Discarding)];
    assert!(decode(same(), &cut.part, piece).is_ok());
    for groupings in [
        vec![grouping("other", &["a"], AccumulationMode::Discarding)],
        vec![grouping("sums", &["a", "b"], AccumulationMode::Discarding)],
        vec![grouping("sums", &["a"], AccumulationMode::Retracting)],
    ] {
        let result = decode(groupings, &cut.part, piece);
        assert!(matches!(result, Err(ImageError::OtherPlan { .. })), "{result:?}");
    }
    let (part, half) = (&cut.part, |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec());
    let newer = |bytes: &[u8]| [&[9], &bytes[1..]].concat();
    for (part, piece) in [(half(part), piece.clone()), (part.clone(), half(piece))] {
        let result = decode(same(), &part, &piece);
        assert!(matches!(result, Err(ImageError::Damaged(_))), "{result:?}");
    }
    for (part, piece) in [(newer(part), piece.clone()), (part.clone(), newer(piece))] {
        let result = decode(same(), &part, &piece);
        assert!(matches!(result, Err(ImageError::Version { found: 9 })), "{result:?}");
    }
}
