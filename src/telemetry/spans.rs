//! Spans on their way to a collector: from the threads of actors into a queue, from there, by a thread
//! of its own, in requests.
//!
//! Invariant: whoever ends a span waits for nobody. A span that finds the queue full, or that the collector
//! does not take, is counted as dropped.

use super::TelemetryError;
use super::collector::{Collector, Refusal, resource};
use super::sampling::Follow;
use crate::config::{OtlpConfig, Pipeline};
use crate::metrics::Deliveries;
use nilometer_actors::trace::Tracing;
use opentelemetry::Context;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::TracerProvider;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanProcessor};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Spans that wait.
const QUEUE: usize = 4_096;
/// Spans of a request, at most.
const REQUEST: usize = 512;
/// How long a span waits for others to go with it.
const LINGER: Duration = Duration::from_millis(500);
/// How long the end of a run waits for a collector.
const FAREWELL: Duration = Duration::from_secs(2);

/// The way of spans to a collector. Ends with [`Spans::finish`].
pub(crate) struct Spans {
    provider: SdkTracerProvider,
    counts: Arc<Deliveries>,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Spans {
    /// Opens the way of the spans of `pipeline`, if it has one; `say` is told what is worth knowing.
    ///
    /// # Errors
    /// See [`TelemetryError`].
    pub(crate) fn open(
        pipeline: &Pipeline,
        say: impl Fn(&str) + Send + 'static,
    ) -> Result<Option<Self>, TelemetryError> {
        let Some(config) = pipeline.telemetry.traced() else { return Ok(None) };
        Self::start(config, resource(pipeline), say).map(Some)
    }

    /// Opens the way of spans to the collector of `config`.
    ///
    /// # Errors
    /// See [`TelemetryError`].
    pub(crate) fn start(
        config: &OtlpConfig,
        resource: Resource,
        say: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, TelemetryError> {
        let (sender, queue) = channel(QUEUE);
        let (end, ended) = oneshot::channel();
        let counts = Arc::<Deliveries>::default();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Follow::new(config.traces, config.parent_based))
            .with_span_processor(Way { sender, counts: counts.clone() })
            .build();
        let (runtime, collector) = Collector::at_home(config)?;
        let carrier = Carrier {
            queue,
            ended: Some(ended),
            deadline: None,
            resource,
            counts: counts.clone(),
            is_refused: false,
            say: Box::new(say),
        };
        let carry = move || runtime.block_on(carrier.carry(&collector));
        let thread = thread::Builder::new().name("spans".into()).spawn(carry)?;
        Ok(Self { provider, counts, end, thread })
    }

    /// What the actors of a node are given.
    pub(crate) fn tracing(&self) -> Tracing {
        Tracing::new(BoxedTracer::new(Box::new(self.provider.tracer("nilometer"))))
    }

    /// What becomes of them.
    pub(crate) fn counts(&self) -> Arc<Deliveries> {
        self.counts.clone()
    }

    /// Hands over what waits, for a little while; returns how many spans nobody has.
    pub(crate) fn finish(self) -> u64 {
        // Of a thread that has panicked was heard when it did.
        self.end.send(()).ok();
        self.thread.join().ok();
        self.counts.counts().1
    }
}

/// The way into the queue.
#[derive(Debug)]
struct Way {
    sender: Sender<SpanData>,
    counts: Arc<Deliveries>,
}

impl SpanProcessor for Way {
    fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.counts.lost(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Takes spans from the queue to a collector.
struct Carrier {
    queue: Receiver<SpanData>,
    /// That the run ends; `None` once it does.
    ended: Option<oneshot::Receiver<()>>,
    /// Until when something is still sent: set when the run ends.
    deadline: Option<Instant>,
    resource: Resource,
    counts: Arc<Deliveries>,
    /// Whether the last request was refused.
    is_refused: bool,
    say: Box<dyn Fn(&str) + Send>,
}

impl Carrier {
    async fn carry(mut self, collector: &Collector) {
        while let Some(spans) = self.next().await {
            let count = spans.len() as u64;
            match self.send(collector, spans).await {
                Ok(()) => {
                    self.counts.taken(count);
                    if std::mem::take(&mut self.is_refused) {
                        (self.say)("spans: the collector takes them again");
                    }
                }
                Err(refusal) => self.refused(count, &refusal),
            }
        }
    }

    /// So many spans were not taken, or less: each state is told of once, not each request.
    fn refused(&mut self, count: u64, refusal: &Refusal) {
        let dropped = match refusal {
            Refusal::Part { count: rejected, .. } => count.min(*rejected),
            Refusal::Nothing { .. } | Refusal::Late { .. } => count,
        };
        self.counts.lost(dropped);
        self.counts.taken(count.saturating_sub(dropped));
        if !std::mem::replace(&mut self.is_refused, true) {
            (self.say)(&format!("spans are dropped, and counted: {refusal}"));
        }
    }

    /// The next spans to send together; `None` if nothing more comes.
    async fn next(&mut self) -> Option<Vec<SpanData>> {
        let (mut spans, mut until) = (Vec::new(), None);
        loop {
            tokio::select! {
                span = self.queue.recv() => match span {
                    Some(span) => {
                        spans.push(span);
                        until = until.or_else(|| Some(Instant::now() + LINGER));
                        if spans.len() >= REQUEST {
                            return Some(spans);
                        }
                    }
                    None => return (!spans.is_empty()).then_some(spans),
                },
                () = at(until) => return Some(spans),
                () = end(&mut self.ended) => self.ends(),
            }
        }
    }

    /// Sends spans; gives up when the run has ended for too long.
    async fn send(&mut self, collector: &Collector, spans: Vec<SpanData>) -> Result<(), Refusal> {
        let mut taken = std::pin::pin!(collector.take(self.request(spans)));
        loop {
            tokio::select! {
                taken = &mut taken => return taken,
                () = at(self.deadline) => return Err(collector.late(FAREWELL)),
                () = end(&mut self.ended) => self.ends(),
            }
        }
    }

    /// The run ends: nothing more comes.
    fn ends(&mut self) {
        self.ended = None;
        self.queue.close();
        self.deadline = Some(Instant::now() + FAREWELL);
    }

    fn request(&self, spans: Vec<SpanData>) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "nilometer".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        };
        let spans = ScopeSpans {
            scope: Some(scope),
            spans: spans.into_iter().map(Into::into).collect(),
            ..ScopeSpans::default()
        };
        let spans = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![spans],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![spans] }
    }
}

/// Waits for a time, for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for the end of the run, if that has not come.
async fn end(ended: &mut Option<oneshot::Receiver<()>>) {
    match ended {
        // Whoever would have said so is gone: that is the end, too.
        Some(ended) => drop(ended.await),
        None => std::future::pending().await,
    }
}
