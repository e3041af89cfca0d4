//! `nilometer bench`: how fast, against what could be.
//!
//! `flows`: eight groupings of generated flow records, through the real actors, and in the same run a
//! hand-written loop over plain maps that computes the same: the limit. The results of both are
//! compared, so a fast wrong answer fails. Figures are per core: records over processor time.

mod engine;
mod hostile;
mod input;
mod job;
mod kafka;
mod limit;
mod lines;
mod listing;
mod measure;
mod packed;
mod report;
mod result;
mod sequences;
mod state;
mod telemetry;
mod turns;
mod windows;

use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use engine::{Beside, Run, Watch};
use input::InputSettings;
use limit::Limit;
use nilometer_actors::StartError;
use nilometer_connectors::memory::MemorySource;
use nilometer_connectors::source::SourceError;
use nilometer_connectors::store::StoreError;
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use report::{Latency, Memory, Printed, Report, Side};
use result::Pane;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer bench flows
  nilometer bench flows --keys 5000000 --output json
  nilometer bench flows --format json --records 500000
  nilometer bench flows --collector http://127.0.0.1:4317
  nilometer bench flows --skip-raw --hostile-admin
  nilometer bench windows --keys 100000
  nilometer bench state --keys 1000000
  nilometer bench sequences --sessions 1000000
  tests/services/kafka run sh -c 'nilometer bench kafka --brokers $KAFKA'";

/// What to measure.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Eight groupings of flow records, against a hand-written loop
    Flows(FlowsArgs),
    /// Fixed, sliding and session windows over many keys, against hand-written loops
    Windows(windows::WindowsArgs),
    /// Sessions judged step by step, against a loop that sorts each at its close
    Sequences(sequences::SequencesArgs),
    /// A state on disk: what epochs cost while keys change, and a restart
    State(state::StateArgs),
    /// Records from a broker of Kafka, beside a bare consumer
    Kafka(kafka::KafkaArgs),
}

#[derive(Debug, Args)]
struct FlowsArgs {
    /// Conversations, each of which is live in every window
    #[arg(long, default_value_t = 150_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Records; the default is eight per conversation, at least two million
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// What the records come as
    #[arg(long, value_enum, default_value_t = Format::Rows)]
    format: Format,
    /// Shards; the default is one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out the eight raw passes
    #[arg(long)]
    skip_raw: bool,
    /// Run it with telemetry, too: four times with spans and metrics told to the collector at this URL,
    /// over gRPC, and four times without, in turns
    #[arg(long, value_name = "URL")]
    collector: Option<String>,
    /// Run it with an admin port, too, that a thousand peers come at who mean no good, and without, in
    /// turns
    #[arg(long)]
    hostile_admin: bool,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// What records come as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// Decoded, in the rows of the plan
    Rows,
    /// Lines of JSON, which both sides have to parse
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Why a benchmark has no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The job cannot be planned: a fault of this program.
    #[error("the job of the benchmark cannot be planned: {0}; this is a fault of nilometer")]
    Plan(String),
    /// The generated records cannot be used: a fault of this program.
    #[error("{0}; this is a fault of nilometer")]
    Input(String),
    /// The actors cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The generator cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The state cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The brokers do not do what they are to.
    #[error("Kafka: {0}; check `--brokers`")]
    Kafka(String),
    /// The engine failed.
    #[error("the engine failed: {0}")]
    Engine(String),
    /// Engine and loop have different results.
    #[error("engine and hand-written loop differ: {0}; this is a fault of nilometer")]
    Results(String),
}

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// It could not be run, or the two sides have different results.
pub fn execute(args: &BenchArgs) -> Result<(), Failure> {
    let args = match &args.bench {
        Bench::Flows(args) => args,
        Bench::Windows(args) => return windows::execute(args),
        Bench::Sequences(args) => return sequences::execute(args),
        Bench::State(args) => return state::execute(args),
        Bench::Kafka(args) => return kafka::execute(args),
    };
    flows(args)?.print(args.output)
}

fn flows(args: &FlowsArgs) -> Result<Report, BenchError> {
    let shards = args.shards.map(usize::from).unwrap_or_else(cores);
    let records = args.records.unwrap_or_else(|| args.keys.saturating_mul(8).max(2_000_000));
    let settings = InputSettings { keys: args.keys, records, seed: args.seed };
    let symbols = Arc::new(Symbols::default());
    let plan = plan(true)?;
    // Memory first, while nothing that was freed can be used again.
    let source = input::source(settings, &plan.row, &symbols);
    let memory = engine::run((&plan, &symbols), source, shards, Watch::Memory)?;
    let how = (args.format, settings, shards);
    let engine = run_engine(&plan, &symbols, how, Beside::Nothing)?;
    let (limit, side, live) = run_limit(args.format, settings, &symbols)?;
    let latencies = engine.latencies.clone();
    let engine_side = Side::new(records, engine.wall, engine.processor);
    let panes = check(engine, (&plan, &symbols), &limit)?;
    let raw = if args.skip_raw {
        None
    } else {
        let plan = self::plan(false)?;
        let raw = run_engine(&plan, &symbols, how, Beside::Nothing)?;
        let side = Side::new(records, raw.wall, raw.processor);
        check(raw, (&plan, &symbols), &limit)?;
        Some(side)
    };
    let run = |beside: Beside<'_>| run_engine(&plan, &symbols, how, beside);
    let check = |run| check(run, (&plan, &symbols), &limit);
    let telemetry = args.collector.as_deref();
    let telemetry =
        telemetry.map(|endpoint| telemetry::measure(endpoint, records, run, check)).transpose()?;
    let hostile_admin = args.hostile_admin.then(|| hostile::measure(records, run, check));
    let live_keys = live.iter().sum::<usize>() as u64;
    let per_key = |bytes: u64| bytes as f64 / (live_keys as f64).max(1.0);
    let per_core = |side: &Side| side.records_per_core_second;
    Ok(Report {
        bench: "flows",
        format: args.format,
        records,
        conversations: args.keys,
        live_keys,
        shards,
        panes: panes as u64,
        ratio: per_core(&engine_side) / per_core(&side),
        cascade_gain: raw.as_ref().map(|raw| per_core(&engine_side) / per_core(raw)),
        memory: memory.grown_bytes.map(|grown_bytes| Memory {
            grown_bytes,
            bytes_per_live_key: per_key(grown_bytes),
            payload_bytes_per_live_key: per_key(payload_bytes(&plan, &live)),
        }),
        pane_latency: latency(&latencies),
        limit: side,
        engine: engine_side,
        raw,
        telemetry,
        hostile_admin: hostile_admin.transpose()?,
        results_equal: true,
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn plan(cascade: bool) -> Result<Arc<Plan>, BenchError> {
    let plan = nilometer_model::planner::plan(&job::job(cascade)).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        BenchError::Plan(errors.join("; "))
    })?;
    Ok(Arc::new(plan))
}

fn run_engine(
    plan: &Arc<Plan>,
    symbols: &Arc<Symbols>,
    (format, settings, shards): (Format, InputSettings, usize),
    beside: Beside<'_>,
) -> Result<Run, BenchError> {
    let engine = (plan, symbols);
    match format {
        Format::Rows => {
            let batches = input::batches(settings, &plan.row, symbols)?;
            let source = MemorySource::new(batches.into_iter().map(Some), Some(settings.records));
            engine::run_beside(engine, source, shards, (Watch::Speed, beside))
        }
        Format::Json => {
            let source = input::json_source(input::json(settings), &plan.row, symbols)?;
            engine::run_beside(engine, source, shards, (Watch::Speed, beside))
        }
    }
}

/// Runs the hand-written loop: its results, its figures, and the live keys of each grouping.
fn run_limit(
    format: Format,
    settings: InputSettings,
    symbols: &Symbols,
) -> Result<(Vec<Pane>, Side, [usize; 8]), BenchError> {
    let failed = |error: &dyn std::error::Error| BenchError::Input(error.to_string());
    let mut limit = Limit::new(symbols);
    let (records, text) = match format {
        Format::Rows => {
            let records = input::records(settings, symbols).map_err(|error| failed(&error))?;
            (records, String::new())
        }
        Format::Json => (Vec::new(), input::json(settings)),
    };
    let (begun, processor) = (Instant::now(), measure::processor_time());
    for record in &records {
        limit.record(record);
    }
    let mut parser = lines::LineParser::default();
    for line in text.lines() {
        let record = parser.record(line, symbols).map_err(|error| failed(&error))?;
        limit.record(&record);
    }
    limit.end();
    let wall = begun.elapsed();
    let spent = measure::processor_time().zip(processor).map(|(now, then)| now - then);
    let side = Side::new(settings.records, wall, spent.unwrap_or(wall));
    Ok((limit.panes, side, limit.live_max))
}

/// Compares the results of both sides; returns how many there are.
fn check(
    run: Run,
    (plan, symbols): (&Plan, &Symbols),
    limit: &[Pane],
) -> Result<usize, BenchError> {
    let differ = |error: result::Difference| BenchError::Results(error.to_string());
    let panes = result::of_engine(run.panes, plan, symbols).map_err(differ)?;
    let count = panes.len();
    result::compare(panes, limit.to_vec()).map_err(differ)?;
    Ok(count)
}

/// Bytes of the words of keys and aggregates of so many live keys per grouping.
fn payload_bytes(plan: &Plan, live: &[usize; 8]) -> u64 {
    let words = job::SHAPES.iter().zip(live).map(|(shape, keys)| {
        let stage = plan.stage(shape.name);
        stage.map_or(0, |stage| (stage.key.words() + stage.aggregates.words()) * keys)
    });
    words.sum::<usize>() as u64 * 8
}

fn latency(seconds: &[f64]) -> Option<Latency> {
    let mut sketch = sketches_ddsketch::DDSketch::new(sketches_ddsketch::Config::defaults());
    for latency in seconds {
        sketch.add(*latency);
    }
    let ms = |quantile| Some(sketch.quantile(quantile).ok()?? * 1_000.0);
    Some(Latency { p50_ms: ms(0.5)?, p99_ms: ms(0.99)?, p999_ms: ms(0.999)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(format: Format, shards: u16) -> FlowsArgs {
        FlowsArgs {
            keys: 200,
            records: Some(3_000),
            format,
            shards: Some(shards),
            seed: 7,
            skip_raw: false,
            collector: None,
            hostile_admin: false,
            output: Output::Json,
        }
    }

    #[test]
    fn engine_and_loop_agree_in_every_format_and_on_any_number_of_shards() {
        for (format, shards) in [(Format::Rows, 1), (Format::Rows, 3), (Format::Json, 2)] {
            let report = flows(&small(format, shards)).unwrap();
            assert!(report.results_equal && report.panes > 0, "{format:?} {shards}");
            assert!(report.live_keys > 200);
            let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
            assert_eq!(value["records"], 3_000);
            assert!(report.text().contains("of the limit"));
        }
    }

    #[test]
    fn a_collector_that_is_away_costs_spans_and_no_results() {
        // Nobody listens there any more.
        let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let args = FlowsArgs {
            collector: Some(format!("http://{away}")),
            skip_raw: true,
            ..small(Format::Rows, 2)
        };
        let report = flows(&args).unwrap();
        let telemetry = report.telemetry.unwrap();
        assert!(telemetry.spans_taken == 0 && telemetry.spans_dropped > 0, "{telemetry:?}");
        assert!(telemetry.sides.ratio > 0.0);
        assert!(report.text().contains("telemetry: "), "{}", report.text());
    }

    #[test]
    fn peers_at_the_admin_port_change_no_results() {
        let args = FlowsArgs { hostile_admin: true, skip_raw: true, ..small(Format::Rows, 2) };
        let report = flows(&args).unwrap();
        let hostile = report.hostile_admin.unwrap();
        assert!(hostile.sides.ratio > 0.0, "{hostile:?}");
        assert!(
            report.text().contains("hostile requests to the admin port: "),
            "{}",
            report.text()
        );
    }

    #[test]
    fn a_wrong_result_fails() {
        let symbols = Arc::new(Symbols::default());
        let settings = InputSettings { keys: 20, records: 200, seed: 1 };
        let plan = plan(true).unwrap();
        let run =
            run_engine(&plan, &symbols, (Format::Rows, settings, 1), Beside::Nothing).unwrap();
        let (mut limit, ..) = run_limit(Format::Rows, settings, &symbols).unwrap();
        let first = limit.first_mut().unwrap();
        first.values[0] = first.values[0].map(|bytes| bytes + 1);
        let error = check(run, (&plan, &symbols), &limit).unwrap_err();
        assert!(matches!(error, BenchError::Results(_)), "{error}");
    }
}
