//! Results of the hand-written loop: totals, and the largest entries of every parent.

use super::job::{Entity, Shape, TOP_K};
use super::packed::{Parent, Sums};
use super::result::{OTHER, Pane, Values, other_values};
use hashbrown::HashMap;
use nilometer_model::symbol::Symbols;
use std::cmp::{Ordering, Reverse};

/// The candidates of one parent, while they are gone through.
struct List<T> {
    total: Sums,
    count: usize,
    /// Rank, entity and sums, best first.
    best: Vec<(u64, T, Sums)>,
}

impl<T> List<T> {
    fn empty() -> Self {
        Self { total: Sums::default(), count: 0, best: Vec::with_capacity(TOP_K) }
    }
}

/// Writes the panes of one window.
pub(super) struct Emitter<'a> {
    pub(super) symbols: &'a Symbols,
    /// Start of the window.
    pub(super) start: i64,
    pub(super) panes: &'a mut Vec<Pane>,
}

impl Emitter<'_> {
    /// Every key of a grouping.
    pub(super) fn totals<'s>(
        &mut self,
        shape: Shape,
        groups: impl IntoIterator<Item = (&'s Parent, &'s Sums)>,
    ) {
        for (parent, sums) in groups {
            self.emit(shape, *parent, String::new(), sums.values());
        }
    }

    /// The largest entries of every parent, and one for all others.
    pub(super) fn list<T: Copy>(
        &mut self,
        shape: Shape,
        entries: impl Iterator<Item = (Parent, T, Sums)>,
        compare: impl Fn(&T, &T) -> Ordering,
        text: impl Fn(&T) -> String,
    ) {
        debug_assert_ne!(shape.entity, Entity::Total);
        let order = |a: &(u64, T, Sums), b: &(u64, T, Sums)| {
            Reverse(a.0).cmp(&Reverse(b.0)).then_with(|| compare(&a.1, &b.1))
        };
        let mut lists: HashMap<Parent, List<T>, foldhash::fast::RandomState> = HashMap::default();
        for (parent, entity, sums) in entries {
            let list = lists.entry(parent).or_insert_with(List::empty);
            list.total.merge(&sums);
            list.count += 1;
            let (entry, best) = ((sums.rank(), entity, sums), &mut list.best);
            // The list is short: kept in order, its last entry is the one to beat.
            if best.len() == TOP_K {
                if best.last().is_some_and(|last| order(last, &entry).is_lt()) {
                    continue;
                }
                best.pop();
            }
            let place = best.partition_point(|known| order(known, &entry).is_lt());
            best.insert(place, entry);
        }
        for (parent, List { mut total, count, best }) in lists {
            for (_, entity, sums) in &best {
                total.take_out(sums);
                self.emit(shape, parent, text(entity), sums.values());
            }
            if count > best.len() {
                self.emit(shape, parent, OTHER.to_owned(), other_values(total.values()));
            }
        }
    }

    fn emit(&mut self, shape: Shape, parent: Parent, entity: String, values: Values) {
        let exporter = self.symbols.text(parent.place.exporter()).to_owned();
        self.panes.push(Pane {
            grouping: shape.name,
            start: self.start,
            exporter,
            if_index: parent.place.if_index(),
            dscp: u8::try_from(parent.tos).ok(),
            entity,
            values,
        });
    }
}
