//! An account as the text that Prometheus reads, in its exposition format 0.0.4.

use super::account::{Account, Point, Value};
use super::table::Metric;
use nilometer_actors::histogram::{BOUNDS_MILLIS, Histogram};
use std::fmt::Write as _;

/// What the text is said to be.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page.
pub(crate) fn page(account: &Account) -> String {
    let mut page = String::new();
    for (metric, points) in account.metrics() {
        head(metric, &mut page);
        for point in points {
            sample(metric, point, &mut page);
        }
    }
    page
}

/// Into a text: nothing can fail.
macro_rules! put {
    ($page:expr, $($what:tt)*) => {
        let _written = writeln!($page, $($what)*);
    };
}

fn head(metric: Metric, page: &mut String) {
    let name = metric.name();
    // Of what must be escaped in a help text, the meanings hold nothing.
    put!(page, "# HELP {name} {}", metric.meaning());
    put!(page, "# TYPE {name} {}", metric.kind().name());
}

fn sample(metric: Metric, point: &Point, page: &mut String) {
    let name = metric.name();
    let labels = labels(metric, point);
    match &point.value {
        Value::Whole(number) => {
            put!(page, "{name}{} {number}", braced(&labels));
        }
        Value::Real(number) => {
            put!(page, "{name}{} {number}", braced(&labels));
        }
        Value::Spans(spans) => histogram((name, &labels), spans, page),
    }
}

fn histogram((name, labels): (&str, &str), spans: &Histogram, page: &mut String) {
    let comma = if labels.is_empty() { "" } else { "," };
    let bounds = BOUNDS_MILLIS.iter().map(|millis| (*millis as f64 / 1_000.0).to_string());
    let mut sum = 0_u64;
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(spans.counts()) {
        sum = sum.saturating_add(count);
        put!(page, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {sum}");
    }
    put!(page, "{name}_sum{} {}", braced(labels), spans.micros() as f64 / 1e6);
    put!(page, "{name}_count{} {sum}", braced(labels));
}

fn labels(metric: Metric, point: &Point) -> String {
    let pairs = metric.labels().iter().zip(&point.labels);
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    pairs.collect::<Vec<_>>().join(",")
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
