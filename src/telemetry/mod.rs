//! What a run tells a collector of OpenTelemetry, over OTLP: spans and metrics.
//!
//! Actors make spans through the API of OpenTelemetry (`nilometer_actors::trace`); `sampling` decides
//! which are kept; `spans` takes them to a thread that hands them to the `Collector`. Metrics are what
//! actors show, see `crate::metrics`, which a thread of their own hands over. See `docs/telemetry.md`.
//!
//! Invariant: nobody waits for a collector but these threads, and the end of the run a little; what is
//! not taken is counted.

mod collector;
mod dial;
mod otlp;
mod push;
mod sampling;
mod spans;
#[cfg(test)]
mod tests;

pub(crate) use collector::resource;
pub(crate) use push::Pushing;
pub(crate) use spans::Spans;

use nilometer_connectors::secret::SecretError;
use std::io;
use std::path::PathBuf;

/// A collector cannot be told anything.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Its URL is none.
    #[error("telemetry: `{endpoint}` is not the URL of a collector: {detail}")]
    Url {
        /// What it is.
        endpoint: Box<str>,
        /// Why.
        detail: Box<str>,
    },
    /// What it is known by cannot be read.
    #[error(
        "telemetry: cannot read {}: {detail}; a `ca_file` holds certificates in PEM",
        ca_file.as_ref().map_or_else(|| "the certificates of the system".into(), |path| format!("`{}`", path.display()))
    )]
    Certificates {
        /// Path as the user wrote it.
        ca_file: Option<PathBuf>,
        /// What OpenSSL says.
        detail: Box<str>,
    },
    /// The file of a header cannot be read.
    #[error("telemetry: header `{name}`: {error}")]
    HeaderFile {
        /// The header.
        name: Box<str>,
        /// Why.
        error: SecretError,
    },
    /// A header cannot be sent. Its value is nobody's to see.
    #[error("telemetry: header `{name}` cannot be sent: visible ASCII characters and spaces can")]
    Header {
        /// The header.
        name: Box<str>,
    },
    /// There is no thread to tell it by.
    #[error(
        "telemetry: cannot start a thread: {0}; raise the limit of processes, or leave `telemetry` out"
    )]
    Thread(#[from] io::Error),
}
