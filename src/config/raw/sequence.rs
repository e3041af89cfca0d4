//! Raw types of `[[sequence]]`.

use super::group::RawLate;
use super::lists::{List, Names, Tables};
use super::quantity::{Length, Limit, Period, Size};
use super::reader::Presence::{Default, Optional, Required};
use super::reader::{FromNode, Reader};
use super::scalar::{Whole, raw_names, read_choice};
use super::table::raw_table;
use crate::config::node::{Node, NodeValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

raw_table! {
    /// A sequence: the records of each key in the order of event time, cut into sessions, each judged as a chain of steps.
    pub(crate) struct RawSequence {
        /// Name of the stage and its sessions, unique among groups and sequences. A group reads the sessions with `of`.
        name: String = Required,
        /// Fields that say whose session a record belongs to.
        key: List<String> = Required,
        /// Text field that names the step of a record.
        step: String = Default("\"step\""),
        /// Text field that says how the step stands. Without it steps name no statuses, and a step has succeeded once its record comes.
        status: String = Optional,
        /// Field that says why: a text, or a whole number of at most 32 bits without a sign.
        reason: String = Optional,
        /// Field that is equal in copies of one record, and in no others. Without it, records of the same step, event time and status are copies.
        id: String = Optional,
        /// The steps of the chain, in their order; 1 to 20.
        steps: Tables<RawStep> = Required,
        /// Names of steps outside the chain that end a session.
        ends: List<String> = Default("[]"),
        /// Fields that a session takes over from the `first` or the `last` of its records that has them: texts, truth values, or whole numbers of at most 32 bits without a sign; at most 4.
        carry: Names<RawWhich> = Default("{}"),
        /// When records are let into the chain: `"watermark"` (nothing can come before them any more), `{ watermark_plus = span }` (so much later), `{ bounded_wait = span }` (after so long by the clock in any case); `"eager"` and `"on_terminal"` tell of sessions that go on, at once or once their chain is complete, and correct that.
        release: RawRelease = Default("\"watermark\""),
        /// How long a session goes on without a record, in event time.
        idle_timeout: Period = Default("\"3m\""),
        /// The same by the clock, for a watermark that stands still, or `"off"`; by default twice `idle_timeout`.
        idle_timeout_processing: Limit = Optional,
        /// How long a session may last, in event time.
        max_session_duration: Period = Default("\"1h\""),
        /// How many records a session may have, 1 to 1000000.
        max_events_per_session: Whole<1, 1_000_000> = Default("1000"),
        /// Whether a session ends when its chain is complete.
        close_on_success: bool = Default("false"),
        /// What going back to an earlier step means: a `roam`, which takes nothing back, once the chain was complete, and else a `restart` of the chain; a `restart` always; or the beginning of another `session`.
        regress: RawRegress = Default("\"roam\""),
        /// How late a record may be and still correct what was told; records that come later are dropped, and counted.
        allowed_lateness: Length = Default("\"0s\""),
        /// The time at which a session counts in the groups that read it: that of its `first` record, or of its `close`.
        output_time: RawOutputTime = Default("\"first\""),
        /// Most sessions kept at once, over all shards, open ones and closed ones that may still be corrected; 1 to 1000000000.
        max_sessions: Whole<1, 1_000_000_000> = Default("10000000"),
        /// Bytes that these may take, about, over all shards.
        max_bytes: Size = Default("\"4GiB\""),
        /// What happens when there is no more room: `emit_early_oldest` closes the session without a record for the longest time, `drop_newest` drops records, and counts them, `pause_source` waits for room, `fail` ends the run.
        on_overflow: RawOverflow = Default("\"emit_early_oldest\""),
        /// Names of the sinks; by default every sink that takes panes. Empty: only groups read it.
        sinks: List<String> = Optional,
        /// Where records go that come too late to count, or late.
        late: RawLate = Optional,
    }
}

raw_table! {
    /// A step of a chain.
    pub(crate) struct RawStep {
        /// Its name, as the step field has it; fields of the session begin with it.
        name: String = Required,
        /// Whether the chain is complete without it.
        optional: bool = Default("false"),
        /// Whether it may come again, also after later steps, without beginning the chain anew.
        repeatable: bool = Default("false"),
        /// What its records begin: the chain, `anew` as well; only as the `first` record; or `never` anything, so that they say nothing without one before them that begins the chain.
        begins: RawBegins = Default("\"anew\""),
        /// Statuses that begin an attempt. Without any, only what follows a failure begins another.
        start: List<String> = Default("[]"),
        /// Statuses that say that it went well; needed where `status` is set.
        success: List<String> = Default("[]"),
        /// Statuses that say that it did not.
        failure: List<String> = Default("[]"),
        /// A step without a result after so long is `stuck`; if its session ends before, the client has `abandoned` it. Without it, it is always stuck.
        step_timeout: Period = Optional,
        /// Longer than this is slow.
        slow_after: Length = Optional,
    }
}

raw_names! {
    /// What records of a step begin.
    pub(crate) enum RawBegins ("beginning") {
        /// The chain, as its first record and anew.
        Anew = "anew",
        /// The chain, as its first record.
        First = "first",
        /// Nothing.
        Never = "never",
    }
}

raw_names! {
    /// From which record a session takes a field over.
    pub(crate) enum RawWhich ("record to take over from") {
        /// The first that has it.
        First = "first",
        /// The last that has it.
        Last = "last",
    }
}

raw_names! {
    /// What going back to an earlier step means.
    pub(crate) enum RawRegress ("meaning of going back") {
        /// The client moves, once the chain was complete.
        Roam = "roam",
        /// The chain begins anew.
        Restart = "restart",
        /// Another session begins.
        Session = "session",
    }
}

raw_names! {
    /// The time at which a session counts.
    pub(crate) enum RawOutputTime ("output time") {
        /// That of its first record.
        First = "first",
        /// That of its end.
        Close = "close",
    }
}

raw_names! {
    /// What happens when there is no more room.
    pub(crate) enum RawOverflow ("overflow policy") {
        /// The oldest session is closed.
        EmitEarlyOldest = "emit_early_oldest",
        /// Records are dropped.
        DropNewest = "drop_newest",
        /// Sources wait.
        PauseSource = "pause_source",
        /// The run fails.
        Fail = "fail",
    }
}

/// When records are let into a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RawRelease {
    /// As the watermark says.
    Named(RawReleaseName),
    /// So much later.
    WatermarkPlus(Period),
    /// After so long by the clock in any case.
    BoundedWait(Period),
}

raw_names! {
    /// When records are let into a chain, if that takes no length of time.
    pub(crate) enum RawReleaseName ("release policy") {
        /// When the watermark has passed them.
        Watermark = "watermark",
        /// The same; what has come so far is told at once.
        Eager = "eager",
        /// The same; what has come so far is told once the chain is complete.
        OnTerminal = "on_terminal",
    }
}

raw_table! {
    /// When records are let into a chain: one of these settings.
    pub(crate) struct RawReleaseTable {
        /// When the watermark is so much further than they are.
        watermark_plus: Period = Optional,
        /// When the watermark has passed them, but after so long by the clock in any case.
        bounded_wait: Period = Optional,
    }
}

impl FromNode for RawRelease {
    const EXPECTED: &'static str = "the name of a release policy or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(_) => read_choice(node, reader).map(Self::Named),
            NodeValue::Table(_) => {
                let table = RawReleaseTable::from_node(node, reader)?;
                let plus = table.watermark_plus.value().copied().map(Self::WatermarkPlus);
                let wait = table.bounded_wait.value().copied().map(Self::BoundedWait);
                if node.entries().unwrap_or_default().len() != 1 {
                    let message = format!("{} must have exactly one setting", reader.here());
                    let help = "{ watermark_plus = \"5s\" } or { bounded_wait = \"10s\" }";
                    reader.problems.add_with_help(node.place, message, help);
                    return None;
                }
                plus.or(wait)
            }
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

impl JsonSchema for RawRelease {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Release".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<RawReleaseName>();
        json_schema!({ "anyOf": [name, generator.subschema_for::<RawReleaseTable>()] })
    }
}
