//! `nilometer run`: runs a pipeline until its input ends or a signal comes.
//!
//! Panes go to the sinks, everything else to stderr. The first signal drains (see
//! `docs/adr/0003-a-drain-promises-nothing-new.md`), as does a failure; the second signal, or a drain
//! that takes too long, ends the process at once. At the end the account has to balance: a run whose
//! numbers do not add up has failed.

use crate::check_totals::TotalsCheck;
use crate::cli::PipelineArgs;
use crate::config::{self, Pipeline, Setting};
use crate::drain::Drain;
use crate::failure::{Failure, print, tell};
use crate::logs::{self, Level};
use crate::progress::{self, Bar};
use crate::run_failure::RunFailure;
use crate::standing::{Names, describe, describe_standstill};
use crate::state::{self, Asked};
use crate::summary::Summary;
use crate::summary_sequences::SequenceSummary;
use crate::summary_state::StateSummary;
use crate::summary_table::grouped;
use crate::supervision::abort_on_panic;
use crate::telemetry::{Spans, TelemetryError};
use crate::watchers::Watchers;
use crate::{summary_table, topology};
use actix::System;
use clap::Args;
use nilometer_actors::node::{News, Node, Outcome, Parts};
use nilometer_model::epoch::Wish;
use nilometer_model::watermark::{Standing, WatermarkSpec};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer run config/captures.toml --set 'source.0.paths=[\"a.pcap\", \"b.pcap.gz\"]'
  nilometer run config/flows.toml --summary summary.json
  nilometer run config/captures.toml --state state/captures
  nilometer run config/captures.toml --state state/captures --drop-state HOSTS

Panes go where the sinks of the pipeline say; settings, progress and the summary go to stderr. \
With --state results come out once they are stored, every second: kill the process at any instant, \
start it again, and files hold what they would have held. A state belongs to one pipeline: what has \
changed in it is named at the start, and goes on or begins anew stage by stage.

Ctrl-C or SIGTERM: reads no more, emits what is due, and ends with exit code 0; a second one, or \
--drain-timeout, ends at once, which loses nothing of a state. SIGUSR1: says on stderr how the \
watermark stands and who holds it, and what storing state costs.";

/// What to run.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Write the summary as JSON to this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Check at the end that the groupings sum to each other and to the records, and say so on
    /// stdout; holds all results in memory
    #[arg(long)]
    check_totals: bool,
    /// Store the state in this directory, and go on where the run before was stopped or killed;
    /// short for `--set state.dir=DIR`
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// How long a run that is told to end may take to let pass what is on its way, or `off`; short
    /// for `--set limits.drain_timeout=TIME`
    #[arg(long, value_name = "TIME")]
    drain_timeout: Option<String>,
    /// What stderr gets: sentences, or an object of JSON in each line
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: logs::Form,
    /// How much stderr gets while it runs; the summary and a final error always come
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    log_level: Level,
    /// Start although the last three runs of the state have failed, and read the same again
    #[arg(long, conflicts_with = "skip_batch")]
    retry: bool,
    /// Leave out the records that the run before failed in, and count them; they are dead letters
    #[arg(long)]
    skip_batch: bool,
    /// Give up what the state holds of a stage that has changed or is gone; of a source or sink that
    /// is gone: `source.NAME`, `sink.NAME`. May be given several times
    ///
    /// A stage that has changed begins anew where the state ends. `nilometer plan --state` shows
    /// beforehand what a start makes of a state.
    #[arg(long = "drop-state", value_name = "STAGE")]
    drops: Vec<String>,
}

impl RunArgs {
    /// Settings that stand on the command line.
    fn sets(&self) -> Vec<String> {
        // Quoted: a directory may be called `1`.
        let quoted = |dir: &PathBuf| serde_json::Value::from(dir.to_string_lossy()).to_string();
        let state = self.state.as_ref().map(|dir| format!("state.dir={}", quoted(dir)));
        let timeout = self.drain_timeout.as_ref();
        let timeout = timeout.map(|timeout| format!("limits.drain_timeout={timeout}"));
        self.pipeline.sets.iter().cloned().chain(state).chain(timeout).collect()
    }

    const fn wish(&self) -> Wish {
        match (self.retry, self.skip_batch) {
            (true, _) => Wish::Retry,
            (false, true) => Wish::SkipBatch,
            (false, false) => Wish::Start,
        }
    }

    /// Whether `pipeline` can be run in this way.
    fn check(&self, pipeline: &Pipeline) -> Result<(), RunFailure> {
        if pipeline.state.is_some() && self.check_totals {
            return Err(RunFailure::TotalsOfState);
        }
        if pipeline.state.is_none() && self.wish() != Wish::Start {
            return Err(RunFailure::WishWithoutState);
        }
        if pipeline.state.is_none() && !self.drops.is_empty() {
            return Err(RunFailure::DropWithoutState);
        }
        if pipeline.sources.is_empty() {
            return Err(RunFailure::NoSource { pipeline: pipeline.job.name.clone() });
        }
        Ok(())
    }
}

/// Runs the pipeline.
///
/// # Errors
/// The pipeline is wrong, input or output failed, or the numbers do not add up.
pub fn execute(args: &RunArgs) -> Result<(), Failure> {
    logs::start(args.log_format, args.log_level);
    let pipeline = config::load(&args.pipeline.file, &args.sets())?;
    args.check(&pipeline)?;
    // Before anything is read: a summary that cannot be written is known at once.
    let mut file = args.summary.clone().map(SummaryFile::create).transpose()?;
    tell_settings(&pipeline);
    let bar = Bar::new(pipeline.sources.iter().all(|source| !source.kind.is_live()));
    logs::above(&bar);
    let mut watchers = Watchers::open(&pipeline, &bar).map_err(RunFailure::Admin)?;
    // First: it says whether another process works on all this.
    let asked = Asked { wish: args.wish(), drops: &args.drops };
    let state = state::open_for(&pipeline, asked);
    let state = state.map_err(RunFailure::State)?;
    let supervision = state.as_ref().map(|state| state.supervision.clone());
    abort_on_panic(supervision.clone());
    let spans = open_spans(&pipeline, &bar).map_err(RunFailure::Telemetry)?;
    let tracing = spans.as_ref().map(Spans::tracing).unwrap_or_default();
    let mut parts = topology::build(&pipeline, state, tracing, &bar)?;
    let totals = args.check_totals.then(|| TotalsCheck::attach(&pipeline, &mut parts));
    let begun = Instant::now();
    watchers.supervise(supervision.clone());
    watchers.count(spans.as_ref());
    let driven = System::new().block_on(drive(parts, &mut watchers, &pipeline, &bar));
    finish_spans(spans);
    logs::finish();
    let failure = match &driven {
        Ok(outcome) => outcome.failures.first(),
        Err(RunFailure::Node(failure)) => Some(failure),
        Err(_) => None,
    };
    if let (Some(supervision), Some(failure)) = (&supervision, failure) {
        supervision.failed(failure);
    }
    let outcome = driven?;
    let took = begun.elapsed();
    let summary = Summary::of(&pipeline.plan, &outcome);
    if let Ok(summary) = &summary {
        tell(&summary_table::render(summary, &outcome, took));
        if let Some(file) = &mut file {
            file.write(&summary.json())?;
        }
    }
    let is_finished = outcome.sources.iter().all(|source| source.is_finished);
    if let Some(failure) = outcome.failures.into_iter().next() {
        return Err(RunFailure::Node(failure).into());
    }
    let summary = summary.map_err(RunFailure::Imbalance)?;
    match totals {
        Some(totals) => print(&totals.finish(&summary, is_finished).map_err(RunFailure::Totals)?),
        None => Ok(()),
    }
}

/// Opens the way of spans, if there is one.
fn open_spans(pipeline: &Pipeline, bar: &Bar) -> Result<Option<Spans>, TelemetryError> {
    let bar = bar.clone();
    Spans::open(pipeline, move |text| bar.warn(text))
}

/// Lets spans go that are on their way, and says how many nobody has taken.
fn finish_spans(spans: Option<Spans>) {
    if let Some(dropped) = spans.map(Spans::finish).filter(|dropped| *dropped > 0) {
        tell(&format!("spans: {} were dropped\n", grouped(dropped)));
    }
}

/// No hidden defaults: everything that holds is said.
fn tell_settings(pipeline: &Pipeline) {
    let line = |setting: &Setting| {
        format!("\n  {} = {}  ({})", setting.path, setting.value, setting.origin.name())
    };
    let lines: String = pipeline.settings.iter().map(line).collect();
    let text = format!("pipeline `{}`, settings in force:{lines}", pipeline.job.name);
    logs::say(Level::Info, &text, None);
}

/// Where the summary goes.
struct SummaryFile {
    path: PathBuf,
    file: File,
}

impl SummaryFile {
    fn create(path: PathBuf) -> Result<Self, RunFailure> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let made = directory.map_or(Ok(()), std::fs::create_dir_all);
        match made.and_then(|()| File::create(&path)) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(RunFailure::SummaryFile { path, source }),
        }
    }

    fn write(&mut self, json: &str) -> Result<(), RunFailure> {
        let written = writeln!(self.file, "{json}").and_then(|()| self.file.flush());
        written.map_err(|source| RunFailure::SummaryFile { path: self.path.clone(), source })
    }
}

/// Runs a node to its end, and tells people on the way.
async fn drive(
    parts: Parts,
    watchers: &mut Watchers,
    pipeline: &Pipeline,
    bar: &Bar,
) -> Result<Outcome, RunFailure> {
    let mut signals = Signals::listen().map_err(RunFailure::Signals)?;
    let mut node = Node::start(parts)?;
    watchers.watch(&node, pipeline).map_err(RunFailure::Telemetry)?;
    let mut redraw = tokio::time::interval(progress::PERIOD);
    let mut drain = Drain::new(pipeline);
    loop {
        tokio::select! {
            news = node.news() => match news {
                News::Notice { name, text, span } => {
                    logs::say(Level::Info, &format!("source `{name}`: {text}"), span.as_ref());
                }
                News::Tight { shard, bytes, budget } => bar.warn(&tight(shard, bytes, budget)),
                News::StandsStill(standing) => {
                    if !waits_for_end(&standing, pipeline) {
                        bar.warn(&told(&standing, &node, describe_standstill));
                    }
                }
                News::Failed { text, span } => {
                    drain.begin();
                    watchers.drains(true);
                    logs::say(Level::Error, &format!("failed, draining: {text}"), span.as_ref());
                }
                News::Ended => break,
            },
            () = Signals::end(&mut signals.interrupt, &mut signals.terminate) => {
                if drain.is_told {
                    bar.clear();
                    std::process::exit(SECOND_SIGNAL);
                }
                drain.is_told = true;
                drain.begin();
                watchers.drains(false);
                bar.say("draining: reads no more, emits what is due; a second signal ends at once");
                node.drain();
            }
            _ = signals.ask.recv() => answer(&node, pipeline),
            () = watchers.drain_asked() => {
                drain.begin();
                watchers.drains(false);
                bar.say("draining, as the admin port was asked to: reads no more, emits what is due");
                node.drain();
            }
            () = drain.runs_out() => {
                bar.clear();
                return Err(drain.failure(&mut node));
            }
            _ = redraw.tick() => {
                bar.update(node.meters());
                logs::sum_up();
            }
        }
    }
    bar.clear();
    Ok(node.finish().await)
}

/// Says how the run stands.
fn answer(node: &Node, pipeline: &Pipeline) {
    let standing = node.meters().standing();
    let text = standing.map(|standing| told(&standing, node, describe));
    logs::answer(&text.unwrap_or_else(|| "watermark: nothing is known yet".to_owned()));
    if let Some(state) = StateSummary::now(node.meters()) {
        logs::answer(&state.describe());
    }
    for (name, kept) in SequenceSummary::now(node.meters(), &pipeline.plan) {
        logs::answer(&kept.describe(&name));
    }
}

/// How the watermark stands, in the words of `describe`.
fn told(standing: &Standing, node: &Node, describe: fn(&Standing, Names<'_>) -> String) -> String {
    let source = |partition: u32| node.meters().sources().get(partition as usize);
    let holder = standing.holder.and_then(|holder| source(holder.partition)?.holder());
    describe(standing, Names { sources: node.names(), holder: holder.as_deref() })
}

/// What is said of a shard whose state takes more than it may.
fn tight(shard: usize, bytes: usize, budget: usize) -> String {
    format!(
        "shard {shard}: its share of `state.memory` is {} bytes, and {} bytes of its state must be in \
         memory; raise `state.memory`, or give it fewer keys",
        grouped(budget as u64),
        grouped(bytes as u64)
    )
}

/// Whether the watermark stands still because a source is to be read to its end first.
fn waits_for_end(standing: &Standing, pipeline: &Pipeline) -> bool {
    let source = |partition: u32| pipeline.sources.get(partition as usize);
    let holder = standing.holder.and_then(|holder| source(holder.partition));
    let spec = holder.map(|source| source.watermark.settings.spec);
    spec == Some(WatermarkSpec::EndOfInput)
}

/// Exit code after a second signal.
const SECOND_SIGNAL: i32 = 130;

/// The signals that ask for an end, and the one that asks how the watermark stands.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    ask: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            ask: signal(SignalKind::user_defined1())?,
        })
    }

    /// Somebody asks for an end.
    async fn end(interrupt: &mut Signal, terminate: &mut Signal) {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
