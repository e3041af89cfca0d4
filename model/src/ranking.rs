//! Which candidates are the K largest: a pure decision over ranks and keys.
//!
//! Order: descending rank, then ascending key. Cost: O(candidates) on average, plus sorting the K.

use std::cmp::{Ordering, Reverse};

/// A candidate: its rank and whatever identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ranked {
    /// What it is ranked by.
    pub(crate) rank: i128,
    /// The entry.
    pub(crate) entry: u32,
}

/// Keeps the `k` best of `candidates`, best first; `by_key` orders entries of equal rank.
pub(crate) fn keep_best(
    candidates: &mut Vec<Ranked>,
    k: usize,
    by_key: impl Fn(u32, u32) -> Ordering,
) {
    let order = |a: &Ranked, b: &Ranked| {
        Reverse(a.rank).cmp(&Reverse(b.rank)).then_with(|| by_key(a.entry, b.entry))
    };
    if k < candidates.len() {
        if k > 0 {
            candidates.select_nth_unstable_by(k - 1, order);
        }
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_smaller_key() {
        for (ranks, k, expected) in [
            (&[5, 9, 5, 7][..], 3, &[1, 3, 0][..]),
            (&[1, 1, 1, 1], 2, &[0, 1]),
            (&[1, -2], 5, &[0, 1]),
            (&[], 3, &[]),
            (&[4], 0, &[]),
        ] {
            let ranked =
                |(entry, rank): (usize, &i128)| Ranked { rank: *rank, entry: entry as u32 };
            let mut candidates: Vec<_> = ranks.iter().enumerate().map(ranked).rev().collect();
            keep_best(&mut candidates, k, |a, b| a.cmp(&b));
            let got: Vec<_> = candidates.iter().map(|candidate| candidate.entry).collect();
            assert_eq!(got, expected, "{ranks:?}");
        }
    }
}
