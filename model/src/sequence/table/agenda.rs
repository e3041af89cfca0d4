//! Who is to be asked when: actors by the time they have registered, in event time or by the clock.
//!
//! Invariant: no time stands without an actor, so the first one is that of somebody.

use crate::roster::ActorId;
use std::collections::BTreeMap;

/// Actors by the time that they wait for. An actor may stand at several: only it knows which counts.
#[derive(Debug)]
pub(super) struct Agenda<K> {
    by_time: BTreeMap<K, Vec<ActorId>>,
    /// How often actors stand in it.
    len: usize,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { by_time: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord + Copy> Agenda<K> {
    /// An actor waits for `time`.
    pub(super) fn add(&mut self, time: K, id: ActorId) {
        self.by_time.entry(time).or_default().push(id);
        self.len += 1;
    }

    /// The first time that somebody waits for.
    pub(super) fn first(&self) -> Option<K> {
        self.by_time.keys().next().copied()
    }

    /// Takes out an actor that waits for the first time, if that `is_due`.
    pub(super) fn take(&mut self, is_due: impl FnOnce(K) -> bool) -> Option<(K, ActorId)> {
        let mut first = self.by_time.first_entry().filter(|first| is_due(*first.key()))?;
        let time = *first.key();
        let id = first.get_mut().pop()?;
        if first.get().is_empty() {
            first.remove();
        }
        self.len -= 1;
        Some((time, id))
    }

    pub(super) fn clear(&mut self) {
        self.by_time.clear();
        self.len = 0;
    }

    /// How often actors stand in it.
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_come_out_by_time_and_are_counted() {
        let mut agenda = Agenda::default();
        for (time, id) in [(7, 1), (3, 2), (7, 3)] {
            agenda.add(time, id);
        }
        assert_eq!((agenda.first(), agenda.len()), (Some(3), 3));
        assert_eq!(agenda.take(|time| time < 3), None);
        assert_eq!(agenda.take(|time| time <= 3), Some((3, 2)));
        assert_eq!((agenda.first(), agenda.len()), (Some(7), 2));
        let mut rest = [agenda.take(|_| true), agenda.take(|_| true)];
        rest.sort_unstable();
        assert_eq!(rest, [Some((7, 1)), Some((7, 3))]);
        assert_eq!((agenda.first(), agenda.len(), agenda.take(|_| true)), (None, 0, None));
        agenda.add(1, 1);
        agenda.clear();
        assert_eq!((agenda.first(), agenda.len()), (None, 0));
    }
}
