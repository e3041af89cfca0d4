//! A record as a sequence keeps it: step, status and reason as small numbers, and where it stands.
//!
//! 56 bytes, without a pointer. Their order is total: event time, then rank of the step, then the
//! place in the input. So ties are decided alike whatever the order of arrival, and a replay gives
//! what the first run gave.

use super::spec::CARRIED_MAX;
use crate::time::EventTime;
use std::cmp::Ordering;

/// One record of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Event time.
    pub(crate) time: EventTime,
    /// Hash of what is equal in copies of one record; 0 where there is nothing.
    pub(crate) id: u64,
    /// Number of the record in its partition.
    pub(crate) offset: u64,
    /// Source partition.
    pub(crate) partition: u32,
    /// The reason: a symbol, or a number. Zero if there is none.
    pub(crate) reason: u32,
    /// The status, a symbol. Zero if there is none.
    pub(crate) status: u32,
    /// What the session may take over: symbols, truth values or numbers. Zero where there is none.
    pub(crate) carried: [u32; CARRIED_MAX],
    /// Number of the step; those that end a session come behind those of the chain.
    pub(crate) step: u8,
    /// What its status says.
    pub(crate) class: Class,
    /// Which values there are: bit 0 the reason, bit 1 the status, from bit 2 what is carried.
    pub(crate) has: u8,
    /// What became of it since it came.
    pub(crate) marks: Marks,
}

/// What a status says of its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Class {
    /// An attempt begins.
    Start,
    /// It goes on.
    Other,
    /// It went well.
    Success,
    /// It did not.
    Failure,
    /// The session ends.
    End,
}

/// What became of a record of a session: flags, and how often copies of it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(pub(crate) u8);

impl Class {
    /// Every class, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] =
        [Self::Start, Self::Other, Self::Success, Self::Failure, Self::End];
}

impl Marks {
    const OUT_OF_ORDER: u8 = 1;
    const LATE: u8 = 2;
    const TOLD: u8 = 4;
    const COPY: u8 = 8;
    const NAMES: u8 = 128;
    /// Copies that are counted, of each record.
    pub(crate) const COPIES_MAX: u32 = 15;

    /// Whether it came behind one that stands after it.
    pub(crate) const fn is_out_of_order(self) -> bool {
        self.0 & Self::OUT_OF_ORDER != 0
    }

    /// Whether it came after it should have been let in.
    pub(crate) const fn is_late(self) -> bool {
        self.0 & Self::LATE != 0
    }

    /// Whether what was last told of its session, which is closed, counts it.
    pub(crate) const fn is_told(self) -> bool {
        self.0 & Self::TOLD != 0
    }

    /// Whether the session that goes on, and was told of, has its name from it.
    pub(crate) const fn names(self) -> bool {
        self.0 & Self::NAMES != 0
    }

    /// Copies of it that came and were dropped, as far as they are counted.
    pub(crate) const fn copies(self) -> u32 {
        ((self.0 & !Self::NAMES) >> 3) as u32
    }

    pub(crate) const fn set_out_of_order(&mut self) {
        self.0 |= Self::OUT_OF_ORDER;
    }

    pub(crate) const fn set_late(&mut self) {
        self.0 |= Self::LATE;
    }

    pub(crate) const fn set_names(&mut self) {
        self.0 |= Self::NAMES;
    }

    pub(crate) const fn set_told(&mut self) {
        self.0 |= Self::TOLD;
    }

    /// Counts a copy, unless what was told of it must stay as it was told.
    pub(crate) const fn add_copy(&mut self) {
        if !self.is_told() && self.copies() < Self::COPIES_MAX {
            self.0 += Self::COPY;
        }
    }
}

impl Entry {
    /// A record of this step, without status, reason and anything to take over.
    pub(crate) fn new(
        time: EventTime,
        (partition, offset): (u32, u64),
        (step, class): (u8, Class),
    ) -> Self {
        Self {
            time,
            id: 0,
            offset,
            partition,
            reason: 0,
            status: 0,
            carried: [0; CARRIED_MAX],
            step,
            class,
            has: 0,
            marks: Marks::default(),
        }
    }

    const HAS_REASON: u8 = 1;
    const HAS_STATUS: u8 = 2;

    /// The flag of field number `field` of what is carried.
    pub(crate) const fn carries(field: usize) -> u8 {
        1 << (2 + field)
    }

    pub(crate) fn reason(&self) -> Option<u32> {
        (self.has & Self::HAS_REASON != 0).then_some(self.reason)
    }

    pub(crate) fn set_reason(&mut self, reason: Option<u32>) {
        self.reason = reason.unwrap_or(0);
        self.has |= if reason.is_some() { Self::HAS_REASON } else { 0 };
    }

    pub(crate) fn status(&self) -> Option<u32> {
        (self.has & Self::HAS_STATUS != 0).then_some(self.status)
    }

    pub(crate) fn set_status(&mut self, status: Option<u32>) {
        self.status = status.unwrap_or(0);
        self.has |= if status.is_some() { Self::HAS_STATUS } else { 0 };
    }

    pub(crate) fn carried(&self, field: usize) -> Option<u32> {
        let value = self.carried.get(field).copied()?;
        (self.has & Self::carries(field) != 0).then_some(value)
    }

    pub(crate) fn set_carried(&mut self, field: usize, value: Option<u32>) {
        if let (Some(place), Some(value)) = (self.carried.get_mut(field), value) {
            *place = value;
            self.has |= Self::carries(field);
        }
    }

    /// The order of two records in the chain.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let place = |entry: &Self| (entry.time, entry.step, entry.partition, entry.offset);
        place(self).cmp(&place(other))
    }

    /// Whether both are copies of one record, given that they are of one instant.
    fn is_copy_of(&self, other: &Self) -> bool {
        if self.id != 0 || other.id != 0 {
            return self.id == other.id;
        }
        self.step == other.step && self.status() == other.status()
    }
}

/// Puts `entry`, which is no copy, among `entries`, which are in order; returns where. From the
/// back, since records nearly are.
pub(crate) fn place(entries: &mut Vec<Entry>, mut entry: Entry) -> usize {
    let is_before = |known: &Entry| known.order(&entry) != Ordering::Greater;
    let at = entries.iter().rposition(is_before).map_or(0, |before| before + 1);
    if at < entries.len() {
        entry.marks.set_out_of_order();
    }
    entries.insert(at, entry);
    at
}

/// Whether `copy` is a copy of one of `entries`, which are in order: the two then count as one. Of
/// copies that come in time the one stays that stands first, so that it is the same whichever comes
/// first; one that comes late changes nothing.
pub(crate) fn join(entries: &mut Vec<Entry>, copy: &Entry) -> bool {
    let is_of_instant = |(_, known): &(usize, &Entry)| known.time >= copy.time;
    let mut near = entries.iter().enumerate().rev().take_while(is_of_instant);
    let found = near.find(|(_, known)| known.time == copy.time && known.is_copy_of(copy));
    let Some((at, known)) = found else { return false };
    let (mut marks, is_first) = (known.marks, copy.order(known) == Ordering::Less);
    marks.add_copy();
    if is_first && !copy.marks.is_late() {
        entries.remove(at);
        let place = entries.partition_point(|known| known.order(copy) == Ordering::Less);
        entries.insert(place, Entry { marks, ..*copy });
    } else if let Some(known) = entries.get_mut(at) {
        known.marks = marks;
    }
    true
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record of `step` at `time`.
    pub(crate) fn entry(time: i64, step: u8, class: Class) -> Entry {
        Entry::new(EventTime::from_millis(time), (0, 0), (step, class))
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 56);
    }

    #[test]
    fn records_stand_in_one_order_however_they_come() {
        let make = |time, step, partition, offset| Entry {
            partition,
            offset,
            status: offset as u32,
            has: Entry::HAS_STATUS,
            ..entry(time, step, Class::Other)
        };
        let sorted = [
            make(-5, 3, 0, 9),
            make(1, 0, 1, 8),
            make(1, 1, 0, 7),
            make(1, 1, 0, 10),
            make(1, 1, 2, 1),
            make(2, 0, 0, 2),
        ];
        // Every rotation, forwards and backwards.
        for turn in 0..sorted.len() {
            for backwards in [false, true] {
                let mut order: Vec<_> = sorted.to_vec();
                order.rotate_left(turn);
                if backwards {
                    order.reverse();
                }
                let mut entries = Vec::new();
                for entry in order {
                    assert!(!join(&mut entries, &entry));
                    place(&mut entries, entry);
                }
                let strip = |entry: &Entry| (entry.time, entry.step, entry.partition, entry.offset);
                let placed: Vec<_> = entries.iter().map(strip).collect();
                assert_eq!(placed, sorted.iter().map(strip).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn copies_are_left_out_and_counted_until_they_were_told() {
        let plain = |time, step, status: u32, id| {
            let mut entry = Entry { id, ..entry(time, step, Class::Other) };
            entry.set_status(Some(status));
            entry
        };
        for (id, second, is_copy) in [
            (0, plain(1, 0, 7, 0), true),
            (0, plain(1, 0, 8, 0), false),
            (0, plain(2, 0, 7, 0), false),
            (0, plain(1, 1, 7, 0), false),
            (0, plain(1, 0, 7, 9), false),
            (1, plain(1, 0, 7, 0), false),
            (1, plain(1, 0, 7, 9), false),
            (1, plain(1, 3, 8, 1), true),
            (1, plain(2, 0, 7, 1), false),
        ] {
            let mut entries = vec![plain(1, 0, 7, id), plain(3, 0, 7, 5)];
            assert_eq!(join(&mut entries, &second), is_copy, "{second:?}");
            assert_eq!(entries.len(), 2);
            assert_eq!(entries[0].marks.copies(), u32::from(is_copy));
        }
        let mut marks = Marks::default();
        for _ in 0..40 {
            marks.add_copy();
        }
        assert_eq!((marks.copies(), marks.is_late(), marks.names()), (15, false, false));
        let mut told = Marks::default();
        told.set_told();
        told.add_copy();
        assert_eq!((told.copies(), told.is_told()), (0, true));
    }

    #[test]
    fn of_copies_the_one_stays_that_stands_first_whichever_comes_first() {
        // Two statuses of a step at one instant; the first of them comes again from elsewhere.
        let make = |status: u32, partition| {
            let mut entry = Entry { partition, ..entry(1, 0, Class::Other) };
            entry.set_status(Some(status));
            entry
        };
        let all = [make(7, 0), make(8, 1), make(7, 2)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut entries = Vec::new();
            for number in order {
                if !join(&mut entries, &all[number]) {
                    place(&mut entries, all[number]);
                }
            }
            let found: Vec<_> =
                entries.iter().map(|known| (known.partition, known.status)).collect();
            assert_eq!(found, [(0, 7), (1, 8)], "{order:?}");
            assert_eq!(entries[0].marks.copies(), 1);
        }
        // What comes late changes nothing.
        let mut entries = vec![make(7, 2)];
        let mut late = make(7, 0);
        late.marks.set_late();
        assert!(join(&mut entries, &late));
        assert_eq!((entries[0].partition, entries[0].marks.copies()), (2, 1));
    }
}
