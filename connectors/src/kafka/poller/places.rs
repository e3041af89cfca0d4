//! Where partitions are read from: where one begins, where it goes on, and what the brokers no longer
//! have of it.

use super::{ANSWER, Poller, Track, Turn};
use crate::kafka::partitions::{Log, Place, Start, Until};
use crate::kafka::queue::{Known, name};
use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::Instant;

impl Poller {
    /// Begins to read the partitions that were given, as soon as the brokers say what they hold.
    pub(super) fn begin(&mut self) {
        if self.given.is_empty() {
            return;
        }
        self.given.sort_unstable();
        let since = Instant::now();
        let (mut found, mut begun) = (Vec::new(), TopicPartitionList::new());
        for (topic, partition) in std::mem::take(&mut self.given) {
            // The poll must go on: what is not answered soon is asked again behind it.
            let place = if since.elapsed() < ANSWER { self.find(&topic, partition) } else { None };
            let Some((number, place)) = place else {
                self.given.push((topic, partition));
                continue;
            };
            self.tell_gap(&name(&topic, partition), place);
            self.go_on_at(number, place);
            // What has been read to its end is not asked for.
            if !self.is_read(number, place.next) {
                begun.add_partition_offset(&topic, partition, Offset::Offset(place.next)).ok();
            }
            found.push((topic, partition));
        }
        let reading = match self.assign(begun) {
            Ok(reading) => reading,
            Err(error) => {
                self.given.extend(found);
                return self.say(format!("cannot begin to read: {error}; tries again"));
            }
        };
        // Those that were paused stay so across assignments.
        let turn = if self.valve.is_closed() { Turn::Close } else { Turn::Open };
        self.turn_to(turn, &reading);
        self.has_read |= !found.is_empty();
        self.works_again(!found.is_empty());
        self.tell_gained(&found);
        if let Some(carrier) = &self.settings.carrier {
            carrier.ask();
        }
        if self.given.is_empty() && (self.has_begun || self.standing.open.is_empty()) {
            self.has_begun = true;
            self.queue.lock().is_complete = true;
            self.queue.tell();
        }
    }

    pub(super) fn number(&self, topic: &str, partition: i32) -> Option<usize> {
        self.numbers.get(topic)?.get(&partition).copied()
    }

    /// What the broker has of a partition; `None` if it does not say so now.
    pub(super) fn log(&self, topic: &str, partition: i32) -> Option<Log> {
        let watermarks = self.consumer.fetch_watermarks(topic, partition, ANSWER);
        watermarks.ok().map(|(low, high)| Log { low, high })
    }

    /// The first record that is as late as `millis`: `None` if the broker does not say so now,
    /// nothing inside if there is none.
    fn at(&self, (topic, partition): (&str, i32), millis: i64) -> Option<Option<i64>> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(topic, partition, Offset::Offset(millis)).ok()?;
        let answered = self.consumer.offsets_for_times(asked, ANSWER).ok()?;
        let found = answered.elements().first().map(|element| element.offset());
        match found? {
            Offset::Offset(offset) => Some(Some(offset)),
            _ => Some(None),
        }
    }

    /// Where the reading of a partition ends: `None` if the broker does not say so now, nothing inside
    /// if it does not end.
    fn end(&self, log: Log, place: (&str, i32)) -> Option<Option<i64>> {
        let Some(until) = self.settings.until else { return Some(None) };
        let found = match until {
            Until::Now => None,
            Until::At(millis) => self.at(place, millis)?,
        };
        Some(Some(log.end(until, found)))
    }

    /// The number of a partition, and where to go on in it; `None` if the broker does not say so now.
    fn find(&mut self, topic: &Arc<str>, partition: i32) -> Option<(usize, Place)> {
        let log = self.log(topic, partition)?;
        if let Some(number) = self.number(topic, partition) {
            // What was read without an end before has to find it.
            let known = self.queue.lock().partitions.get(number)?.until;
            let until =
                known.map_or_else(|| self.end(log, (topic, partition)), |at| Some(Some(at)));
            let until = until?;
            if let Some(known) = self.queue.lock().partitions.get_mut(number) {
                known.hear_end(log.high);
                known.ends_at(until);
            }
            return Some((number, self.go_on(number, log)?));
        }
        // What is found later begins with its first record: nothing of it has been read.
        let start = if self.has_begun { Start::Earliest } else { self.settings.start };
        let found = match start {
            Start::At(millis) => self.at((topic, partition), millis)?,
            Start::Earliest | Start::Latest => None,
        };
        let next = log.begin(start, found);
        let until = self.end(log, (topic, partition))?;
        let number = self.tracks.len();
        self.tracks.push(Track::new(next));
        self.numbers.entry(topic.clone()).or_default().insert(partition, number);
        let mut known = Known::begun((topic, partition), next, until);
        known.hear_end(log.high);
        self.queue.lock().partitions.push(known);
        Some((number, Place { next, lost: 0, is_another: false }))
    }

    /// Where partition `number` goes on in its log.
    fn go_on(&self, number: usize, log: Log) -> Option<Place> {
        let next = self.tracks.get(number)?.next;
        let end = self.queue.lock().partitions.get(number)?.end_of(next);
        Some(log.go_on(next, end))
    }

    /// Whether nothing of partition `number` is to be read from `next` on.
    fn is_read(&self, number: usize, next: i64) -> bool {
        let state = self.queue.lock();
        let end = state.partitions.get(number).and_then(|known| known.end_of(next));
        end.is_some_and(|end| next >= end)
    }

    /// The brokers are to give partition `number` from `place` on.
    fn go_on_at(&mut self, number: usize, place: Place) {
        let Some(track) = self.tracks.get_mut(number) else { return };
        let Place { next, lost, .. } = place;
        let is_elsewhere = track.next != next;
        *track = Track { is_ours: true, ..Track::new(next) };
        if is_elsewhere && let Some(known) = self.queue.lock().partitions.get_mut(number) {
            known.leap_to(next, lost);
        }
    }

    fn tell_gap(&mut self, partition: &str, place: Place) {
        if place.is_another {
            self.say(format!(
                "`{partition}` ends before what was read of it: it was made anew or cut off; goes on \
                 at its first record, offset {}",
                place.next
            ));
        }
        if place.lost > 0 {
            let last = place.next.saturating_sub(1);
            let first = place.next.saturating_sub(i64::try_from(place.lost).unwrap_or(0));
            self.say(format!(
                "`{partition}` no longer has the offsets {first} to {last}: {} records are lost at \
                 most; keep them for longer (retention)",
                place.lost
            ));
        }
    }

    /// The brokers do not have what was asked for in a partition, which the client has given up: each one
    /// that may be it is begun anew, where they have something.
    pub(super) fn find_back(&mut self) {
        let since = Instant::now();
        let known: Vec<_> = self.queue.lock().partitions.iter().map(Known::place).collect();
        for (number, (topic, partition)) in known.into_iter().enumerate() {
            let track = self.tracks.get(number).copied().filter(|track| track.is_ours);
            let Some(Track { next, .. }) = track else { continue };
            // The poll must go on: what is not answered soon is asked again when it is begun.
            let log = if since.elapsed() < ANSWER { self.log(&topic, partition) } else { None };
            let place = log.and_then(|log| self.go_on(number, log));
            if place.is_some_and(|place| place.next == next) {
                continue;
            }
            let place = (topic, partition);
            if !self.is_shared() {
                self.give_back(std::slice::from_ref(&place));
            }
            if let Some(track) = self.tracks.get_mut(number) {
                track.is_ours = false;
            }
            self.calm = 0;
            self.given.push(place);
        }
    }
}
