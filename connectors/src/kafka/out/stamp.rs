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

    /// The stamp as text, for the metadata of offsets.
    pub(crate) fn text(&self) -> String {
        format!("{} {:016x} {:016x}", self.number, self.digest, self.incarnation)
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
