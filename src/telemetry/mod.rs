//! What a run tells a collector of OpenTelemetry, over OTLP: spans.
//!
//! Actors make spans through the API of OpenTelemetry (`nilometer_actors::trace`); [`sampling`] decides
//! which are kept; [`spans`] takes them to a thread that hands them to the [`Collector`]. See
//! `docs/telemetry.md`.
//!
//! Invariant: nobody waits for a collector but that thread, and the end of the run a little; what is
//! not taken is counted.

mod collector;
mod sampling;
mod spans;

pub(crate) use spans::Spans;
