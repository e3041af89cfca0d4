//! Raw types of a group's `trigger` and `emit`.
//!
//! A trigger is a name, or a table of one setting that says what it is; `early` and `late` are the
//! two that go together.

use super::lists::List;
use super::quantity::{Period, Size};
use super::reader::Presence::{Default, Optional};
use super::reader::{FromNode, Given, Reader, Spanned};
use super::scalar::{Whole, raw_names, read_choice};
use super::table::raw_table;
use super::watermark::RawPercentile;
use crate::config::node::{Node, NodeValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Several triggers.
pub(crate) type Triggers = Spanned<List<RawTrigger>>;

/// A trigger, as one of the forms that it can have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawTrigger {
    /// One that takes nothing.
    Named(RawTriggerName),
    /// `early` and `late`, or one of them.
    Parts(Option<Box<RawTrigger>>, Option<Box<RawTrigger>>),
    /// `every`.
    Every(Period),
    /// `processing_time`.
    ProcessingTime(Period),
    /// `after_watermark_percentile`.
    Percentile(RawPercentile),
    /// `count`.
    Count(u64),
    /// `bytes`.
    Bytes(Size),
    /// `when`.
    When(Spanned<String>),
    /// `signal`.
    Signal(String),
    /// `all`.
    All(Triggers),
    /// `any`.
    Any(Triggers),
    /// `sequence`.
    Sequence(Triggers),
    /// `repeat`.
    Repeat(Box<RawTrigger>),
    /// `repeat_until`.
    RepeatUntil(Triggers),
    /// `or_finally`.
    OrFinally(Triggers),
    /// `once`.
    Once(Box<Spanned<RawTrigger>>),
}

raw_names! {
    /// A trigger that takes nothing.
    pub(crate) enum RawTriggerName ("trigger") {
        /// When the watermark passes the end of the window.
        AfterWatermark = "after_watermark",
        /// Never: everything comes when the window expires.
        Never = "never",
    }
}

raw_table! {
    /// A trigger: one of these settings, or `early` and `late` together.
    pub(crate) struct RawTriggerTable {
        /// Fires again and again before the window is complete; when it is complete, it fires anyway.
        early: RawTrigger = Optional,
        /// Fires again and again after the window was complete.
        late: RawTrigger = Optional,
        /// On the beat of the clock: at the next whole multiple of this period since the Unix epoch, once something has come.
        every: Period = Optional,
        /// This long on the clock after the first record that came.
        processing_time: Period = Optional,
        /// When a second watermark passes the end of the window: that of this many percent of the records, by how late the last ones of each source were; above 0, at most 100.
        after_watermark_percentile: RawPercentile = Optional,
        /// When this many records have come.
        count: Whole<1, { i64::MAX }> = Optional,
        /// When records of this size have come, as they are held in memory.
        bytes: Size = Optional,
        /// When this condition on the aggregates, in CEL, is true.
        when: String = Optional,
        /// When the signal of this name is given from outside.
        signal: String = Optional,
        /// When all of these are ready.
        all: List<RawTrigger> = Optional,
        /// When one of these is ready.
        any: List<RawTrigger> = Optional,
        /// Each of these in turn, until it finishes.
        sequence: List<RawTrigger> = Optional,
        /// Again and again.
        repeat: RawTrigger = Optional,
        /// Two triggers: the first again and again, until the second has fired.
        repeat_until: List<RawTrigger> = Optional,
        /// Two triggers: the first, until it finishes or the second has fired.
        or_finally: List<RawTrigger> = Optional,
        /// One firing only, where a simple trigger as the whole would repeat.
        once: RawTrigger = Optional,
    }
}

raw_table! {
    /// Which panes come beside those that bring something new, and what time panes carry.
    pub(crate) struct RawEmit {
        /// The pane of a window that has become complete: `when_new`, or `always`, even if nothing has come since the pane before.
        on_time: RawWhen = Default("\"when_new\""),
        /// The last pane of a window: `when_new`, or `always`.
        closing: RawWhen = Default("\"when_new\""),
        /// Event time of a pane: `end_of_window` (its last instant), or that of the `earliest` or the `latest` record new in it which came in time; the watermark for what reads the panes waits for it.
        timestamp: RawTimestamp = Default("\"end_of_window\""),
    }
}

raw_names! {
    /// Whether a pane without news comes.
    pub(crate) enum RawWhen ("condition on panes") {
        /// Only if something has come since the pane before.
        WhenNew = "when_new",
        /// In any case.
        Always = "always",
    }
}

raw_names! {
    /// What time panes carry.
    pub(crate) enum RawTimestamp ("timestamp of panes") {
        /// The last instant of the window.
        EndOfWindow = "end_of_window",
        /// That of the earliest record.
        Earliest = "earliest",
        /// That of the latest record.
        Latest = "latest",
    }
}

impl FromNode for RawTrigger {
    const EXPECTED: &'static str = "the name of a trigger or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(_) => read_choice(node, reader).map(Self::Named),
            NodeValue::Table(_) => read_table(node, reader),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

/// Reads a table, in which one setting, or `early` and `late`, must have been given.
fn read_table(node: &Node, reader: &mut Reader<'_>) -> Option<RawTrigger> {
    let entries = node.entries().unwrap_or_default();
    let is_part = |name: &str| matches!(name, "early" | "late");
    let is_whole = match entries {
        [] => {
            let message = format!("{} does not say when to emit", reader.here());
            let help = "for example { every = \"1m\" }, { count = 100 } or \
                        { early = { every = \"10s\" }, late = { count = 1 } }";
            reader.problems.add_with_help(node.place, message, help);
            false
        }
        [_] => true,
        [first, second] if is_part(&first.name) && is_part(&second.name) => true,
        [first, second, ..] => {
            let (here, first) = (reader.here(), &first.name);
            let message = format!("{here} is both `{first}` and `{}`", second.name);
            let help = "when one of several is ready: { any = [..., ...] }; when all are: \
                        { all = [..., ...] }";
            reader.problems.add_with_help(second.name_place, message, help);
            false
        }
    };
    let table = RawTriggerTable::from_node(node, reader)?;
    if is_whole { form(table) } else { None }
}

/// The form of a trigger of which one setting, or `early` and `late`, was given; `None` if it is
/// wrong or unknown, which has been reported.
fn form(raw: RawTriggerTable) -> Option<RawTrigger> {
    if let Given::Value(period) = raw.every {
        return Some(RawTrigger::Every(period.value));
    }
    if let Given::Value(delay) = raw.processing_time {
        return Some(RawTrigger::ProcessingTime(delay.value));
    }
    if let Given::Value(percentile) = raw.after_watermark_percentile {
        return Some(RawTrigger::Percentile(percentile.value));
    }
    if let Given::Value(count) = raw.count {
        return Some(RawTrigger::Count(count.value.count() as u64));
    }
    if let Given::Value(size) = raw.bytes {
        return Some(RawTrigger::Bytes(size.value));
    }
    if let Given::Value(condition) = raw.when {
        return Some(RawTrigger::When(condition));
    }
    if let Given::Value(name) = raw.signal {
        return Some(RawTrigger::Signal(name.value));
    }
    composed(raw)
}

fn composed(raw: RawTriggerTable) -> Option<RawTrigger> {
    let lists: [(_, fn(_) -> _); 5] = [
        (raw.all, RawTrigger::All),
        (raw.any, RawTrigger::Any),
        (raw.sequence, RawTrigger::Sequence),
        (raw.repeat_until, RawTrigger::RepeatUntil),
        (raw.or_finally, RawTrigger::OrFinally),
    ];
    for (given, make) in lists {
        if let Given::Value(list) = given {
            return Some(make(list));
        }
    }
    if let Given::Value(inner) = raw.repeat {
        return Some(RawTrigger::Repeat(Box::new(inner.value)));
    }
    if let Given::Value(inner) = raw.once {
        return Some(RawTrigger::Once(Box::new(inner)));
    }
    let part = |given: Given<RawTrigger>| match given {
        Given::Absent => Some(None),
        Given::Wrong => None,
        Given::Value(inner) => Some(Some(Box::new(inner.value))),
    };
    match (part(raw.early)?, part(raw.late)?) {
        (None, None) => None,
        (early, late) => Some(RawTrigger::Parts(early, late)),
    }
}

impl JsonSchema for RawTrigger {
    fn schema_name() -> Cow<'static, str> {
        "Trigger".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<RawTriggerName>();
        json_schema!({ "anyOf": [name, generator.subschema_for::<RawTriggerTable>()] })
    }
}
