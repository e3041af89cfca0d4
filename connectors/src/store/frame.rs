//! Values as they lie in a store: a version, a checksum, the content.
//!
//! Nothing is taken from a value whose checksum does not fit.

use super::STORE_VERSION;
use nilometer_model::epoch::Epoch;
use twox_hash::XxHash64;

/// Bytes in front of the content.
const HEAD_BYTES: usize = 9;

/// A value that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Another version wrote it.
    Version(u8),
    /// It is not what was written.
    Damaged,
}

/// The value of `content`.
pub(crate) fn seal(content: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEAD_BYTES + content.len());
    value.push(STORE_VERSION);
    value.extend_from_slice(&checksum(content).to_le_bytes());
    value.extend_from_slice(content);
    value
}

/// The content of `value`.
pub(crate) fn open(value: &[u8]) -> Result<&[u8], Unusable> {
    let (head, content) = value.split_at_checked(HEAD_BYTES).ok_or(Unusable::Damaged)?;
    let (version, sum) = head.split_first().ok_or(Unusable::Damaged)?;
    let is_whole = checksum(content).to_le_bytes() == *sum;
    match (is_whole, *version) {
        (true, STORE_VERSION) => Ok(content),
        // The checksum covers the content alone, and will lie there in every version.
        (true, other) => Err(Unusable::Version(other)),
        (false, _) => Err(Unusable::Damaged),
    }
}

/// The value of an epoch.
pub(crate) fn seal_epoch(epoch: Epoch) -> Vec<u8> {
    seal(&epoch.number().to_le_bytes())
}

/// The epoch in `value`.
pub(crate) fn open_epoch(value: &[u8]) -> Result<Epoch, Unusable> {
    let number = open(value)?.try_into().map_err(|_| Unusable::Damaged)?;
    Ok(Epoch::from_number(u64::from_le_bytes(number)))
}

/// A checksum of `content`, the same everywhere and for ever.
pub(crate) fn checksum(content: &[u8]) -> u64 {
    XxHash64::oneshot(0, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_not_taken() {
        for content in [&b""[..], b"x", &[7; 1_000]] {
            let value = seal(content);
            assert_eq!(open(&value), Ok(content));
            for bit in 8..value.len() * 8 {
                let mut flipped = value.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(open(&flipped), Err(Unusable::Damaged), "bit {bit}");
            }
            for len in 0..value.len() {
                assert_eq!(open(&value[..len]), Err(Unusable::Damaged), "{len} bytes");
            }
            let mut newer = value;
            newer[0] = STORE_VERSION + 1;
            assert_eq!(open(&newer), Err(Unusable::Version(STORE_VERSION + 1)));
        }
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // XXH64 of nothing and of "abc" with seed 0, from the reference implementation.
        assert_eq!(checksum(b""), 0xef46_db37_51d8_e999);
        assert_eq!(checksum(b"abc"), 0x44bc_2cf5_ad77_0999);
    }
}
