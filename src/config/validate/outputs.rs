//! Sinks.

use super::kafka_sinks;
use super::names::{check_unique, check_word};
use crate::config::node::Origin;
use crate::config::pipeline::{SinkConfig, SinkFormat, SinkKind};
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::group::RawLate;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::sink::{RawKafkaSinkFormat, RawSink, RawSinkFormat};
use crate::config::settings::{Setting, insert};
use nilometer_model::plan::LateSpec;
use serde_json::Value as Json;
use std::path::PathBuf;

/// The sinks; one that is wrong is reported and left out.
pub(crate) fn sinks(raw_config: &RawConfig, problems: &mut Problems) -> Vec<SinkConfig> {
    let raw = raw_config.sink.value().map_or(&[][..], |sinks| &sinks.tables);
    let mut sinks = Vec::new();
    for sink in raw {
        let kind = match sink {
            RawSink::File(file) => {
                let path = file.path.value().map(PathBuf::from);
                let format = file.format.value().copied().map(format);
                path.zip(format).map(|(path, format)| SinkKind::File { path, format })
            }
            RawSink::Stdout(stdout) => {
                let format = stdout.format.value().copied().map(format);
                format.map(|format| SinkKind::Stdout { format })
            }
            RawSink::Table(_) => Some(SinkKind::Table),
            RawSink::Kafka(kafka) => {
                kafka_sinks::sink(kafka, !raw_config.state.is_absent(), problems)
            }
        };
        let Some(name) = name(sink) else { continue };
        check_word(&name.value, "sink", name.place, problems);
        sinks.extend(kind.map(|kind| SinkConfig { name: name.value.clone(), kind }));
    }
    let names = raw.iter().filter_map(name);
    check_unique("sink", names.map(|name| (name.value.as_str(), name.place)), problems);
    check_targets(raw, problems);
    sinks
}

fn name(sink: &RawSink) -> Option<&Spanned<String>> {
    match sink {
        RawSink::File(file) => file.name.get(),
        RawSink::Stdout(stdout) => stdout.name.get(),
        RawSink::Table(table) => table.name.get(),
        RawSink::Kafka(kafka) => kafka.name.get(),
    }
}

/// Whether a sink takes late copies, and no panes.
fn is_late(sink: &RawSink) -> bool {
    let format = match sink {
        RawSink::File(file) => &file.format,
        RawSink::Stdout(stdout) => &stdout.format,
        RawSink::Table(_) => return false,
        RawSink::Kafka(kafka) => {
            return kafka.format.value() == Some(&RawKafkaSinkFormat::Late);
        }
    };
    format.value() == Some(&RawSinkFormat::Late)
}

/// Two sinks that write to one place would tear each other's lines apart.
fn check_targets(raw: &[RawSink], problems: &mut Problems) {
    let paths = raw.iter().filter_map(|sink| match sink {
        RawSink::File(file) => file.path.get(),
        RawSink::Stdout(_) | RawSink::Table(_) | RawSink::Kafka(_) => None,
    });
    let paths = paths.map(|path| (path.value.as_str(), path.place));
    check_unique("path of a sink", paths, problems);
    let on_stdout =
        raw.iter().filter(|sink| matches!(sink, RawSink::Stdout(_) | RawSink::Table(_)));
    for name in on_stdout.skip(1).filter_map(name) {
        problems.add_with_help(
            name.place,
            format!("sink `{}` is the second one on stdout", name.value),
            "let one of them write to a file: kind = \"file\"",
        );
    }
}

const fn format(raw: RawSinkFormat) -> SinkFormat {
    match raw {
        RawSinkFormat::Pane => SinkFormat::Pane,
        RawSinkFormat::FlowSummary => SinkFormat::FlowSummary,
        RawSinkFormat::Csv => SinkFormat::Csv,
        RawSinkFormat::Late => SinkFormat::Late,
    }
}

/// Lists the sinks of groups that are given none among the settings.
pub(crate) fn default_sinks(raw: &RawConfig, settings: &mut Vec<Setting>) {
    let all: Json = SinkNames::new(raw).panes.into();
    let groups = raw.group.value().map_or(&[][..], |groups| &groups.tables);
    let groups = groups.iter().filter(|group| group.sinks.is_absent());
    let groups = groups.filter_map(|group| Some(("group", group.name.value()?)));
    let sequences = raw.sequence.value().map_or(&[][..], |sequences| &sequences.tables);
    let sequences = sequences.iter().filter(|sequence| sequence.sinks.is_absent());
    let sequences = sequences.filter_map(|known| Some(("sequence", known.name.value()?)));
    for (table, name) in groups.chain(sequences) {
        let path = [table.to_owned(), name.clone(), "sinks".to_owned()];
        insert(settings, Setting::new(&path, all.clone(), Origin::Default));
    }
}

/// Names of sinks that groups may name.
#[derive(Debug, Clone)]
pub(crate) struct SinkNames {
    /// Sinks that take panes.
    panes: Vec<String>,
    /// Sinks that take late copies.
    late: Vec<String>,
    /// Whether there can be no others: a sink that cannot be read may have any name.
    is_whole: bool,
}

impl SinkNames {
    /// The names of all sinks that have one.
    pub(crate) fn new(raw: &RawConfig) -> Self {
        let Some(sinks) = raw.sink.value() else {
            return Self { panes: Vec::new(), late: Vec::new(), is_whole: false };
        };
        let (mut panes, mut late) = (Vec::new(), Vec::new());
        for sink in &sinks.tables {
            let names = if is_late(sink) { &mut late } else { &mut panes };
            names.extend(name(sink).map(|name| name.value.clone()));
        }
        let is_whole = sinks.is_whole && panes.len() + late.len() == sinks.tables.len();
        Self { panes, late, is_whole }
    }

    /// The sinks that a group is given; all that take panes where it is given none. Reports those
    /// that are not there, or take none.
    pub(crate) fn of_group(
        &self,
        given: &Given<Vec<Spanned<String>>>,
        problems: &mut Problems,
    ) -> Vec<Box<str>> {
        let Given::Value(list) = given else {
            return self.panes.iter().map(|name| name.as_str().into()).collect();
        };
        let listed = || list.value.iter().map(|name| (name.value.as_str(), name.place));
        check_unique("sink", listed(), problems);
        for (name, place) in listed().filter(|_| self.is_whole) {
            if self.late.iter().any(|known| known == name) {
                problems.add_with_help(
                    place,
                    format!("sink `{name}` takes late copies, no panes"),
                    format!("write late = {{ sink = \"{name}\" }}, or give it another `format`"),
                );
            } else if !self.panes.iter().any(|known| known == name) {
                let known = self.panes.iter().map(String::as_str);
                problems.add_unknown(place, ("sink", name), known);
            }
        }
        listed().map(|(name, _)| name.into()).collect()
    }

    /// Where the late copies of a group go; `None` if that is wrong. Reports a sink that is not
    /// there, or does not take them.
    pub(crate) fn late_of_group(
        &self,
        given: &Given<RawLate>,
        problems: &mut Problems,
    ) -> Option<Option<LateSpec>> {
        let late = match given {
            Given::Absent => return Some(None),
            Given::Wrong => return None,
            Given::Value(late) => &late.value,
        };
        let sink = late.sink.get()?;
        if self.panes.contains(&sink.value) {
            problems.add_with_help(
                sink.place,
                format!("sink `{}` takes panes, no late copies", sink.value),
                "name a sink with format = \"late\"",
            );
        } else if self.is_whole && !self.late.contains(&sink.value) {
            let known = self.late.iter().map(String::as_str);
            problems.add_unknown(sink.place, ("sink", &sink.value), known);
        }
        let include_late = *late.include_late.value()?;
        Some(Some(LateSpec { sink: sink.value.as_str().into(), include_late }))
    }
}
