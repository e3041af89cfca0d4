//! Watermarks: estimated per source partition, combined as a minimum that never goes back.
//!
//! A [`Generator`] sits in the reader of a partition and watches every event time. A
//! [`Coordinator`] takes the progress of all partitions and decides the pipeline's watermark, who
//! is idle, and whose turn it is to read. Neither has a clock: time comes with the tick. Invariant
//! WM-1: what [`Coordinator`] gives out only rises, whatever partitions do.
//!
//! Beside the watermark there may be second ones, each a promise about a share of the records only:
//! what triggers fire early by. They go the same way, in the order in which the pipeline lists
//! their percentiles.

mod alignment;
mod coordinator;
mod drift;
mod estimates;
mod estimator;
mod generator;
mod partition;
mod passed;
mod percentile;
mod punctuation;
mod renumbering;
mod settings;
mod standing;

#[cfg(test)]
mod tests;

pub use alignment::Grant;
pub use coordinator::Coordinator;
pub use estimates::{Estimates, EstimatesImage};
pub use estimator::{Estimator, Marks, TooFar};
pub use generator::{Generator, Observed, Punctuated, Surroundings};
pub use partition::{PartitionState, Progress, Reader};
pub use percentile::Percentile;
pub use punctuation::Punctuation;
pub use renumbering::Renumbering;
pub use settings::{
    AllIdle, Clamped, Estimation, FutureSkew, ProgressRules, WatermarkSettings, WatermarkSpec,
};
pub use standing::{Holder, PartitionStanding, Standing};
