//! The account of a source: every record that was read has exactly one outcome.
//!
//! `read = accepted + malformed + filtered + dead_lettered + in flight`. A source counts `read` and
//! what it rejects; whoever hands its batches on counts `filtered` and `accepted`. Marks and
//! datagrams are counted beside, they are no outcomes.

use nilometer_model::flow::MalformedFlow;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Counters by name, few of them: a linear search beats a map, and nothing allocates per count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    entries: Vec<(Cow<'static, str>, u64)>,
}

impl Counts {
    /// Adds `count` to the counter called `name`.
    pub fn add(&mut self, name: &'static str, count: u64) {
        match self.entries.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total = total.saturating_add(count),
            None => self.entries.push((Cow::Borrowed(name), count)),
        }
    }

    /// The counter called `name`; 0 if nothing was counted.
    pub fn get(&self, name: &str) -> u64 {
        self.entries.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }

    /// Sum of all counters.
    pub fn total(&self) -> u64 {
        self.entries.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The counters in the order of their names, those at zero left out.
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let entries = self.entries.iter().filter(|(_, count)| *count > 0);
        let mut entries: Vec<_> = entries.map(|(name, count)| (&**name, *count)).collect();
        entries.sort_unstable();
        entries
    }

    /// Adds every counter of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.entries {
            match self.entries.iter_mut().find(|(known, _)| known == name) {
                Some((_, total)) => *total = total.saturating_add(*count),
                None => self.entries.push((name.clone(), *count)),
            }
        }
    }
}

impl Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.sorted())
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<String, u64>::deserialize(deserializer)?;
        Ok(Self {
            entries: entries.into_iter().map(|(name, count)| (name.into(), count)).collect(),
        })
    }
}

/// Why input is no record of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// A record without a value.
    NoValue,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A line that is not JSON, or whose JSON is no object.
    NotJson,
    /// Bytes that are no message of protocol buffers.
    NotProtobuf,
    /// A line, datagram or packet beyond the size limit.
    TooLong,
    /// The input ends within the record.
    CutShort,
    /// A row of a CSV file with more or fewer columns than its header.
    WrongColumns,
    /// A column that the pipeline reads is not in the header.
    MissingColumn,
    /// A value of another type than its field, or text that is no such value.
    WrongType,
    /// A number that its field cannot hold.
    OutOfRange,
    /// No event time.
    MissingTime,
    /// A flow that cannot be normalised.
    Flow(MalformedFlow),
    /// The table of texts is full (`max_texts`).
    TooManyTexts,
    /// A filter or derived field could not be computed.
    Expression,
    /// An event time further in the future than `max_future_skew` allows.
    TooFarAhead,
    /// It lies in a batch that a run has failed in, and was told to leave out.
    Skipped,
}

impl Reason {
    /// The name in summaries and dead letters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoValue => "no_value",
            Self::NotProtobuf => "not_protobuf",
            Self::NotUtf8 => "not_utf8",
            Self::NotJson => "not_json",
            Self::TooLong => "too_long",
            Self::CutShort => "cut_short",
            Self::WrongColumns => "wrong_columns",
            Self::MissingColumn => "missing_column",
            Self::WrongType => "wrong_type",
            Self::OutOfRange => "out_of_range",
            Self::MissingTime => "missing_time",
            Self::Flow(malformed) => malformed.reason(),
            Self::TooManyTexts => "too_many_texts",
            Self::Expression => "expression",
            Self::TooFarAhead => "too_far_ahead",
            Self::Skipped => "skipped",
        }
    }
}

/// Datagrams of a collector or a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Datagrams {
    /// Received, or found in a capture.
    pub read: u64,
    /// Of no known protocol, or damaged.
    pub malformed: u64,
    /// Parts of which waited for a template that never came.
    pub no_template: u64,
    /// Lost between the network and the reader: the engine was too slow.
    pub dropped: u64,
}

/// What a source has counted since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceAccount {
    /// Records read: lines, flow records. One that is split in two counts twice.
    pub read: u64,
    /// Records handed on to the stages; counted by the caller.
    pub accepted: u64,
    /// Records that the filter left out; counted by the caller.
    pub filtered: u64,
    /// Records rejected, by reason, where there is no dead-letter file.
    pub malformed: Counts,
    /// Records rejected and written to the dead-letter file, by reason.
    pub dead_lettered: Counts,
    /// What was remarkable about records or input, by name; no outcomes.
    pub marks: Counts,
    /// Datagrams.
    pub datagrams: Datagrams,
}

impl SourceAccount {
    /// Records rejected, wherever they went.
    pub fn rejected(&self) -> u64 {
        self.malformed.total().saturating_add(self.dead_lettered.total())
    }

    /// Records that were read and have no outcome yet; `None` if more have one than were read,
    /// which is a fault of this program.
    pub fn in_flight(&self) -> Option<u64> {
        [self.accepted, self.filtered, self.malformed.total(), self.dead_lettered.total()]
            .into_iter()
            .try_fold(self.read, u64::checked_sub)
    }

    /// Adds every counter of `other`.
    pub fn merge(&mut self, other: &Self) {
        let sum = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        sum(&mut self.read, other.read);
        sum(&mut self.accepted, other.accepted);
        sum(&mut self.filtered, other.filtered);
        self.malformed.merge(&other.malformed);
        self.dead_lettered.merge(&other.dead_lettered);
        self.marks.merge(&other.marks);
        sum(&mut self.datagrams.read, other.datagrams.read);
        sum(&mut self.datagrams.malformed, other.datagrams.malformed);
        sum(&mut self.datagrams.no_template, other.datagrams.no_template);
        sum(&mut self.datagrams.dropped, other.datagrams.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_balances_and_merges() {
        let mut account =
            SourceAccount { read: 10, accepted: 5, filtered: 2, ..Default::default() };
        account.malformed.add(Reason::NotJson.name(), 1);
        assert_eq!(account.in_flight(), Some(2));
        let other = account.clone();
        account.merge(&other);
        assert_eq!((account.read, account.in_flight()), (20, Some(4)));
        assert_eq!(account.malformed.get("not_json"), 2);
        account.dead_lettered.add("not_json", 5);
        assert_eq!(account.in_flight(), None);
    }

    #[test]
    fn counts_print_by_name() {
        let mut counts = Counts::default();
        for (name, count) in [("b", 2), ("a", 1), ("c", 0), ("b", 1)] {
            counts.add(name, count);
        }
        assert_eq!(serde_json::to_string(&counts).unwrap(), r#"{"a":1,"b":3}"#);
    }
}
