//! What a state holds of a key, for people: names, values and times, and no number that only this
//! program knows.

use crate::pane::Timing;
use crate::time::{EventTime, Window};
use crate::trigger::TriggerState;
use crate::value::Value;

/// Values with their names, in order.
pub type Named = Vec<(Box<str>, Value)>;

/// What the state holds of one key; of one key and window, where each is kept by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryView {
    /// The key; for a list that which its entries share.
    pub key: Named,
    /// Windows, or slices of windows.
    pub windows: Vec<WindowView>,
    /// Of a sequence: its sessions.
    pub sessions: Vec<SessionView>,
}

/// What the state holds of one window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowView {
    /// Its bounds; of a slice only the start counts.
    pub window: Window,
    /// Whether it is a slice of several windows.
    pub is_slice: bool,
    /// Number of its next pane.
    pub index: u32,
    /// Timing of the pane before, if there was one.
    pub sent: Option<Timing>,
    /// What came up to the pane before, where that is kept.
    pub total: Option<Named>,
    /// What came since.
    pub news: Option<Named>,
    /// What its trigger remembers, where that is not the default one.
    pub trigger: Option<TriggerState>,
    /// Of a list: all that may be listed, what is listed first.
    pub listed: Vec<ListedView>,
}

/// Something that may be listed.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedView {
    /// Its place in the list as it was sent last, from 1; `None` if it was not in it.
    pub place: Option<u32>,
    /// Its key.
    pub key: Named,
    /// Its total.
    pub total: Named,
}

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// Why and at which time it was closed; `None` for records that are still open.
    pub closed: Option<(&'static str, EventTime)>,
    /// What was told of it: its number, and how often it was told before.
    pub told: Option<(u64, u32)>,
    /// When it was told, if it is closed.
    pub timing: Option<Timing>,
    /// Its records, in order.
    pub records: Vec<RecordView>,
}

/// A record of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordView {
    /// Event time.
    pub time: EventTime,
    /// Its partition, and its number in it.
    pub place: (u32, u64),
    /// The step.
    pub step: Box<str>,
    /// The status.
    pub status: Value,
    /// The reason.
    pub reason: Value,
    /// What the session takes over from it.
    pub carried: Vec<Value>,
    /// Whether it came late.
    pub is_late: bool,
    /// Whether what was last told of its session counts it.
    pub is_told: bool,
    /// Copies of it that came.
    pub copies: u32,
}

impl WindowView {
    /// One that holds nothing.
    pub(super) const fn new(window: Window) -> Self {
        Self {
            window,
            is_slice: false,
            index: 0,
            sent: None,
            total: None,
            news: None,
            trigger: None,
            listed: Vec::new(),
        }
    }
}
