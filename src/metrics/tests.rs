//! The table of metrics: what names look like, and that `docs/metrics.md` is made of it.

use super::table::{Kind, Metric};
use std::collections::BTreeSet;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");

#[test]
fn names_are_unique_and_say_what_they_are() {
    let names: BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    assert_eq!(names.len(), Metric::ALL.len());
    let is_word = |text: &str| {
        text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') && !text.is_empty()
    };
    for metric in Metric::ALL {
        let (name, unit) = (metric.name(), metric.unit());
        assert!(name.strip_prefix("nilometer_").is_some_and(is_word), "{name}");
        assert!(metric.labels().iter().all(|label| is_word(label)), "{name}");
        // What Prometheus adds to histograms, and what it takes for its own.
        assert!(!metric.labels().contains(&"le"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind() == Kind::Counter, "{name}");
        if metric.kind() != Kind::Counter {
            assert_eq!(
                name.ends_with("_seconds"),
                unit.starts_with('s') && unit != "sessions",
                "{name}"
            );
            assert_eq!(name.ends_with("_bytes"), unit == "bytes", "{name}");
        }
        assert!(metric.meaning().ends_with('.'), "{name}");
        assert!(!metric.meaning().contains(['\\', '\n', '|']), "{name}");
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = page.split_once("<!-- metrics -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let mut table =
        "| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n".to_owned();
    for metric in Metric::ALL {
        let labels: Vec<_> = metric.labels().iter().map(|label| format!("`{label}`")).collect();
        let cells = [
            &format!("`{}`", metric.name()),
            metric.kind().name(),
            metric.unit(),
            &labels.join(", "),
            metric.meaning(),
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let written = format!("{before}<!-- metrics -->\n{table}<!-- end -->{after}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PATH, &written).unwrap();
    }
    assert_eq!(std::fs::read_to_string(PATH).unwrap(), written);
}
