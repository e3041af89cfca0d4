//! What is seen of a run.

use super::kit::{Run, get, in_system};
use serde_json::json;
use std::collections::BTreeMap;

const OPEN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";

/// The samples of a page, by what stands before the value.
fn samples(page: &str) -> BTreeMap<&str, &str> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).collect()
}

#[test]
fn the_page_for_prometheus_says_what_the_records_say() {
    in_system(async {
        let run = Run::start(OPEN);
        run.until_read().await;
        // Actors show their figures at ticks of their own.
        let last = [
            "nilometer_records_read_total{source=\"in\"} 7\n",
            "nilometer_source_in_flight_records{source=\"in\"} 0\n",
            "nilometer_watermark_seconds 21\n",
            "nilometer_partition_watermark_seconds{source=\"in\",partition=\"in\"} 21\n",
            "nilometer_stage_records_total{stage=\"sums\",outcome=\"on_time\"} 5\n",
            "nilometer_panes_total{stage=\"sums\",timing=\"on_time\"} 2\n",
            "nilometer_sink_panes_total{sink=\"out\",kind=\"insert\"} 2\n",
        ];
        let page = run.until("/metrics", |page| last.iter().all(|line| page.body.contains(line)));
        let page = page.await;
        assert!(page.head.contains("content-type: text/plain; version=0.0.4"), "{}", page.head);
        let samples = samples(&page.body);
        for (name, value) in [
            (r#"nilometer_info{pipeline="seen",version="0.1.0"}"#, "1"),
            (r#"nilometer_records_read_total{source="in"}"#, "7"),
            (r#"nilometer_records_total{source="in",outcome="accepted"}"#, "5"),
            (r#"nilometer_records_total{source="in",outcome="filtered"}"#, "1"),
            (r#"nilometer_records_total{source="in",outcome="malformed"}"#, "1"),
            (r#"nilometer_records_total{source="in",outcome="dead_lettered"}"#, "0"),
            (r#"nilometer_records_rejected_total{source="in",reason="not_json"}"#, "1"),
            (r#"nilometer_record_marks_total{source="in",mark="reordered"}"#, "1"),
            (r#"nilometer_source_in_flight_records{source="in"}"#, "0"),
            ("nilometer_watermark_seconds", "21"),
            (r#"nilometer_watermark_holder{source="in",partition="in"}"#, "1"),
            (r#"nilometer_partition_watermark_seconds{source="in",partition="in"}"#, "21"),
            (r#"nilometer_partition_skew_seconds{source="in",partition="in"}"#, "0"),
            (r#"nilometer_partition_idle{source="in",partition="in"}"#, "0"),
            (r#"nilometer_stage_records_total{stage="sums",outcome="on_time"}"#, "5"),
            (r#"nilometer_stage_records_total{stage="sums",outcome="late"}"#, "0"),
            (r#"nilometer_stage_records_total{stage="sums",outcome="expired"}"#, "0"),
            (r#"nilometer_panes_total{stage="sums",timing="on_time"}"#, "2"),
            (r#"nilometer_panes_total{stage="sums",timing="late"}"#, "0"),
            (r#"nilometer_panes_emitted_total{stage="sums",kind="insert"}"#, "2"),
            (r#"nilometer_sink_panes_total{sink="out",kind="insert"}"#, "2"),
            (r#"nilometer_sink_errors_total{sink="out"}"#, "0"),
            (r#"nilometer_latency_event_time_seconds_count{sink="out"}"#, "2"),
            // Fifty years ago and more.
            (r#"nilometer_latency_event_time_seconds_bucket{sink="out",le="3600"}"#, "0"),
            (r#"nilometer_latency_event_time_seconds_bucket{sink="out",le="+Inf"}"#, "2"),
            (r#"nilometer_latency_processing_time_seconds_count{sink="out"}"#, "2"),
            (r#"nilometer_latency_processing_time_seconds_bucket{sink="out",le="60"}"#, "2"),
        ] {
            assert_eq!(samples.get(name).copied(), Some(value), "{name}\n{}", page.body);
        }
        run.end().await;
    });
}

#[test]
fn what_is_kept_of_a_key_is_seen_in_the_shard_that_has_it() {
    in_system(async {
        let run = Run::start(OPEN);
        run.until_read().await;
        for (key, windows) in [
            // The complete window is kept for late records, and has been told.
            (
                "k=a",
                json!([[0, 1, "on_time", {"v": 4}, null], [20_000, 0, null, {"v": 0}, {"v": 4}]]),
            ),
            ("%7B%22k%22:%22b%22%7D", json!([[0, 1, "on_time", {"v": 7}, null]])),
            // Left out by the filter, and never seen.
            ("k=c", json!([])),
            ("k=nobody", json!([])),
        ] {
            let answer = get(run.address(), &format!("/api/v1/keys/sums/{key}")).await.json();
            let entries = answer["entries"].as_array().unwrap().iter();
            let found = entries.flat_map(|entry| entry["windows"].as_array().unwrap());
            let found: Vec<_> = found
                .map(|w| json!([w["start_ms"], w["panes"], w["last_pane"], w["told"], w["news"]]))
                .collect();
            assert_eq!(json!(found), windows, "{key}: {answer}");
        }
        let wrong = get(run.address(), "/api/v1/keys/sums/v=1").await;
        assert_eq!(
            (wrong.status, &wrong.json()["error"]),
            (400, &"a key of this stage is: k (text)".into())
        );
        assert_eq!(get(run.address(), "/api/v1/keys/none/k=a").await.status, 404);
        run.end().await;
    });
}

#[test]
fn a_run_is_seen_as_it_is() {
    in_system(async {
        let run = Run::start(OPEN);
        run.until_read().await;
        let json = get(run.address(), "/api/v1/pipeline").await.json();
        assert_eq!(json["pipeline"], "seen");
        assert_eq!(json["engine"], "streaming");
        assert_eq!(json["watermark"]["watermark_ms"], 21_000);
        assert_eq!(json["watermark"]["holder"]["source"], "in");
        let stage = &json["stages"][0];
        assert_eq!((&stage["name"], &stage["reads"]), (&"sums".into(), &"records".into()));
        assert_eq!(
            (&stage["outcomes"]["on_time"], &stage["panes"]["on_time"]),
            (&5.into(), &2.into())
        );
        let partitions = get(run.address(), "/api/v1/partitions").await.json();
        assert_eq!(partitions["partitions"][0]["head_ms"], 21_000);
        assert_eq!(partitions["partitions"][0]["state"], "active");
        assert_eq!(get(run.address(), "/ready").await.json()["status"], "running");
        assert_eq!(get(run.address(), "/health").await.status, 200);
        run.admin.drains();
        let ready = get(run.address(), "/ready").await;
        assert_eq!((ready.status, &ready.json()["status"]), (503, &"draining".into()));
        assert_eq!(get(run.address(), "/health").await.status, 200);
        run.admin.failed();
        assert_eq!(get(run.address(), "/health").await.status, 503);
        run.end().await;
    });
}
