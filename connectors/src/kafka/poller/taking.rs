//! How a record comes from the brokers into a chunk for the queue.

use super::Track;
use crate::kafka::queue::Chunk;
use crate::trace_context::{Headers, PARENT, STATE};
use rdkafka::message::{BorrowedMessage, Headers as _, Message};
use std::collections::HashMap;
use std::sync::Arc;

/// Keeps a record for the queue, and which span made it if `is_traced`.
pub(super) fn take(
    message: &BorrowedMessage<'_>,
    (chunk, tracks): (&mut Chunk, &mut [Track]),
    numbers: &HashMap<Arc<str>, HashMap<i32, usize>>,
    is_traced: bool,
) {
    let numbers = numbers.get(message.topic());
    let number = numbers.and_then(|numbers| numbers.get(&message.partition()).copied());
    let track = number.and_then(|number| tracks.get_mut(number));
    let (Some(number), Some(track)) = (number, track.filter(|track| track.is_ours)) else { return };
    let offset = message.offset();
    track.next = offset.saturating_add(1);
    let place = (number, offset, message.timestamp().to_millis());
    chunk.push(place, message.key(), message.payload());
    if is_traced && let Some(context) = headers(message).context() {
        chunk.made_by(context);
    }
}

/// The headers of a record that say which span made it.
fn headers<'a>(message: &'a BorrowedMessage<'_>) -> Headers<'a> {
    let mut found = Headers::default();
    for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
        let value = || header.value.and_then(|value| std::str::from_utf8(value).ok());
        match header.key {
            PARENT => found.parent = value(),
            STATE => found.state = value(),
            _ => {}
        }
    }
    found
}
