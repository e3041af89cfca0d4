//! Whether stored state still means what a plan takes it for: stage by stage.
//!
//! The state of a stage belongs to what it computes. A [`StagePrint`] says what that is, setting by
//! setting, in texts that are stored beside the state; [`compare`] holds the prints of a state
//! against those of a plan. What has no part in the meaning of a state has none in its print: sinks,
//! limits, how keys are placed, why the planner chose a parent.
//!
//! Facts in, decision out: what a program makes of the decision is its own. The texts are stored: if
//! one is worded differently, every state that was stored before has changed.

mod compare;
mod print;
#[cfg(test)]
mod tests;

pub use compare::{Fate, Reason, StageChange, compare};
pub use print::{Reads, StagePrint};
