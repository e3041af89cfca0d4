//! The side of the engine: the real actors over input in memory, timed.
//!
//! The source notes when it hands over the batch that completes a window, the sink when the
//! window's panes come: the difference is the latency of a pane. At full speed it holds the time
//! that the batch waits behind those in flight.

use super::BenchError;
use super::hostile::{Peers, Visit};
use super::job::{self, OUT_OF_ORDERNESS, SINK, WINDOW};
use super::measure;
use super::telemetry::Collector;
use nilometer_actors::credit::Limits;
use nilometer_actors::node::{Node, Outcome, Parts, SinkPart, SourcePart};
use nilometer_actors::trace::Tracing;
use nilometer_connectors::memory::MemorySink;
use nilometer_connectors::sink::Writer;
use nilometer_connectors::source::{Polled, Progress, Source, SourceError, State};
use nilometer_model::expr::Refinement;
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use nilometer_model::watermark::{ProgressRules, WatermarkSettings, WatermarkSpec};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What sources and sinks of a run note.
#[derive(Debug, Default)]
struct Notes {
    /// By end of a window: when the batch that completes it was handed over.
    completed: BTreeMap<i64, Instant>,
    /// When the input had ended, which completes all windows.
    ended: Option<Instant>,
    panes: Vec<(PaneBatch, Instant)>,
    /// Panes that came.
    results: u64,
    /// Most bytes that were resident.
    resident_max: u64,
}

type Shared = Arc<Mutex<Notes>>;

fn noted<T>(notes: &Shared, note: impl FnOnce(&mut Notes) -> T) -> T {
    note(&mut notes.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What is wanted of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// Its time and its results.
    Speed,
    /// Its memory.
    Memory,
}

/// What a run has shown.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) wall: Duration,
    /// Processor time of all threads.
    pub(super) processor: Duration,
    pub(super) panes: Vec<(PaneBatch, Instant)>,
    /// How many there were, whether kept or not.
    pub(super) results: u64,
    /// Latency of every pane, in seconds.
    pub(super) latencies: Vec<f64>,
    /// By how much memory has grown at most.
    pub(super) grown_bytes: Option<u64>,
}

/// A source that notes what it hands over.
struct Watched<S> {
    source: S,
    notes: Shared,
    watch: Watch,
    newest: i64,
}

impl<S: Source> Source for Watched<S> {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        let before = out.batch.len();
        let state = self.source.poll(records_max, out)?;
        let times = (before..out.batch.len()).map(|index| out.batch.time(index).as_millis());
        self.newest = times.fold(self.newest, i64::max);
        let (newest, watch) = (self.newest, self.watch);
        noted(&self.notes, |notes| {
            let now = Instant::now();
            let watermark = newest.saturating_sub(OUT_OF_ORDERNESS.as_millis());
            let end = watermark.saturating_sub(watermark.rem_euclid(WINDOW.as_millis()));
            notes.completed.entry(end).or_insert(now);
            if state == State::End {
                notes.ended = Some(now);
            }
            if watch == Watch::Memory {
                notes.sample_memory();
            }
        });
        Ok(state)
    }

    fn progress(&self) -> Option<Progress> {
        self.source.progress()
    }

    fn is_partitioned(&self) -> bool {
        self.source.is_partitioned()
    }
}

impl Notes {
    fn sample_memory(&mut self) {
        self.resident_max = self.resident_max.max(measure::resident_bytes().unwrap_or(0));
    }

    /// Seconds from the completion of its window to the coming of each pane.
    fn latencies(&self) -> Vec<f64> {
        let mut latencies = Vec::new();
        for (batch, came) in &self.panes {
            for pane in &batch.panes {
                // A batch may complete several windows at once: the first end at or after ours.
                let end = pane.window.end().as_millis();
                let completed = self.completed.range(end..).next().map(|(_, when)| *when);
                if let Some(completed) = completed.or(self.ended) {
                    latencies.push(came.saturating_duration_since(completed).as_secs_f64());
                }
            }
        }
        latencies
    }
}

/// Runs the plan over `source` on `shards` shards.
pub(super) fn run(
    engine: (&Arc<Plan>, &Arc<Symbols>),
    source: impl Source + 'static,
    shards: usize,
    watch: Watch,
) -> Result<Run, BenchError> {
    run_beside(engine, source, shards, (watch, Beside::Nothing))
}

/// What goes on beside a run.
#[derive(Clone, Copy)]
pub(super) enum Beside<'a> {
    /// Nothing.
    Nothing,
    /// A collector is told of it.
    Collector(&'a Collector),
    /// Peers who mean no good come at its admin port.
    Peers(&'a Peers),
}

/// The same, with something beside it.
pub(super) fn run_beside(
    (plan, symbols): (&Arc<Plan>, &Arc<Symbols>),
    source: impl Source + 'static,
    shards: usize,
    (watch, beside): (Watch, Beside<'_>),
) -> Result<Run, BenchError> {
    let notes = Shared::default();
    let source = Watched { source, notes: notes.clone(), watch, newest: i64::MIN };
    let sink_notes = notes.clone();
    let sink = MemorySink::new(move |panes: &PaneBatch| {
        noted(&sink_notes, |notes| {
            notes.results += panes.panes.len() as u64;
            match watch {
                Watch::Speed => notes.panes.push((panes.clone(), Instant::now())),
                Watch::Memory => notes.sample_memory(),
            }
        });
        Ok(())
    });
    let parts = Parts {
        plan: plan.clone(),
        symbols: symbols.clone(),
        shards,
        progress: ProgressRules::default(),
        refinement: Arc::new(Refinement::default()),
        sources: vec![SourcePart {
            name: "generator".into(),
            reader: Box::new(source),
            watermark: WatermarkSettings::new(WatermarkSpec::Bounded {
                out_of_orderness: job::OUT_OF_ORDERNESS,
            })
            .into(),
            skipped: Vec::new(),
        }],
        sinks: vec![SinkPart { name: SINK.into(), writer: Writer::Panes(Box::new(sink)) }],
        dead_letters: None,
        limits: Limits::default(),
        state: None,
        tracing: Tracing::default(),
    };
    let resident = measure::resident_bytes();
    let (begun, processor) = (Instant::now(), measure::processor_time());
    let (outcome, other) = run_node(parts, beside)?;
    let wall = begun.elapsed();
    // Where the system does not say what was used, all cores that could be are counted.
    let spent = measure::processor_time().zip(processor).map(|(now, then)| now - then);
    let processor = spent.unwrap_or(wall * u32::try_from(shards).unwrap_or(1));
    let processor = processor.saturating_sub(other);
    if let Some(failure) = outcome.failures.into_iter().next() {
        return Err(BenchError::Engine(failure.to_string()));
    }
    let notes = noted(&notes, std::mem::take);
    let grown_bytes = resident.map(|before| notes.resident_max.saturating_sub(before));
    let latencies = notes.latencies();
    let results = notes.results;
    Ok(Run { wall, processor, panes: notes.panes, results, latencies, grown_bytes })
}

/// Runs a node to its end; returns how much processor time was not its own as well.
fn run_node(mut parts: Parts, beside: Beside<'_>) -> Result<(Outcome, Duration), BenchError> {
    let told = match beside {
        Beside::Collector(collector) => Some((collector, collector.spans()?)),
        Beside::Nothing | Beside::Peers(_) => None,
    };
    if let Some((_, spans)) = &told {
        parts.tracing = spans.tracing();
    }
    let plan = parts.plan.clone();
    let outcome = actix::System::new().block_on(async {
        let node = Node::start(parts)?;
        let pushing = match &told {
            Some((collector, spans)) => collector.watch(&node, plan.clone(), spans)?,
            None => None,
        };
        let peers = match beside {
            Beside::Peers(peers) => Some(peers.begin(&node, plan)?),
            Beside::Nothing | Beside::Collector(_) => None,
        };
        let outcome = node.finish().await;
        drop(pushing);
        Ok((outcome, peers.map(Visit::end).unwrap_or_default()))
    });
    if let Some((collector, spans)) = told {
        collector.finish(spans);
    }
    outcome
}
