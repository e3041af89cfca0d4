//! The summary of a run for people: a few tables on stderr.

use crate::standing::{Names, describe, instant};
use crate::summary::{PartitionSummary, StageSummary, Summary};
use crate::summary_state::StateSummary;
use crate::text_table::text_table;
use nilometer_actors::node::Outcome;
use nilometer_actors::report::SinkReport;
use nilometer_connectors::account::Counts;
use nilometer_model::account::StageAccount;
use nilometer_model::time::{EventTime, Watermark};
use std::fmt::Write as _;
use std::time::Duration;

/// The tables, and below them what is worth a sentence. `took` is how long the run lasted.
pub fn render(summary: &Summary, outcome: &Outcome, took: Duration) -> String {
    let mut text = format!("\n{}\n\n", records(summary));
    if summary.datagrams.read > 0 || summary.datagrams.dropped > 0 {
        // Writing to a String cannot fail, here and below.
        let _written = writeln!(text, "{}\n", datagrams(summary));
    }
    let _written = writeln!(text, "{}\n", stages(summary));
    if !summary.partitions.is_empty() {
        let _written = writeln!(text, "{}\n", partitions(summary));
    }
    for sentence in sentences(summary, outcome, took) {
        let _written = writeln!(text, "{sentence}");
    }
    text
}

/// A table of numbers below `header`, whose first column is text.
fn table(header: &[&str], rows: impl IntoIterator<Item = (String, Vec<u64>)>) -> String {
    let row = |(name, numbers): (String, Vec<u64>)| {
        std::iter::once(name).chain(numbers.into_iter().map(grouped)).collect()
    };
    numbers_table(header, rows.into_iter().map(row))
}

/// A table below `header`, whose first column is text.
fn numbers_table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    text_table(header, &(1..header.len()).collect::<Vec<_>>(), rows)
}

fn records(summary: &Summary) -> String {
    let records = summary.records;
    table(
        &["", "read", "accepted", "malformed", "filtered", "dead-lettered", "in flight"],
        [(
            "records".to_owned(),
            vec![
                records.read,
                records.accepted,
                records.malformed,
                records.filtered,
                records.dead_lettered,
                records.in_flight,
            ],
        )],
    )
}

fn partitions(summary: &Summary) -> String {
    let row = |known: &PartitionSummary| {
        let number = |number: Option<u64>| number.map_or("?".to_owned(), grouped);
        let time = |millis| instant(EventTime::from_millis(millis));
        let watermark = known.watermark.map_or("none".to_owned(), time);
        let name = format!("{} {}", known.source, known.partition);
        vec![name, grouped(known.next), number(known.lag), watermark, known.state.to_owned()]
    };
    let header = ["partition", "next offset", "lag", "watermark", "state"];
    numbers_table(&header, summary.partitions.iter().map(row))
}

fn datagrams(summary: &Summary) -> String {
    let datagrams = summary.datagrams;
    table(
        &["", "read", "malformed", "without template", "dropped"],
        [(
            "datagrams".to_owned(),
            vec![datagrams.read, datagrams.malformed, datagrams.no_template, datagrams.dropped],
        )],
    )
}

fn stages(summary: &Summary) -> String {
    type Column = (&'static str, fn(&StageAccount) -> u64);
    let mut columns: Vec<Column> = vec![
        ("on time", |account| account.on_time),
        ("late", |account| account.late),
        ("expired", |account| account.expired),
        ("closed", |account| account.closed),
        ("refused", |account| account.refused),
        ("late, no effect", |account| account.late_no_effect),
        ("duplicate", |account| account.duplicate),
        ("overflow", |account| account.overflow),
        ("unknown step", |account| account.unknown_step),
        ("no window", |account| account.no_window),
        ("panes", |account| account.panes),
        ("retracts", |account| account.retracts),
    ];
    let stages = &summary.stages.0;
    // Only custom windows refuse anything, and only sequences know the rest.
    let rare = ["refused", "late, no effect", "duplicate", "overflow", "unknown step"];
    columns.retain(|(name, number)| {
        !rare.contains(name) || stages.iter().any(|stage| number(&stage.account) > 0)
    });
    let header: Vec<_> =
        std::iter::once("stage").chain(columns.iter().map(|(name, _)| *name)).collect();
    let row = |stage: &StageSummary| {
        let numbers = columns.iter().map(|(_, number)| number(&stage.account));
        (stage.name.to_string(), numbers.collect())
    };
    table(&header, stages.iter().map(row))
}

fn sentences(summary: &Summary, outcome: &Outcome, took: Duration) -> Vec<String> {
    let account = outcome.records();
    let mut sentences = Vec::new();
    for (name, counts) in [
        ("malformed", &account.malformed),
        ("dead-lettered", &account.dead_lettered),
        ("marks", &summary.marks),
    ] {
        let listed = list(counts);
        if !listed.is_empty() {
            sentences.push(format!("{name}: {listed}"));
        }
    }
    for sink in &outcome.sinks {
        let broken = if sink.has_failed { ", then it broke" } else { "" };
        sentences.push(format!("sink `{}`: {}{broken}", sink.name, written(sink)));
    }
    sentences.extend(summary.state.as_ref().map(StateSummary::describe));
    sentences.extend(summary.sequences.iter().map(|(name, kept)| kept.describe(name)));
    if let Some(memory) = outcome.memory() {
        sentences.push(format!(
            "state in memory: {} bytes, at most {}; on disk: {} in {} bytes of pages; {} went \
             there, {} came back",
            grouped(memory.bytes as u64),
            grouped(memory.bytes_max as u64),
            counted(memory.cold_keys as u64, "key", "keys"),
            grouped(memory.cold_bytes as u64),
            counted(memory.went, "key", "keys"),
            grouped(memory.came),
        ));
    }
    if let Some(standing) = &outcome.standing
        && standing.watermark != Watermark::MAX
    {
        let names = Names { sources: &outcome.names, holder: None };
        sentences.push(describe(standing, names));
    }
    let incomplete: usize = outcome.incomplete_windows().iter().sum();
    if incomplete > 0 {
        let windows = counted(incomplete as u64, "window was", "windows were");
        let what = if outcome.store.is_some() { "kept for the next run" } else { "not emitted" };
        sentences.push(format!(
            "{what}: {windows} not complete, the watermark had not reached their end"
        ));
    }
    let seconds = took.as_secs_f64();
    let rate = (summary.records.read as f64 / seconds.max(0.001)) as u64;
    sentences.push(format!("took {seconds:.2} s, {} records/s", grouped(rate)));
    sentences
}

/// What a sink has written: it takes panes, or late copies.
fn written(sink: &SinkReport) -> String {
    if sink.takes_late {
        return counted(sink.late, "late copy", "late copies");
    }
    let panes = counted(sink.panes, "pane", "panes");
    format!("{panes}, {}", counted(sink.retracts, "retraction", "retractions"))
}

/// Counts as `name number`, those at zero left out.
fn list(counts: &Counts) -> String {
    let one = |(name, count): (&str, u64)| format!("{name} {}", grouped(count));
    counts.sorted().into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A number in groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something: `many` is its plural.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Records, Stages};
    use nilometer_connectors::account::Datagrams;

    #[test]
    fn refused_copies_have_a_column_where_there_are_any() {
        for (refused, header, row) in [
            (
                0,
                "stage   on time   late   expired   closed   no window",
                "sums          0      0         0        0           0",
            ),
            (
                7,
                "stage   on time   late   expired   closed   refused",
                "sums          0      0         0        0         7",
            ),
        ] {
            let account = StageAccount { refused, ..StageAccount::default() };
            let stage = StageSummary { name: "sums".into(), account, copies: None };
            let summary = Summary {
                partitions: Vec::new(),
                records: Records::default(),
                datagrams: Datagrams::default(),
                stages: Stages(vec![stage]),
                marks: Counts::default(),
                state: None,
                sequences: std::collections::BTreeMap::new(),
            };
            let text = stages(&summary);
            assert!(text.contains(header) && text.contains(row), "{text}");
        }
    }

    #[test]
    fn sinks_tell_what_they_take_and_one_of_something_is_one() {
        let report = SinkReport::default();
        let panes = |panes, retracts| SinkReport { panes, retracts, ..report.clone() };
        let late = |late| SinkReport { takes_late: true, late, ..report.clone() };
        for (sink, text) in [
            (panes(0, 0), "0 panes, 0 retractions"),
            (panes(1, 1), "1 pane, 1 retraction"),
            (panes(1_234, 2), "1,234 panes, 2 retractions"),
            (late(0), "0 late copies"),
            (late(1), "1 late copy"),
            (late(20), "20 late copies"),
        ] {
            assert_eq!(written(&sink), text);
        }
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (123_456, "123,456"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
