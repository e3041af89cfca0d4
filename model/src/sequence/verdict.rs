//! What the records of a session say: how it came out and how it was closed, and how each step stands.
//!
//! Facts only; `super::machine` makes them. The lists of names are public, and so is their order.

use super::entry::Entry;
use super::spec::{CARRIED_MAX, StepSpec};
use crate::time::{EventTime, Span};

/// How a session came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every step that must be there has succeeded, in order.
    Connected,
    /// A step has failed, and did not succeed afterwards.
    Failed,
    /// A step got no result, or was left out by the later ones.
    Stuck,
    /// The client went away.
    Abandoned,
    /// The first step was not seen.
    IncompleteStart,
    /// The session was closed for want of memory.
    Overflow,
    /// It goes on.
    InProgress,
}

impl Outcome {
    /// Every outcome, in the order of their numbers.
    pub(crate) const ALL: [Self; 7] = [
        Self::Connected,
        Self::Failed,
        Self::Stuck,
        Self::Abandoned,
        Self::IncompleteStart,
        Self::Overflow,
        Self::InProgress,
    ];

    /// The name in output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::Stuck => "stuck",
            Self::Abandoned => "abandoned",
            Self::IncompleteStart => "incomplete_start",
            Self::Overflow => "overflow",
            Self::InProgress => "in_progress",
        }
    }
}

/// Why a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Cause {
    /// A record that ends it, or success where that does.
    Terminal,
    /// Nothing came for too long.
    Idle,
    /// It lasted too long.
    MaxAge,
    /// It has too many records.
    MaxEvents,
    /// There was no room.
    Memory,
    /// The chain began anew, in a session of its own.
    Restart,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub(crate) const ALL: [Self; 6] =
        [Self::Terminal, Self::Idle, Self::MaxAge, Self::MaxEvents, Self::Memory, Self::Restart];

    /// The name in output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Idle => "idle",
            Self::MaxAge => "max_age",
            Self::MaxEvents => "max_events",
            Self::Memory => "memory",
            Self::Restart => "restart",
        }
    }
}

/// How and when a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Closing {
    pub(crate) cause: Cause,
    /// At which instant of event time.
    pub(crate) at: EventTime,
}

/// How a step of a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    /// Nothing came of it.
    #[default]
    Unseen,
    /// There is no result yet.
    Open,
    /// It went well.
    Succeeded,
    /// It did not.
    Failed,
}

impl Standing {
    /// The name in output; `None` where nothing came.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Unseen => None,
            Self::Open => Some("open"),
            Self::Succeeded => Some("success"),
            Self::Failed => Some("failure"),
        }
    }
}

/// What a session says of one step: of the last attempt group of the chain; the number of attempts
/// is that of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepVerdict {
    pub(crate) standing: Standing,
    /// When the first attempt of the group began.
    pub(crate) start: Option<EventTime>,
    /// When its result came.
    pub(crate) end: Option<EventTime>,
    /// When the last attempt began.
    pub(super) attempt: Option<EventTime>,
    pub(crate) attempts: u32,
    pub(crate) status: Option<u32>,
    pub(crate) reason: Option<u32>,
}

impl StepVerdict {
    /// From the start to the result.
    pub(crate) fn duration(&self) -> Option<Span> {
        Some(self.end?.since(self.start?))
    }

    /// Whether it took longer than it should; `None` if there is nothing to say.
    pub(crate) fn is_slow(&self, step: &StepSpec) -> Option<bool> {
        Some(self.duration()? > step.slow_after?)
    }
}

/// What the records of a session say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// The step that failed, is stuck, or was the last before the client went away.
    pub(crate) step: Option<usize>,
    /// Why the step failed.
    pub(crate) reason: Option<u32>,
    pub(crate) first: EventTime,
    pub(crate) last: EventTime,
    pub(crate) connected: Option<EventTime>,
    /// When the first step began of what led to the connection.
    pub(crate) begun: Option<EventTime>,
    pub(crate) steps: Vec<StepVerdict>,
    pub(crate) restarts: u32,
    pub(crate) roams: u32,
    pub(crate) roam_failures: u32,
    pub(crate) carried: [Option<u32>; CARRIED_MAX],
    pub(crate) closing: Option<Closing>,
}

/// Numbers of the records of a session: not part of the verdict, since what changes nothing else is
/// not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) records: u32,
    pub(crate) out_of_order: u32,
    pub(crate) late: u32,
    pub(crate) copies: u32,
}

impl Counts {
    /// Of these records.
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        entries.fold(Self::default(), |counts, entry| Self {
            records: counts.records.saturating_add(1),
            out_of_order: counts.out_of_order + u32::from(entry.marks.is_out_of_order()),
            late: counts.late + u32::from(entry.marks.is_late()),
            copies: counts.copies.saturating_add(entry.marks.copies()),
        })
    }
}
