//! An account as a request of OTLP: what is a counter becomes a cumulative sum, names stay.

use crate::metrics::{Account, Kind, Metric, Point, Value};
use nilometer_actors::histogram::{BOUNDS_MILLIS, Histogram as Spans};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as OtlpMetric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = any_value::Value::StringValue(value.into());
    KeyValue {
        key: name.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Where samples lie in time, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

/// The request that tells of `account`.
pub(super) fn request(account: &Account, resource: &Resource) -> ExportMetricsServiceRequest {
    let nanos = |millis: i64| u64::try_from(millis).unwrap_or(0).saturating_mul(1_000_000);
    let times = Times { start: nanos(account.began), now: nanos(account.now) };
    let metrics = account.metrics().map(|(known, points)| OtlpMetric {
        name: known.name().into(),
        description: known.meaning().into(),
        unit: unit(known),
        data: Some(data(known, points, times)),
        ..OtlpMetric::default()
    });
    let scope = InstrumentationScope {
        name: "nilometer".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let scope_metrics =
        ScopeMetrics { scope: Some(scope), metrics: metrics.collect(), ..ScopeMetrics::default() };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

/// In the words of UCUM.
fn unit(metric: Metric) -> String {
    match metric.unit() {
        "s since 1970" => "s".into(),
        "bytes" => "By".into(),
        unit @ ("s" | "1") => unit.into(),
        counted => format!("{{{counted}}}"),
    }
}

fn data(metric: Metric, points: &[Point], times: Times) -> metric::Data {
    const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
    let numbers = || points.iter().filter_map(|point| number(metric, point, times)).collect();
    match metric.kind() {
        Kind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers() }),
        Kind::Counter => metric::Data::Sum(Sum {
            data_points: numbers(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Kind::Histogram => metric::Data::Histogram(Histogram {
            data_points: points.iter().filter_map(|point| spans(metric, point, times)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    }
}

fn attributes(metric: Metric, point: &Point) -> Vec<KeyValue> {
    let pairs = metric.labels().iter().zip(&point.labels);
    pairs.map(|(name, value)| attribute(name, value)).collect()
}

fn number(metric: Metric, point: &Point, times: Times) -> Option<NumberDataPoint> {
    let value = match &point.value {
        // OTLP knows no more of whole numbers.
        Value::Whole(number) => {
            number_data_point::Value::AsInt(i64::try_from(*number).unwrap_or(i64::MAX))
        }
        Value::Real(number) => number_data_point::Value::AsDouble(*number),
        Value::Spans(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(metric, point),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn spans(metric: Metric, point: &Point, times: Times) -> Option<HistogramDataPoint> {
    let Value::Spans(spans) = &point.value else { return None };
    let spans: &Spans = spans;
    Some(HistogramDataPoint {
        attributes: attributes(metric, point),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: spans.count(),
        sum: Some(spans.micros() as f64 / 1e6),
        bucket_counts: spans.counts().collect(),
        explicit_bounds: BOUNDS_MILLIS.iter().map(|millis| *millis as f64 / 1_000.0).collect(),
        ..HistogramDataPoint::default()
    })
}
