//! How a run is seen from outside: its admin port, and the collector that it tells of itself.

use nilometer_connectors::secret::Secret;
use nilometer_model::time::Span;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The admin port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens. Unless this is an address of the machine's own, there is a token.
    pub listen: SocketAddr,
    /// File with the token that requests carry.
    pub token_file: Option<PathBuf>,
}

/// What is told to a collector of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TelemetryConfig {
    /// Where it is told; `None`: nowhere.
    pub otlp: Option<OtlpConfig>,
    /// What is said of this process, in the order of the file.
    pub resource: Vec<(Box<str>, Box<str>)>,
}

/// A collector that takes OTLP.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpConfig {
    /// Its URL, which begins with `http://` or `https://`.
    pub endpoint: Box<str>,
    /// What it speaks.
    pub protocol: OtlpProtocol,
    /// How often metrics are sent; `None`: never.
    pub metrics: Option<Span>,
    /// Which share of the traces that begin here is sent, from 0 for none to 1 for all.
    pub traces: f64,
    /// Whether the makers of records decide for the traces that go on with them.
    pub parent_based: bool,
    /// How long a request may take.
    pub timeout: Span,
    /// File of the authorities that it is known by; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// What requests carry: names and values.
    pub headers: Vec<(Box<str>, Secret)>,
}

impl OtlpConfig {
    /// Whether connections to it are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.endpoint.starts_with(ENCRYPTED)
    }
}

/// What an encrypted endpoint begins with.
pub(crate) const ENCRYPTED: &str = "https://";

impl TelemetryConfig {
    /// Where spans go, if any do.
    pub fn traced(&self) -> Option<&OtlpConfig> {
        self.otlp.as_ref().filter(|otlp| otlp.traces > 0.0)
    }
}

/// What a collector speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Over gRPC.
    Grpc,
    /// Over HTTP, in protocol buffers.
    Http,
}
