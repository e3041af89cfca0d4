//! Names of what always holds, for assertions and tests.
//!
//! Each is stated once, where it is kept; a test that checks one names it, so that a failure says
//! which promise was broken.

/// No record is handled after a watermark that was reported after it.
pub const ORDER_1: &str = "ORDER-1";
/// A watermark never goes back.
pub const WM_1: &str = "WM-1";
/// The verdict on a window only moves on: on time, late, expired.
pub const LATE_1: &str = "LATE-1";
/// Timings of one window follow `EARLY* (ON_TIME | TIMED_OUT)? LATE*`.
pub const PANE_1: &str = "PANE-1";
/// Indices of the panes of one window count from 0 and have no gap.
pub const PANE_2: &str = "PANE-2";
/// Nothing of a window is left after its expiry.
pub const GC_1: &str = "GC-1";
/// The deltas of a window sum to the batch over it, at every level of a cascade.
pub const ROLL_1: &str = "ROLL-1";
/// A key group has exactly one shard.
pub const SHARD_1: &str = "SHARD-1";

/// At most one epoch is in flight.
pub const EPOCH_1: &str = "EPOCH-1";
/// A stored epoch is all or nothing.
pub const EPOCH_2: &str = "EPOCH-2";
/// A stored position covers exactly the stored state.
pub const POS_1: &str = "POS-1";
/// Whoever has heard of a tick has lived through as much as all others who have.
pub const CLOCK_1: &str = "CLOCK-1";
/// A key is in memory or in one entry of one page, never in both.
pub const COLD_1: &str = "COLD-1";

/// All of them.
pub const ALL: [&str; 13] = [
    ORDER_1, WM_1, LATE_1, PANE_1, PANE_2, GC_1, ROLL_1, SHARD_1, EPOCH_1, EPOCH_2, POS_1, CLOCK_1,
    COLD_1,
];
