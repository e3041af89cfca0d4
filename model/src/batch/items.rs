//! Records of sessions as the oracle keeps them: which of them are copies, in which order they stand,
//! and how far they are apart.

use super::chain::Says;
use crate::row::Position;
use crate::time::{EventTime, Span};
use crate::value::Value;

/// A record of a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) time: EventTime,
    pub(super) step: usize,
    pub(super) says: Says,
    pub(super) status: Value,
    pub(super) reason: Value,
    pub(super) carried: Vec<Value>,
    pub(super) id: Value,
    pub(super) position: Position,
    pub(super) is_out_of_order: bool,
    pub(super) is_late: bool,
    pub(super) copies: usize,
    pub(super) is_told: bool,
}

/// Most copies that are counted of one record.
const COPIES_MAX: usize = 15;

impl Item {
    pub(super) fn order(&self) -> (EventTime, usize, u32, u64) {
        (self.time, self.step, self.position.partition, self.position.offset)
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self.says, Says::Success | Says::Failure)
    }

    fn is_copy_of(&self, other: &Self) -> bool {
        let is_same = match &self.id {
            Value::Null if other.id == Value::Null => {
                self.step == other.step && self.status == other.status
            }
            id => *id == other.id,
        };
        self.time == other.time && is_same
    }
}

/// Where in `items` the first one stands behind `item`, or the end.
fn place_of(items: &[Item], item: &Item) -> usize {
    items.iter().position(|known| known.order() > item.order()).unwrap_or(items.len())
}

/// Puts an item, which is no copy, in its place; returns that.
pub(super) fn put(items: &mut Vec<Item>, mut item: Item) -> usize {
    let at = place_of(items, &item);
    item.is_out_of_order = at < items.len();
    items.insert(at, item);
    at
}

/// Whether `item` is a copy of one of `items`: the two are then one. Of copies that come in time the
/// one counts that stands first; one that comes late changes nothing.
pub(super) fn join(items: &mut Vec<Item>, item: &Item) -> bool {
    let Some(at) = items.iter().position(|known| known.is_copy_of(item)) else { return false };
    let Some(known) = items.get_mut(at) else { return false };
    if !known.is_told {
        known.copies = (known.copies + 1).min(COPIES_MAX);
    }
    if item.is_late || item.order() > known.order() {
        return true;
    }
    let known = items.remove(at);
    let (is_late, is_out_of_order, copies) = (known.is_late, known.is_out_of_order, known.copies);
    let place = place_of(items, item);
    items.insert(place, Item { is_late, is_out_of_order, copies, ..item.clone() });
    true
}

/// Milliseconds from one instant to another, however far they are apart.
pub(super) fn distance(from: EventTime, to: EventTime) -> i128 {
    i128::from(to.as_millis()) - i128::from(from.as_millis())
}

pub(super) fn millis(span: Span) -> i128 {
    span.as_millis().into()
}

/// The instant so far behind another one; the end of time if it lies behind that.
pub(super) fn behind(time: EventTime, span: Span) -> EventTime {
    let millis = i128::from(time.as_millis()) + millis(span);
    i64::try_from(millis).map_or(EventTime::MAX, EventTime::from_millis)
}
