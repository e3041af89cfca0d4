//! What actors show, as answers.

use super::answers::{
    HolderAnswer, PartitionAnswer, PartitionsAnswer, PipelineAnswer, ShardAnswer, SinkAnswer,
    SourceAnswer, StageAnswer, WatermarkAnswer,
};
use super::shared::Shared;
use crate::metrics::{StageFigures, Watched};
use nilometer_actors::report::PartitionReport;
use nilometer_model::time::EventTime;
use nilometer_model::watermark::PartitionStanding;

/// Milliseconds of an instant that is one.
fn millis(time: EventTime) -> Option<i64> {
    let is_known = time > EventTime::MIN && time < EventTime::LAST;
    is_known.then(|| time.as_millis())
}

/// The pipeline, and what it has counted by `now_ms`.
pub(super) fn pipeline(shared: &Shared, run: &Watched, now_ms: i64) -> PipelineAnswer {
    let meters = run.node.meters();
    let shards = meters.shards().into_iter().flatten();
    let sinks = run.node.sinks().iter().zip(meters.sinks());
    PipelineAnswer {
        pipeline: run.pipeline.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        engine: shared.plan.engine.kind.into(),
        status: shared.status().into(),
        now_ms,
        uptime_ms: u64::try_from(run.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        watermark: watermark(run),
        epoch: run.has_state.then(|| meters.durable().number()),
        sources: sources(run),
        stages: stages(shared, run),
        shards: shards
            .map(|shard| ShardAnswer {
                records: shard.records,
                watermark_ms: millis(shard.passed.0),
                waiting_bytes: shard.waiting_bytes as u64,
            })
            .collect(),
        sinks: sinks
            .map(|(name, figures)| SinkAnswer {
                name: name.to_string(),
                panes: figures.report.panes,
                retracts: figures.report.retracts,
                late: figures.report.late,
                has_failed: figures.report.has_failed,
            })
            .collect(),
    }
}

fn watermark(run: &Watched) -> WatermarkAnswer {
    let meters = run.node.meters();
    let standing = meters.standing();
    let holder = standing.as_ref().and_then(|standing| standing.holder);
    let holder = holder.and_then(|holder| {
        let number = holder.partition as usize;
        let source = run.node.sources().get(number)?;
        let partition = meters.sources().get(number).and_then(|meter| meter.holder());
        Some(HolderAnswer {
            source: source.to_string(),
            partition: partition.as_ref().unwrap_or(source).to_string(),
            by_ms: holder.by.map(|by| by.as_millis()),
        })
    });
    WatermarkAnswer {
        watermark_ms: millis(meters.watermark().0),
        still_ms: standing.map(|standing| standing.still.as_millis()),
        holder,
    }
}

fn sources(run: &Watched) -> Vec<SourceAnswer> {
    let sources = run.node.sources().iter().zip(run.node.meters().sources());
    let answer = sources.map(|(name, meter)| {
        let figures = meter.figures();
        SourceAnswer {
            name: name.to_string(),
            read: figures.account.read,
            accepted: figures.account.accepted,
            filtered: figures.account.filtered,
            malformed: figures.account.malformed.total(),
            dead_lettered: figures.account.dead_lettered.total(),
            in_flight_records: figures.in_flight.records as u64,
            in_flight_bytes: figures.in_flight.bytes as u64,
            has_ended: figures.has_ended,
        }
    });
    answer.collect()
}

fn stages(shared: &Shared, run: &Watched) -> Vec<StageAnswer> {
    let stages = shared.plan.stages.iter().zip(StageFigures::all(run));
    let named = |(name, count): (&str, u64)| (name.to_owned(), count);
    let answer = stages.map(|(stage, figures)| StageAnswer {
        name: stage.name.clone(),
        reads: stage.reads.clone(),
        key: stage.key.clone(),
        trigger: stage.trigger.clone(),
        mode: stage.mode.into(),
        sinks: stage.sinks.clone(),
        outcomes: figures.outcomes().map(named).into(),
        panes: figures
            .panes
            .by_timing()
            .map(|(timing, count)| (timing.name().to_owned(), count))
            .into(),
        retracts: figures.account.retracts,
        keys: figures.keys,
        state_bytes: figures.bytes,
    });
    answer.collect()
}

/// Every partition.
pub(super) fn partitions(run: &Watched) -> PartitionsAnswer {
    let meters = run.node.meters();
    let standing = meters.standing().map(|standing| standing.partitions).unwrap_or_default();
    let sources = run.node.sources().iter().zip(meters.sources());
    let mut partitions = Vec::new();
    for ((name, meter), of_source) in sources.zip(&standing) {
        let known = meter.figures().partitions;
        if known.is_empty() {
            partitions.push(partition([name, name], of_source));
        }
        for PartitionReport { lag, standing } in &known {
            partitions.push(PartitionAnswer {
                next: Some(lag.next),
                lag: lag.end.map(|end| end.saturating_sub(lag.next)),
                ..partition([name, &lag.name], standing)
            });
        }
    }
    PartitionsAnswer { watermark: watermark(run), partitions }
}

fn partition([source, partition]: [&str; 2], standing: &PartitionStanding) -> PartitionAnswer {
    let head_ms = millis(standing.head);
    PartitionAnswer {
        source: source.into(),
        partition: partition.into(),
        state: standing.state.name().into(),
        watermark_ms: millis(standing.watermark.0),
        head_ms,
        skew_ms: head_ms.map(|_| standing.lag.as_millis()),
        silent_ms: standing.silent.as_millis(),
        is_waiting: standing.is_waiting,
        next: None,
        lag: None,
    }
}
