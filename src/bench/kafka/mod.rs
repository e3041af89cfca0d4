//! `bench kafka`: records from a broker, beside a bare consumer that only counts them.
//!
//! The same flows lie in a topic of their own, as protocol buffers and as JSON, and are read three
//! times: by the client library alone, by the source that makes records of them, and by the engine
//! with eight groupings behind the source. What each adds to the processor time of the one before is
//! what decoding and the engine cost. Results are compared with those of the hand-written loop, and then
//! go to a topic: by the client library alone, as many bytes in as many records, and by the sink, which
//! encodes them.

mod broker;
mod report;

use super::engine::{self, Watch};
use super::input::{self, InputSettings};
use super::report::{Printed, Side};
use super::{BenchError, Format, Output, check, cores, measure, plan, run_limit};
use crate::failure::Failure;
use broker::Topic;
use clap::Args;
use nilometer_connectors::flow_intake::FlowContext;
use nilometer_connectors::kafka::client::ClientSettings;
use nilometer_connectors::kafka::out::sink;
use nilometer_connectors::kafka::out::{
    Compression, KafkaSinkSettings, OutFormat, Retractions, Teller,
};
use nilometer_connectors::kafka::source::{
    KafkaFormat, KafkaSettings, KafkaSource, KafkaStart, KafkaUntil,
};
use nilometer_connectors::panes::Delivery;
use nilometer_connectors::plight::Plight;
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::{Polled, Source, State};
use nilometer_connectors::text::FlowLayout;
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::Plan;
use nilometer_model::row::RowBatch;
use nilometer_model::symbol::Symbols;
use report::{Figures, OutFigures, Report};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Args)]
pub(super) struct KafkaArgs {
    /// Addresses of brokers, `host:port` with commas between them. A topic is made for each format, and
    /// deleted at the end
    #[arg(long, default_value = "127.0.0.1:9092")]
    brokers: String,
    /// Conversations, each of which is live in every window
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Records of each format
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Partitions of the topics
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(i32).range(1..=1_000))]
    partitions: i32,
    /// Shards; the default is one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Wire {
    Protobuf,
    Json,
}

impl Wire {
    const ALL: [Self; 2] = [Self::Protobuf, Self::Json];

    const fn name(self) -> &'static str {
        match self {
            Self::Protobuf => "protobuf",
            Self::Json => "json",
        }
    }

    const fn out(self) -> OutFormat {
        match self {
            Self::Protobuf => OutFormat::Protobuf,
            Self::Json => OutFormat::Pane,
        }
    }

    fn format(self) -> KafkaFormat {
        match self {
            Self::Protobuf => KafkaFormat::FlowProtobuf(FlowContext::default()),
            Self::Json => KafkaFormat::Flows(FlowLayout::Opennms, FlowContext::default()),
        }
    }
}

pub(super) fn execute(args: &KafkaArgs) -> Result<(), Failure> {
    run(args)?.print(args.output)
}

fn run(args: &KafkaArgs) -> Result<Report, BenchError> {
    let settings = InputSettings { keys: args.keys, records: args.records, seed: args.seed };
    let symbols = Arc::new(Symbols::default());
    let plan = plan(true)?;
    let shards = args.shards.map(usize::from).unwrap_or_else(cores);
    let (limit, ..) = run_limit(Format::Rows, settings, &symbols)?;
    let mut formats = Vec::new();
    for wire in Wire::ALL {
        let name = format!("nilometer-bench-{}-{}", wire.name(), std::process::id());
        let topic = Topic::make(&args.brokers, &name, args.partitions)?;
        let bytes = topic.fill(values(wire, settings))?;
        let bare = timed(args.records, || topic.count(args.records).map(drop))?;
        let open =
            |reader: &str| source((&topic, wire), &format!("{name}-{reader}"), (&plan, &symbols));
        let alone = open("source")?;
        let decoded = timed(args.records, || drain(alone, &plan, args.records))?;
        let whole = engine::run((&plan, &symbols), open("engine")?, shards, Watch::Speed)?;
        let side = Side::new(args.records, whole.wall, whole.processor);
        let batches: Vec<_> = whole.panes.iter().map(|(batch, _)| batch.clone()).collect();
        check(whole, (&plan, &symbols), &limit)?;
        let out = results(args, wire, &batches, (&plan, &symbols))?;
        formats.push(Figures::new((wire, args.records), bytes, (bare, decoded, side), out));
    }
    Ok(Report {
        bench: "kafka",
        records: args.records,
        conversations: args.keys,
        partitions: args.partitions,
        shards,
        formats,
        results_equal: true,
    })
}

/// The values of the records, in the order in which the generator gives them.
fn values(wire: Wire, settings: InputSettings) -> Box<dyn Iterator<Item = Vec<u8>>> {
    match wire {
        Wire::Protobuf => Box::new(input::protobuf(settings)),
        Wire::Json => Box::new(input::json_values(settings)),
    }
}

fn source(
    (topic, wire): (&Topic, Wire),
    group: &str,
    (plan, symbols): (&Plan, &Arc<Symbols>),
) -> Result<KafkaSource, BenchError> {
    let settings = KafkaSettings {
        client: ClientSettings { brokers: topic.brokers().into(), options: Vec::new() },
        topics: vec![topic.name().to_owned()],
        group: group.into(),
        instance: "bench".into(),
        nodes: 1,
        format: wire.format(),
        record_bytes_max: 1 << 20,
        start: KafkaStart::Earliest,
        until: Some(KafkaUntil::Now),
        queue_bytes_max: 32 << 20,
        carrier: None,
        is_traced: false,
        plight: Plight::default(),
    };
    Ok(KafkaSource::open(settings, &plan.row, symbols.clone())?)
}

/// What it takes to put `batches` into a topic.
fn results(
    args: &KafkaArgs,
    wire: Wire,
    batches: &[PaneBatch],
    (plan, symbols): (&Arc<Plan>, &Arc<Symbols>),
) -> Result<OutFigures, BenchError> {
    let name = |what| format!("nilometer-bench-{what}-{}-{}", wire.name(), std::process::id());
    let topic = Topic::make(&args.brokers, &name("results"), args.partitions)?;
    let settings = KafkaSinkSettings {
        client: ClientSettings { brokers: topic.brokers().into(), options: Vec::new() },
        topic: topic.name().into(),
        create: None,
        compression: Compression::None,
        transactions: None,
        delivery: Delivery::AtOnce,
        teller: Teller::new(Plight::default(), |_| ()),
    };
    let known = (plan.clone(), symbols.clone());
    let failed = |error: SinkError| BenchError::Kafka(error.to_string());
    let sink = sink::panes(("bench", wire.out()), Retractions::Records, settings, known);
    let mut sink = sink.map_err(failed)?;
    let panes = batches.iter().map(|batch| batch.panes.len() as u64).sum();
    let encoded = timed(panes, || {
        batches.iter().try_for_each(|batch| sink.write(batch)).map_err(failed)?;
        sink.close().map_err(failed)
    })?;
    let bytes = topic.count(panes)?;
    let idle = Topic::make(&args.brokers, &name("bytes"), args.partitions)?;
    let value = vec![b'x'; usize::try_from(bytes / panes.max(1)).unwrap_or(0)];
    let values = (0..panes).map(|_| value.clone());
    let bare = timed(panes, || idle.fill(values).map(drop))?;
    Ok(OutFigures::new(panes, bytes, (bare, encoded)))
}

/// Makes records until there are no more, and lets them go.
fn drain(mut source: KafkaSource, plan: &Plan, records: u64) -> Result<(), BenchError> {
    let mut polled = Polled::new(plan.row.clone(), false);
    let mut made = 0;
    loop {
        let state = source.poll(input::BATCH_RECORDS, &mut polled)?;
        made += polled.batch.len() as u64;
        polled.batch = RowBatch::new(plan.row.clone());
        polled.notices.clear();
        if state == State::End {
            break;
        }
    }
    if made == records {
        return Ok(());
    }
    Err(BenchError::Results(format!("{made} records were read of {records}")))
}

/// What `work` takes.
fn timed(records: u64, work: impl FnOnce() -> Result<(), BenchError>) -> Result<Side, BenchError> {
    let (begun, processor) = (Instant::now(), measure::processor_time());
    work()?;
    let wall = begun.elapsed();
    let spent = measure::processor_time().zip(processor).map(|(now, then)| now - then);
    Ok(Side::new(records, wall, spent.unwrap_or(wall)))
}
