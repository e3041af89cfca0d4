//! Partitions and second watermarks are numbered by their place in a pipeline. Where a pipeline has
//! changed since its state was stored, this says which number of the state each of them had.

use crate::time::Watermark;

/// By number of this start: the number that it had when the state was stored; `None` for what was
/// not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renumbering {
    /// Of the partitions.
    pub partitions: Vec<Option<usize>>,
    /// Of the shares of the records that have a second watermark.
    pub shares: Vec<Option<usize>>,
}

impl Renumbering {
    /// Everything has the number that it had.
    pub fn none(partitions: usize, shares: usize) -> Self {
        let same = |count| (0..count).map(Some).collect();
        Self { partitions: same(partitions), shares: same(shares) }
    }

    /// The second watermarks out of stored ones; one that was not there promises what `watermark`
    /// does, which holds for any share.
    pub(crate) fn shares_of(&self, stored: &[Watermark], watermark: Watermark) -> Vec<Watermark> {
        let share = |number: &Option<usize>| number.and_then(|number| stored.get(number)).copied();
        self.shares.iter().map(|number| share(number).unwrap_or(watermark)).collect()
    }

    /// Whether the shares are those of a state that had `stored` of them.
    pub(crate) fn has_same_shares(&self, stored: usize) -> bool {
        self.shares.len() == stored
            && self.shares.iter().enumerate().all(|(number, known)| *known == Some(number))
    }
}
