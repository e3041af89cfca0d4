//! The same run with something beside it, and without, in turns.
//!
//! Invariant: each goes first as often as the other, so that a machine that gets slower or faster meanwhile
//! is fair to both.

use super::BenchError;
use super::engine::Run;
use super::report::Side;
use serde::Serialize;
use std::time::Duration;

/// Whether a turn has it beside it.
const TURNS: [bool; 8] = [false, true, true, false, true, false, false, true];

/// What both have shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Sides {
    pub(super) with: Side,
    pub(super) without: Side,
    /// Speed with it over speed without, per core.
    pub(super) ratio: f64,
}

impl Sides {
    /// For people: the speed with `what`, and without.
    pub(super) fn text(&self, what: &str) -> String {
        format!(
            "{what}: {:.0} ns/record with, {:.0} without: {:.3} of the speed",
            self.with.ns_per_record, self.without.ns_per_record, self.ratio
        )
    }
}

/// Runs `run` over so many records in turns, and has `check` look at what each gives.
pub(super) fn measure(
    records: u64,
    mut run: impl FnMut(bool) -> Result<Run, BenchError>,
    mut check: impl FnMut(Run) -> Result<usize, BenchError>,
) -> Result<Sides, BenchError> {
    let mut spent = [(Duration::ZERO, Duration::ZERO); 2];
    for is_beside in TURNS {
        let run = run(is_beside)?;
        let (wall, processor) = if is_beside { &mut spent[0] } else { &mut spent[1] };
        *wall += run.wall;
        *processor += run.processor;
        check(run)?;
    }
    let records = records.saturating_mul(TURNS.len() as u64 / 2);
    let [with, without] = spent.map(|(wall, processor)| Side::new(records, wall, processor));
    let ratio = with.records_per_core_second / without.records_per_core_second;
    Ok(Sides { with, without, ratio })
}
