//! Window functions that the user writes.
//!
//! A custom function sees a record's event time and the fields that it asks for, and, if its
//! windows merge, all windows of a key at once. `docs/custom.md` has an example. The machine holds
//! it to the rules of all windows: a record whose coming would turn an open window into one that has
//! expired is refused and counted; nothing is lost by it.

use crate::time::{EventTime, Window};
use crate::value::Value;
use std::fmt;

/// A window function that the user writes.
///
/// It must be a pure function of its arguments. Where windows merge, the outcome should not depend
/// on the order in which records come; nothing can check that.
pub trait CustomWindow: fmt::Debug + Send + Sync {
    /// The name in plans and logs; functions of one name are taken for the same.
    fn name(&self) -> &str;

    /// Names of the fields that [`CustomWindow::assign`] looks at.
    fn fields(&self) -> &[&str] {
        &[]
    }

    /// Appends the windows of a record at `time`, whose `values` are those of the fields, in their
    /// order. None at all is allowed: the record is then counted as in no window.
    fn assign(&self, time: EventTime, values: &[Value], windows: &mut Vec<Window>);

    /// Whether [`CustomWindow::merge`] may change windows.
    fn is_merging(&self) -> bool {
        false
    }

    /// Turns each of a key's windows into the one that it becomes; those that become equal are then
    /// one. Called whenever a record comes, with the windows that are open and the record's own, in
    /// the order of their starts, no two equal.
    fn merge(&self, windows: &mut [Window]) {
        let _ = windows;
    }

    /// The event time that a record at `time` counts with in `window`, for panes that carry the
    /// earliest such time ([`crate::pane::TimestampCombiner::EarliestTransformed`]).
    fn output_time(&self, time: EventTime, window: Window) -> EventTime {
        let _ = window;
        time
    }
}

/// A custom window function as part of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Custom(pub &'static dyn CustomWindow);

impl Custom {
    /// The windows of a record; see [`CustomWindow::assign`].
    pub(crate) fn windows(self, time: EventTime, values: &[Value]) -> Vec<Window> {
        let mut windows = Vec::new();
        self.0.assign(time, values, &mut windows);
        windows
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for Custom {}

impl fmt::Display for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../docs/custom.md")]
struct Page;
