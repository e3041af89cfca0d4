//! What the user declares of a sequence: the chain of steps, when records are let into it, and when
//! a session ends.
//!
//! Facts only; `super::rules` binds them to the slots of rows.

use crate::time::Span;

/// A sequence: the records of a key, cut into sessions and judged as a chain of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceSpec {
    /// Text field that names the step of a record.
    pub step: Box<str>,
    /// Text field that says how the step stands; without it a step has succeeded once its record
    /// comes.
    pub status: Option<Box<str>>,
    /// Field that says why: a text, or a whole number of at most 32 bits.
    pub reason: Option<Box<str>>,
    /// Field that is equal in two copies of one record, and in no others; without it records of the
    /// same step, event time and status are copies.
    pub id: Option<Box<str>>,
    /// The chain, in its order; at least one step, at most [`STEPS_MAX`].
    pub steps: Vec<StepSpec>,
    /// Steps outside the chain that end a session.
    pub ends: Vec<Box<str>>,
    /// Fields that a session takes over from its records, at most [`CARRIED_MAX`]: texts, truth
    /// values, or whole numbers of at most 32 bits.
    pub carried: Vec<Carried>,
    /// When records are let into the chain.
    pub release: Release,
    /// How long a session goes on without a record, in event time; at least 1 ms.
    pub idle_timeout: Span,
    /// The same by the clock, for a watermark that stands still; `None` waits for the watermark.
    pub idle_timeout_processing: Option<Span>,
    /// How long a session may last, in event time; at least 1 ms.
    pub max_session_duration: Span,
    /// How many records a session may have, at least 1.
    pub max_events_per_session: u32,
    /// Whether a session ends when its chain is complete.
    pub close_on_success: bool,
    /// What going back to an earlier step means.
    pub regress: Regress,
    /// Which time a session counts at in the groups that read it.
    pub output_time: OutputTime,
    /// How much may be kept at once.
    pub bounds: Bounds,
}

/// Most steps of a chain.
pub const STEPS_MAX: usize = 20;

/// Most steps that end a session.
pub const ENDS_MAX: usize = 32;

/// Most fields that a session takes over.
pub const CARRIED_MAX: usize = 4;

/// One step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepSpec {
    /// Its name: what the step field says, and how fields of the session begin.
    pub name: Box<str>,
    /// Whether the chain is complete without it.
    pub optional: bool,
    /// Whether it may come again, also after later steps, without beginning the chain anew.
    pub repeatable: bool,
    /// What it may begin.
    pub begins: Begins,
    /// Statuses that begin an attempt; without any, only what follows a failure begins another.
    pub start: Vec<Box<str>>,
    /// Statuses that say that it went well; at least one where statuses are read, else none.
    pub success: Vec<Box<str>>,
    /// Statuses that say that it did not.
    pub failure: Vec<Box<str>>,
    /// After how long without a result it is stuck, and not just left; `None`: at once.
    pub step_timeout: Option<Span>,
    /// Longer than this is slow.
    pub slow_after: Option<Span>,
}

/// What a record of a step may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begins {
    /// The chain: as its first record, and anew once later steps have come.
    #[default]
    Anew,
    /// The chain as its first record, but never anew.
    First,
    /// Nothing: it only follows, and with no record before it that begins the chain it says nothing.
    Never,
}

/// A field that a session takes over from its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The field, and its name in the session.
    pub field: Box<str>,
    /// From which of the records that have it.
    pub which: Which,
}

/// Which of several values, in the order of event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The last.
    Last,
}

/// When records are let into the chain, and what is told of a session that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// When the watermark has passed them: nothing can come before them any more.
    Watermark,
    /// When the watermark is so much further.
    WatermarkPlus(Span),
    /// As `Watermark`, but after so long by the clock in any case.
    BoundedWait(Span),
    /// As `Watermark`; what has come so far is told at once, and again when it changes.
    Eager,
    /// As `Eager`, once the chain is complete.
    OnTerminal,
}

/// What going back to an earlier step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regress {
    /// Once the chain was complete, the client moves: what was reached stays reached. Before, the
    /// chain begins anew.
    Roam,
    /// The chain begins anew.
    Restart,
    /// Another session begins.
    Session,
}

/// Which time a session counts at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputTime {
    /// That of its first record, as it was told first.
    First,
    /// That at which it was closed.
    Close,
}

/// How much a stage keeps at once, over all its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Keys with a session, open or kept for late records.
    pub sessions: Option<u64>,
    /// Bytes of state, about.
    pub bytes: Option<u64>,
    /// What happens beyond.
    pub policy: OverflowPolicy,
}

/// What happens when there is no room for another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The session without a record for the longest time is closed.
    EmitEarlyOldest,
    /// Records that would begin a session are dropped, and counted.
    DropNewest,
    /// Sources wait until there is room.
    PauseSource,
    /// The run fails.
    Fail,
}

impl Release {
    /// How far behind the watermark records are let in.
    pub(crate) const fn delay(self) -> Span {
        match self {
            Self::WatermarkPlus(delay) => delay,
            Self::Watermark | Self::BoundedWait(_) | Self::Eager | Self::OnTerminal => Span::ZERO,
        }
    }

    /// Whether something is told of sessions that go on.
    pub(crate) const fn is_early(self) -> bool {
        match self {
            Self::Eager | Self::OnTerminal => true,
            Self::Watermark | Self::WatermarkPlus(_) | Self::BoundedWait(_) => false,
        }
    }
}

impl Bounds {
    /// Whether sources may have to wait for room.
    pub(crate) fn may_pause(&self) -> bool {
        let is_bounded = self.sessions.or(self.bytes).is_some();
        is_bounded && self.policy == OverflowPolicy::PauseSource
    }
}

impl SequenceSpec {
    /// The names of the fields of records that it reads, each once.
    pub fn fields(&self) -> Vec<&str> {
        let optional = [&self.status, &self.reason, &self.id];
        let mut names: Vec<&str> = vec![&self.step];
        names.extend(optional.into_iter().flatten().map(|name| &**name));
        names.extend(self.carried.iter().map(|carried| &*carried.field));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether it takes the chain to say where sessions end.
    pub(crate) fn is_cut_by_chain(&self) -> bool {
        self.close_on_success || self.regress == Regress::Session
    }

    /// How long after the time that it counts at a session may still be corrected, as far as the
    /// watermark can have come by then.
    pub fn corrected_within(&self, allowed_lateness: Span) -> Span {
        match self.output_time {
            OutputTime::First => self.max_session_duration.saturating_add(allowed_lateness),
            OutputTime::Close => allowed_lateness,
        }
    }
}
