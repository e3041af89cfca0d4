//! The examples of the book "Streaming Systems": thirteen configurations over nine values, with all
//! that Beam says of each pane. On-time panes are always emitted, touching sessions stay apart.
//! Eleven of them are transcripts, too, which have to say the same; the others need code.

use crate::custom::UntilTheNext;
use crate::kit::{Pane, Run, after_watermark, fixed, repeat, sessions, span, sums};
use nilometer_model::custom::Custom;
use nilometer_model::pane::{AccumulationMode, Emission, Timing};
use nilometer_model::plan::Grouping;
use nilometer_model::time::{EventTime, ProcessingTime, Window};
use nilometer_model::transcript::{Expectation, ExpectedPane, Input, parse};
use nilometer_model::trigger::{CustomTrigger, Facts, Seen, Trigger};
use nilometer_model::window::{Touching, WindowFn};
use serde_json::Value;
use std::sync::Arc;

use AccumulationMode::{Accumulating, Discarding};

const MINUTE: i64 = 60_000;
const DAYS_1000: i64 = 1_000 * 86_400_000;

/// Which entries of the timeline count beside the plain ones.
const BATCH: &[char] = &[];
const PERFECT: &[char] = &['P'];
const HEURISTIC: &[char] = &['H'];
const HEURISTIC_AND_SIX: &[char] = &['H', 'X'];

fn book() -> Value {
    serde_json::from_str(include_str!("../data/semantics/streamingbook_examples.json")).unwrap()
}

/// `12:03:39` as ms after 12:00; hours before are of the day after, as are those of its end.
fn instant(text: &str) -> i64 {
    if matches!(text, "infinity" | "END_OF_GLOBAL_WINDOW") {
        return i64::MAX;
    }
    let parts: Vec<i64> = text.split(':').map(|part| part.parse().unwrap()).collect();
    ((parts[0] - 12) * 3_600 + parts[1] * 60 + parts[2]) * 1_000
}

/// What happens on the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    Watermark(i64),
    End,
    Clock(i64),
    /// Event time and value.
    Record(i64, i64),
}

/// The timeline of a stream.
fn timeline(stream: &[char]) -> Vec<Happens> {
    let mut timeline = Vec::new();
    for entry in book()["timeline"].as_array().unwrap() {
        let what = entry[0].as_str().unwrap();
        let what = match what.split_once(' ') {
            Some((prefix, what)) if stream.iter().any(|one| prefix.starts_with(*one)) => what,
            Some(_) => continue,
            None => what,
        };
        timeline.push(match what {
            "watermark" => match instant(entry[1].as_str().unwrap()) {
                i64::MAX => Happens::End,
                watermark => Happens::Watermark(watermark),
            },
            "proc" => Happens::Clock(instant(entry[1].as_str().unwrap())),
            "add" => {
                let (value, time) = (entry[1].as_i64().unwrap(), entry[2].as_str().unwrap());
                Happens::Record(instant(time), value)
            }
            other => panic!("{other} is nothing that happens"),
        });
    }
    timeline
}

/// Plays the timeline on a stage.
fn play(grouping: Grouping, stream: &[char]) -> Vec<Pane> {
    let mut run = Run::new(grouping);
    let happens = |what| match what {
        Happens::Watermark(watermark) => run.watermark(watermark),
        Happens::End => run.end(),
        Happens::Clock(now) => run.tick(now),
        Happens::Record(time, value) => run.records(&[("TeamX", time, value)]),
    };
    timeline(stream).into_iter().flat_map(happens).collect()
}

/// What the book says of a pane, in one line.
fn expected(pane: &Value) -> String {
    let text = |name: &str| pane[name].as_str().unwrap();
    let window = match text("window") {
        "[global window]" => Window::GLOBAL,
        bounds => {
            let (start, end) = bounds[1..bounds.len() - 1].split_once(", ").unwrap();
            let bound = |text| EventTime::from_millis(instant(text));
            Window::new(bound(start), bound(end))
        }
    };
    // Seconds of the last instant of the window; of the end of time Beam's has a place on the clock.
    let time = match window.end() {
        EventTime::MAX => "+inf".to_owned(),
        _ => (instant(text("timestamp")) / 1_000).to_string(),
    };
    let number = |name: &str| pane[name].as_i64().unwrap();
    let (sum, index, nonspeculative) =
        (number("sum"), number("index"), number("nonspeculative_index"));
    assert_eq!(pane["first"].as_bool().unwrap(), index == 0);
    let timing = text("timing").to_lowercase();
    let last = if pane["last"].as_bool().unwrap() { " last" } else { "" };
    format!("{window} {sum} @{time} {timing} #{index}/{nonspeculative}{last}")
}

fn said(pane: &Pane) -> String {
    let Pane { window, value, index, nonspeculative, event_time, .. } = pane;
    assert_eq!(*event_time, window.last_instant());
    let time = match *event_time {
        EventTime::MAX => "+inf".to_owned(),
        time => time.as_millis().div_euclid(1_000).to_string(),
    };
    let (timing, last) = (pane.timing.name(), if pane.is_last { " last" } else { "" });
    format!("{window} {value} @{time} {timing} #{index}/{nonspeculative}{last}")
}

fn stage(window: WindowFn, trigger: Trigger, lateness: i64) -> Grouping {
    Grouping {
        allowed_lateness: span(lateness),
        emission: Emission { on_time_always: true, ..Emission::default() },
        ..sums(window, trigger, Accumulating)
    }
}

fn two_minutes(trigger: Trigger, lateness: i64) -> Grouping {
    stage(fixed(2 * MINUTE), trigger, lateness)
}

fn delay(minutes: i64) -> Trigger {
    Trigger::AfterProcessingTime(span(minutes * MINUTE))
}

fn early_on_time_late() -> Trigger {
    after_watermark(Some(delay(1)), Some(Trigger::AfterCount(1)))
}

#[test]
fn every_configuration_gives_the_panes_of_the_book() {
    let default = Trigger::default_trigger;
    let validity = WindowFn::Custom(Custom(&UntilTheNext));
    let per_record = repeat(Trigger::AfterCount(1));
    let session = sessions(MINUTE, Touching::Separate);
    let discarding = Grouping { mode: Discarding, ..two_minutes(early_on_time_late(), DAYS_1000) };
    let aligned = repeat(Trigger::Custom(Arc::new(Aligned)));
    let configurations = [
        ("Example2_1", stage(WindowFn::Global, default(), 0), BATCH),
        ("Example2_2", two_minutes(default(), 0), BATCH),
        ("Example2_3", two_minutes(per_record, DAYS_1000), BATCH),
        ("Example2_4", two_minutes(aligned, DAYS_1000), BATCH),
        ("Example2_5", two_minutes(repeat(delay(2)), DAYS_1000), BATCH),
        ("Example2_6left", two_minutes(default(), 0), PERFECT),
        ("Example2_6right", two_minutes(default(), 0), HEURISTIC),
        ("Example2_7left", two_minutes(early_on_time_late(), DAYS_1000), PERFECT),
        ("Example2_7right", two_minutes(early_on_time_late(), DAYS_1000), HEURISTIC),
        ("Example2_8", two_minutes(early_on_time_late(), 2 * MINUTE), HEURISTIC_AND_SIX),
        ("Example2_9", discarding, HEURISTIC),
        ("Example4_3", stage(session, early_on_time_late(), DAYS_1000), HEURISTIC),
        ("ValidityWindowsTest", stage(validity, default(), 0), PERFECT),
    ];
    let book = book();
    let examples = book["expected"].as_object().unwrap();
    assert_eq!(examples.len(), configurations.len());
    for (name, grouping, stream) in configurations {
        let mut wanted: Vec<_> = examples[name].as_array().unwrap().iter().map(expected).collect();
        let mut got: Vec<_> = play(grouping, stream).iter().map(said).collect();
        wanted.sort();
        got.sort();
        assert_eq!(got, wanted, "{name}: {}", book["configurations"][name]);
    }
}

/// What a transcript expects, as the book says it. Panes of a window come in the order of their
/// indices.
fn written(panes: &[ExpectedPane]) -> Vec<String> {
    let mut said = Vec::new();
    for (number, pane) in panes.iter().enumerate() {
        let is_early = pane.timing == Timing::Early;
        let before = panes[..number].iter().filter(|other| other.window == pane.window);
        let before = before.filter(|other| other.timing != Timing::Early).count() as i64;
        let (timing, last) = (pane.timing.name(), if pane.is_last { " last" } else { "" });
        let time = match pane.window.last_instant() {
            EventTime::MAX => "+inf".to_owned(),
            time => time.as_millis().div_euclid(1_000).to_string(),
        };
        let (window, sum, index) = (pane.window, &pane.values["sum"], pane.index);
        let nonspeculative = if is_early { -1 } else { before };
        said.push(format!("{window} {sum} @{time} {timing} #{index}/{nonspeculative}{last}"));
    }
    said
}

#[test]
fn the_transcripts_of_the_examples_are_those_of_the_book() {
    let book = book();
    for (name, stream) in [
        ("2_1", BATCH),
        ("2_2", BATCH),
        ("2_3", BATCH),
        ("2_5", BATCH),
        ("2_6left", PERFECT),
        ("2_6right", HEURISTIC),
        ("2_7left", PERFECT),
        ("2_7right", HEURISTIC),
        ("2_8", HEURISTIC_AND_SIX),
        ("2_9", HEURISTIC),
        ("4_3", HEURISTIC),
    ] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/book");
        let text = std::fs::read_to_string(format!("{folder}/example_{name}.txt")).unwrap();
        let (mut happens, mut panes) = (Vec::new(), Vec::new());
        for scene in parse(&text).unwrap().steps {
            happens.push(match scene.input {
                Input::Watermark { time, .. } => Happens::Watermark(time.as_millis()),
                Input::End => Happens::End,
                Input::Clock(now) => Happens::Clock(now.as_millis()),
                Input::Records(lines) => {
                    let value = lines[0].fields["v"].as_i64().unwrap();
                    Happens::Record(lines[0].time.as_millis(), value)
                }
                other => panic!("{other:?} is nothing that happens"),
            });
            panes.extend(scene.expected.into_iter().filter_map(|expected| match expected.what {
                Expectation::Pane(pane) => Some(pane),
                Expectation::Gone { .. } | Expectation::Dropped { .. } => None,
            }));
        }
        assert_eq!(happens, timeline(stream), "{name}");
        let examples = book["expected"][format!("Example{name}")].as_array().unwrap();
        let mut wanted: Vec<_> = examples.iter().map(expected).collect();
        let mut got = written(&panes);
        wanted.sort();
        got.sort();
        assert_eq!(got, wanted, "{name}");
    }
}

/// Beam's `alignedTo(2 minutes, 12:05)` as it came out in example 2-4, which the author calls funky.
///
/// The clock of its test begins at Beam's lowest timestamp, -9223372036854775 ms, for 12:00. So
/// boundaries lie 54.775 s behind every odd minute; and since the remainder of a negative number is
/// negative there, what is due comes one period after the boundary.
#[derive(Debug)]
struct Aligned;

impl CustomTrigger for Aligned {
    fn name(&self) -> &str {
        "aligned_to_2m"
    }

    fn is_ready(&self, _: &Facts<'_>, seen: Seen) -> bool {
        seen.is_due
    }

    fn due(&self, now: ProcessingTime) -> Option<ProcessingTime> {
        let period = 2 * MINUTE;
        let (lowest, offset) = (-9_223_372_036_854_775, 12 * 60 * MINUTE + 5 * MINUTE);
        let since = lowest + now.as_millis() - offset;
        Some(ProcessingTime::from_millis(now.as_millis() + period - since % period))
    }
}

#[test]
fn the_engine_aligns_to_the_clock() {
    let every = repeat(Trigger::Every(span(2 * MINUTE)));
    let got: Vec<_> = play(two_minutes(every, DAYS_1000), BATCH).iter().map(said).collect();
    assert_eq!(
        got,
        [
            // 12:06
            "[0,120000) 5 @119 early #0/-1",
            "[120000,240000) 7 @239 early #0/-1",
            // 12:08
            "[120000,240000) 18 @239 early #1/-1",
            "[240000,360000) 4 @359 early #0/-1",
            "[360000,480000) 3 @479 early #0/-1",
            // 12:10
            "[0,120000) 14 @119 early #1/-1",
            "[360000,480000) 12 @479 early #1/-1",
        ]
    );
}
