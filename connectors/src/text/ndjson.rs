//! Lines of JSON: records of a schema, or flow documents.
//!
//! A line is one JSON object. One that is not is rejected, and so is one whose values do not fit;
//! nothing of a rejected line is used.

use crate::account::Reason;
use crate::source::{Found, Polled};
use crate::text::feed::Piece;
use crate::text::flow_documents::Documents;
use crate::text::members::Members;
use crate::text::rows::Rows;
use nilometer_model::row::Position;
use nilometer_model::time::EventTime;

/// Makes records of lines.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Records of a schema.
    Records(Records),
    /// Flows of a known layout.
    Flows(Documents),
}

impl Decoder {
    /// Makes a record of the line that was `found`, if `piece` is one, and counts it as read.
    pub(crate) fn take(&mut self, piece: Piece, found: Found<'_>, out: &mut Polled) {
        match piece {
            Piece::Pause | Piece::End => {}
            Piece::TooLong => self.reject(found, Reason::TooLong, "beyond `line_max`", out),
            Piece::Whole | Piece::Last => {
                let is_cut = piece == Piece::Last;
                match std::str::from_utf8(found.raw) {
                    Ok(text) => self.decode(text, is_cut, found, out),
                    // A character that is cut in two is the end of the input.
                    Err(error) if is_cut && error.error_len().is_none() => {
                        self.reject(found, Reason::CutShort, CUT, out);
                    }
                    Err(error) => self.reject(found, Reason::NotUtf8, &error.to_string(), out),
                }
            }
        }
    }

    /// Makes a record of `found`, a whole one that stands at `position`, and counts it as read; its
    /// event time is `time` if it is not its own to say.
    pub(crate) fn take_one(
        &mut self,
        (position, time): (Position, Option<EventTime>),
        found: Found<'_>,
        out: &mut Polled,
    ) {
        match self {
            Self::Records(records) => records.rows.place(position, time),
            Self::Flows(documents) => documents.place(position),
        }
        self.take(Piece::Whole, found, out);
    }

    /// Counts what was `found` at `position` as read, and rejects it.
    pub(crate) fn reject_one(
        &mut self,
        position: Position,
        (reason, detail): (Reason, &str),
        found: Found<'_>,
        out: &mut Polled,
    ) {
        match self {
            Self::Records(records) => records.rows.place(position, None),
            Self::Flows(documents) => documents.place(position),
        }
        self.reject(found, reason, detail, out);
    }

    /// How many records were begun.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Records(records) => records.rows.count(),
            Self::Flows(documents) => documents.count(),
        }
    }

    /// Goes on behind `count` records that were begun by another.
    pub(crate) fn resume(&mut self, count: u64) {
        match self {
            Self::Records(records) => records.rows.resume(count),
            Self::Flows(documents) => documents.resume(count),
        }
    }

    fn decode(&mut self, text: &str, is_cut: bool, found: Found<'_>, out: &mut Polled) {
        match self {
            Self::Records(records) => records.decode(text, is_cut, found, out),
            Self::Flows(documents) => documents.decode(text, is_cut, found, out),
        }
    }

    fn reject(&mut self, found: Found<'_>, reason: Reason, detail: &str, out: &mut Polled) {
        match self {
            Self::Records(records) => {
                records.rows.begin(out);
                out.reject(found, reason, detail);
            }
            Self::Flows(documents) => documents.reject(found, reason, detail, out),
        }
    }
}

const CUT: &str = "the file ends within the line";

/// Records of a schema.
#[derive(Debug)]
pub(crate) struct Records {
    members: Members,
    rows: Rows,
}

impl Records {
    /// Records for `rows`.
    pub(crate) fn new(rows: Rows) -> Self {
        Self { members: Members::new(rows.places()), rows }
    }

    fn decode(&mut self, text: &str, is_cut: bool, found: Found<'_>, out: &mut Polled) {
        let rows = &mut self.rows;
        rows.begin(out);
        match self.members.read(text, &mut |place, raw| rows.json(place, raw)) {
            Ok(()) => rows.end(found, out),
            Err(error) => {
                let (reason, detail) = not_json(&error, is_cut);
                out.reject(found, reason, &detail);
            }
        }
    }
}

/// Why a line is no JSON object.
pub(crate) fn not_json(error: &serde_json::Error, is_cut: bool) -> (Reason, String) {
    if error.is_eof() && is_cut {
        return (Reason::CutShort, format!("{CUT}: {error}"));
    }
    (Reason::NotJson, error.to_string())
}
