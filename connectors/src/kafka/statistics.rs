//! What the client library tells of partitions twice a second: where their logs end, and whether the
//! reader has come there. Only what is used is read.

use serde::Deserialize;
use std::collections::HashMap;

/// How often it tells, in milliseconds.
pub(crate) const INTERVAL_MS: u32 = 500;

/// The statistics of a client.
#[derive(Debug, Deserialize)]
pub(crate) struct Statistics {
    #[serde(default)]
    brokers: HashMap<String, Broker>,
    #[serde(default)]
    topics: HashMap<String, Topic>,
}

#[derive(Debug, Deserialize)]
struct Broker {
    nodeid: i32,
    state: String,
}

#[derive(Debug, Deserialize)]
struct Topic {
    #[serde(default)]
    partitions: HashMap<String, Partition>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Partition {
    leader: i32,
    /// Where its end was reached last.
    eof_offset: i64,
    /// Behind the last record.
    hi_offset: i64,
    /// Behind the last record that no open transaction precedes.
    ls_offset: i64,
    /// Records fetched and not given yet, of all partitions: they share a queue.
    fetchq_cnt: i64,
}

/// How a partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stand {
    /// Behind its last record; `None` where that is not known yet.
    pub(crate) end: Option<i64>,
    /// Whether it has been fetched up to its end.
    pub(crate) is_fetched: bool,
    /// Whether something that was fetched, of any partition, has not been given yet.
    pub(crate) has_more: bool,
    /// Whether its broker can be reached now.
    pub(crate) is_reachable: bool,
}

impl Statistics {
    pub(crate) fn of_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// How a partition stands; `None` if nothing is known of it.
    pub(crate) fn stand(&self, topic: &str, partition: i32) -> Option<Stand> {
        let known = self.topics.get(topic)?.partitions.get(&partition.to_string())?;
        let leader = self.brokers.values().find(|broker| broker.nodeid == known.leader);
        let is_reachable = leader.is_some_and(|broker| broker.state == "UP");
        let hi = Some(known.hi_offset).filter(|offset| *offset >= 0);
        let ls = Some(known.ls_offset).filter(|offset| *offset >= 0);
        let end = ls.or(hi);
        let is_fetched = end.is_some_and(|end| known.eof_offset >= end);
        Some(Stand { end, is_fetched, has_more: known.fetchq_cnt > 0, is_reachable })
    }

    /// Whether any broker can be reached.
    pub(crate) fn is_connected(&self) -> bool {
        self.brokers.values().any(|broker| broker.state == "UP")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(eof: i64, ls: i64, waiting: i64, state: &str) -> Statistics {
        let json = format!(
            r#"{{"name":"x","brokers":{{"b":{{"nodeid":1,"state":"{state}","tx":5}}}},
            "topics":{{"t":{{"partitions":{{"3":{{"leader":1,"eof_offset":{eof},"hi_offset":20,
            "ls_offset":{ls},"fetchq_cnt":{waiting},"msgs":9}}}}}}}}}}"#
        );
        Statistics::of_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_reader_is_at_the_end_if_it_was_there_and_nothing_has_come_since() {
        for ((eof, ls, waiting), end, is_fetched, has_more) in [
            ((-1001, -1001, 0), Some(20), false, false),
            ((10, 12, 0), Some(12), false, false),
            ((12, 12, 0), Some(12), true, false),
            ((12, 12, 1), Some(12), true, true),
            ((15, 12, 0), Some(12), true, false),
        ] {
            let stand = statistics(eof, ls, waiting, "UP").stand("t", 3).unwrap();
            assert_eq!(stand, Stand { end, is_fetched, has_more, is_reachable: true });
        }
        let away = statistics(12, 12, 0, "DOWN");
        assert!(!away.stand("t", 3).unwrap().is_reachable && !away.is_connected());
        assert_eq!(away.stand("t", 4), None);
        assert!(Statistics::of_json(b"{").is_none());
    }
}
