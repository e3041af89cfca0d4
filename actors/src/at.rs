//! What the thread that is asked is taking in: so that whoever hears of a panic, or of a stage that
//! fails, knows of which records it came.

use nilometer_model::epoch::BatchPlace;
use nilometer_model::row::RowBatch;
use std::cell::Cell;

thread_local! {
    static AT: Cell<Option<BatchPlace>> = const { Cell::new(None) };
}

/// The records that this thread is taking in: `None` unless it is that of a shard, between receiving
/// them and having sent on what they gave.
pub fn at() -> Option<BatchPlace> {
    AT.get()
}

/// What `take` gives, which takes in `batch` of `partition`.
pub(crate) fn during<T>((partition, batch): (u32, &RowBatch), take: impl FnOnce() -> T) -> T {
    // In the order of their offsets.
    let place = batch.len().checked_sub(1).map(|last| BatchPlace {
        partition,
        from: batch.position(0).offset,
        to: batch.position(last).offset.saturating_add(1),
    });
    AT.set(place);
    let given = take();
    AT.set(None);
    given
}
