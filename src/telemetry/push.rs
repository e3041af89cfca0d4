//! The thread that sends metrics: every so often, and once at the end.
//!
//! Invariant: one request is on its way at most, and none for longer than its timeout; what it held is
//! not kept, since the next one holds the totals.

use super::TelemetryError;
use super::collector::Collector;
use super::otlp::request;
use crate::config::OtlpConfig;
use crate::metrics::{Account, Watched};
use nilometer_model::time::Span;
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

/// Metrics on their way to a collector. When it is dropped, what has been counted in the end is told,
/// for no longer than a request may take.
pub(crate) struct Pushing {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Pushing {
    /// Begins to tell the collector of `config` of `watched`, if it is to be told of metrics.
    pub(crate) fn start(
        config: &OtlpConfig,
        resource: Resource,
        watched: Watched,
    ) -> Result<Option<Self>, TelemetryError> {
        let Some(every) = config.metrics else { return Ok(None) };
        let (runtime, collector) = Collector::at_home(config)?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let pusher = Pusher { collector, resource, watched };
        let every = duration(every);
        let thread = Builder::new().name("telemetry".into());
        let thread = thread.spawn(move || runtime.block_on(pusher.run(every, &stopped)));
        Ok(Some(Self { stop, thread: Some(thread?) }))
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked was heard of when it did.
            thread.join().ok();
        }
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(0))
}

/// Sends what a run has counted.
struct Pusher {
    collector: Collector,
    resource: Resource,
    watched: Watched,
}

impl Pusher {
    async fn run(mut self, every: Duration, stop: &Notify) {
        let mut turn = interval(every);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one comes at once, before anything has been counted.
        turn.tick().await;
        loop {
            let next = async {
                turn.tick().await;
                self.push().await;
            };
            tokio::select! {
                () = next => {}
                () = stop.notified() => break,
            }
        }
        self.push().await;
    }

    async fn push(&mut self) {
        let request = request(&Account::of(&self.watched), &self.resource);
        match self.collector.take(request).await {
            Ok(()) => self.watched.pushes.taken(1),
            Err(_) => self.watched.pushes.lost(1),
        }
    }
}
