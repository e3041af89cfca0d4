//! The table of metrics: what names look like, and that `docs/metrics.md` is made of it.

use super::table::{Kind, Metric};
use saphyr::LoadableYamlNode;
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
    crate::golden::golden(&[("docs/metrics.md", &written)]);
}

#[test]
fn rules_and_the_page_for_operators_name_metrics_that_there_are() {
    let known: BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    for (file, at_least) in [("docker/alerts.yaml", 12), ("docs/operating.md", 12)] {
        let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words = text.split(|letter| !is_part(letter));
        let named: BTreeSet<_> = words.filter(|word| word.starts_with("nilometer_")).collect();
        assert!(named.len() >= at_least, "{file}: {named:?}");
        for name in named {
            let suffixes = ["_bucket", "_sum", "_count"];
            let bare = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(known.contains(bare.unwrap_or(name)), "{file} names {name}");
        }
    }
}

#[test]
fn every_alert_is_explained_and_every_explanation_has_its_alert() {
    let read = |file: &str| {
        std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let (rules, page) = (read("docker/alerts.yaml"), read("docs/operating.md"));
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: BTreeSet<_> = alerts.collect();
    assert!(alerts.len() >= 12);
    let rows = page.lines().filter_map(|line| line.strip_prefix("| Nilometer"));
    let rows = rows.filter_map(|row| row.split(" | ").next());
    let explained: BTreeSet<_> = rows
        .flat_map(|names| names.split(", "))
        .map(|name| format!("Nilometer{}", name.trim_start_matches("Nilometer")))
        .collect();
    assert_eq!(explained, alerts.into_iter().map(str::to_owned).collect());
    // A rule is YAML that Prometheus would read.
    let rules = saphyr::Yaml::load_from_str(&rules).unwrap();
    assert_eq!(rules.len(), 1);
}
