//! Random sequences: chains of a few steps that end in many ways, and groups that read their sessions.

use nilometer_model::aggregate::Function;
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::{AggregateSpec, Grouping, KeyColumn, OfSpec};
use nilometer_model::sequence::spec::{
    Begins, Bounds, Carried, OutputTime, OverflowPolicy, Regress, Release, SequenceSpec, StepSpec,
    Which,
};
use nilometer_model::time::Span;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::{Phase, WindowFn};
use proptest::prelude::*;

/// The key of every sequence.
pub(crate) const KEY: &str = "a";

/// Fields that sequences read beside the key.
pub(crate) const STEP_FIELDS: [(&str, Type); 5] = [
    ("step", Type::Text),
    ("status", Type::Text),
    ("why", Type::U16),
    ("ap", Type::Text),
    ("id", Type::U32),
];

/// Names of steps; a chain has the first few of them.
const STEPS: [&str; 4] = ["assoc", "auth", "dhcp", "dns"];

fn millis(millis: i64) -> Span {
    Span::from_millis(millis)
}

fn texts(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| (*text).into()).collect()
}

fn step(name: &'static str) -> impl Strategy<Value = StepSpec> {
    let may = prop::bool::weighted;
    let timeout = prop::option::weighted(0.3, 0_i64..40);
    let begins =
        prop_oneof![4 => Just(Begins::Anew), 1 => Just(Begins::First), 1 => Just(Begins::Never)];
    (may(0.25), may(0.25), begins, may(0.5), may(0.8), timeout.clone(), timeout).prop_map(
        move |(optional, repeatable, begins, starts, fails, timeout, slow)| StepSpec {
            name: name.into(),
            optional,
            repeatable,
            begins,
            start: texts(if starts { &["ask"] } else { &[] }),
            success: texts(&["ok", "fine"]),
            failure: texts(if fails { &["bad"] } else { &[] }),
            step_timeout: timeout.map(millis),
            slow_after: slow.map(millis),
        },
    )
}

/// When records are let in, and what is told of sessions that go on.
pub(crate) fn releases() -> impl Strategy<Value = Release> {
    prop_oneof![
        4 => Just(Release::Watermark),
        1 => (0_i64..40).prop_map(|delay| Release::WatermarkPlus(millis(delay))),
        1 => Just(Release::BoundedWait(millis(1_000_000))),
        1 => Just(Release::Eager),
        1 => Just(Release::OnTerminal),
    ]
}

/// What a sequence keeps at most: as much as it likes.
pub(crate) const BOUNDLESS: Bounds =
    Bounds { sessions: None, bytes: None, policy: OverflowPolicy::EmitEarlyOldest };

/// Sequences by [`KEY`]; the clock ends nothing.
pub(crate) fn specs() -> impl Strategy<Value = SequenceSpec> {
    let steps = (1_usize..=STEPS.len(), STEPS.map(step));
    let steps = steps.prop_map(|(count, steps)| steps.into_iter().take(count).collect::<Vec<_>>());
    let ends =
        prop_oneof![2 => Just(vec!["bye"]), 1 => Just(vec![]), 1 => Just(vec!["bye", "off"])];
    let lengths = (prop_oneof![3 => 5_i64..40, 1 => Just(1)], 10_i64..120, 1_u32..12);
    let may = prop::bool::weighted;
    let regress = prop_oneof![
        2 => Just(Regress::Roam),
        2 => Just(Regress::Restart),
        1 => Just(Regress::Session),
    ];
    let which = |last| if last { Which::Last } else { Which::First };
    let dice = [may(0.3), may(0.3), may(0.5), may(0.5), may(0.3)];
    (steps, ends, lengths, (releases(), regress), dice).prop_map(
        move |(steps, ends, (idle, longest, most), (release, regress), dice)| {
            let [closes, at_close, last, has_reason, has_id] = dice;
            SequenceSpec {
                step: "step".into(),
                status: Some("status".into()),
                reason: has_reason.then(|| "why".into()),
                id: has_id.then(|| "id".into()),
                steps,
                ends: texts(&ends),
                carried: vec![Carried { field: "ap".into(), which: which(last) }],
                idle_timeout: millis(idle),
                idle_timeout_processing: None,
                max_session_duration: millis(longest),
                max_events_per_session: most,
                close_on_success: closes,
                regress,
                output_time: match release {
                    Release::Eager | Release::OnTerminal => OutputTime::First,
                    _ if at_close => OutputTime::Close,
                    _ => OutputTime::First,
                },
                release,
                bounds: BOUNDLESS,
            }
        },
    )
}

/// The sequence, and groups of its sessions: by outcome, across shards, and how many outcomes there
/// are of each number; by key.
pub(crate) fn groupings(spec: SequenceSpec, lateness: Span) -> Vec<Grouping> {
    let needed = spec.corrected_within(lateness);
    let sessions = Grouping {
        allowed_lateness: lateness,
        sinks: vec!["out".into()],
        ..Grouping::sequence("sessions", vec![KeyColumn::plain(KEY)], spec)
    };
    let group =
        |name: &str, (of, key): (&str, &str), aggregates: &[(&str, Function, Option<&str>)]| {
            let window = WindowFn::Fixed { size: millis(50), offset: 0, phase: Phase::Aligned };
            let aggregates = aggregates.iter();
            let aggregates =
                aggregates.map(|(name, function, of)| AggregateSpec::new(name, *function, *of));
            Grouping {
                key: vec![KeyColumn::plain(key)],
                allowed_lateness: needed,
                mode: AccumulationMode::Retracting,
                sinks: vec!["out".into()],
                aggregates: aggregates.collect(),
                of: Some(OfSpec { grouping: of.into(), derived: Vec::new(), filter: None }),
                ..Grouping::new(name, window)
            }
        };
    let outcomes = [
        ("sessions", Function::Count, None),
        ("records", Function::Sum, Some("n_events")),
        ("took", Function::Sum, Some("time_to_connect_ms")),
        ("longest", Function::Max, Some("n_events")),
    ];
    let clients =
        [("sessions", Function::Count, None), ("restarts", Function::Sum, Some("restarts"))];
    let sizes = [("outcomes", Function::Count, None)];
    vec![
        sessions,
        group("outcomes", ("sessions", "outcome"), &outcomes),
        group("clients", ("sessions", KEY), &clients),
        group("sizes", ("outcomes", "sessions"), &sizes),
    ]
}

/// Values of [`STEP_FIELDS`] but for the last, which is a number that tells records apart.
pub(crate) fn marks() -> impl Strategy<Value = Vec<Value>> {
    let text = |text: &str| Value::Text(text.into());
    let step = prop::sample::select(vec![
        text("assoc"),
        text("assoc"),
        text("auth"),
        text("auth"),
        text("dhcp"),
        text("dns"),
        text("bye"),
        text("off"),
        text("what"),
        Value::Null,
    ]);
    let status = prop::sample::select(vec![
        text("ask"),
        text("ok"),
        text("ok"),
        text("ok"),
        text("fine"),
        text("bad"),
        text("hm"),
        Value::Null,
    ]);
    let why = prop_oneof![1 => Just(Value::Null), 2 => (0_i128..4).prop_map(Value::Int)];
    let ap = prop::sample::select(vec![text("x"), text("y"), Value::Null]);
    (step, status, why, ap).prop_map(|(step, status, why, ap)| vec![step, status, why, ap])
}
