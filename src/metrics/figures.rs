//! Which figure of which actor is a sample of which metric.
//!
//! Invariant: a figure is told once, and one that is not known is not told, rather than as zero.

use super::account::{Account, Watched};
use super::table::Metric;
use nilometer_actors::figures::{ShardFigures, SourceFigures};
use nilometer_model::account::StageAccount;
use nilometer_model::node::PanesSent;
use nilometer_model::time::{EventTime, Watermark};
use nilometer_model::watermark::{PartitionStanding, PartitionState};
use std::sync::Arc;

/// Seconds since 1970 of an instant that is one.
pub(super) fn seconds(time: EventTime) -> Option<f64> {
    let is_known = time > EventTime::MIN && time < EventTime::LAST;
    is_known.then(|| in_seconds(time.as_millis()))
}

/// Exact to the millisecond for some hundred thousand years.
pub(super) fn in_seconds(millis: i64) -> f64 {
    millis as f64 / 1_000.0
}

pub(super) fn sources(account: &mut Account, watched: &Watched) {
    let meters = watched.node.meters();
    for (name, meter) in watched.node.sources().iter().zip(meters.sources()) {
        let SourceFigures { account: counted, in_flight, .. } = meter.figures();
        account.whole(Metric::RecordsRead, &[name], counted.read);
        for (outcome, count) in [
            ("accepted", counted.accepted),
            ("filtered", counted.filtered),
            ("malformed", counted.malformed.total()),
            ("dead_lettered", counted.dead_lettered.total()),
        ] {
            account.whole(Metric::Records, &[name, outcome], count);
        }
        let mut rejected = counted.malformed.clone();
        rejected.merge(&counted.dead_lettered);
        for (reason, count) in rejected.sorted() {
            account.whole(Metric::RecordsRejected, &[name, reason], count);
        }
        for (mark, count) in counted.marks.sorted() {
            account.whole(Metric::Marks, &[name, mark], count);
        }
        let datagrams = counted.datagrams;
        for (outcome, count) in [
            ("read", datagrams.read),
            ("malformed", datagrams.malformed),
            ("no_template", datagrams.no_template),
            ("dropped", datagrams.dropped),
        ] {
            if datagrams.read > 0 || datagrams.dropped > 0 {
                account.whole(Metric::Datagrams, &[name, outcome], count);
            }
        }
        account.whole(Metric::CreditRecords, &[name], in_flight.records as u64);
        account.whole(Metric::CreditBytes, &[name], in_flight.bytes as u64);
    }
}

pub(super) fn watermark(account: &mut Account, watched: &Watched) {
    let meters = watched.node.meters();
    let Watermark(watermark) = meters.watermark();
    if let Some(seconds) = seconds(watermark) {
        account.real(Metric::Watermark, &[], seconds);
        let delay = account.now.saturating_sub(watermark.as_millis()).max(0);
        account.real(Metric::WatermarkDelay, &[], in_seconds(delay));
    }
    let Some(standing) = meters.standing() else { return };
    account.real(Metric::WatermarkStill, &[], in_seconds(standing.still.as_millis()));
    if let Some(holder) = standing.holder {
        let number = holder.partition as usize;
        let name = watched.node.sources().get(number).map_or("", |name| name);
        let partition = meters.sources().get(number).and_then(|meter| meter.holder());
        account.whole(Metric::WatermarkHolder, &[name, partition.as_deref().unwrap_or(name)], 1);
        if let Some(by) = holder.by {
            account.real(Metric::WatermarkHeldBy, &[name], in_seconds(by.as_millis()));
        }
    }
    let sources = watched.node.sources().iter().zip(meters.sources());
    for ((name, meter), of_source) in sources.zip(&standing.partitions) {
        let partitions = meter.figures().partitions;
        if partitions.is_empty() {
            partition(account, [name, name], of_source);
        }
        for known in &partitions {
            partition(account, [name, &known.lag.name], &known.standing);
            if let Some(end) = known.lag.end {
                let lag = end.saturating_sub(known.lag.next);
                account.whole(Metric::PartitionLag, &[name, &known.lag.name], lag);
            }
        }
    }
}

fn partition(account: &mut Account, labels: [&Arc<str>; 2], standing: &PartitionStanding) {
    let labels = &labels.map(|label| &**label);
    if let Some(seconds) = seconds(standing.watermark.0) {
        account.real(Metric::PartitionWatermark, labels, seconds);
    }
    if seconds(standing.head).is_some() {
        let skew = in_seconds(standing.lag.as_millis());
        account.real(Metric::PartitionSkew, labels, skew);
        let ahead = standing.head.as_millis().saturating_sub(account.now);
        account.real(Metric::PartitionClockSkew, labels, in_seconds(ahead));
    }
    let is_idle = standing.state == PartitionState::Idle;
    account.whole(Metric::PartitionIdle, labels, u64::from(is_idle));
    account.real(Metric::PartitionSilent, labels, in_seconds(standing.silent.as_millis()));
}

/// What the shards have counted of a stage, together.
#[derive(Debug, Clone, Default)]
pub(crate) struct StageFigures {
    pub(crate) account: StageAccount,
    pub(crate) panes: PanesSent,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

impl StageFigures {
    /// Of all stages, in plan order.
    pub(crate) fn all(watched: &Watched) -> Vec<Self> {
        let mut all = vec![Self::default(); watched.plan.stages.len()];
        for shard in watched.node.meters().shards().iter().flatten() {
            let ShardFigures { accounts, panes, sizes, .. } = shard;
            let none = (0, 0);
            let sizes = sizes.iter().chain(std::iter::repeat(&none));
            for (((mine, account), panes), (keys, bytes)) in
                all.iter_mut().zip(accounts).zip(panes).zip(sizes)
            {
                mine.account.merge(account);
                mine.panes.merge(panes);
                mine.keys = mine.keys.saturating_add(*keys as u64);
                mine.bytes = mine.bytes.saturating_add(*bytes as u64);
            }
        }
        all
    }

    /// What became of copies and records, by name.
    pub(crate) const fn outcomes(&self) -> [(&'static str, u64); 12] {
        let account = &self.account;
        [
            ("on_time", account.on_time),
            ("late", account.late),
            ("expired", account.expired),
            ("closed", account.closed),
            ("refused", account.refused),
            ("late_no_effect", account.late_no_effect),
            ("duplicate", account.duplicate),
            ("overflow", account.overflow),
            ("unknown_step", account.unknown_step),
            ("no_window", account.no_window),
            ("filtered", account.filtered),
            ("failed", account.failed),
        ]
    }
}

pub(super) fn stages(account: &mut Account, watched: &Watched) {
    let kept = watched.node.meters().sequences();
    for (stage, figures) in watched.plan.stages.iter().zip(StageFigures::all(watched)) {
        let name = &*stage.name;
        for (outcome, count) in figures.outcomes() {
            account.whole(Metric::StageRecords, &[name, outcome], count);
        }
        for (timing, count) in figures.panes.by_timing() {
            account.whole(Metric::Panes, &[name, timing.name()], count);
        }
        let (panes, retracts) = (figures.account.panes, figures.account.retracts);
        account.whole(Metric::PanesEmitted, &[name, "insert"], panes);
        account.whole(Metric::PanesEmitted, &[name, "retract"], retracts);
        account.whole(Metric::Keys, &[name], figures.keys);
        account.whole(Metric::StateBytes, &[name], figures.bytes);
        if let Some(kept) = kept.get(&stage.id) {
            account.whole(Metric::SequenceSessions, &[name], kept.sessions as u64);
            account.whole(Metric::SequenceRecords, &[name], kept.records as u64);
        }
    }
}

pub(super) fn shards(account: &mut Account, watched: &Watched) {
    for (number, shard) in watched.node.meters().shards().iter().enumerate() {
        let Some(shard) = shard else { continue };
        let number = number.to_string();
        let labels = &[number.as_str()];
        account.whole(Metric::ShardRecords, labels, shard.records);
        if let Some(seconds) = seconds(shard.passed.0) {
            account.real(Metric::ShardWatermark, labels, seconds);
        }
        account.whole(Metric::ShardWaiting, labels, shard.waiting_bytes as u64);
        if watched.has_state {
            account.spans(Metric::ShardPause, labels, &shard.pauses);
        }
        let Some(memory) = &shard.memory else { continue };
        account.whole(Metric::MemoryBytes, labels, memory.bytes as u64);
        if let Some(budget) = memory.budget {
            account.whole(Metric::MemoryLimit, labels, budget as u64);
        }
        account.whole(Metric::ColdKeys, labels, memory.cold_keys as u64);
    }
}

pub(super) fn sinks(account: &mut Account, watched: &Watched) {
    let node = &watched.node;
    for (name, figures) in node.sinks().iter().zip(node.meters().sinks()) {
        let labels: &[&str] = &[name];
        account.whole(Metric::SinkPanes, &[name, "insert"], figures.report.panes);
        account.whole(Metric::SinkPanes, &[name, "retract"], figures.report.retracts);
        account.whole(Metric::SinkLate, labels, figures.report.late);
        account.spans(Metric::SinkCalls, labels, &figures.calls);
        account.whole(Metric::SinkErrors, labels, u64::from(figures.report.has_failed));
        account.spans(Metric::LatencyEvent, labels, &figures.event);
        account.spans(Metric::LatencyProcessing, labels, &figures.processing);
    }
}

pub(super) fn epochs(account: &mut Account, watched: &Watched) {
    let meters = watched.node.meters();
    let Some(store) = meters.store_figures() else { return };
    account.whole(Metric::Epoch, &[], meters.durable().number());
    account.whole(Metric::Epochs, &[], store.report.epochs);
    account.spans(Metric::EpochSeconds, &[], &store.epochs);
    account.whole(Metric::EpochBytes, &[], store.report.bytes);
    account.whole(Metric::DiskBytes, &[], store.report.disk_bytes);
    account.real(Metric::OpenSeconds, &[], store.report.opened_in.as_secs_f64());
}
