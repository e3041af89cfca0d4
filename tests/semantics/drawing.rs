//! The drawings of the paper: what arrives when, how the watermark moves, and a stage that is shown
//! both, one instant after the other.
//!
//! Event times are ms after 12:00. Instants are ms on the processing axis, which begins at 12:05.
//! At one instant records come first, then the watermark, then the clock.

use crate::kit::{Pane, Run};
use nilometer_model::plan::Grouping;
use nilometer_model::time::Window;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where the processing axis begins, in ms after 12:00.
pub(crate) const AXIS: i64 = 5 * 60_000;
/// From one instant to the next: a thousandth of a minute, as fine as the drawings are.
pub(crate) const STEP: i64 = 60;

/// `minutes` in ms; the drawings have three decimals.
pub(crate) fn millis(minutes: f64) -> i64 {
    (minutes * 1_000.0).round() as i64 * 60
}

/// A record, and the instant at which it comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: i64,
    pub(crate) time: i64,
    pub(crate) value: i64,
}

/// The file with the numbers of the drawings.
pub(crate) fn paper() -> Value {
    serde_json::from_str(include_str!("../data/semantics/paper_example.json")).unwrap()
}

/// The ten records of figure 5.
pub(crate) fn arrivals(paper: &Value) -> Vec<Arrival> {
    let events = paper["events_in_processing_order"].as_array().unwrap();
    let arrival = |event: &Value| Arrival {
        at: event["proc_ms"].as_i64().unwrap() - AXIS,
        time: event["event_ms"].as_i64().unwrap(),
        value: event["value"].as_i64().unwrap(),
    };
    events.iter().map(arrival).collect()
}

/// A watermark as it is drawn: pieces of curves, each with four points (event, processing), in
/// minutes. A straight line is a curve, too.
pub(crate) struct Curve(Vec<[(f64, f64); 4]>);

impl Curve {
    /// The one of figures 5, 12, 13 and 14.
    pub(crate) fn actual(paper: &Value) -> Self {
        let point = |point: &Value| (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
        let pieces = paper["watermark_bezier_segments_event_proc"].as_array().unwrap();
        Self(pieces.iter().map(|piece| [0, 1, 2, 3].map(|index| point(&piece[index]))).collect())
    }

    /// The pieces, in minutes.
    pub(crate) fn pieces(&self) -> &[[(f64, f64); 4]] {
        &self.0
    }

    /// Straight lines from point to point.
    pub(crate) fn lines(points: &[(f64, f64)]) -> Self {
        let third = |(a, b): (f64, f64), part: f64| a + (b - a) * part;
        let line = |from: (f64, f64), to: (f64, f64)| {
            let at = |part| (third((from.0, to.0), part), third((from.1, to.1), part));
            [from, at(1.0 / 3.0), at(2.0 / 3.0), to]
        };
        Self(points.windows(2).map(|ends| line(ends[0], ends[1])).collect())
    }

    /// The event time that the watermark has reached at `instant`; `None` before it begins.
    pub(crate) fn at(&self, instant: i64) -> Option<i64> {
        let wanted = instant as f64 / 60_000.0;
        let reached = self.0.iter().rev().find(|piece| piece[0].1 <= wanted)?;
        // The rest of the curve has been passed if it ends below the instant.
        let (mut low, mut high) = (0.0, 1.0);
        if reached[3].1 > wanted {
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                if bezier(reached, middle).1 <= wanted { low = middle } else { high = middle }
            }
        } else {
            low = 1.0;
        }
        // Rounded down: a promise must not say more than is drawn.
        Some((bezier(reached, low).0 * 60_000.0 + 1e-6).floor() as i64)
    }
}

fn bezier(piece: &[(f64, f64); 4], part: f64) -> (f64, f64) {
    let rest = 1.0 - part;
    let weights = [
        rest * rest * rest,
        3.0 * rest * rest * part,
        3.0 * rest * part * part,
        part * part * part,
    ];
    let sum = |of: fn(&(f64, f64)) -> f64| piece.iter().zip(weights).map(|(p, w)| of(p) * w).sum();
    (sum(|point| point.0), sum(|point| point.1))
}

/// What came out of a stage.
pub(crate) struct Shown {
    /// Panes with the instants at which they came; [`i64::MAX`] for the end of the input.
    pub(crate) panes: Vec<(i64, Pane)>,
    /// When each window was let go, while the watermark moved.
    pub(crate) gone: BTreeMap<Window, i64>,
    pub(crate) expired: u64,
}

/// How a stage is shown what arrives.
pub(crate) struct Show<'a> {
    pub(crate) arrivals: &'a [Arrival],
    /// `None`: the watermark stays at the beginning until the end.
    pub(crate) curve: Option<&'a Curve>,
    /// Time on the clock, in ms after 12:00, where the axis begins.
    pub(crate) clock: i64,
    /// Instant of the end of the input.
    pub(crate) until: i64,
}

impl Show<'_> {
    /// Shows it to a stage.
    pub(crate) fn to(&self, grouping: Grouping) -> Shown {
        let mut run = Run::new(grouping);
        let mut shown = Shown { panes: Vec::new(), gone: BTreeMap::new(), expired: 0 };
        let mut open = Vec::new();
        run.tick(self.clock);
        for instant in (0..=self.until).step_by(STEP as usize) {
            let came = self.arrivals.iter().filter(|arrival| arrival.at == instant);
            let records: Vec<_> = came.map(|came| ("k", came.time, came.value)).collect();
            let mut panes = if records.is_empty() { Vec::new() } else { run.records(&records) };
            if let Some(reached) = self.curve.and_then(|curve| curve.at(instant)) {
                panes.extend(run.watermark(reached));
            }
            panes.extend(run.tick(self.clock + instant));
            shown.panes.extend(panes.into_iter().map(|pane| (instant, pane)));
            let windows: Vec<_> =
                run.shard.windows().iter().map(|(_, _, window)| *window).collect();
            let gone = open.iter().filter(|window| !windows.contains(window));
            shown.gone.extend(gone.map(|window| (*window, instant)));
            open = windows;
        }
        shown.panes.extend(run.end().into_iter().map(|pane| (i64::MAX, pane)));
        shown.expired = run.account().expired;
        shown
    }
}

#[test]
fn the_curve_passes_the_samples() {
    let paper = paper();
    let curve = Curve::actual(&paper);
    let samples = paper["watermark_samples_proc_event"].as_array().unwrap();
    assert_eq!(samples.len(), 53);
    for sample in samples {
        let (at, event) = (sample[0].as_f64().unwrap(), sample[1].as_f64().unwrap());
        // One each five seconds; each is the last of a row of points on the curve before it.
        let reached = curve.at((at * 12.0).round() as i64 * 5_000).unwrap() as f64 / 60_000.0;
        assert!((-0.000_1..0.003_2).contains(&(reached - event)), "{reached} at {at}, not {event}");
    }
}
