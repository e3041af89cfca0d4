//! Stamps: what a transaction says of itself, and what follows from the last one after a restart.
//! Pure: facts in, decision out.
//!
//! Invariant: an epoch that has come out is never sent again, and one that has not is never left out;
//! what does not fit the state of the pipeline stops the run instead.

use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use twox_hash::XxHash64;

/// The last epoch of a sink that has come out, as it stands in the changelog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// How many epochs of the sink have come out, this one counted; those without output do not count.
    pub(crate) number: u64,
    /// Hash of what came out.
    pub(crate) digest: u64,
    /// The process that wrote it.
    pub(crate) incarnation: u64,
}

/// Whoever writes it is the only one from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The process.
    pub(crate) incarnation: u64,
    /// How many claims it has made, this one counted.
    pub(crate) number: u64,
}

/// How an epoch that is to come out stands to what has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is the next one.
    Next,
    /// It may be what has come out last: its digest tells.
    MayBeOut,
    /// It is not of the history that has come out.
    Strange,
}

impl Stamp {
    /// How epoch `number` of a sink stands to the last stamp of it.
    pub(crate) fn standing(last: Option<Self>, number: u64) -> Standing {
        let last = last.map_or(0, |last| last.number);
        if number == last {
            Standing::MayBeOut
        } else if Some(number) == last.checked_add(1) {
            Standing::Next
        } else {
            Standing::Strange
        }
    }

    /// Whether the last stamp, if there is one, is that of a state whose next epoch is `number`, and
    /// which holds output of it if `has_output`: only then it may have come out.
    pub(crate) fn goes_with(last: Option<Self>, number: u64, has_output: bool) -> bool {
        match Self::standing(last, number) {
            Standing::Next => true,
            Standing::MayBeOut => has_output,
            Standing::Strange => false,
        }
    }

    /// Whether this stamp, which was committed beside offsets, goes with the `last` one of the changelog:
    /// both were committed at once, and offsets may have been left out since.
    pub(crate) fn is_known(self, last: Option<Self>) -> bool {
        last.is_some_and(|last| self == last || self.number < last.number)
    }

    /// The stamp of what writes as `id` as text, for the metadata of offsets.
    pub(crate) fn text(&self, id: &str) -> String {
        let writer = XxHash64::oneshot(0, id.as_bytes());
        format!("{} {:016x} {:016x} {writer:016x}", self.number, self.digest, self.incarnation)
    }

    /// The stamp that such a text holds, if it is one of what writes as `id`.
    pub(crate) fn of_text(text: &str, id: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let number = parts.next()?.parse().ok()?;
        let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
        let (digest, incarnation, writer) = (hex()?, hex()?, hex()?);
        let is_of = writer == XxHash64::oneshot(0, id.as_bytes());
        is_of.then_some(Self { number, digest, incarnation })
    }
}

/// The hash of what an epoch holds, block by block.
#[derive(Debug, Clone)]
pub(crate) struct Digest(XxHash64);

impl Default for Digest {
    fn default() -> Self {
        Self(XxHash64::with_seed(0))
    }
}

impl Digest {
    /// Takes in a block. Where one block ends and the next begins has no part in it.
    pub(crate) fn add(&mut self, block: &[u8]) {
        self.0.write(block);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_next_follows_from_the_last_stamp() {
        let stamp = |number| Some(Stamp { number, digest: 1, incarnation: 2 });
        for (last, number, expected) in [
            (None, 1, Standing::Next),
            (None, 0, Standing::MayBeOut),
            (None, 2, Standing::Strange),
            (stamp(7), 8, Standing::Next),
            (stamp(7), 7, Standing::MayBeOut),
            (stamp(7), 6, Standing::Strange),
            (stamp(7), 9, Standing::Strange),
            (stamp(u64::MAX), 0, Standing::Strange),
        ] {
            assert_eq!(Stamp::standing(last, number), expected, "{last:?} {number}");
        }
    }

    #[test]
    fn a_state_goes_with_the_stamp_that_it_has_written_or_may_have() {
        let stamp = |number| Some(Stamp { number, digest: 1, incarnation: 2 });
        for (last, number, has_output, expected) in [
            (None, 1, false, true),
            (stamp(6), 7, false, true),
            (stamp(6), 7, true, true),
            // It came out, and the process ended before it knew.
            (stamp(7), 7, true, true),
            // An older copy, or none.
            (stamp(7), 7, false, false),
            (stamp(8), 7, true, false),
            (stamp(1), 1, false, false),
            // The changelog was lost.
            (None, 2, true, false),
            (stamp(5), 7, false, false),
        ] {
            assert_eq!(Stamp::goes_with(last, number, has_output), expected, "{last:?} {number}");
        }
    }

    #[test]
    fn a_stamp_beside_offsets_is_known_to_the_changelog() {
        let stamp = |number, digest| Stamp { number, digest, incarnation: u64::MAX };
        for (noted, last, expected) in [
            (stamp(3, 1), Some(stamp(3, 1)), true),
            // Offsets were left out since.
            (stamp(2, 1), Some(stamp(3, 5)), true),
            (stamp(3, 1), Some(stamp(3, 2)), false),
            (stamp(4, 1), Some(stamp(3, 1)), false),
            (stamp(1, 1), None, false),
        ] {
            assert_eq!(noted.is_known(last), expected, "{noted:?} {last:?}");
            let text = noted.text("nilometer.flows.out.n");
            assert_eq!(Stamp::of_text(&text, "nilometer.flows.out.n"), Some(noted), "{text}");
            assert_eq!(Stamp::of_text(&text, "nilometer.flows.out.m"), None, "of another writer");
        }
        for text in ["", "3", "3 1 2", "x 1 2 out", "3 g 2 out"] {
            assert_eq!(Stamp::of_text(text, "out"), None, "{text}");
        }
    }

    #[test]
    fn a_digest_is_that_of_all_blocks() {
        let of = |blocks: &[&[u8]]| {
            let mut digest = Digest::default();
            blocks.iter().for_each(|block| digest.add(block));
            digest.finish()
        };
        assert_eq!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab"]), of(&[b"ba"]));
        // XXH64 of nothing, as published.
        assert_eq!(of(&[]), 0xef46_db37_51d8_e999);
    }
}
