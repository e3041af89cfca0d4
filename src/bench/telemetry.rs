//! What telemetry costs: the same run with a collector that is told of it, and without, in turns.
//!
//! Invariant: each goes first as often as the other, so that a machine that gets slower or faster meanwhile
//! is fair to both.

use super::BenchError;
use super::engine::Run;
use super::report::Side;
use crate::config::{OtlpConfig, OtlpProtocol};
use crate::metrics::{Deliveries, Watched};
use crate::telemetry::{Pushing, Spans};
use nilometer_actors::node::Node;
use nilometer_model::plan::Plan;
use nilometer_model::time::Span;
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether a turn tells a collector.
const TURNS: [bool; 8] = [false, true, true, false, true, false, false, true];
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
            headers: Vec::new(),
        };
        Self { config, spans: Deliveries::default() }
    }

    /// Opens the way of the spans of a run.
    pub(super) fn spans(&self) -> Result<Spans, BenchError> {
        // What it refuses is counted, and the count is told.
        let spans = Spans::start(self.config.clone(), Resource::default(), |_| {});
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
    pub(super) with: Side,
    pub(super) without: Side,
    /// Speed with telemetry over speed without, per core.
    pub(super) ratio: f64,
    /// Spans that the collector has.
    pub(super) spans_taken: u64,
    /// Spans that nobody has.
    pub(super) spans_dropped: u64,
}

impl Telemetry {
    pub(super) fn text(&self) -> String {
        let grouped = |count: u64| super::report::grouped(count as f64);
        format!(
            "telemetry: {:.0} ns/record with, {:.0} without: {:.3} of the speed; {} spans taken, {} dropped",
            self.with.ns_per_record,
            self.without.ns_per_record,
            self.ratio,
            grouped(self.spans_taken),
            grouped(self.spans_dropped)
        )
    }
}

/// Runs `run` over so many records in turns, which tells the collector at `endpoint`, or nobody.
pub(super) fn measure(
    endpoint: &str,
    records: u64,
    mut run: impl FnMut(Option<&Collector>) -> Result<Run, BenchError>,
    mut check: impl FnMut(Run) -> Result<usize, BenchError>,
) -> Result<Telemetry, BenchError> {
    let collector = Collector::at(endpoint);
    let mut spent = [(Duration::ZERO, Duration::ZERO); 2];
    for is_told in TURNS {
        let run = run(is_told.then_some(&collector))?;
        let (wall, processor) = if is_told { &mut spent[0] } else { &mut spent[1] };
        *wall += run.wall;
        *processor += run.processor;
        check(run)?;
    }
    let records = records.saturating_mul(TURNS.len() as u64 / 2);
    let [with, without] = spent.map(|(wall, processor)| Side::new(records, wall, processor));
    let (spans_taken, spans_dropped) = collector.spans.counts();
    let ratio = with.records_per_core_second / without.records_per_core_second;
    Ok(Telemetry { with, without, ratio, spans_taken, spans_dropped })
}
