//! Entries of pages: the number of a page, and which of its own entries count, in words of bits.

use super::ImageError;
use super::bytes::{Input, put_bytes, put_number};
use super::segment::entry;
use crate::cold::{KnownPage, PageNumber};
use crate::key::KeyGroup;

/// Appends a page as an entry of a segment.
pub(super) fn put(known: &KnownPage, entries: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    put_number(&mut bytes, known.number.0);
    put_bytes(entries, &bytes);
    bytes.clear();
    for bits in &known.live {
        bytes.extend_from_slice(&bits.to_le_bytes());
    }
    put_bytes(entries, &bytes);
}

/// The next entry of a segment of pages of a key group.
pub(super) fn known(group: KeyGroup, entries: &mut Input<'_>) -> Result<KnownPage, ImageError> {
    let (mut name, mut content) = entry(entries)?;
    let number = PageNumber(name.number()?);
    let mut live = Vec::new();
    while !content.is_empty() {
        live.push(u64::from_le_bytes(content.array()?));
    }
    Ok(KnownPage { number, group, live })
}
