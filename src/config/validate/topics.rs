//! Topics of Kafka: that sources name some that can be read, from a beginning to an end, and that
//! nothing that a pipeline writes comes back into it.

use super::kafka_sinks::check_topic;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::sink::RawSink;
use crate::config::raw::source::{RawKafka, RawSource};
use crate::config::raw::text_or_table::{RawDeadLetters, RawKafkaStart, RawStart};
use regex_lite::Regex;

/// Reports what is wrong with the topics of all sources, sinks and dead letters.
pub(crate) fn check(raw: &RawConfig, problems: &mut Problems) {
    let sources = raw.source.value().map_or(&[][..], |sources| &sources.tables);
    let sources: Vec<_> = sources
        .iter()
        .filter_map(|source| match source {
            RawSource::Kafka(raw) => Some(raw),
            RawSource::Files(_) | RawSource::Udp(_) | RawSource::Generator(_) => None,
        })
        .collect();
    for source in &sources {
        check_names(source, problems);
        check_ends(source, problems);
    }
    for (brokers, topic) in written(raw) {
        let reader = sources.iter().find(|source| {
            source.brokers.value().is_some_and(|own| is_same_cluster(own, brokers))
                && source.topics.value().is_some_and(|own| reads(own, &topic.value))
        });
        if reader.is_some() {
            problems.add_with_help(
                topic.place,
                format!("topic `{}` is read by this pipeline: it would never end", topic.value),
                "write to another topic, or leave it out of the `topics` of the source",
            );
        }
    }
}

/// Names and patterns, each once.
fn check_names(source: &RawKafka, problems: &mut Problems) {
    let topics = source.topics.value().map_or(&[][..], Vec::as_slice);
    for (number, topic) in topics.iter().enumerate() {
        let name = topic.value.as_str();
        if topics.iter().take(number).any(|known| known.value == name) {
            let message = format!("topic `{name}` is named twice");
            problems.add_with_help(topic.place, message, "leave one of them out");
        } else if !is_pattern(name) {
            check_topic(topic, problems);
        } else if let Err(error) = Regex::new(name) {
            problems.add_with_help(
                topic.place,
                format!("`{name}` is not a pattern: {error}"),
                "a regular expression that begins with `^`, for example \"^flows-.*\"",
            );
        }
    }
}

/// Where it begins must lie before where it ends.
fn check_ends(source: &RawKafka, problems: &mut Problems) {
    let (Some(start), Some(until)) = (source.start.value(), source.until.get()) else { return };
    if let (RawKafkaStart::At(start), RawStart::At(end)) = (start, &until.value)
        && start >= end
    {
        let help = "let `start` lie before `until`";
        problems.add_with_help(until.place, "it ends before it begins, and reads nothing", help);
    }
}

/// The topics that are written: brokers, and the name where it was typed.
fn written(raw: &RawConfig) -> Vec<(&str, &Spanned<String>)> {
    let sinks = raw.sink.value().map_or(&[][..], |sinks| &sinks.tables);
    let sinks = sinks.iter().filter_map(|sink| match sink {
        RawSink::Kafka(sink) => Some((&sink.brokers, &sink.topic)),
        RawSink::File(_) | RawSink::Stdout(_) | RawSink::Table(_) => None,
    });
    let letters = match &raw.dead_letters {
        Given::Value(Spanned { value: RawDeadLetters::Topic(raw), .. }) => {
            Some((&raw.brokers, &raw.topic))
        }
        Given::Value(_) | Given::Absent | Given::Wrong => None,
    };
    sinks
        .chain(letters)
        .filter_map(|(brokers, topic)| Some((brokers.value()?.as_str(), topic.get()?)))
        .collect()
}

fn is_pattern(topic: &str) -> bool {
    topic.starts_with('^')
}

/// Whether one of `topics`, which may be patterns, is `name`.
fn reads(topics: &[Spanned<String>], name: &str) -> bool {
    topics.iter().any(|topic| {
        let pattern = is_pattern(&topic.value).then(|| Regex::new(&topic.value).ok()).flatten();
        topic.value == name || pattern.is_some_and(|pattern| pattern.is_match(name))
    })
}

/// Whether two lists of brokers have one in common.
fn is_same_cluster(one: &str, other: &str) -> bool {
    let mut addresses = one.split(',').map(str::trim);
    addresses.any(|address| other.split(',').any(|other| other.trim() == address))
}
