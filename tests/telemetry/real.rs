//! The same against the collector of OpenTelemetry itself, which `tests/services/otelcol` builds: what it
//! has understood stands in its file.

use super::{SECONDS, TOKEN, lacking, place, run, told};
use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Output};

fn script(args: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/otelcol");
    Command::new(script).args(args).output().unwrap()
}

/// What the script says where there is no Go that could build a collector.
const NO_GO: i32 = 3;
/// Windows of ten seconds, in each of which all pairs of seven names and three kinds come, and each kind.
const PANES: u64 = SECONDS / 10 * (7 * 3 + 3);

#[test]
fn a_real_collector_understands_what_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let started = script(&["start", dir, "--while", &std::process::id().to_string()]);
    let said = String::from_utf8_lossy(&started.stderr);
    let has_go = started.status.code() != Some(NO_GO);
    if !lacking::has(&format!("Go to build a collector with: {said}"), has_go) {
        return;
    }
    assert!(started.status.success(), "{said}");
    let addresses = String::from_utf8(started.stdout).unwrap();
    for (protocol, address) in ["grpc", "http"].into_iter().zip(addresses.split_whitespace()) {
        // Metrics are told once, at the end.
        let place = place(&told(protocol, address).replace("\"off\"", "\"1h\""));
        let (_, said) = run(&place, &[TOKEN]);
        assert!(!said.contains("dropped"), "{said}");
    }
    assert!(script(&["stop", dir]).status.success());
    let told = std::fs::read_to_string(folder.path().join("telemetry.json")).unwrap();
    let told: Vec<Json> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let spans = all(&all(&all(&told, "resourceSpans"), "scopeSpans"), "spans");
    check_spans(&spans);
    let metrics = all(&all(&all(&told, "resourceMetrics"), "scopeMetrics"), "metrics");
    check_metrics(&metrics);
    // What was told of spans is told of in metrics.
    assert_eq!(
        totals(&metrics, "nilometer_telemetry_spans_total").sum::<u64>(),
        spans.len() as u64
    );
}

/// What all of `from` have as `name`.
fn all(from: &[Json], name: &str) -> Vec<Json> {
    from.iter().flat_map(|from| from[name].as_array().cloned().unwrap_or_default()).collect()
}

fn number(text: &Json) -> u64 {
    text.as_str().unwrap().parse().unwrap()
}

fn check_spans(spans: &[Json]) {
    let batches: Vec<_> =
        spans.iter().filter(|span| span["name"] == "source batch").cloned().collect();
    let attributes = all(&batches, "attributes");
    let records = attributes.iter().filter(|attribute| attribute["key"] == "nilometer.records");
    let read: u64 = records.map(|attribute| number(&attribute["value"]["intValue"])).sum();
    assert_eq!(read, 2 * SECONDS * 100);
    let is_linked = |span: &Json| !all(std::slice::from_ref(span), "links").is_empty();
    assert!(spans.iter().any(|span| span["name"] == "sink write" && is_linked(span)));
}

/// What the samples of a counter sum up to, in each request that has it.
fn totals(metrics: &[Json], name: &str) -> impl Iterator<Item = u64> {
    metrics.iter().filter(move |metric| metric["name"] == name).map(|metric| {
        let points = metric["sum"]["dataPoints"].as_array().unwrap();
        points.iter().map(|point| number(&point["asInt"])).sum()
    })
}

/// Each run has told its totals: sums that only rise, from the beginning of the run.
fn check_metrics(metrics: &[Json]) {
    for (name, expected) in [
        ("nilometer_records_read_total", SECONDS * 100),
        ("nilometer_panes_emitted_total", PANES),
        ("nilometer_sink_panes_total", PANES),
    ] {
        let told: Vec<_> = metrics.iter().filter(|metric| metric["name"] == name).collect();
        assert_eq!(totals(metrics, name).collect::<Vec<_>>(), [expected; 2], "{name}");
        for metric in told {
            let sum = &metric["sum"];
            assert_eq!(
                (&sum["aggregationTemporality"], &sum["isMonotonic"]),
                (&2.into(), &true.into())
            );
            let points = sum["dataPoints"].as_array().unwrap();
            assert!(points.iter().all(|point| {
                number(&point["startTimeUnixNano"]) <= number(&point["timeUnixNano"])
            }));
        }
    }
}
