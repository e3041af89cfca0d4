//! Raw types of a group's `window`.
//!
//! A window is `"global"`, or a table in which one setting, named after its kind, says how long it
//! is; that setting decides which others there are.

use super::quantity::{Limit, Period, Shift};
use super::reader::Presence::{Default, Optional, Required};
use super::reader::{FromNode, Reader};
use super::scalar::raw_names;
use super::table::raw_table;
use crate::config::node::{Node, NodeValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// A window of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawWindow {
    /// One window for all of time.
    Global,
    /// Windows of one length side by side.
    Fixed(RawFixed),
    /// Windows of one length that overlap.
    Sliding(RawSliding),
    /// Bursts of records.
    Session(RawSession),
    /// Days, weeks, months or years.
    Calendar(RawCalendar),
}

raw_table! {
    /// Windows of one length side by side.
    pub(crate) struct RawFixed {
        /// Length of a window.
        fixed: Period = Required,
        /// Where a window begins, counted from the Unix epoch; may be negative.
        offset: Shift = Default("\"0s\""),
        /// `aligned` for every key, or shifted `by_key` so that not all windows end at once.
        phase: RawPhase = Default("\"aligned\""),
    }
}

raw_names! {
    /// Where windows begin.
    pub(crate) enum RawPhase ("phase") {
        /// At the same times for every key.
        Aligned = "aligned",
        /// Shifted by a hash of the key.
        ByKey = "by_key",
    }
}

raw_table! {
    /// Windows of one length that start one period apart: each record is in all that hold its time.
    pub(crate) struct RawSliding {
        /// Length of a window.
        sliding: Period = Required,
        /// From the start of one window to that of the next. Longer than a window: records between two windows are in none, and counted.
        every: Period = Required,
        /// Where a window begins, counted from the Unix epoch; may be negative.
        offset: Shift = Default("\"0s\""),
    }
}

raw_table! {
    /// Bursts of records of one key: a window ends when no record has come for a gap of event time.
    pub(crate) struct RawSession {
        /// The gap that ends a session.
        session: Period = Required,
        /// Field with the gap of each record, a whole number of milliseconds; where it has no value, or less than 1, `session` is taken.
        gap_field: String = Optional,
        /// Sessions are cut at multiples of this since the Unix epoch, so that none is longer; or `"off"`.
        max_duration: Limit = Default("\"off\""),
        /// Whether records exactly a gap apart are of one session (`merge`) or of two (`separate`).
        touching: RawTouching = Default("\"merge\""),
    }
}

raw_names! {
    /// What becomes of sessions exactly a gap apart.
    pub(crate) enum RawTouching ("treatment of touching sessions") {
        /// They are one.
        Merge = "merge",
        /// They are two.
        Separate = "separate",
    }
}

raw_table! {
    /// Windows of the calendar, as long as it says: days of 23 and 25 hours included.
    pub(crate) struct RawCalendar {
        /// `day`, `week`, `month` or `year`.
        calendar: RawUnit = Required,
        /// Time zone, by its name in the IANA database: it says when a day begins.
        time_zone: String = Default("\"UTC\""),
        /// Day that a `week` begins with.
        week_start: RawWeekday = Default("\"monday\""),
    }
}

raw_names! {
    /// A length of calendar time.
    pub(crate) enum RawUnit ("calendar window") {
        /// From midnight to midnight.
        Day = "day",
        /// Seven days.
        Week = "week",
        /// From the first of a month to the first of the next.
        Month = "month",
        /// From the first of January to the next.
        Year = "year",
    }
}

raw_names! {
    /// A day of the week.
    pub(crate) enum RawWeekday ("day of the week") {
        /// Monday.
        Monday = "monday",
        /// Tuesday.
        Tuesday = "tuesday",
        /// Wednesday.
        Wednesday = "wednesday",
        /// Thursday.
        Thursday = "thursday",
        /// Friday.
        Friday = "friday",
        /// Saturday.
        Saturday = "saturday",
        /// Sunday.
        Sunday = "sunday",
    }
}

/// The settings that say the kind of a window.
const KINDS: [&str; 4] = ["fixed", "sliding", "session", "calendar"];
const FORMS: &str = "write \"global\", { fixed = \"60s\" }, { sliding = \"60s\", every = \"10s\" }, \
                     { session = \"10m\" } or { calendar = \"day\" }";

impl FromNode for RawWindow {
    const EXPECTED: &'static str = "\"global\" or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) if text == "global" => Some(Self::Global),
            NodeValue::Text(text) => {
                let message = format!("{}: there is no window `{text}`", reader.here());
                reader.problems.add_with_help(node.place, message, FORMS);
                None
            }
            NodeValue::Table(_) => read_table(node, reader),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

fn read_table(node: &Node, reader: &mut Reader<'_>) -> Option<RawWindow> {
    let entries = node.entries().unwrap_or_default();
    let mut kinds = entries.iter().filter(|entry| KINDS.contains(&&*entry.name));
    let Some(kind) = kinds.next() else {
        let message = format!("{} does not say what windows there are", reader.here());
        reader.problems.add_with_help(node.place, message, FORMS);
        return None;
    };
    if let Some(second) = kinds.next() {
        let message = format!("{} is both `{}` and `{}`", reader.here(), kind.name, second.name);
        reader.problems.add_with_help(second.name_place, message, "leave one of them out");
        return None;
    }
    match kind.name.as_str() {
        "fixed" => RawFixed::from_node(node, reader).map(RawWindow::Fixed),
        "sliding" => RawSliding::from_node(node, reader).map(RawWindow::Sliding),
        "session" => RawSession::from_node(node, reader).map(RawWindow::Session),
        _ => RawCalendar::from_node(node, reader).map(RawWindow::Calendar),
    }
}

impl JsonSchema for RawWindow {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Window".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "const": "global" },
            generator.subschema_for::<RawFixed>(),
            generator.subschema_for::<RawSliding>(),
            generator.subschema_for::<RawSession>(),
            generator.subschema_for::<RawCalendar>(),
        ] })
    }
}
