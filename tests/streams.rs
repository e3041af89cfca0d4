//! Streams of public data through the pipelines of `pipelines/streams`, run as a user runs them,
//! against answers that are not ours: what Arroyo's own tests expect, and counts of earthquakes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use serde_json::{Map, Value as Json, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a pipeline from the top of the repository, where its paths begin: its panes and its summary.
fn run(pipeline: &str, settings: &[String]) -> (Vec<Json>, Json) {
    let place = tempfile::tempdir().unwrap();
    let summary = place.path().join("summary.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["run", "--summary"]).arg(&summary);
    command.arg(format!("tests/pipelines/streams/{pipeline}.toml"));
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{pipeline} {settings:?}: {stderr}");
    let panes = lines(&String::from_utf8(output.stdout).unwrap());
    (panes, serde_json::from_str(&fs::read_to_string(summary).unwrap()).unwrap())
}

fn lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/streams");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// An instant in milliseconds as the golden files write it: three digits of a second, or none.
fn instant(millis: &Json) -> Json {
    let millis = millis.as_i64().unwrap();
    let time = jiff::Timestamp::from_millisecond(millis).unwrap();
    let text = if millis % 1_000 == 0 { time.to_string() } else { format!("{time:.3}") };
    text.trim_end_matches('Z').into()
}

/// What a row of a golden file says, from a pane: its key and values, and of its window what `times`
/// names, as (name in the row, bound of the window).
fn row(pane: &Json, times: &[(&str, &str)]) -> Json {
    let mut row = Map::new();
    for part in ["key", "values"] {
        row.extend(pane[part].as_object().unwrap().clone());
    }
    row.extend(
        times.iter().map(|(name, bound)| ((*name).into(), instant(&pane["window"][*bound]))),
    );
    Json::Object(row)
}

/// Rows in an order that says nothing.
fn sorted(mut rows: Vec<Json>) -> Vec<Json> {
    rows.sort_by_key(Json::to_string);
    rows
}

/// Compares the panes of one stage with the rows of a golden file; a window gives one pane.
fn compare(panes: &[Json], stage: &str, golden: &str, times: &[(&str, &str)]) {
    let panes: Vec<_> = panes.iter().filter(|pane| pane["stage"] == stage).collect();
    for pane in &panes {
        let meta = json!({
            "index": 0, "timing": "on_time", "is_last": true, "kind": "insert",
            "mode": "accumulating",
        });
        assert_eq!(pane["pane"], meta, "{pane}");
    }
    let rows = sorted(panes.iter().map(|pane| row(pane, times)).collect());
    let golden = sorted(lines(&data(&format!("arroyo/golden_outputs/{golden}.json"))));
    assert_eq!(rows.len(), golden.len(), "{stage}");
    for (row, golden) in rows.iter().zip(&golden) {
        assert_eq!(row, golden, "{stage}");
    }
}

const BOUNDS: &[(&str, &str)] = &[("start", "start"), ("end", "end")];

/// With one shard and with several.
fn each_number_of_shards(check: impl Fn(&[String])) {
    for shards in [1, 3] {
        check(&[format!("pipeline.shards={shards}")]);
    }
}

#[test]
fn rides_per_hour() {
    // A watermark without slack: as a batch nothing is late all the same.
    let batch =
        ["pipeline.engine=batch", "watermark.kind=bounded", "watermark.out_of_orderness=0s"];
    each_number_of_shards(|shards| {
        for more in [&[][..], &batch] {
            let settings: Vec<_> =
                shards.iter().cloned().chain(more.iter().map(|text| (*text).to_owned())).collect();
            let (panes, summary) = run("cars_hourly", &settings);
            compare(&panes, "hours", "tight_watermark", &[("timestamp", "end")]);
            assert_eq!(summary["records"]["accepted"], 7_932);
            assert_eq!(summary["stages"]["hours"]["on_time"], 7_932);
        }
    });
}

#[test]
fn rides_per_hour_and_event_type() {
    each_number_of_shards(|shards| {
        let (panes, _) = run("cars_hourly_by_event_type", shards);
        compare(&panes, "hours_by_event_type", "hourly_by_event_type", &[("hour", "start")]);
    });
}

#[test]
fn the_most_active_driver_of_the_last_hour() {
    each_number_of_shards(|shards| {
        let (mut panes, _) = run("cars_most_active_driver", shards);
        for pane in &mut panes {
            pane["values"]["row_number"] = 1.into();
        }
        compare(&panes, "most_active_driver", "most_active_driver_last_hour", BOUNDS);
    });
}

#[test]
fn numbers_of_the_last_ten_seconds() {
    each_number_of_shards(|shards| {
        let (panes, _) = run("impulse_sliding", shards);
        compare(&panes, "last_ten_seconds", "sliding_window_end", BOUNDS);
    });
}

#[test]
fn sessions_per_user_and_of_all() {
    each_number_of_shards(|shards| {
        let (panes, _) = run("impulse_sessions", shards);
        compare(&panes, "sessions", "session_window", BOUNDS);
        compare(&panes, "sessions_of_all", "global_session_window", BOUNDS);
    });
}

/// Records of an hour or a day, by its start: the last of an accumulating stage, the sum of a
/// discarding one.
fn counts(panes: &[Json], stage: &str) -> Map<String, Json> {
    let mut counts = Map::new();
    for pane in panes.iter().filter(|pane| pane["stage"] == stage) {
        let start = instant(&pane["window"]["start"]);
        let count = pane["values"]["count"].as_u64().unwrap();
        let known = counts.entry(start.as_str().unwrap()).or_insert(0.into());
        let before = if pane["pane"]["mode"] == "discarding" { known.as_u64().unwrap() } else { 0 };
        *known = (before + count).into();
    }
    counts
}

/// By day, under its date.
fn by_date<'a>(days: impl IntoIterator<Item = (&'a String, &'a Json)>) -> Map<String, Json> {
    let date = |start: &str| start.strip_suffix("T00:00:00").unwrap().to_owned();
    days.into_iter().map(|(start, value)| (date(start), value.clone())).collect()
}

#[test]
fn earthquakes_per_hour_and_day_however_late_they_may_come() {
    let truth: Json = serde_json::from_str(&data("truth.json")).unwrap();
    let truth = &truth["earthquakes.json"];
    let runs = truth["watermark_runs"].as_array().unwrap();
    assert_eq!(runs.len(), 9);
    for case in runs {
        assert_eq!(case["window_ms"], 3_600_000);
        let settings = [
            format!("watermark.out_of_orderness={}ms", case["bounded_delay_ms"]),
            format!("group.hours.allowed_lateness={}ms", case["allowed_lateness_ms"]),
            format!("pipeline.shards={}", 1 + runs.len() % 2),
        ];
        let (panes, summary) = run("earthquakes", &settings);
        let stage = &summary["stages"]["hours"];
        for (counted, expected) in
            [("on_time", "on_time"), ("late", "late_but_allowed"), ("expired", "dropped")]
        {
            assert_eq!(stage[counted], case[expected], "{counted}, {settings:?}");
        }
        assert_eq!(summary["records"]["accepted"], truth["events"]);
        let hours = counts(&panes, "hours");
        let emitted: u64 = hours.values().map(|count| count.as_u64().unwrap()).sum();
        let dropped = case["dropped"].as_u64().unwrap();
        assert_eq!(emitted + dropped, truth["events"].as_u64().unwrap());
        if dropped == 0 {
            assert_eq!(Json::from(hours.len()), truth["hour_windows_nonempty"]);
        }

        let days = counts(&panes, "days");
        assert_eq!(Json::Object(by_date(&days)), truth["counts_by_utc_day"], "{settings:?}");
        let strongest: Map<_, _> = panes
            .iter()
            .filter(|pane| pane["stage"] == "days")
            .map(|pane| {
                let start = instant(&pane["window"]["start"]).as_str().unwrap().to_owned();
                (start, pane["values"]["max_mag"].clone())
            })
            .collect();
        for (date, strongest) in by_date(&strongest) {
            let expected = truth["max_mag_by_utc_day"][&date].as_f64().unwrap();
            assert_eq!(strongest.as_f64(), Some(expected), "{date}");
        }
    }
}
