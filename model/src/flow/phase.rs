//! The phase of unaligned windows: where the windows of one exporter begin.
//!
//! The hash is that of Nephron (fastutil's `mix` over a 32-bit multiplication), so that windows
//! begin where its windows begin. It is frozen: the vectors below are a contract.

/// Start of the fixed windows of length `window_ms` that belong to `node_id`: an offset in
/// `0..window_ms` milliseconds. Zero for a window without a length.
pub const fn phase_shift(node_id: u32, window_ms: i64) -> i64 {
    if window_ms <= 0 {
        return 0;
    }
    let mixed = node_id.wrapping_mul(0x9E37_79B9);
    let mixed = (mixed ^ (mixed >> 16)) as i32;
    mixed.unsigned_abs() as i64 % window_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{EventTime, Span, Window};

    #[test]
    fn the_vectors_of_the_baseline() {
        for (node, shift) in [
            (0, 0),
            (1, 43_410),
            (2, 14_940),
            (3, 28_243),
            (10, 25_648),
            (99, 7_199),
            (100, 34_481),
        ] {
            assert_eq!(phase_shift(node, 60_000), shift, "node {node}");
        }
        let window = Window::fixed(
            EventTime::from_millis(1_500_000_000_000),
            Span::from_millis(60_000),
            phase_shift(99, 60_000),
        );
        assert_eq!(
            (window.start().as_millis(), window.end().as_millis()),
            (1_499_999_947_199, 1_500_000_007_199)
        );
    }

    #[test]
    fn every_node_has_a_phase_within_the_window() {
        // The only node whose mixed hash is the smallest integer, which has no absolute value.
        assert_eq!(phase_shift(3_729_031_168, 60_000), i64::from(i32::MIN).abs() % 60_000);
        assert_eq!(phase_shift(u32::MAX, 1), 0);
        assert_eq!(phase_shift(7, 0), 0);
        assert_eq!(phase_shift(7, -5), 0);
    }
}
