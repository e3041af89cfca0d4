//! What telemetry costs: the same run with a collector that is told of it, and without.

use super::BenchError;
use super::engine::{Beside, Run};
use super::turns::{self, Sides};
use crate::config::{OtlpConfig, OtlpProtocol};
use crate::metrics::{Deliveries, Watched};
use crate::telemetry::{Pushing, Spans};
use nilometer_actors::node::Node;
use nilometer_model::plan::Plan;
use nilometer_model::time::Span;
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// How often metrics are sent.
const METRICS_EVERY: Span = Span::from_millis(1_000);
/// How long a request may take.
const TIMEOUT: Span = Span::from_millis(5_000);

/// A collector, and what it has been told.
pub(super) struct Collector {
    config: OtlpConfig,
    /// All spans of runs that have ended.
    spans: Deliveries,
}

impl Collector {
    /// That at this URL, over gRPC. It is told of everything.
    pub(super) fn at(endpoint: &str) -> Self {
        let config = OtlpConfig {
            endpoint: endpoint.into(),
            protocol: OtlpProtocol::Grpc,
            metrics: Some(METRICS_EVERY),
            traces: 1.0,
            parent_based: true,
            timeout: TIMEOUT,
            ca_file: None,
            headers: Vec::new(),
        };
        Self { config, spans: Deliveries::default() }
    }

    /// Opens the way of the spans of a run.
    pub(super) fn spans(&self) -> Result<Spans, BenchError> {
        // What it refuses is counted, and the count is told.
        let spans = Spans::start(&self.config, Resource::default(), |_| {});
        spans.map_err(|error| BenchError::Engine(error.to_string()))
    }

    /// Begins to tell of the metrics of a run.
    pub(super) fn watch(
        &self,
        node: &Node,
        plan: Arc<Plan>,
        spans: &Spans,
    ) -> Result<Option<Pushing>, BenchError> {
        let watched = Watched {
            node: node.handle(),
            plan,
            pipeline: "bench".into(),
            has_state: false,
            begun: Instant::now(),
            pushes: Arc::default(),
            spans: Some(spans.counts()),
        };
        let pushing = Pushing::start(&self.config, Resource::default(), watched);
        pushing.map_err(|error| BenchError::Engine(error.to_string()))
    }

    /// A run has ended.
    pub(super) fn finish(&self, spans: Spans) {
        let counts = spans.counts();
        let dropped = spans.finish();
        self.spans.taken(counts.counts().0);
        self.spans.lost(dropped);
    }
}

/// What runs with and without telemetry have shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Telemetry {
    #[serde(flatten)]
    pub(super) sides: Sides,
    /// Spans that the collector has.
    pub(super) spans_taken: u64,
    /// Spans that nobody has.
    pub(super) spans_dropped: u64,
}

impl Telemetry {
    pub(super) fn text(&self) -> String {
        let grouped = |count: u64| super::report::grouped(count as f64);
        format!(
            "{}; {} spans taken, {} dropped",
            self.sides.text("telemetry"),
            grouped(self.spans_taken),
            grouped(self.spans_dropped)
        )
    }
}

/// Runs `run` over so many records in turns, which tells the collector at `endpoint`, or nobody.
pub(super) fn measure(
    endpoint: &str,
    records: u64,
    mut run: impl FnMut(Beside<'_>) -> Result<Run, BenchError>,
    check: impl FnMut(Run) -> Result<usize, BenchError>,
) -> Result<Telemetry, BenchError> {
    let collector = Collector::at(endpoint);
    let told = |is_told| run(if is_told { Beside::Collector(&collector) } else { Beside::Nothing });
    let sides = turns::measure(records, told, check)?;
    let (spans_taken, spans_dropped) = collector.spans.counts();
    Ok(Telemetry { sides, spans_taken, spans_dropped })
}
