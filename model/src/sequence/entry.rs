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
    /// Hash of what is equal in copies of one record; 0 without such a field.
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
    /// Copies that are counted, of each record.
    pub(crate) const COPIES_MAX: u8 = 31;

    /// Whether it came behind one that stands after it.
    pub(crate) const fn is_out_of_order(self) -> bool {
        self.0 & Self::OUT_OF_ORDER != 0
    }

    /// Whether it came after it should have been let in.
    pub(crate) const fn is_late(self) -> bool {
        self.0 & Self::LATE != 0
    }

    /// Whether what was last told of its session counts it.
    pub(crate) const fn is_told(self) -> bool {
        self.0 & Self::TOLD != 0
    }

    /// Copies of it that came and were dropped, as far as they are counted.
    pub(crate) const fn copies(self) -> u32 {
        (self.0 >> 3) as u32
    }

    pub(crate) const fn set_out_of_order(&mut self) {
        self.0 |= Self::OUT_OF_ORDER;
    }

    pub(crate) const fn set_late(&mut self) {
        self.0 |= Self::LATE;
    }

    pub(crate) const fn set_told(&mut self, told: bool) {
        self.0 = if told { self.0 | Self::TOLD } else { self.0 & !Self::TOLD };
    }

    /// Counts a copy, unless what was told of it must stay as it was told.
    pub(crate) const fn add_copy(&mut self) {
        if !self.is_told() && self.0 >> 3 < Self::COPIES_MAX {
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

    /// Whether both are copies of one record; `has_id` says whether records tell.
    fn is_copy_of(&self, other: &Self, has_id: bool) -> bool {
        if has_id {
            return self.id == other.id;
        }
        self.step == other.step && self.status() == other.status()
    }
}

/// What became of a record that was to stand among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It stands there, at this place.
    At(usize),
    /// It is a copy of the one at this place, and was left out.
    Copy(usize),
}

/// Puts `entry` among `entries`, which are in order; from the back, since records nearly are.
pub(crate) fn place(entries: &mut Vec<Entry>, mut entry: Entry, has_id: bool) -> Placed {
    let mut at = entries.len();
    let mut from = at;
    // Copies of a record have its event time.
    while let Some(before) = from.checked_sub(1).and_then(|index| entries.get(index)) {
        if before.time < entry.time {
            break;
        }
        if before.time == entry.time && before.is_copy_of(&entry, has_id) {
            return Placed::Copy(from - 1);
        }
        if before.order(&entry) == Ordering::Greater {
            at = from - 1;
        }
        from -= 1;
    }
    if at < entries.len() {
        entry.marks.set_out_of_order();
    }
    entries.insert(at, entry);
    Placed::At(at)
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
                    assert!(matches!(place(&mut entries, entry, false), Placed::At(_)));
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
        for (has_id, second, is_copy) in [
            (false, plain(1, 0, 7, 9), true),
            (false, plain(1, 0, 8, 0), false),
            (false, plain(2, 0, 7, 0), false),
            (false, plain(1, 1, 7, 0), false),
            (true, plain(1, 0, 7, 9), false),
            (true, plain(1, 3, 8, 1), true),
            (true, plain(2, 0, 7, 1), false),
        ] {
            let mut entries = vec![plain(1, 0, 7, 1), plain(3, 0, 7, 5)];
            let placed = place(&mut entries, second, has_id);
            assert_eq!(placed == Placed::Copy(0), is_copy, "{second:?}");
            assert_eq!(entries.len(), if is_copy { 2 } else { 3 });
        }
        let mut marks = Marks::default();
        for _ in 0..40 {
            marks.add_copy();
        }
        assert_eq!((marks.copies(), marks.is_late()), (31, false));
        let mut told = Marks::default();
        told.set_told(true);
        told.add_copy();
        assert_eq!((told.copies(), told.is_told()), (0, true));
        told.set_told(false);
        told.add_copy();
        assert_eq!((told.copies(), told.is_told()), (1, false));
    }
}
