//! The account of a run as samples of metrics, at one instant.

use super::figures;
use super::table::Metric;
use nilometer_actors::handle::Handle;
use nilometer_actors::histogram::Histogram;
use nilometer_model::plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a sample says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A whole number.
    Whole(u64),
    /// A number of seconds, or of nothing.
    Real(f64),
    /// Spans of time.
    Spans(Box<Histogram>),
}

/// A sample of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// Values of the labels, in the order of the metric.
    pub(crate) labels: Vec<Box<str>>,
    /// What it says.
    pub(crate) value: Value,
}

/// A run that is watched: a node, and what is known of it beside.
#[derive(Clone)]
pub(crate) struct Watched {
    /// The node.
    pub(crate) node: Handle,
    /// What it computes.
    pub(crate) plan: Arc<Plan>,
    /// The name of the pipeline.
    pub(crate) pipeline: Arc<str>,
    /// Whether state is stored.
    pub(crate) has_state: bool,
    /// When the run began.
    pub(crate) begun: Instant,
    /// What became of requests to a collector; nothing is counted where there is none.
    pub(crate) pushes: Arc<Deliveries>,
    /// What became of spans; `None` where none are made.
    pub(crate) spans: Option<Arc<Deliveries>>,
}

/// What became of that which a collector was to take.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    taken: AtomicU64,
    lost: AtomicU64,
}

impl Deliveries {
    /// Counts so many that it has taken.
    pub(crate) fn taken(&self, count: u64) {
        self.taken.fetch_add(count, Relaxed);
    }

    /// Counts so many that it has not.
    pub(crate) fn lost(&self, count: u64) {
        self.lost.fetch_add(count, Relaxed);
    }

    /// Those that it has taken, and those that it has not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Relaxed), self.lost.load(Relaxed))
    }
}

/// Samples of a run, at one instant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    /// Milliseconds since 1970 of that instant.
    pub(crate) now: i64,
    /// The same of the beginning of the run.
    pub(crate) began: i64,
    points: BTreeMap<Metric, Vec<Point>>,
}

impl Account {
    /// What `watched` has counted, now.
    pub(crate) fn of(watched: &Watched) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        let uptime = watched.begun.elapsed();
        let began = now.saturating_sub(i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX));
        let mut account = Self { now, began, points: BTreeMap::new() };
        account.whole(Metric::Info, &[&watched.pipeline, env!("CARGO_PKG_VERSION")], 1);
        account.real(Metric::Uptime, &[], uptime.as_secs_f64());
        let (taken, failed) = watched.pushes.counts();
        if taken > 0 || failed > 0 {
            account.whole(Metric::Pushes, &["taken"], taken);
            account.whole(Metric::Pushes, &["failed"], failed);
        }
        if let Some(spans) = &watched.spans {
            let (taken, dropped) = spans.counts();
            account.whole(Metric::Spans, &["taken"], taken);
            account.whole(Metric::Spans, &["dropped"], dropped);
        }
        figures::sources(&mut account, watched);
        figures::watermark(&mut account, watched);
        figures::stages(&mut account, watched);
        figures::shards(&mut account, watched);
        figures::sinks(&mut account, watched);
        figures::epochs(&mut account, watched);
        account
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, metric: Metric, labels: &[&str], value: Value) {
        let labels = labels.iter().map(|label| Box::from(*label)).collect();
        self.points.entry(metric).or_default().push(Point { labels, value });
    }

    /// Adds a whole number.
    pub(crate) fn whole(&mut self, metric: Metric, labels: &[&str], number: u64) {
        self.add(metric, labels, Value::Whole(number));
    }

    /// Adds a number.
    pub(crate) fn real(&mut self, metric: Metric, labels: &[&str], number: f64) {
        self.add(metric, labels, Value::Real(number));
    }

    /// Adds spans of time.
    pub(crate) fn spans(&mut self, metric: Metric, labels: &[&str], spans: &Histogram) {
        self.add(metric, labels, Value::Spans(Box::new(*spans)));
    }

    /// All samples, metric by metric in the order of the table.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = (Metric, &[Point])> {
        self.points.iter().map(|(metric, points)| (*metric, points.as_slice()))
    }
}
