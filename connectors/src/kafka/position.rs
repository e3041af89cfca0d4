//! What is stored of a source of topics: where each of its partitions goes on, and where it ends.
//!
//! Invariant: an end that was stored holds for as long as `until` stays what it was, so that a reading
//! which was killed ends where it was to. With another `until`, or none, ends are found anew; but what
//! has come to all of its ends is over, since its windows are closed.

use super::partitions::Until;
use super::queue::{Known, name};
use crate::flow_feed::FeedImage;
use crate::netflow::FlowDecoder;
use crate::source::{SourceError, state_of};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A position of such a source. `D` is its decoder of datagrams, or a reference to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KafkaPosition<D> {
    /// By number.
    pub(super) partitions: Vec<Stored>,
    /// What the ends of the partitions were found by.
    pub(super) until: Option<Until>,
    pub(super) feed: Option<FeedImage<D>>,
}

/// A partition in a position.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    topic: Arc<str>,
    partition: i32,
    /// Where to go on.
    next: i64,
    /// Where reading began.
    begin: i64,
    /// Where it ends, if that was found.
    until: Option<i64>,
    /// Whether it has come to its end.
    is_finished: bool,
}

impl Stored {
    pub(super) fn of(known: &Known) -> Self {
        Self {
            topic: known.topic.clone(),
            partition: known.partition,
            next: known.next,
            begin: known.begin,
            until: known.until,
            is_finished: known.is_finished && known.waiting == 0,
        }
    }

    fn known(self, holds: bool) -> Known {
        let until = self.until.filter(|_| holds);
        let known = Known::begun((&self.topic, self.partition), self.next, until);
        let is_finished = known.is_finished || (holds && self.is_finished);
        Known { begin: self.begin, is_finished, ..known }
    }
}

/// The partitions of a position, to be read on to `until`, and what its decoder had learned.
///
/// # Errors
/// It is none of such a source, or it is behind the end of what was to be read.
pub(super) fn resume(
    position: &[u8],
    until: Option<Until>,
) -> Result<(Vec<Known>, Option<FeedImage<FlowDecoder>>), SourceError> {
    let stored = state_of::<KafkaPosition<FlowDecoder>>(position, "Kafka")?;
    let holds = stored.until == until;
    let is_over = stored.partitions.iter().all(|stored| stored.is_finished);
    if !holds && is_over && !stored.partitions.is_empty() {
        let detail = "it has been read to the end that `until` stood for, and its windows are closed: \
                      put `until` back, or set another `state.dir` to read on, with `start`";
        return Err(SourceError::resume("Kafka", detail));
    }
    let partitions = stored.partitions.into_iter().map(|stored| stored.known(holds)).collect();
    Ok((partitions, stored.feed))
}

/// Topics, numbers in them, and offsets of a position.
pub(super) fn offsets(position: &[u8]) -> Vec<(Arc<str>, i32, i64)> {
    let position = state_of::<KafkaPosition<FlowDecoder>>(position, "Kafka");
    let partitions = position.map(|position| position.partitions).unwrap_or_default();
    partitions.into_iter().map(|stored| (stored.topic, stored.partition, stored.next)).collect()
}

/// By name of a partition of a position, the offset behind what was read of it.
pub fn stored_offsets(position: &[u8]) -> impl Iterator<Item = (Box<str>, u64)> {
    let named = |(topic, partition, next): (Arc<str>, i32, i64)| {
        ((*name(&topic, partition)).into(), u64::try_from(next).unwrap_or(0))
    };
    offsets(position).into_iter().map(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::position_of;

    #[test]
    fn an_end_holds_for_as_long_as_its_setting_does() {
        const THEN: Option<Until> = Some(Until::At(5));
        const NOW: Option<Until> = Some(Until::Now);
        let known = |next, until, is_finished| Known {
            is_finished,
            begin: 1,
            ..Known::begun((&"t".into(), 0), next, until)
        };
        let (live, open, done) =
            (known(7, None, false), known(7, Some(9), false), known(8, Some(9), true));
        // Before and after: the setting, and the end of each partition and whether it is there.
        for (before, partitions, after, expected) in [
            (None, [&live, &live], None, Some([(None, false); 2])),
            (None, [&live, &live], NOW, Some([(None, false); 2])),
            (NOW, [&open, &done], NOW, Some([(Some(9), false), (Some(9), true)])),
            (NOW, [&open, &done], None, Some([(None, false); 2])),
            (NOW, [&open, &done], THEN, Some([(None, false); 2])),
            (THEN, [&done, &done], THEN, Some([(Some(9), true); 2])),
            (THEN, [&done, &done], NOW, None),
            (THEN, [&done, &done], None, None),
        ] {
            let partitions: Vec<_> = partitions.iter().map(|known| Stored::of(known)).collect();
            let feed = None::<FeedImage<FlowDecoder>>;
            let position = position_of(&KafkaPosition { partitions, until: before, feed });
            let resumed = resume(&position, after).map(|(known, _)| {
                assert!(known.iter().all(|known| known.begin == 1));
                [0, 1].map(|at: usize| (known[at].until, known[at].is_finished))
            });
            assert_eq!(resumed.ok(), expected, "{before:?} {after:?}");
        }
    }
}
