//! Deltas of other stages on their way into windows, regrouped by a coarser key.

use super::{Copy, Entered, Judged, Shape, Takes};
use crate::aggregate::{AggregateLayout, Overflow, ValuesMut, ValuesRef};
use crate::key::KeyLayout;
use crate::late::Aside;
use crate::pane::Deltas;
use crate::plan::{PaneCopy, PaneInput};
use crate::symbol::Symbols;

/// Takes deltas of the parent stage, whose key and aggregates are `parent`'s.
pub(crate) fn take_deltas<T: Takes>(
    table: &mut T,
    shape: &mut Shape,
    input: &PaneInput,
    (deltas, parent, symbols): (&Deltas, (&KeyLayout, &AggregateLayout), &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let (parent_key, parent_values) = parent;
    for (source, window, values) in deltas.iter(parent_key.words(), parent_values.words()) {
        let time = window.last_instant();
        let window = if input.same_window { window } else { shape.window_at(window.start()) };
        for copy in &input.copies {
            copy.key.pack(source, &mut shape.scratch);
            let key = shape.scratch.as_slice();
            let bytes = values.bytes() as u64;
            let incoming = Copy { hash: table.hash(key), key, window, time, bytes };
            let Some(entered) = enter(table, incoming, symbols, aside)? else { continue };
            let (aggregates, delta) = table.delta(&entered);
            regroup(aggregates, (delta, entered.is_empty), copy, (parent_values, values), symbols)?;
        }
    }
    Ok(())
}

/// Merges a parent's accumulators into `delta`, which may be known to be empty.
pub(crate) fn regroup(
    aggregates: &AggregateLayout,
    (mut delta, is_empty): (ValuesMut<'_>, bool),
    copy: &PaneCopy,
    (parent, values): (&AggregateLayout, ValuesRef<'_>),
    symbols: &Symbols,
) -> Result<(), Overflow> {
    if copy.is_plain {
        if is_empty {
            delta.words.copy_from_slice(values.words);
            delta.sides.clone_from_slice(values.sides);
            return Ok(());
        }
        return aggregates.merge_all(delta, values, symbols);
    }
    for (to, from) in copy.from.iter().enumerate() {
        aggregates.merge((delta.reborrow(), to), parent, (values, *from), symbols)?;
    }
    Ok(())
}

/// Takes deltas that are already in the stage's own key and aggregates: what an exchange brings.
pub(crate) fn take_exchanged<T: Takes>(
    table: &mut T,
    deltas: &Deltas,
    (key_words, symbols): (usize, &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let value_words = table.aggregates().words();
    for (key, window, values) in deltas.iter(key_words, value_words) {
        let (time, bytes) = (window.last_instant(), values.bytes() as u64);
        let incoming = Copy { hash: table.hash(key), key, window, time, bytes };
        let Some(entered) = enter(table, incoming, symbols, aside)? else { continue };
        let (aggregates, delta) = table.delta(&entered);
        aggregates.merge_all(delta, values, symbols)?;
    }
    Ok(())
}

/// Judges a delta. It carries no record that could be listed.
fn enter<T: Takes>(
    table: &mut T,
    delta: Copy<'_>,
    symbols: &Symbols,
    aside: &mut Aside,
) -> Result<Option<Entered>, Overflow> {
    match table.enter(delta, symbols)? {
        Judged::Into(entered) => Ok(Some(entered)),
        Judged::Dropped(reason) => {
            aside.drop_late(reason, delta.key);
            Ok(None)
        }
    }
}
