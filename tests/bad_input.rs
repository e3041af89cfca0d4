//! Input and settings that mean harm, through the whole program: nothing panics, nothing hangs,
//! nothing wraps, and whatever is not used is counted by reason or refused before anything runs.
//!
//! Refusals of settings have their messages in `src/config/tests/mistakes.txt`; here is what a run
//! does with what no check can foresee.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// What came of a run.
struct Ran {
    /// Sums by stage and window, the last of each.
    sums: BTreeMap<(String, String), Json>,
    summary: Json,
    /// Reasons in the dead letters, in order.
    letters: Vec<String>,
    /// What they hold of the input.
    raws: Vec<String>,
    stderr: String,
}

impl Ran {
    fn sum(&self, stage: &str, start: impl Into<Json>, end: impl Into<Json>) -> Json {
        let window = json!({ "start": start.into(), "end": end.into() });
        let place = (stage.to_owned(), window.to_string());
        self.sums.get(&place).cloned().unwrap_or(Json::Null)
    }

    /// A number of the account of the stage `sums`.
    fn counted(&self, name: &str) -> u64 {
        self.summary["stages"]["sums"][name].as_u64().unwrap()
    }

    fn mark(&self, name: &str) -> u64 {
        self.summary["marks"][name].as_u64().unwrap_or(0)
    }
}

/// Runs `more` of a pipeline over files that are partitions of their own; the records have to be
/// accounted for.
fn run(files: &[&str], more: &str) -> Ran {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..files.len()).map(|number| format!("{number}.ndjson")).collect();
    for (name, text) in names.iter().zip(files) {
        fs::write(place.path().join(name), text).unwrap();
    }
    let pipeline = format!(
        r#"
dead_letters = "dead.ndjson"
[pipeline]
name = "p"
[[source]]
kind = "files"
format = "ndjson"
paths = {names:?}
partitions = "per_file"
[record]
time = "t"
fields = {{ t = "i64", v = "i64", w = "i64" }}
{more}
"#
    );
    fs::write(place.path().join("p.toml"), pipeline).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
    command.args(["run", "p.toml", "--summary", "summary.json"]).current_dir(place.path());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let json = |line: &str| -> Json { serde_json::from_str(line).unwrap() };
    let mut sums = BTreeMap::new();
    for pane in String::from_utf8(output.stdout).unwrap().lines().map(json) {
        let place = (pane["stage"].as_str().unwrap().to_owned(), pane["window"].to_string());
        sums.insert(place, pane["values"]["sum"].clone());
    }
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let letters = read("dead.ndjson").lines().map(json).collect::<Vec<_>>();
    let texts = |name: &str| -> Vec<String> {
        letters.iter().map(|letter| letter[name].as_str().unwrap().to_owned()).collect()
    };
    let summary = json(&read("summary.json"));
    let of = |name: &str| summary["records"][name].as_u64().unwrap();
    let outcomes = ["accepted", "malformed", "filtered", "dead_lettered", "in_flight"];
    assert_eq!(of("read"), outcomes.iter().map(|name| of(name)).sum::<u64>(), "{summary}");
    Ran { sums, letters: texts("reason"), raws: texts("raw"), summary, stderr }
}

/// Lines of records with these event times, each of value 1.
fn records(times: impl IntoIterator<Item = i64>) -> String {
    times.into_iter().map(|time| format!("{{\"t\":{time},\"v\":1}}\n")).collect()
}

/// A group `sums` with a window.
fn sums(window: &str) -> String {
    format!(
        "[[group]]\nname = \"sums\"\nkey = []\nwindow = {window}\n\
         aggregates = {{ sum = \"sum(v)\" }}\n"
    )
}

const HOUR: i64 = 3_600_000;

#[test]
fn times_at_the_ends_and_before_1970_fall_into_windows_that_do_not_wrap() {
    let ends = [i64::MIN, i64::MIN + 1, -HOUR - 1, -HOUR, -1, 0, i64::MAX - 1, i64::MAX];
    // Fixed and sliding windows are cut off at the ends of time.
    let ran = run(&[&records(ends)], &sums("{ fixed = \"1h\" }"));
    assert_eq!(ran.sum("sums", -2 * HOUR, -HOUR), 1);
    assert_eq!(ran.sum("sums", -HOUR, 0), 2);
    assert_eq!(ran.sum("sums", 0, HOUR), 1);
    assert_eq!(ran.sums.len(), 5, "{:?}", ran.sums);
    let total = |ran: &Ran| ran.sums.values().map(|sum| sum.as_i64().unwrap()).sum::<i64>();
    assert_eq!((total(&ran), ran.counted("on_time")), (6, 6));
    // The very ends are the infinities, which no record happened at.
    assert_eq!(ran.letters, ["out_of_range", "out_of_range"]);

    let ran = run(&[&records(ends)], &sums("{ sliding = \"1h\", every = \"30m\" }"));
    assert_eq!(ran.sum("sums", -HOUR / 2, HOUR / 2), 2);
    assert_eq!(ran.counted("on_time"), total(&ran) as u64);

    // Sessions, too, and one ends at the end of time.
    let ran = run(&[&records(ends)], &sums("{ session = \"1h\" }"));
    assert_eq!(ran.sum("sums", -HOUR - 1, HOUR), 4);
    assert_eq!(total(&ran), 6);

    // Days, whose calendar ends before that, and all of time.
    for window in ["{ calendar = \"day\", time_zone = \"Europe/Athens\" }", "\"global\""] {
        let ran = run(&[&records(ends)], &sums(window));
        assert_eq!((total(&ran), ran.counted("on_time")), (6, 6), "{window}");
    }
}

#[test]
fn times_beyond_all_times_make_no_record() {
    let beyond =
        "{\"t\":9223372036854775808,\"v\":1}\n{\"t\":-1e30,\"v\":1}\n{\"t\":null}\n{\"v\":1}\n";
    let ran = run(&[&format!("{beyond}{}", records([5]))], &sums("{ fixed = \"1h\" }"));
    assert_eq!(ran.letters, ["out_of_range", "out_of_range", "missing_time", "missing_time"]);
    assert_eq!(ran.sum("sums", 0, HOUR), 1);
}

#[test]
fn sums_beyond_their_type_are_exact_and_products_beyond_it_are_refused() {
    let large = format!("{{\"t\":1,\"v\":{},\"w\":2}}\n", i64::MAX).repeat(3);
    let ran = run(&[&large], &sums("\"global\""));
    assert_eq!(ran.sum("sums", Json::Null, Json::Null).to_string(), "27670116110564327421");
    let squares = "[derive]\ncube = \"v * v * v\"\n[[group]]\nname = \"cubes\"\nkey = [\"cube\"]\n\
                   window = \"global\"\naggregates = { sum = \"sum(v)\" }\n";
    let ran = run(&[&large], squares);
    assert_eq!((ran.letters.len(), ran.sums.len()), (3, 0));
}

#[test]
fn an_expression_that_fails_rejects_its_record_alone() {
    let text = "{\"t\":1,\"v\":6,\"w\":2}\n{\"t\":2,\"v\":6,\"w\":0}\n{\"t\":3,\"v\":6}\n";
    let ran = run(
        &[text],
        "[derive]\nshare = \"v / w\"\n[[group]]\nname = \"sums\"\nkey = [\"share\"]\n\
         window = \"global\"\naggregates = { sum = \"sum(v)\" }\n",
    );
    assert_eq!(ran.letters, ["expression", "expression"]);
    // The fields that the pipeline reads, as far as they are known.
    let field = |raw: &str, name: &str| serde_json::from_str::<Json>(raw).unwrap()[name].clone();
    let fields: Vec<_> =
        ran.raws.iter().map(|raw| ["v", "w", "share"].map(|name| field(raw, name))).collect();
    assert_eq!(fields, [[6.into(), 0.into(), Json::Null], [6.into(), Json::Null, Json::Null]]);
    assert!(ran.stderr.contains("dead-lettered: expression 2"), "{}", ran.stderr);
    assert_eq!(ran.sum("sums", Json::Null, Json::Null), 6);
}

#[test]
fn a_watermark_that_goes_back_changes_nothing_and_is_counted() {
    let text: String = [(10, 100), (20, 50), (30, 100), (120, 200), (90, -5)]
        .map(|(time, mark)| format!("{{\"t\":{time},\"v\":1,\"w\":{mark}}}\n"))
        .concat();
    let step_by_step = "[limits]\nbatch_records = 1\n";
    let watermark = "[watermark]\nkind = \"punctuated\"\nmark = \"w\"\nmax_drift = \"1ms\"\n";
    let ran = run(&[&text], &format!("{step_by_step}{watermark}{}", sums("{ fixed = \"50ms\" }")));
    assert_eq!(ran.mark("watermark_went_back"), 2);
    // The watermark is 100 for the second and third, 200 for the last.
    let counted = ["on_time", "late", "expired"].map(|name| ran.counted(name));
    assert_eq!(counted, [2, 0, 3]);
    assert_eq!((ran.sum("sums", 0, 50), ran.sum("sums", 100, 150)), (1.into(), 1.into()));
}

#[test]
fn a_partition_that_jumps_ten_years_ahead_makes_no_other_late() {
    const TEN_YEARS: i64 = 87_660 * HOUR;
    let times = || (0..200).map(|minute| minute * 60_000);
    let jumps = times().chain([TEN_YEARS]).chain((200..300).map(|minute| minute * 60_000));
    let (jumping, steady) =
        (records(jumps), records(times().chain((200..300).map(|m| m * 60_000))));
    let step_by_step = "[limits]\nbatch_records = 10\n";
    for (clamped, expected) in [("keep", 1), ("reject", 0)] {
        let watermark = format!(
            "[watermark]\nkind = \"bounded\"\nout_of_orderness = \"10m\"\nmax_drift = \"5m\"\n\
             max_future_skew = \"1h\"\nclamped = \"{clamped}\"\n"
        );
        let pipeline = format!("{step_by_step}{watermark}{}", sums("{ fixed = \"1h\" }"));
        let ran = run(&[&jumping, &steady], &pipeline);
        assert_eq!((ran.mark("clamped"), ran.counted("expired")), (1, 0), "{}", ran.stderr);
        assert_eq!(ran.counted("on_time"), 600 + expected);
        let far = TEN_YEARS - TEN_YEARS % HOUR;
        let kept = if expected == 1 { 1.into() } else { Json::Null };
        assert_eq!(ran.sum("sums", far, far + HOUR), kept);
        let letters = if expected == 1 { vec![] } else { vec!["too_far_ahead".to_owned()] };
        assert_eq!(ran.letters, letters);
    }
}

#[test]
fn a_session_that_does_not_end_is_one_window_and_can_be_told_of_or_cut() {
    let second_by_second = records((0..40_000).map(|second| second * 1_000));
    let watermark = "[watermark]\nkind = \"bounded\"\nout_of_orderness = \"0s\"\n";
    let bounds = |ran: &Ran| ran.sums.keys().map(|(_, window)| window.clone()).collect::<Vec<_>>();
    let ran = run(&[&second_by_second], &format!("{watermark}{}", sums("{ session = \"10s\" }")));
    assert_eq!(ran.sum("sums", 0, 40_009_000), 40_000);
    assert_eq!(bounds(&ran).len(), 1);
    let cut = sums("{ session = \"10s\", max_duration = \"1h\" }");
    let ran = run(&[&second_by_second], &format!("{watermark}{cut}"));
    assert_eq!(ran.sum("sums", 0, HOUR), 3_600);
    assert_eq!(bounds(&ran).len(), 12);
    let early =
        format!("{}trigger = {{ early = {{ count = 10000 }} }}\n", sums("{ session = \"10s\" }"));
    let ran = run(&[&second_by_second], &format!("{watermark}{early}"));
    assert!(bounds(&ran).len() > 1, "earlier panes have the bounds that the session then had");
}
