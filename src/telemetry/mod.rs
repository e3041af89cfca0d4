//! What a run tells a collector of OpenTelemetry, over OTLP: spans and metrics.
//!
//! Actors make spans through the API of OpenTelemetry (`nilometer_actors::trace`); `sampling` decides
//! which are kept; `spans` takes them to a thread that hands them to the `Collector`. Metrics are what
//! actors show, see `crate::metrics`, which a thread of their own hands over. See `docs/telemetry.md`.
//!
//! Invariant: nobody waits for a collector but these threads, and the end of the run a little; what is
//! not taken is counted.

mod collector;
mod otlp;
mod push;
mod sampling;
mod spans;
#[cfg(test)]
mod tests;

pub(crate) use collector::resource;
pub use push::PushError;
pub(crate) use push::Pushing;
pub(crate) use spans::Spans;
