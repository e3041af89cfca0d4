//! What lies in the outputs of sinks, and outlives the process: numbers of what was written, in
//! order.

use nilometer_actors::checkpoint::SinkCut;
use nilometer_model::invariant::EPOCH_2;
use std::collections::BTreeSet;

/// The output of a sink.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    lines: Vec<u32>,
    /// Whether it can be cut off, as a file: then nothing is ever read twice.
    can_be_cut: bool,
}

/// What is published of an epoch, as it is stored.
pub(crate) fn block(written: &[u32]) -> Vec<u8> {
    written.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// What a block holds.
fn lines(block: &[u8]) -> Vec<u32> {
    block.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

impl Output {
    pub(crate) const fn new(can_be_cut: bool) -> Self {
        Self { lines: Vec::new(), can_be_cut }
    }

    /// Where what comes next begins, if it can be cut off there.
    pub(crate) fn begins(&self) -> Option<u64> {
        self.can_be_cut.then_some(self.lines.len() as u64)
    }

    /// Publishes a block.
    pub(crate) fn publish(&mut self, block: &[u8]) {
        self.lines.extend(lines(block));
    }

    /// Publishes as many lines of a block as a crash lets through.
    pub(crate) fn publish_half(&mut self, block: &[u8], half: usize) {
        self.lines.extend(lines(block).into_iter().take(half));
    }

    /// A process opens it, behind the epoch in which it was cut like this, and that has `stored` of
    /// it; or behind none. What was
    /// not marked as published is then to be published again.
    pub(crate) fn open(&mut self, cut: Option<&SinkCut>, stored: &[u8]) {
        let Some(cut) = cut else {
            assert!(self.lines.is_empty(), "{EPOCH_2}: published before anything was stored");
            return;
        };
        let Some(begins) = cut.begins else { return };
        let begins = begins as usize;
        assert!(begins <= self.lines.len(), "{EPOCH_2}: a part of the output is gone");
        let removed = self.lines.split_off(begins);
        // Readers may have seen it.
        let again = lines(stored);
        assert!(again.starts_with(&removed), "{EPOCH_2}: {removed:?} is taken back for {again:?}");
    }

    /// What somebody has who reads it to the end and lets the later one win of two that are the
    /// same.
    pub(crate) fn settled(&self) -> Vec<u32> {
        let mut seen = BTreeSet::new();
        let repeats = |number: &u32| {
            assert!(!self.can_be_cut, "{EPOCH_2}: output {number} comes twice");
            false
        };
        let lines = self.lines.iter().copied();
        lines.filter(|number| seen.insert(*number) || repeats(number)).collect()
    }
}
