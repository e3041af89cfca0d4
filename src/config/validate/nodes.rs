//! Several nodes: what has to hold so that each can work on its partitions alone.

use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::source::RawSource;
use nilometer_model::plan::Plan;

/// Reports sources that several nodes read, where one node would not know all that it tells of.
pub(crate) fn check(plan: &Plan, raw: &RawConfig, problems: &mut Problems) {
    let sources = raw.source.value().map_or(&[][..], |sources| &sources.tables);
    let nodes = |source: &RawSource| match source {
        RawSource::Kafka(raw) => raw.nodes.value().map_or(1, |nodes| nodes.count()),
        RawSource::Files(_) | RawSource::Udp(_) | RawSource::Generator(_) => 1,
    };
    let shared = sources.iter().find_map(|source| match source {
        RawSource::Kafka(raw) if nodes(source) > 1 => Some((raw, raw.nodes.get()?)),
        RawSource::Kafka(_) | RawSource::Files(_) | RawSource::Udp(_) | RawSource::Generator(_) => {
            None
        }
    });
    let Some((source, typed)) = shared else { return };
    let mut report = |message: &str, help: &str| {
        problems.add_with_help(typed.place, message, help);
    };
    if raw.state.is_absent() {
        report("nodes keep what they have read for themselves", "give each a state: [state]");
    }
    if raw.pipeline.value().is_some_and(|pipeline| pipeline.shard_by.is_absent()) {
        let help =
            "if they are, say so: [pipeline] shard_by = [\"exporter\"]; else one node reads them";
        report("it is not said that the topics are partitioned by a key", help);
    }
    if let Some(stage) = plan.stages.iter().find(|stage| stage.exchange.is_some()) {
        let message =
            format!("no node would know the whole of `{}`, whose key lacks `shard_by`", stage.name);
        report(&message, "leave that group out, or group the results of all nodes elsewhere");
    }
    if sources.iter().any(|other| nodes(other) != typed.value.count()) {
        let help = "write the same `nodes` for each source, all of them topics";
        report("each node would read the other sources, too", help);
    }
    if let Some(until) = source.until.get() {
        let help = "leave `until` out, or let one node read it";
        problems.add_with_help(until.place, "nodes wait for each other, so they have no end", help);
    }
}
