//! Raw types of `[[group]]` and `[defaults]`.

use super::aggregate::RawAggregate;
use super::lists::{List, Names};
use super::quantity::Length;
use super::reader::Presence::{Default, Optional, Required, RequiredOrInherited};
use super::scalar::{Whole, raw_names};
use super::table::raw_table;
use super::text_or_table::RawColumn;
use super::trigger::{RawEmit, RawTrigger};
use super::window::RawWindow;

raw_table! {
    /// What every group takes over unless it says otherwise.
    pub(crate) struct RawDefaults {
        /// Window of the groups.
        window: RawWindow = Optional,
        /// When a group emits.
        trigger: RawTrigger = Optional,
        /// Whether a trigger may finish.
        allow_closing: bool = Optional,
        /// Completes the `emit` of groups.
        emit: RawEmit = Optional,
        /// How long state is kept after a window is complete.
        allowed_lateness: Length = Optional,
        /// What sinks see.
        mode: RawMode = Optional,
        /// Aggregates that every group of records has, before its own.
        aggregates: Names<RawAggregate> = Optional,
        /// Completes the `top_k` of groups that have one.
        top_k: RawTopKDefaults = Optional,
        /// Names of the sinks.
        sinks: List<String> = Optional,
        /// Where copies go that come late.
        late: RawLate = Optional,
    }
}

raw_table! {
    /// A grouping.
    pub(crate) struct RawGroup {
        /// Name of the stage and its panes, unique.
        name: String = Required,
        /// Name of a group whose results are read in place of records, as they change. All other names of this group are then key columns and aggregates of that one, `window_start`, `window_end` and `window_length` (ms), and fields that `derive` makes of these.
        of: String = Optional,
        /// Fields computed from the results, in CEL, in this order: each may use those above it. Goes with `of`.
        derive: Names<String> = Optional,
        /// Condition on the results, in CEL: only those for which it is true are counted. Goes with `of`.
        filter: String = Optional,
        /// What records are grouped by: names of fields, or columns with a name that take each of several fields. Empty: one group.
        key: List<RawColumn> = Required,
        /// `"global"`, or a table: `{ fixed = length }`, `{ sliding = length, every = period }`, `{ session = gap }` or `{ calendar = unit }`.
        window: RawWindow = RequiredOrInherited,
        /// When the group emits: `"after_watermark"`, `"never"`, or a table: `{ early = ..., late = ... }`, `{ every = period }`, `{ count = number }` and others.
        trigger: RawTrigger = Default("\"after_watermark\""),
        /// Whether the trigger may finish: it then closes the window, and records that come later are dropped, and counted as closed.
        allow_closing: bool = Default("false"),
        /// Which panes come beside those that bring something new, and what time they carry.
        emit: RawEmit = Default("{}"),
        /// How long state is kept after a window is complete; records that come later are dropped, and counted.
        allowed_lateness: Length = Default("\"0s\""),
        /// What sinks see: `discarding` (what came since the pane before), `accumulating` (the total so far) or `retracting` (minus the old total, plus the new one).
        mode: RawMode = Default("\"accumulating\""),
        /// Aggregates by name: `"function(field)"`, or a table.
        aggregates: Names<RawAggregate> = RequiredOrInherited,
        /// Emit only the largest entries of each parent key.
        top_k: RawTopK = Optional,
        /// Names of the sinks; by default every sink that takes panes. Empty: only other groups read it.
        sinks: List<String> = Optional,
        /// Where copies of records go that come too late to count, or late.
        late: RawLate = Optional,
    }
}

raw_table! {
    /// An output for copies of records that come late.
    pub(crate) struct RawLate {
        /// Name of a sink with `format = "late"`: it takes copies that were dropped because their window had expired or was closed.
        sink: String = Required,
        /// Whether it takes copies that came late and still counted, too.
        include_late: bool = Default("false"),
    }
}

raw_names! {
    /// What sinks see.
    pub(crate) enum RawMode ("mode") {
        /// What came since the pane before.
        Discarding = "discarding",
        /// The total so far.
        Accumulating = "accumulating",
        /// Minus the old total, plus the new one.
        Retracting = "retracting",
    }
}

raw_table! {
    /// A key column that takes each of several fields: a record counts once for each.
    pub(crate) struct RawColumnTable {
        /// Name in output.
        name: String = Required,
        /// The fields.
        each: List<String> = Required,
    }
}

raw_table! {
    /// Which entries of a group are emitted.
    pub(crate) struct RawTopK {
        /// How many entries per parent key and window, at least 1.
        k: Whole<1, 1_000_000> = Default("10"),
        /// Key columns that make up an entry; the others are the parent key.
        entity: List<String> = RequiredOrInherited,
        /// Aggregates whose sum ranks the entries.
        rank: List<String> = RequiredOrInherited,
        /// Key columns that an entry must have a value in to be listed.
        require: List<String> = Default("[]"),
        /// Whether an entry `__other` carries what is not listed.
        other: bool = Default("false"),
        /// Which of the entries of equal rank come first: those with the smaller key (`ascending`) or with the larger one (`descending`).
        ties: RawTies = Default("\"ascending\""),
    }
}

raw_table! {
    /// What completes the `top_k` of groups.
    pub(crate) struct RawTopKDefaults {
        /// How many entries per parent key and window, at least 1.
        k: Whole<1, 1_000_000> = Optional,
        /// Key columns that make up an entry.
        entity: List<String> = Optional,
        /// Aggregates whose sum ranks the entries.
        rank: List<String> = Optional,
        /// Key columns that an entry must have a value in to be listed.
        require: List<String> = Optional,
        /// Whether an entry `__other` carries what is not listed.
        other: bool = Optional,
        /// Which of the entries of equal rank come first.
        ties: RawTies = Optional,
    }
}

raw_names! {
    /// Which of the entries of equal rank come first.
    pub(crate) enum RawTies ("tie order") {
        /// The smaller key.
        Ascending = "ascending",
        /// The larger key.
        Descending = "descending",
    }
}
