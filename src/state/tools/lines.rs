//! The form of an export: lines of JSON, the version first, a checksum last.
//!
//! What is needed to make the state again is exact; what is said `about` it is for people, and is not
//! read. A line is one of the variants of [`Line`], as its only member.

use nilometer_model::epoch::Aborts;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// Version of the form.
pub(super) const EXPORT_VERSION: u32 = 1;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first.
    Head(Head),
    /// A part of the epoch.
    Part(Part),
    /// How far a sink has written.
    Note(Note),
    /// What is remembered of runs that have failed.
    FailedRuns(Aborts),
    /// What is kept of a key of a stage.
    Entry(Entry),
    /// The last.
    End(End),
}

/// What an export is of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// [`EXPORT_VERSION`].
    pub(super) version: u32,
    /// Version of the program that has written it.
    pub(super) nilometer: Box<str>,
    /// Version of what entries hold.
    pub(super) image: u16,
    /// Name of the pipeline.
    pub(super) pipeline: Box<str>,
    /// The epoch.
    pub(super) epoch: u64,
}

/// A part of an epoch: its content is the text, the JSON, or the bytes in hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) json: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) about: Option<Json>,
}

/// The epoch up to which something has come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) name: Box<str>,
    pub(super) epoch: u64,
}

/// What is kept of a key: its name and its content as they are stored, in hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) stage: Box<str>,
    pub(super) table: Box<str>,
    pub(super) group: u16,
    pub(super) name: String,
    pub(super) content: String,
    pub(super) about: Json,
}

/// How much there is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    /// Lines before this one.
    pub(super) lines: u64,
    /// XXH64 with seed 0 of these lines, line ends included, in hexadecimal digits.
    pub(super) xxh64: String,
}

/// Bytes as hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// What [`to_hex`] has made; `None` if it did not make it.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)), Some(all));
        assert_eq!(to_hex(&[0, 10, 255]), "000aff");
        for text in ["0", "0g", "é", "+1"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
