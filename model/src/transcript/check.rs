//! Sets what came against what was expected.
//!
//! Expectations of one input are unordered, but those of one stage, key and window come in the
//! order written: a retract stands before its insert. Invariant: a transcript without mismatch
//! lists every pane and every drop, once.

use super::json::is_same;
use super::{Dropped, Emitted, Expectation, ExpectedPane, Scene, Step, Transcript};
use crate::time::Window;
use serde_json::Value as Json;

/// One way in which what came is not what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It was expected and did not come.
    #[error("line {line}: expected, but did not come: {text}")]
    Missing {
        /// Line of the expectation.
        line: usize,
        /// The expectation as written.
        text: Box<str>,
    },
    /// It came and was not expected.
    #[error("line {line}: came, but is not expected: {text}")]
    Unexpected {
        /// Line of the input that caused it; one behind the last for the implied end.
        line: usize,
        /// What came, as an expectation would be written.
        text: Box<str>,
    },
    /// It came, but before something that is listed above it.
    #[error(
        "line {line}: came too early: a retract comes before the insert that replaces it: {text}"
    )]
    Order {
        /// Line of the expectation.
        line: usize,
        /// The expectation as written.
        text: Box<str>,
    },
    /// State is left where none was expected.
    #[error("line {line}: not gone: {text}")]
    NotGone {
        /// Line of the expectation.
        line: usize,
        /// The expectation as written.
        text: Box<str>,
    },
    /// The plan has no such stage or key.
    #[error("line {line}: {what}")]
    NoSuchPlace {
        /// Line of the expectation.
        line: usize,
        /// What the plan lacks, and what it has.
        what: Box<str>,
    },
    /// A record was refused: a filter or derived field cannot be computed for it.
    #[error("line {line}: the record was refused: {reason}")]
    Refused {
        /// Line of the record.
        line: usize,
        /// Why.
        reason: Box<str>,
    },
    /// All input has ended, and state is left.
    #[error("line {line}: after the end, state is left in {stages}")]
    Left {
        /// Line of the end.
        line: usize,
        /// Names of the stages.
        stages: Box<str>,
    },
}

impl Mismatch {
    /// Whether other expectations would make it go away.
    pub const fn is_blessable(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::Unexpected { .. }
            | Self::Order { .. }
            | Self::NotGone { .. }
            | Self::NoSuchPlace { .. } => true,
            Self::Refused { .. } | Self::Left { .. } => false,
        }
    }

    /// The line that it is about.
    pub const fn line(&self) -> usize {
        match self {
            Self::Missing { line, .. }
            | Self::Unexpected { line, .. }
            | Self::Order { line, .. }
            | Self::NotGone { line, .. }
            | Self::NoSuchPlace { line, .. }
            | Self::Refused { line, .. }
            | Self::Left { line, .. } => *line,
        }
    }
}

/// Compares a run with its transcript; `steps` are those of [`super::run`].
pub fn compare(transcript: &Transcript, steps: &[Step]) -> Vec<Mismatch> {
    let mut found = Vec::new();
    for (scene, step) in transcript.steps.iter().zip(steps) {
        let matched = Matched::of(scene, step);
        compare_scene(transcript, scene, step, &matched, &mut found);
    }
    found
}

/// Which expectation each thing that came answers to.
pub(super) struct Matched {
    /// For each expectation: the pane or drop that it matches, counted over panes, then drops.
    pub(super) by_expectation: Vec<Option<usize>>,
    /// For each pane, then each drop: the expectation.
    pub(super) by_outcome: Vec<Option<usize>>,
}

impl Matched {
    pub(super) fn of(scene: &Scene, step: &Step) -> Self {
        let outcomes = step.panes.len() + step.dropped.len();
        let mut matched = Self {
            by_expectation: vec![None; scene.expected.len()],
            by_outcome: vec![None; outcomes],
        };
        for (number, expected) in scene.expected.iter().enumerate() {
            let is_met = |outcome: usize| match &expected.what {
                Expectation::Pane(pane) => {
                    step.panes.get(outcome).is_some_and(|came| is_pane(pane, came))
                }
                Expectation::Dropped { reason, stage, key } => {
                    let came = outcome.checked_sub(step.panes.len());
                    came.and_then(|came| step.dropped.get(came)).is_some_and(|came| {
                        came.reason == *reason && came.stage == *stage && is_same(key, &came.key)
                    })
                }
                Expectation::Gone { .. } => false,
            };
            let is_free = |outcome: &usize| matched.by_outcome.get(*outcome) == Some(&None);
            let found = (0..outcomes).filter(is_free).find(|outcome| is_met(*outcome));
            if let Some(outcome) = found {
                if let Some(place) = matched.by_expectation.get_mut(number) {
                    *place = Some(outcome);
                }
                if let Some(place) = matched.by_outcome.get_mut(outcome) {
                    *place = Some(number);
                }
            }
        }
        matched
    }
}

fn is_pane(expected: &ExpectedPane, came: &Emitted) -> bool {
    expected.kind == came.kind
        && expected.stage == came.stage
        && expected.window == came.window
        && expected.index == came.index
        && expected.timing == came.timing
        && expected.is_last == came.is_last
        && expected.event_time.is_none_or(|time| time == came.event_time)
        && is_same(&expected.key, &came.key)
        && is_same(&expected.values, &came.values)
}

fn compare_scene(
    transcript: &Transcript,
    scene: &Scene,
    step: &Step,
    matched: &Matched,
    found: &mut Vec<Mismatch>,
) {
    for (line, reason) in &step.refused {
        found.push(Mismatch::Refused { line: *line, reason: reason.clone() });
    }
    for (number, expected) in scene.expected.iter().enumerate() {
        let line = expected.line;
        let text = || written(transcript, line);
        if let Some(what) = step.unknown.get(&number) {
            found.push(Mismatch::NoSuchPlace { line, what: what.clone() });
            continue;
        }
        match &expected.what {
            Expectation::Gone { .. } if step.not_gone.contains(&number) => {
                found.push(Mismatch::NotGone { line, text: text() });
            }
            Expectation::Gone { .. } => {}
            Expectation::Pane(_) | Expectation::Dropped { .. } => {
                match matched.by_expectation.get(number) {
                    Some(Some(_)) if is_overtaken(scene, matched, number) => {
                        found.push(Mismatch::Order { line, text: text() });
                    }
                    Some(Some(_)) => {}
                    Some(None) | None => found.push(Mismatch::Missing { line, text: text() }),
                }
            }
        }
    }
    let came = step.panes.iter().map(Emitted::to_string);
    let came = came.chain(step.dropped.iter().map(Dropped::to_string));
    for (text, expectation) in came.zip(&matched.by_outcome) {
        if expectation.is_none() {
            found.push(Mismatch::Unexpected { line: scene.line, text: text.into() });
        }
    }
    if !step.left.is_empty() {
        let stages = step.left.join(", ").into();
        found.push(Mismatch::Left { line: scene.line, stages });
    }
}

/// The line as written, without its margin and comment.
fn written(transcript: &Transcript, line: usize) -> Box<str> {
    let text = line.checked_sub(1).and_then(|index| transcript.text.get(index));
    text.map_or_else(Box::default, |text| text.trim().into())
}

/// Whether expectation `number` came before one of the same stage, key and window that is listed
/// above it.
pub(super) fn is_overtaken(scene: &Scene, matched: &Matched, number: usize) -> bool {
    let place = |number: usize| scene.expected.get(number).and_then(|e| place_of(&e.what));
    let came = |number: usize| matched.by_expectation.get(number).copied().flatten();
    let Some((stage, key, window)) = place(number) else { return false };
    let is_same_place = |other: &usize| {
        place(*other).is_some_and(|(other_stage, other_key, other_window)| {
            other_stage == stage && other_window == window && is_same(other_key, key)
        })
    };
    let above = (0..number).filter(is_same_place).filter_map(came);
    above.max().is_some_and(|above| came(number).is_some_and(|came| came < above))
}

fn place_of(what: &Expectation) -> Option<(&str, &Json, Window)> {
    match what {
        Expectation::Pane(pane) => Some((&pane.stage, &pane.key, pane.window)),
        Expectation::Gone { .. } | Expectation::Dropped { .. } => None,
    }
}
