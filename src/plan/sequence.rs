//! A sequence in the plan: its chain, what ends a session, and what a session says.

use nilometer_model::plan::Stage;
use nilometer_model::sequence::record_fields;
use nilometer_model::sequence::spec::{
    Begins, OutputTime, OverflowPolicy, Regress, Release, SequenceSpec, StepSpec, Which,
};
use nilometer_model::time::Span;
use nilometer_model::window::display_span;
use serde::Serialize;

/// How a stage judges records as a chain of steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SequenceDocument {
    /// The steps, in their order.
    pub steps: Vec<StepDocument>,
    /// Steps outside the chain that end a session.
    pub ends: Vec<String>,
    /// When records are let into the chain.
    pub release: &'static str,
    /// The length of time that it takes, if it takes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_ms: Option<i64>,
    /// How long a session goes on without a record.
    pub idle_timeout_ms: i64,
    /// The same by the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_processing_ms: Option<i64>,
    /// How long a session may last.
    pub max_session_duration_ms: i64,
    /// How many records a session may have.
    pub max_events_per_session: u32,
    /// Whether a session ends when its chain is complete.
    pub close_on_success: bool,
    /// `roam` or `restart`.
    pub regress: &'static str,
    /// `first` or `close`.
    pub output_time: &'static str,
    /// Most sessions kept at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<u64>,
    /// Most bytes that they may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// What happens beyond.
    pub on_overflow: &'static str,
    /// Fields that a session takes over.
    pub carry: Vec<String>,
    /// What groups can read of a session, beside its key.
    pub fields: Vec<String>,
}

/// A step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepDocument {
    /// Its name.
    pub name: String,
    /// Whether the chain is complete without it.
    pub optional: bool,
    /// Whether it may come again.
    pub repeatable: bool,
    /// What its records begin.
    pub begins: &'static str,
    /// Statuses that begin an attempt.
    pub start: Vec<String>,
    /// Statuses of success.
    pub success: Vec<String>,
    /// Statuses of failure.
    pub failure: Vec<String>,
    /// After how long without a result it is stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_timeout_ms: Option<i64>,
    /// Longer than this is slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_after_ms: Option<i64>,
}

fn texts(texts: &[Box<str>]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

impl StepDocument {
    fn new(step: &StepSpec) -> Self {
        Self {
            name: step.name.to_string(),
            optional: step.optional,
            repeatable: step.repeatable,
            begins: match step.begins {
                Begins::Anew => "anew",
                Begins::First => "first",
                Begins::Never => "never",
            },
            start: texts(&step.start),
            success: texts(&step.success),
            failure: texts(&step.failure),
            step_timeout_ms: step.step_timeout.map(Span::as_millis),
            slow_after_ms: step.slow_after.map(Span::as_millis),
        }
    }
}

impl SequenceDocument {
    /// How `stage` judges records, if it is a sequence.
    pub fn new(stage: &Stage) -> Option<Self> {
        let spec: &SequenceSpec = &stage.sequence.as_ref()?.spec;
        let (release, release_ms) = match spec.release {
            Release::Watermark => ("watermark", None),
            Release::WatermarkPlus(delay) => ("watermark_plus", Some(delay.as_millis())),
            Release::BoundedWait(wait) => ("bounded_wait", Some(wait.as_millis())),
            Release::Eager => ("eager", None),
            Release::OnTerminal => ("on_terminal", None),
        };
        let carry = spec.carried.iter().map(|carried| {
            let which = match carried.which {
                Which::First => "first",
                Which::Last => "last",
            };
            format!("{which} {}", carried.field)
        });
        Some(Self {
            steps: spec.steps.iter().map(StepDocument::new).collect(),
            ends: texts(&spec.ends),
            release,
            release_ms,
            idle_timeout_ms: spec.idle_timeout.as_millis(),
            idle_timeout_processing_ms: spec.idle_timeout_processing.map(Span::as_millis),
            max_session_duration_ms: spec.max_session_duration.as_millis(),
            max_events_per_session: spec.max_events_per_session,
            close_on_success: spec.close_on_success,
            regress: match spec.regress {
                Regress::Roam => "roam",
                Regress::Restart => "restart",
                Regress::Session => "session",
            },
            output_time: match spec.output_time {
                OutputTime::First => "first",
                OutputTime::Close => "close",
            },
            max_sessions: spec.bounds.sessions,
            max_bytes: spec.bounds.bytes,
            on_overflow: match spec.bounds.policy {
                OverflowPolicy::EmitEarlyOldest => "emit_early_oldest",
                OverflowPolicy::DropNewest => "drop_newest",
                OverflowPolicy::PauseSource => "pause_source",
                OverflowPolicy::Fail => "fail",
            },
            carry: carry.collect(),
            fields: record_fields(spec).into_iter().map(|(_, name)| name.into()).collect(),
        })
    }

    /// The same for people, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let span = |millis| display_span(Span::from_millis(millis));
        let steps = self.steps.iter().map(|step| {
            let how = match (step.optional, step.repeatable) {
                (false, false) => return step.name.clone(),
                (true, false) => "optional",
                (false, true) => "repeatable",
                (true, true) => "optional, repeatable",
            };
            format!("{} ({how})", step.name)
        });
        let release = match self.release_ms {
            Some(millis) => format!("{} {}", self.release, span(millis)),
            None => self.release.to_owned(),
        };
        let mut lines =
            vec![format!("chain  {}; release {release}", steps.collect::<Vec<_>>().join(" > "))];
        let mut ends = Vec::new();
        if !self.ends.is_empty() {
            ends.push(self.ends.join(", "));
        }
        if self.close_on_success {
            ends.push("success".to_owned());
        }
        let by_clock = self
            .idle_timeout_processing_ms
            .map(|millis| format!(" ({} by the clock)", span(millis)));
        ends.push(format!(
            "{} without a record{}",
            span(self.idle_timeout_ms),
            by_clock.unwrap_or_default()
        ));
        ends.push(span(self.max_session_duration_ms));
        ends.push(format!("{} records", self.max_events_per_session));
        lines.push(format!("ends   with {}", ends.join("; ")));
        if !self.carry.is_empty() {
            lines.push(format!("carry  {}", self.carry.join(", ")));
        }
        lines
    }
}
