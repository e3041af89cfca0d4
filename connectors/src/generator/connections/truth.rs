//! What is true of a session: how it came out, and what came of its records.

use super::{Place, Step};
use crate::generator::json::Object;
use nilometer_model::time::{EventTime, Span};

/// How a session came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Data moved.
    Connected,
    /// A step failed, and was not tried again.
    Failed(Step, &'static str),
    /// A step got no answer, and the client waited for longer than 10 s.
    Stuck(Step),
    /// The client went away between two steps, or within 1 s of asking for one.
    Abandoned(Step),
    /// It had begun elsewhere: there is no first step.
    IncompleteStart,
    /// It has no end.
    Endless,
}

impl Verdict {
    /// The name in the side file, that of the outcome of a sequence; `None` if there is no end.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Connected => Some("connected"),
            Self::Failed(..) => Some("failed"),
            Self::Stuck(_) => Some("stuck"),
            Self::Abandoned(_) => Some("abandoned"),
            Self::IncompleteStart => Some("incomplete_start"),
            Self::Endless => None,
        }
    }

    /// The step where it ended, if it did not connect.
    pub const fn step(self) -> Option<Step> {
        match self {
            Self::Failed(step, _) | Self::Stuck(step) | Self::Abandoned(step) => Some(step),
            Self::Connected | Self::IncompleteStart | Self::Endless => None,
        }
    }

    /// Why it failed.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Failed(_, reason) => Some(reason),
            Self::Connected
            | Self::Stuck(_)
            | Self::Abandoned(_)
            | Self::IncompleteStart
            | Self::Endless => None,
        }
    }
}

/// How a step came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    /// It went well.
    Success,
    /// It did not.
    Failure,
    /// There was no answer.
    Open,
}

impl StepResult {
    /// The name in the side file, that of the result of a step.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Open => "open",
        }
    }
}

/// What is true of a step: of the last time that the client began anew; attempts are all there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepTruth {
    /// How often it was tried.
    pub attempts: u32,
    /// How it came out; `None` if it was not tried.
    pub result: Option<StepResult>,
    /// When it was tried first, ms.
    pub(super) start: Option<i64>,
    /// From then until its result, ms.
    pub duration: Option<i64>,
}

/// What is true of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// The client, and where it was first.
    pub place: Place,
    /// Event time of its first record.
    pub first: EventTime,
    /// Event time of its last record.
    pub last: EventTime,
    /// How it came out.
    pub verdict: Verdict,
    /// By step of [`Step::CHAIN`].
    pub steps: [StepTruth; 4],
    /// From the first time that it asked for an access point until data moved, ms.
    pub time_to_connect: Option<i64>,
    /// How often it began anew before it was connected.
    pub restarts: u32,
    /// How often it moved when it was connected.
    pub roams: u32,
    /// How often it was refused then.
    pub roam_failures: u32,
    /// Records that come, copies left out.
    pub records: u32,
    /// Records that never come.
    pub lost: u32,
    /// Records that come twice.
    pub copies: u32,
    /// How far one of its records comes behind the largest event time before it, at most.
    pub behind: Span,
}

impl Truth {
    /// A session of which nothing is known.
    pub(super) fn new(place: Place, first: EventTime) -> Self {
        Self {
            place,
            first,
            last: first,
            verdict: Verdict::IncompleteStart,
            steps: [StepTruth::default(); 4],
            time_to_connect: None,
            restarts: 0,
            roams: 0,
            roam_failures: 0,
            records: 0,
            lost: 0,
            copies: 0,
            behind: Span::ZERO,
        }
    }

    /// What is true of a step; nothing of one outside the chain.
    pub(super) fn step(&mut self, step: Step) -> Option<&mut StepTruth> {
        let number = Step::CHAIN.iter().position(|known| *known == step)?;
        self.steps.get_mut(number)
    }
}

/// Appends `truth` to `out` as one JSON object and a line feed.
pub fn write_truth(truth: &Truth, out: &mut String) {
    let mut object = Object::open(out);
    object.text("network", Some(&truth.place.network()));
    object.text("client", Some(&truth.place.client()));
    object.text("ap", Some(&truth.place.ap()));
    object.number("t_first", Some(truth.first.as_millis()));
    object.number("t_last", Some(truth.last.as_millis()));
    object.text("outcome", truth.verdict.name());
    object.text("step", truth.verdict.step().map(Step::name));
    object.text("reason", truth.verdict.reason());
    object.number("time_to_connect_ms", truth.time_to_connect);
    for (name, number) in [
        ("restarts", truth.restarts),
        ("roams", truth.roams),
        ("roam_failures", truth.roam_failures),
        ("records", truth.records),
        ("lost", truth.lost),
        ("copies", truth.copies),
    ] {
        object.number(name, Some(number));
    }
    object.number("behind_ms", Some(truth.behind.as_millis()));
    for (step, known) in Step::CHAIN.iter().zip(&truth.steps) {
        if known.attempts == 0 {
            continue;
        }
        let mut inner = object.object(step.name());
        inner.text("result", known.result.map(StepResult::name));
        inner.number("attempts", Some(known.attempts));
        inner.number("ms", known.duration);
        inner.close();
    }
    object.close();
    out.push('\n');
}
