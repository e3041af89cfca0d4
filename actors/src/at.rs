//! What the thread that is asked is taking in: so that whoever hears of a panic, or of a stage that
//! fails, knows of which records it came.

use nilometer_model::row::{Position, RowBatch};
use std::cell::RefCell;

/// Records of a source that are taken in together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number of the source.
    pub source: u32,
    /// Of each partition that they are of: its number, as their positions have it, the offset of the
    /// first, and that behind the last.
    pub ranges: Vec<(u32, u64, u64)>,
}

thread_local! {
    static AT: RefCell<Batch> = RefCell::default();
}

/// The records that this thread is taking in: `None` unless it is that of a shard, between receiving
/// them and having sent on what they gave.
pub fn at() -> Option<Batch> {
    AT.with(|at| at.try_borrow().ok().filter(|at| !at.ranges.is_empty()).map(|at| at.clone()))
}

/// What `take` gives, which takes in `batch` of `source`.
pub(crate) fn during<T>((source, batch): (u32, &RowBatch), take: impl FnOnce() -> T) -> T {
    AT.with_borrow_mut(|at| {
        at.source = source;
        let positions = (0..batch.len()).map(|index| batch.position(index));
        positions.for_each(|position| add(&mut at.ranges, position));
    });
    let given = take();
    AT.with_borrow_mut(|at| at.ranges.clear());
    given
}

/// Widens the range of a partition, or begins it. The one that was widened last is looked at first:
/// records of a partition come in runs.
fn add(ranges: &mut Vec<(u32, u64, u64)>, Position { partition, offset }: Position) {
    let behind = offset.saturating_add(1);
    let is_last = ranges.last().is_some_and(|(last, ..)| *last == partition);
    if !is_last {
        match ranges.iter().position(|(known, ..)| *known == partition) {
            Some(known) => {
                let last = ranges.len().saturating_sub(1);
                ranges.swap(known, last);
            }
            None => ranges.push((partition, offset, behind)),
        }
    }
    if let Some((_, from, to)) = ranges.last_mut() {
        (*from, *to) = ((*from).min(offset), (*to).max(behind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_its_range() {
        let mut ranges = Vec::new();
        for (partition, offset) in [(2, 7), (2, 8), (0, 5), (2, 11), (0, 3), (1, 0)] {
            add(&mut ranges, Position { partition, offset });
        }
        ranges.sort_unstable();
        assert_eq!(ranges, [(0, 3, 6), (1, 0, 1), (2, 7, 12)]);
    }
}
