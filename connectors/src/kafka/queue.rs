//! What goes from the thread that polls to the one that makes records: records in chunks, where each
//! partition stands, and what is worth knowing. Bounded by whoever puts in, see [`super::valve`].

use super::client::KafkaError;
use super::outlook::Outlook;
use super::statistics::Stand;
use crate::source::{PartitionLag, Rebalance};
use crate::trace_context::Contexts;
use opentelemetry::trace::SpanContext;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A record as it lies in its partition.
#[derive(Debug)]
pub(crate) struct Raw {
    /// Number of the partition.
    pub(crate) partition: usize,
    /// Its offset.
    pub(crate) offset: i64,
    /// Its timestamp in milliseconds, if it has one.
    pub(crate) timestamp: Option<i64>,
    key: Range<usize>,
    /// `None` if it has no value.
    value: Option<Range<usize>>,
    /// Number of its context, if that is known.
    context: Option<usize>,
}

/// Records, with their bytes in one piece.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) records: Vec<Raw>,
    bytes: Vec<u8>,
    contexts: Contexts,
}

impl Chunk {
    /// Records that a chunk holds before it is handed on, about.
    pub(crate) const RECORDS: usize = 1_000;
    /// The same in bytes.
    pub(crate) const BYTES: usize = 512 << 10;

    pub(crate) fn push(
        &mut self,
        (partition, offset, timestamp): (usize, i64, Option<i64>),
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        let key = self.keep(key.unwrap_or_default());
        let value = value.map(|value| self.keep(value));
        self.records.push(Raw { partition, offset, timestamp, key, value, context: None });
    }

    /// The span that made the last record.
    pub(crate) fn made_by(&mut self, context: SpanContext) {
        if let Some(last) = self.records.last_mut() {
            last.context = self.contexts.add(context);
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// The same without records; `None` if it has grown too large to be kept.
    fn emptied(mut self) -> Option<Self> {
        self.records.clear();
        self.bytes.clear();
        self.contexts = Contexts::default();
        (self.bytes.capacity() <= 2 * Self::BYTES).then_some(self)
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<Raw>()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= Self::RECORDS || self.bytes.len() >= Self::BYTES
    }

    pub(crate) fn key(&self, raw: &Raw) -> &[u8] {
        self.bytes.get(raw.key.clone()).unwrap_or_default()
    }

    pub(crate) fn context(&self, raw: &Raw) -> Option<&SpanContext> {
        self.contexts.as_slice().get(raw.context?)
    }

    pub(crate) fn value(&self, raw: &Raw) -> Option<&[u8]> {
        self.bytes.get(raw.value.clone()?)
    }
}

/// Where a partition stands, as the thread that polls knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its topic.
    pub(crate) topic: Arc<str>,
    /// Its number in the topic.
    pub(crate) partition: i32,
    /// Offset of the next record that comes out of the queue.
    pub(crate) next: i64,
    /// Offset behind what an epoch holds.
    pub(crate) stored: i64,
    /// Where reading began.
    pub(crate) begin: i64,
    /// Reading ends there; `None` if it does not.
    pub(crate) until: Option<i64>,
    /// Behind its last record, if that is known.
    pub(crate) end: Option<i64>,
    /// Everything before this offset has been put into the queue, and it was the end.
    pub(crate) settled: Option<i64>,
    /// Whether what is known of its end may be relied on.
    pub(crate) outlook: Outlook,
    /// Whether everything that there is has been put into the queue.
    pub(crate) is_at_end: bool,
    /// Whether everything that is to be read has.
    pub(crate) is_finished: bool,
    /// Records in the queue.
    pub(crate) waiting: usize,
    /// Where it goes on elsewhere than behind what comes out of the queue, in order. Taken by the reader.
    pub(crate) leaps: VecDeque<Leap>,
}

/// A place where a partition goes on elsewhere, since the brokers have nothing in between, or since it
/// is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leap {
    /// Records that are to come out of the queue first.
    before: usize,
    /// Offset of the next record that there is.
    next: i64,
    /// Offsets that should have been read before it.
    lost: u64,
}

impl Known {
    /// One that is read from `next` on.
    pub(crate) fn begun(
        (topic, partition): (&Arc<str>, i32),
        next: i64,
        until: Option<i64>,
    ) -> Self {
        Self {
            topic: topic.clone(),
            partition,
            next,
            stored: next,
            begin: next,
            until,
            end: None,
            settled: None,
            outlook: Outlook::default(),
            is_at_end: false,
            is_finished: until.is_some_and(|until| next >= until),
            waiting: 0,
            leaps: VecDeque::new(),
        }
    }

    /// The brokers give what is at `next` behind what is in the queue, and have lost so many offsets
    /// before it.
    pub(crate) fn leap_to(&mut self, next: i64, lost: u64) {
        self.leaps.push_back(Leap { before: self.waiting, next, lost });
    }

    /// The record at `offset` comes out of the queue. Gives what was lost behind it, as
    /// [`Self::leap`] does.
    pub(crate) fn take(&mut self, offset: i64) -> u64 {
        // Not the higher one: a topic that was made anew begins again.
        self.next = offset.saturating_add(1);
        self.waiting = self.waiting.saturating_sub(1);
        for leap in &mut self.leaps {
            leap.before = leap.before.saturating_sub(1);
        }
        self.leap()
    }

    /// Goes on elsewhere, once everything before that has come out of the queue. Gives what was lost:
    /// whoever counts it does so together with the position, so that it counts once.
    pub(crate) fn leap(&mut self) -> u64 {
        let mut lost = 0_u64;
        while self.leaps.front().is_some_and(|leap| leap.before == 0)
            && let Some(leap) = self.leaps.pop_front()
        {
            // There is nothing in between that an epoch could hold.
            let is_stored = self.stored >= self.next;
            let before = leap.next.saturating_sub(1);
            self.stored = if is_stored { leap.next } else { self.stored.min(before) };
            self.next = leap.next;
            lost = lost.saturating_add(leap.lost);
            // The brokers have nothing left of it that is to be read.
            self.is_finished |= self.until.is_some_and(|until| self.next >= until);
        }
        lost
    }

    /// Where it ends for whoever is to read it from `next` on: there, if nothing is left to be read.
    pub(crate) fn end_of(&self, next: i64) -> Option<i64> {
        if self.is_finished { Some(next) } else { self.until }
    }

    /// Reading ends at `until`, if there is one.
    pub(crate) fn ends_at(&mut self, until: Option<i64>) {
        self.until = until;
        self.is_finished |= until.is_some_and(|until| self.next >= until);
    }

    /// The client says how it stands, whose next record to be given is at `next`. Whether that is all
    /// that is to be read, said once.
    pub(crate) fn stand(&mut self, stand: Stand, next: i64) -> bool {
        self.end = stand.end.or(self.end);
        // Behind the last record there may be marks of transactions, which nobody is given.
        let has_all = stand.end.is_some_and(|end| next >= end) || !stand.has_more;
        let mut believes = |end| self.outlook.believes(end);
        if stand.is_fetched && has_all && stand.end.is_some_and(&mut believes) {
            self.settled = stand.end;
        }
        self.is_at_end = stand.is_reachable && stand.end.is_some() && self.settled == stand.end;
        let came_to = self.settled.map_or(next, |settled| settled.max(next));
        let is_finished = self.until.is_some_and(|until| came_to >= until);
        is_finished && !std::mem::replace(&mut self.is_finished, is_finished)
    }

    /// Nobody has looked for a while: nothing is known of what there is.
    pub(crate) fn doubt(&mut self) {
        self.outlook.doubt();
        (self.settled, self.is_at_end) = (None, false);
    }

    /// Nobody reads it now.
    pub(crate) fn leave(&mut self) {
        self.outlook.leave();
        (self.settled, self.is_at_end) = (None, false);
    }

    /// The brokers have been asked: its log ends at `end`.
    pub(crate) fn hear_end(&mut self, end: i64) {
        (self.end, self.outlook) = (Some(end), Outlook::Owes(end));
        (self.settled, self.is_at_end) = (None, false);
    }

    /// Whether all that came out of the brokers is in an epoch.
    pub(crate) const fn is_stored(&self) -> bool {
        self.waiting == 0 && self.stored >= self.next
    }

    /// Its topic, and its number in it.
    pub(crate) fn place(&self) -> (Arc<str>, i32) {
        (self.topic.clone(), self.partition)
    }

    /// How far it has been read.
    pub(crate) fn lag(&self) -> PartitionLag {
        let offset = |offset: i64| u64::try_from(offset).unwrap_or(0);
        PartitionLag {
            name: name(&self.topic, self.partition),
            next: offset(self.next),
            end: self.until.or(self.end).map(offset),
        }
    }
}

/// The name of a partition for people.
pub(crate) fn name(topic: &str, partition: i32) -> Arc<str> {
    format!("{topic}/{partition}").into()
}

/// What both threads know.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) chunks: VecDeque<Chunk>,
    /// Bytes of the chunks.
    pub(crate) bytes: usize,
    /// Chunks that have been read, whose memory is used again.
    pub(crate) spare: Vec<Chunk>,
    /// By number. Grows only.
    pub(crate) partitions: Vec<Known>,
    /// By number, whether a partition is to wait for others; those beyond it are not.
    pub(crate) held: Vec<bool>,
    /// Whether every partition there is has been found, at least once.
    pub(crate) is_complete: bool,
    pub(crate) notices: Vec<String>,
    pub(crate) rebalances: Vec<Rebalance>,
    /// Why nothing more comes.
    pub(crate) failure: Option<KafkaError>,
    /// Offsets to commit, by topic and partition; the last ones count.
    pub(crate) commit: Option<Vec<(Arc<str>, i32, i64)>>,
    /// Whether the thread that polls is to end.
    pub(crate) is_stopping: bool,
    /// Whether it has ended.
    pub(crate) has_stopped: bool,
}

impl State {
    /// Chunks that are kept to be used again.
    const SPARE: usize = 4;

    /// Takes back a chunk that has been read.
    pub(crate) fn has_read(&mut self, chunk: Chunk) {
        if self.spare.len() < Self::SPARE {
            self.spare.extend(chunk.emptied());
        }
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something has come, or the end.
    changed: Condvar,
}

impl Queue {
    /// What both know, for as long as it takes to look.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever waits.
    pub(crate) fn tell(&self) {
        self.changed.notify_all();
    }

    /// Waits until `is_so`, at most `patience`.
    pub(crate) fn wait(
        &self,
        patience: Duration,
        is_so: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        while !is_so(&state) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_at_its_end_when_all_before_it_has_been_given() {
        let mut known = Known::begun((&"t".into(), 0), 5, Some(20));
        known.hear_end(10);
        let stand = |end, is_fetched, has_more| Stand {
            end: Some(end),
            is_fetched,
            has_more,
            is_reachable: true,
        };
        for (stand, next, is_at_end, is_finished) in [
            (stand(10, false, false), 5, false, false),
            (stand(10, true, true), 9, false, false),
            (stand(10, true, true), 10, true, false),
            // Something of another partition waits.
            (stand(10, true, true), 10, true, false),
            (stand(12, false, true), 10, false, false),
            // Nothing waits: what lies between is nothing that is given.
            (stand(12, true, false), 10, true, false),
            (stand(12, true, true), 10, true, false),
            (Stand { is_reachable: false, ..stand(12, true, false) }, 12, false, false),
            (stand(25, false, true), 20, false, true),
            (stand(25, true, true), 25, true, false),
        ] {
            assert_eq!(known.stand(stand, next), is_finished, "{stand:?} {next}");
            assert_eq!(known.is_at_end, is_at_end, "{stand:?} {next}");
        }
        assert!(known.is_finished);
    }

    /// The client goes on telling what it knew, until it has fetched what came meanwhile.
    #[test]
    fn a_partition_that_nobody_looked_at_is_at_its_end_when_what_came_meanwhile_has_been_given() {
        let mut known = Known::begun((&"t".into(), 0), 0, None);
        let stand =
            |end| Stand { end: Some(end), is_fetched: true, has_more: false, is_reachable: true };
        known.hear_end(100);
        known.stand(stand(100), 100);
        assert!(known.is_at_end && !known.outlook.is_unseen());
        known.doubt();
        assert!(!known.is_at_end && known.outlook.is_unseen());
        known.stand(stand(100), 100);
        assert!(!known.is_at_end, "the brokers have not been asked");
        known.hear_end(200);
        known.stand(stand(100), 100);
        assert!(!known.is_at_end && known.outlook.is_unseen(), "it said so before");
        known.stand(stand(200), 200);
        assert!(known.is_at_end && !known.outlook.is_unseen());
    }

    /// Of a topic that is made anew, or has lost records, while some of before wait.
    #[test]
    fn a_partition_goes_on_elsewhere_behind_what_waits() {
        let begun = |next, waiting| Known { waiting, ..Known::begun((&"t".into(), 0), next, None) };
        for (next, waiting, leap, taken, expected) in [
            // Nothing waits: at once.
            (7, 0, (0, 0), &[][..], (0, 0, 0)),
            (7, 0, (90, 83), &[], (90, 90, 83)),
            // The offsets of records, and where it stands then: what is next, what is stored, and what
            // was lost so far.
            (7, 2, (0, 0), &[], (7, 7, 0)),
            (7, 2, (0, 0), &[7], (8, 7, 0)),
            (7, 2, (90, 81), &[7], (8, 7, 0)),
            // What came out before is not stored yet.
            (7, 2, (0, 0), &[7, 8], (0, -1, 0)),
            (7, 2, (90, 81), &[7, 8], (90, 7, 81)),
            // The last ones are of the new topic, and in the queue before the others come out of it.
            (7, 3, (0, 0), &[7, 8, 9, 0], (1, -1, 0)),
            (7, 2, (0, 0), &[7, 8, 0, 1], (2, -1, 0)),
        ] {
            let mut known = begun(next, waiting);
            known.leap_to(leap.0, leap.1);
            known.waiting += taken.len().saturating_sub(waiting);
            let lost = known.leap() + taken.iter().map(|offset| known.take(*offset)).sum::<u64>();
            let stands = (known.next, known.stored, lost);
            assert_eq!(stands, expected, "{next} {waiting} {leap:?} {taken:?}");
            assert_eq!(known.waiting, waiting.saturating_sub(taken.len()));
        }
        // Twice: what is lost is told where reading goes on behind it.
        for (leaps, taken) in [
            // Made anew.
            ([(3, 0), (0, 0)], [(7, 3, 0), (3, 0, 0), (0, 1, 0)]),
            ([(20, 12), (30, 9)], [(7, 20, 12), (20, 30, 9), (30, 31, 0)]),
        ] {
            let mut known = begun(7, 1);
            for (next, lost) in leaps {
                known.leap_to(next, lost);
                known.waiting += 1;
            }
            for (offset, next, lost) in taken {
                assert_eq!((known.take(offset), known.next), (lost, next), "{leaps:?} {offset}");
            }
        }
    }

    #[test]
    fn a_chunk_keeps_keys_and_values() {
        let mut chunk = Chunk::default();
        chunk.push((0, 5, Some(9)), Some(b"k"), Some(b"value"));
        chunk.push((1, 6, None), None, None);
        chunk.push((1, 7, None), None, Some(b""));
        let read: Vec<_> =
            chunk.records.iter().map(|raw| (chunk.key(raw), chunk.value(raw))).collect();
        assert_eq!(read, [(&b"k"[..], Some(&b"value"[..])), (b"", None), (b"", Some(b""))]);
        assert!(!chunk.is_full() && chunk.size() > 6);
        chunk.push((0, 8, None), None, Some(&[0; Chunk::BYTES]));
        assert!(chunk.is_full());
    }
}
