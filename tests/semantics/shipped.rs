//! The transcripts of the figures, which `nilometer test` runs, against the numbers of the drawings:
//! what comes when, how the watermark moves, and which panes are expected at which instant. So a
//! transcript cannot say anything else than the paper.
//!
//! In these transcripts a `clock` line ends its instant: what stands between it and the one before
//! came then.

use crate::drawing::{AXIS, Arrival, Curve, STEP, arrivals, millis, paper};
use nilometer_model::pane::{PaneKind, Timing};
use nilometer_model::time::{EventTime, Window};
use nilometer_model::transcript::{Expectation, ExpectedPane, Input, Scene, parse};
use serde_json::Value;

/// A transcript, instant by instant of the axis.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// (instant, event time, value)
    pub(crate) records: Vec<(i64, i64, i64)>,
    /// (instant, watermark)
    pub(crate) marks: Vec<(i64, i64)>,
    pub(crate) panes: Vec<ToldPane>,
}

/// A pane as a transcript expects it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToldPane {
    /// The instant.
    pub(crate) at: i64,
    /// The sum; negative if it is taken back.
    pub(crate) value: i64,
    pub(crate) window: Window,
    pub(crate) timing: Timing,
}

/// Reads a transcript of the paper.
pub(crate) fn read(name: &str) -> Told {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/paper/");
    let text = std::fs::read_to_string(format!("{folder}{name}.txt")).unwrap();
    let steps = parse(&text).unwrap().steps;
    let mut told = Told::default();
    let mut instant: Vec<Scene> = Vec::new();
    for scene in steps {
        let clock = match &scene.input {
            Input::Clock(clock) => Some(clock.as_millis() - AXIS),
            _ => None,
        };
        instant.push(scene);
        if let Some(at) = clock {
            instant.drain(..).for_each(|scene| tell(&mut told, at, &scene));
        }
    }
    // Behind the last instant nothing comes.
    let last = told.panes.len();
    instant.iter().for_each(|scene| tell(&mut told, i64::MAX, scene));
    assert_eq!(told.panes.len(), last, "{name}");
    told
}

fn tell(told: &mut Told, at: i64, scene: &Scene) {
    match &scene.input {
        Input::Records(records) => {
            let record = |time: EventTime, value: &Value| (at, time.as_millis(), number(value));
            told.records.extend(records.iter().map(|line| record(line.time, &line.fields["v"])));
        }
        Input::Watermark { time, .. } => told.marks.push((at, time.as_millis())),
        Input::Clock(_) | Input::End => {}
        other => panic!("{other:?} is not drawn"),
    }
    for expected in &scene.expected {
        match &expected.what {
            Expectation::Pane(ExpectedPane { kind, window, timing, values, .. }) => {
                let sign = if *kind == PaneKind::Retract { -1 } else { 1 };
                let value = sign * number(&values["sum"]);
                told.panes.push(ToldPane { at, value, window: *window, timing: *timing });
            }
            Expectation::Gone { .. } | Expectation::Dropped { .. } => {}
        }
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

/// When the panes of a figure come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instants {
    /// When their triggers are ready.
    Strict,
    /// With their round, along whose own watermark they are drawn.
    Minute,
    /// With the end of the batch, along whose watermark they are drawn.
    End,
}

/// The panes of a figure, with their instants.
fn drawn(paper: &Value, (figure, instants): (&str, Instants)) -> Vec<(i64, i64, Window)> {
    let panes = paper["figures"][figure]["panes"].as_array().unwrap();
    let shown = |pane: &Value| pane["emit_proc_min_after_1205"].as_f64().unwrap();
    let pane = |pane: &Value| {
        let instant = match instants {
            Instants::Strict => {
                pane["strict_trigger_semantics_emit_min"].as_f64().unwrap_or(shown(pane))
            }
            Instants::Minute => shown(pane).floor(),
            Instants::End => shown(panes.last().unwrap()),
        };
        let bound = |bound: &Value| EventTime::from_millis(millis(bound.as_f64().unwrap()));
        let window = match pane["window"].as_array() {
            Some(bounds) => Window::new(bound(&bounds[0]), bound(&bounds[1])),
            None => Window::GLOBAL,
        };
        (millis(instant), number(&pane["value"]), window)
    };
    panes.iter().map(pane).collect()
}

fn same_records(name: &str, told: &Told, arrivals: &[Arrival]) {
    let expected: Vec<_> =
        arrivals.iter().map(|arrival| (arrival.at, arrival.time, arrival.value)).collect();
    assert_eq!(told.records, expected, "{name}");
}

fn on_curve(name: &str, told: &Told, curve: &Curve) {
    for (at, watermark) in &told.marks {
        assert_eq!(curve.at(*at), Some(*watermark), "{name}, at {at}");
    }
}

#[test]
fn the_transcripts_of_the_figures_are_the_figures() {
    let paper = paper();
    let (arrivals, curve) = (arrivals(&paper), Curve::actual(&paper));
    for (name, figure, instants, moves) in [
        ("figure_06", "fig6_classic_batch", Instants::End, false),
        ("figure_07", "fig7_global_atperiod1m_accumulating", Instants::Strict, false),
        ("figure_08", "fig8_global_atperiod1m_discarding", Instants::Strict, false),
        ("figure_09", "fig9_global_atcount2_discarding", Instants::Strict, false),
        ("figure_10", "fig10_fixed2m_batch", Instants::End, false),
        ("figure_11", "fig11_fixed2m_microbatch1m", Instants::Minute, true),
        ("figure_12", "fig12_fixed2m_streaming_watermark", Instants::Strict, true),
        ("figure_13", "fig13_fixed2m_streaming_partial_accumulating", Instants::Strict, true),
        ("figure_14", "fig14_sessions1m_retracting", Instants::Strict, true),
    ] {
        let told = read(name);
        same_records(name, &told, &arrivals);
        assert_eq!(told.marks.is_empty(), !moves, "{name}");
        on_curve(name, &told, &curve);
        let drawn = drawn(&paper, (figure, instants));
        assert_eq!(told.panes.len(), drawn.len(), "{name}");
        for (pane, (strict, drawn_value, drawn_window)) in told.panes.iter().zip(&drawn) {
            let ToldPane { at, value, window, .. } = pane;
            assert_eq!((value, window), (drawn_value, drawn_window), "{name}, at {at}");
            // The file has a thousandth of a minute; one instant lies between two of them.
            let is_between = instants == Instants::Strict
                && moves
                && curve.at(*strict).unwrap() < window.end().as_millis();
            let slack = if is_between { STEP } else { 0 };
            assert!((0..=slack).contains(&(at - strict)), "{name}: {value} at {at}, not {strict}");
        }
    }
}

#[test]
fn the_transcripts_of_the_variants_have_the_same_records_and_watermark() {
    let paper = paper();
    let (arrivals, curve) = (arrivals(&paper), Curve::actual(&paper));
    for name in ["early_and_late", "early_and_late_discarding", "early_and_late_retracting"] {
        let told = read(name);
        same_records(name, &told, &arrivals);
        on_curve(name, &told, &curve);
    }
    same_records("perfect_watermark", &read("perfect_watermark"), &arrivals);
    let every_two = read("every_two_minutes_discarding");
    same_records("every_two_minutes_discarding", &every_two, &arrivals);
    let mut more = arrivals;
    more.push(Arrival { at: millis(1.666), time: millis(0.888), value: 6 });
    more.sort_by_key(|arrival| arrival.at);
    for name in ["lateness_of_a_minute", "no_lateness"] {
        let told = read(name);
        same_records(name, &told, &more);
        on_curve(name, &told, &curve);
    }
}
