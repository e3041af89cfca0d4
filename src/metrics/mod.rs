//! Metrics: one table of what can be measured, and one account of what has been.
//!
//! Actors count in plain integers and show copies of them, see
//! [`nilometer_actors::figures`]. [`Account::of`] makes samples of these, and what is told of a run
//! from outside is made of the samples: the page for Prometheus, what is sent to a collector, and
//! the table in `docs/metrics.md`. So a name means the same everywhere.
//!
//! Invariant: labels take values that the plan, the configuration or a closed set of names decides,
//! never values out of records.

mod account;
mod figures;
pub(crate) mod prometheus;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use account::{Account, Deliveries, Point, Value, Watched};
pub(crate) use figures::StageFigures;
pub(crate) use table::{Kind, Metric};
