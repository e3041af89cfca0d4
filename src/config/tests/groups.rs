//! What a group's window, trigger and `emit` mean: the text typed, and what it becomes.

use crate::config::{Pipeline, load_text};
use nilometer_model::pane::{Emission, TimestampCombiner};
use nilometer_model::plan::Grouping;

const AROUND: &str = r#"
[pipeline]
name = "p"
[record]
time = "t"
fields = { k = "text", v = "i64", gap = "u16" }
"#;

fn load(text: &str, sets: &[&str]) -> Pipeline {
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    let text = format!("{AROUND}{text}");
    load_text(("p.toml", &text), &sets, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The group with these settings; its window is a minute and its lateness nothing.
fn group(settings: &str, sets: &[&str]) -> Grouping {
    let text = format!(
        "[defaults]\nwindow = {{ fixed = \"1m\" }}\n[[group]]\nname = \"g\"\nkey = [\"k\"]\n\
         aggregates = {{ n = \"count()\", sum = \"sum(v)\" }}\n{settings}\n"
    );
    load(&text, sets).job.groupings.remove(0)
}

#[test]
fn triggers_are_what_was_typed_and_simple_ones_repeat() {
    for (typed, meant) in [
        (r#""after_watermark""#, "repeat(after_watermark)"),
        (r#""never""#, "never"),
        (r#"{ every = "90s" }"#, "repeat(every(90s))"),
        (r#"{ processing_time = "5s" }"#, "repeat(processing_time(5s))"),
        (r#"{ count = 100 }"#, "repeat(count(100))"),
        (r#"{ bytes = "1MiB" }"#, "repeat(bytes(1048576))"),
        (r#"{ when = "sum > 100" }"#, "repeat(when(sum > 100))"),
        (r#"{ signal = "now" }"#, "repeat(on_signal(now))"),
        (r#"{ early = { every = "10s" } }"#, "after_watermark(early = every(10s))"),
        (r#"{ late = { count = 1 } }"#, "after_watermark(late = count(1))"),
        (
            r#"{ late = { count = 1 }, early = { every = "10s" } }"#,
            "after_watermark(early = every(10s), late = count(1))",
        ),
        (r#"{ once = "after_watermark" }"#, "after_watermark"),
        (r#"{ repeat = { count = 2 } }"#, "repeat(count(2))"),
        (
            r#"{ repeat = { all = [{ count = 3 }, { once = { every = "1m" } }] } }"#,
            "repeat(all(count(3), every(1m)))",
        ),
        (
            r#"{ repeat = { any = [{ count = 3 }, "never", "after_watermark"] } }"#,
            "repeat(any(count(3), never, after_watermark))",
        ),
        (
            r#"{ sequence = [{ repeat_until = [{ every = "1m" }, "after_watermark"] }, { repeat = "after_watermark" }] }"#,
            "sequence(repeat_until(every(1m), after_watermark), repeat(after_watermark))",
        ),
        (
            r#"{ or_finally = [{ repeat = { count = 2 } }, "after_watermark"] }"#,
            "or_finally(repeat(count(2)), after_watermark)",
        ),
    ] {
        assert_eq!(group(&format!("trigger = {typed}"), &[]).trigger.to_string(), meant, "{typed}");
    }
    assert_eq!(group("", &[]).trigger.to_string(), "repeat(after_watermark)");
    let set = group(
        r#"trigger = { early = { every = "10s" } }"#,
        &["group.g.trigger.early.every=5s", "group.g.trigger.late.count=2"],
    );
    assert_eq!(set.trigger.to_string(), "after_watermark(early = every(5s), late = count(2))");
}

#[test]
fn windows_are_what_was_typed() {
    for (typed, meant) in [
        (r#""global""#, "global"),
        (r#"{ fixed = "90s", offset = "-1s" }"#, "fixed 90s offset -1000 ms"),
        (r#"{ fixed = "1h", phase = "by_key" }"#, "fixed 1h by key"),
        (r#"{ sliding = "1m", every = "1s", offset = "5ms" }"#, "sliding 1m every 1s offset 5 ms"),
        (r#"{ session = "10m" }"#, "session gap 10m"),
        (
            r#"{ session = "10m", max_duration = "1d", touching = "separate", gap_field = "gap" }"#,
            "session gap 10m cut at 1d touching separate",
        ),
        (r#"{ calendar = "day" }"#, "day in UTC"),
        (
            r#"{ calendar = "week", time_zone = "Asia/Kolkata" }"#,
            "week from Monday in Asia/Kolkata",
        ),
        (r#"{ calendar = "week", week_start = "saturday" }"#, "week from Saturday in UTC"),
        (r#"{ calendar = "month", time_zone = "Europe/Athens" }"#, "month in Europe/Athens"),
        (r#"{ calendar = "year" }"#, "year in UTC"),
    ] {
        let group = group(&format!("window = {typed}"), &[]);
        assert_eq!(group.window.to_string(), meant, "{typed}");
        assert_eq!(group.gap_field.is_some(), typed.contains("gap_field"), "{typed}");
    }
}

#[test]
fn a_gap_may_be_derived_and_brings_what_it_reads() {
    let pipeline = load(
        r#"
[derive]
half = "gap / 2"
gap_ms = "half * 1000"
[[group]]
name = "g"
key = ["k"]
window = { session = "10m", gap_field = "gap_ms" }
aggregates = { n = "count()" }
"#,
        &[],
    );
    let row: Vec<_> = pipeline.plan.row.fields().iter().map(|field| &*field.name).collect();
    for field in ["gap", "half", "gap_ms"] {
        assert!(row.contains(&field), "{field} in {row:?}");
    }
}

#[test]
fn groups_take_over_triggers_and_complete_what_is_emitted() {
    let text = r#"
[defaults]
window = { session = "1m" }
trigger = { early = { count = 2 }, late = { count = 1 } }
allowed_lateness = "1h"
emit = { on_time = "always", timestamp = "latest" }
allow_closing = true
[[group]]
name = "a"
key = ["k"]
aggregates = { n = "count()" }
[[group]]
name = "b"
key = ["k"]
window = { fixed = "1m" }
trigger = { once = { count = 3 } }
emit = { timestamp = "earliest", closing = "always" }
aggregates = { n = "count()" }
"#;
    let pipeline = load(text, &[]);
    let [a, b] = pipeline.job.groupings.as_slice() else { panic!("{:?}", pipeline.job) };
    assert_eq!(a.window.to_string(), "session gap 1m");
    assert_eq!(a.trigger.to_string(), "after_watermark(early = count(2), late = count(1))");
    let emission = Emission {
        on_time_always: true,
        closing_always: false,
        timestamp: TimestampCombiner::Latest,
    };
    assert_eq!(a.emission, emission);
    assert_eq!(
        (b.window.to_string().as_str(), b.trigger.to_string().as_str()),
        ("fixed 1m", "count(3)")
    );
    let timestamp = TimestampCombiner::Earliest;
    assert_eq!(b.emission, Emission { closing_always: true, timestamp, ..emission });
    assert!(a.allow_closing && b.allow_closing);
    for (path, value) in [
        ("group.a.trigger.early.count", "2"),
        ("group.b.trigger.once.count", "3"),
        ("group.b.emit.on_time", "\"always\""),
        ("group.a.window.touching", "\"merge\""),
    ] {
        let setting = pipeline.settings.iter().find(|setting| setting.path == path);
        assert_eq!(
            setting.map(|setting| setting.value.to_string()).as_deref(),
            Some(value),
            "{path}"
        );
    }
}
