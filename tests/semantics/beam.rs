//! The transcripts of Apache Beam, and thirty more that its Python driver gave, replayed.
//!
//! How they are read: `[a, b]` is `[a, b + 1)`, Beam's global window is ours, one unit is 1 ms;
//! on-time panes are always emitted, last ones if there is news; touching sessions stay apart.
//! `final` says that the trigger has finished, since that driver never lets a window expire
//! (reference B.6, 2); a pane is also the last if its window has expired. Each value is a bit of the
//! number that is summed, so that a sum tells which values are in it.
//!
//! Where the semantics differ from what the driver did, `DIFFERENT` has the name, the reason, and
//! all that comes out.

use crate::kit::{Pane, Run, sums};
use crate::spec::{Action, Expected, Spec, read};
use nilometer_model::pane::{Emission, Timing};
use nilometer_model::time::{EventTime, Span, Window};
use nilometer_model::value::Value;
use std::fmt::Write as _;

const BEAM: &str = include_str!("../data/semantics/trigger_transcripts.yaml");
const MORE: &str = include_str!("../data/semantics/trigger_transcripts_oracle.yaml");

/// Start and last instant of Beam's global window, in seconds.
const GLOBAL: (i64, i64) = (-9_223_372_036_855, 9_223_371_950_454);

/// A transcript with another outcome.
struct Different {
    name: &'static str,
    reason: &'static str,
    outcome: &'static str,
}

const DIFFERENT: &[Different] = &[Different {
    name: "x_late_then_dropped_at_gc",
    reason: "B.6, 1: a window expires at end + lateness, not one instant later; and B.6, 2",
    outcome: "\
input [1]
watermark 10
  [0,10) [1] @9 #0/0 on_time
input [2]
  [0,10) [1, 2] @9 #1/1 late
watermark 30
input [3]
watermark 31
input [4]
end
",
}];

/// What else happens while a transcript is replayed; it must change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Plainly,
    /// With a restart after each action.
    WithRestarts,
    /// With a second key that gets the same.
    WithTwoKeys,
}

struct Replay<'a> {
    spec: &'a Spec,
    manner: Manner,
    run: Run,
    /// Values by their bit.
    values: Vec<i64>,
    watermark: i64,
    /// Every bit that was in a pane, of all keys.
    seen: i128,
    /// What the last action caused and nothing has expected yet.
    pending: Vec<Pane>,
}

impl<'a> Replay<'a> {
    fn new(spec: &'a Spec, manner: Manner) -> Self {
        let mut grouping = sums(spec.window, spec.trigger.clone(), spec.mode);
        grouping.allowed_lateness = Span::from_millis(spec.allowed_lateness);
        grouping.emission =
            Emission { on_time_always: true, closing_always: false, timestamp: spec.timestamp };
        let run = Run::new(grouping);
        let (values, pending) = (Vec::new(), Vec::new());
        Self { spec, manner, run, values, watermark: i64::MIN, seen: 0, pending }
    }

    fn keys(&self) -> &'static [&'static str] {
        if self.manner == Manner::WithTwoKeys { &["a", "b"] } else { &["a"] }
    }

    /// Does an action that may cause panes.
    fn act(&mut self, action: &Action) -> Vec<Pane> {
        let panes = match action {
            Action::Input(values) => {
                let mut records = Vec::new();
                for value in values {
                    let bit = 1 << self.values.len();
                    self.values.push(*value);
                    records.extend(self.keys().iter().map(|key| (*key, *value, bit)));
                }
                self.run.records(&records)
            }
            Action::Watermark(watermark) => {
                self.watermark = *watermark;
                self.run.watermark(*watermark)
            }
            Action::Expect(_) | Action::State(_) => Vec::new(),
        };
        if self.manner == Manner::WithRestarts {
            self.run.restart();
        }
        self.see(panes)
    }

    fn see(&mut self, panes: Vec<Pane>) -> Vec<Pane> {
        self.seen = panes.iter().fold(self.seen, |seen, pane| seen | pane.value);
        panes
    }

    /// The values in a sum.
    fn values(&self, sum: i128) -> Vec<i64> {
        let bits = (0..self.values.len()).filter(|bit| sum >> bit & 1 == 1);
        let mut values: Vec<_> = bits.map(|bit| self.values[bit]).collect();
        values.sort_unstable();
        values
    }

    fn fits(&self, expected: &Expected, pane: &Pane) -> bool {
        let instant = |instant: i64| {
            if instant == GLOBAL.1 { EventTime::MAX } else { EventTime::from_millis(instant) }
        };
        let window = |(start, last): (i64, i64)| {
            if (start, last) == GLOBAL {
                Window::GLOBAL
            } else {
                Window::new(EventTime::from_millis(start), EventTime::from_millis(last + 1))
            }
        };
        let end = pane.window.end().as_millis();
        let has_expired = self.watermark >= end.saturating_add(self.spec.allowed_lateness);
        let is_last = |is_final: bool| pane.is_last == (is_final || has_expired);
        let nonspeculative = |index: i64| index == pane.nonspeculative;
        expected.window.is_none_or(|bounds| window(bounds) == pane.window)
            && expected.values.as_ref().is_none_or(|values| *values == self.values(pane.value))
            && expected.timestamp.is_none_or(|time| instant(time) == pane.event_time)
            && expected.index.is_none_or(|index| index == i64::from(pane.index))
            && expected.nonspeculative_index.is_none_or(nonspeculative)
            && expected.early.is_none_or(|is_early| is_early == (pane.timing == Timing::Early))
            && expected.late.is_none_or(|is_late| is_late == (pane.timing == Timing::Late))
            && expected.is_final.is_none_or(is_last)
    }

    /// Meets what is expected of each key.
    fn expect(&mut self, expected: &[Expected]) -> Result<(), String> {
        for key in self.keys() {
            for expected in expected {
                let fits = |pane: &Pane| {
                    pane.key == Value::Text((*key).into()) && self.fits(expected, pane)
                };
                let Some(found) = self.pending.iter().position(fits) else {
                    let left: Vec<_> =
                        self.pending.iter().map(|pane| self.describe(pane)).collect();
                    return Err(format!("Unmatched output: {expected:?} among {left:?}"));
                };
                self.pending.remove(found);
            }
        }
        Ok(())
    }

    fn nothing_is_pending(&self) -> Result<(), String> {
        match self.pending.first() {
            None => Ok(()),
            Some(pane) => Err(format!("Unexpected output: {}", self.describe(pane))),
        }
    }

    fn describe(&self, pane: &Pane) -> String {
        let Pane { window, index, nonspeculative, event_time, .. } = pane;
        let (values, timing) = (self.values(pane.value), pane.timing.name());
        let last = if pane.is_last { " last" } else { "" };
        format!("{window} {values:?} @{event_time} #{index}/{nonspeculative} {timing}{last}")
    }

    /// The end: what is left comes out, and of all that was accepted nothing is missing.
    fn end(&mut self) -> Vec<Pane> {
        let panes = self.run.end();
        let panes = self.see(panes);
        let account = self.run.account();
        let accepted = account.on_time + account.late;
        if self.spec.window.overlap() == 1 {
            let emitted = u64::from(self.seen.count_ones()) * self.keys().len() as u64;
            assert_eq!(emitted, accepted, "{}: {account:?}", self.spec.name);
        }
        panes
    }
}

/// Replays a specification to its end; an error says what is not as expected.
fn replay(spec: &Spec, manner: Manner) -> Result<(), String> {
    let mut replay = Replay::new(spec, manner);
    for action in &spec.actions {
        match action {
            Action::Expect(expected) => replay.expect(expected)?,
            Action::State(known) => {
                let windows = replay.run.shard.windows();
                for (start, last) in known {
                    let bounds = (*start, last + 1);
                    let is_it = |window: &Window| {
                        (window.start().as_millis(), window.end().as_millis()) == bounds
                    };
                    if !windows.iter().any(|(_, _, window)| is_it(window)) {
                        return Err(format!("no state of [{start}, {last}]"));
                    }
                }
            }
            Action::Input(_) | Action::Watermark(_) => {
                replay.nothing_is_pending()?;
                replay.pending = replay.act(action);
            }
        }
    }
    replay.nothing_is_pending()?;
    replay.end();
    Ok(())
}

/// All that a specification causes, in words.
fn outcome(spec: &Spec, manner: Manner) -> String {
    let mut replay = Replay::new(spec, manner);
    let mut text = String::new();
    for action in &spec.actions {
        match action {
            Action::Input(values) => writeln!(text, "input {values:?}").unwrap(),
            Action::Watermark(watermark) => writeln!(text, "watermark {watermark}").unwrap(),
            Action::Expect(_) | Action::State(_) => continue,
        }
        for pane in replay.act(action) {
            if pane.key == Value::Text("a".into()) {
                writeln!(text, "  {}", replay.describe(&pane)).unwrap();
            }
        }
    }
    writeln!(text, "end").unwrap();
    for pane in replay.end() {
        if pane.key == Value::Text("a".into()) {
            writeln!(text, "  {}", replay.describe(&pane)).unwrap();
        }
    }
    text
}

fn different(spec: &Spec) -> Option<&'static Different> {
    DIFFERENT.iter().find(|different| different.name == spec.name)
}

#[test]
fn every_transcript_is_replayed_as_written_or_as_listed() {
    let specs: Vec<_> = read(BEAM).into_iter().chain(read(MORE)).collect();
    assert_eq!((read(BEAM).len(), read(MORE).len()), (18, 30));
    let mut failures = Vec::new();
    for spec in specs.iter().filter(|spec| spec.error.is_none()) {
        for manner in [Manner::Plainly, Manner::WithRestarts, Manner::WithTwoKeys] {
            let result = replay(spec, manner);
            match (different(spec), result) {
                (None, Ok(())) => {}
                (None, Err(error)) => failures.push(format!("{} {manner:?}: {error}", spec.name)),
                (Some(Different { reason, .. }), Ok(())) => {
                    failures.push(format!("{}: no difference any more ({reason})", spec.name));
                }
                (Some(Different { outcome: expected, .. }), Err(_)) => {
                    assert_eq!(outcome(spec, manner), *expected, "{}, {manner:?}", spec.name);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_wrong_transcript_fails_as_it_says() {
    let specs = read(BEAM);
    let wrong: Vec<_> = specs.iter().filter(|spec| spec.error.is_some()).collect();
    assert_eq!(wrong.len(), 5);
    for spec in wrong {
        let expected = spec.error.as_ref().unwrap();
        let error = replay(spec, Manner::Plainly).unwrap_err();
        assert!(error.starts_with(expected.as_str()), "{}: {error}", spec.name);
    }
}

#[test]
fn the_list_of_differences_is_short_and_names_transcripts() {
    assert!(DIFFERENT.len() <= 8);
    let specs: Vec<_> = read(BEAM).into_iter().chain(read(MORE)).collect();
    for Different { name, .. } in DIFFERENT {
        assert_eq!(specs.iter().filter(|spec| spec.name == *name).count(), 1, "{name}");
    }
}
