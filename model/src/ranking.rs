//! Which candidates are the K largest: a pure decision over ranks and keys.
//!
//! Order: descending rank, then by key, as the caller says. Cost: O(candidates) on average, plus sorting the K;
//! room for a few K only.

use std::cmp::{Ordering, Reverse};

/// A candidate: its rank and whatever identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ranked {
    /// What it is ranked by.
    pub(crate) rank: i128,
    /// The entry.
    pub(crate) entry: u32,
}

/// The `k` best of `candidates`, best first; `by_key` orders entries of equal rank.
pub(crate) fn best(
    candidates: impl Iterator<Item = Ranked>,
    k: usize,
    by_key: impl Fn(u32, u32) -> Ordering,
) -> Vec<Ranked> {
    let room = k.saturating_mul(4).max(64);
    let mut kept: Vec<Ranked> = Vec::new();
    // No candidate below it can be among the best.
    let mut least = i128::MIN;
    for candidate in candidates {
        if candidate.rank < least {
            continue;
        }
        kept.push(candidate);
        if kept.len() >= room {
            keep_best(&mut kept, k, &by_key);
            least = kept.iter().map(|kept| kept.rank).min().unwrap_or(i128::MIN);
        }
    }
    keep_best(&mut kept, k, &by_key);
    kept.sort_unstable_by(|a, b| order(a, b, &by_key));
    kept
}

fn order(a: &Ranked, b: &Ranked, by_key: impl Fn(u32, u32) -> Ordering) -> Ordering {
    Reverse(a.rank).cmp(&Reverse(b.rank)).then_with(|| by_key(a.entry, b.entry))
}

/// Keeps the `k` best, in any order.
fn keep_best(kept: &mut Vec<Ranked>, k: usize, by_key: impl Fn(u32, u32) -> Ordering) {
    if k < kept.len() {
        if k > 0 {
            kept.select_nth_unstable_by(k - 1, |a, b| order(a, b, &by_key));
        }
        kept.truncate(k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranked(ranks: &[i128]) -> impl DoubleEndedIterator<Item = Ranked> {
        ranks.iter().enumerate().map(|(entry, rank)| Ranked { rank: *rank, entry: entry as u32 })
    }

    fn entries(best: &[Ranked]) -> Vec<u32> {
        best.iter().map(|candidate| candidate.entry).collect()
    }

    #[test]
    fn ties_go_to_the_smaller_key() {
        for (ranks, k, expected) in [
            (&[5, 9, 5, 7][..], 3, &[1, 3, 0][..]),
            (&[1, 1, 1, 1], 2, &[0, 1]),
            (&[1, -2], 5, &[0, 1]),
            (&[], 3, &[]),
            (&[4], 0, &[]),
        ] {
            let got = best(ranked(ranks).rev(), k, |a, b| a.cmp(&b));
            assert_eq!(entries(&got), expected, "{ranks:?}");
        }
    }

    proptest! {
        #[test]
        fn the_best_are_the_first_in_order(
            ranks in prop::collection::vec(-20_i128..20, 0..300), k in 0_usize..80,
        ) {
            let mut all: Vec<_> = ranked(&ranks).collect();
            all.sort_by_key(|candidate| (Reverse(candidate.rank), candidate.entry));
            all.truncate(k);
            prop_assert_eq!(best(ranked(&ranks), k, |a, b| a.cmp(&b)), all);
        }
    }
}
