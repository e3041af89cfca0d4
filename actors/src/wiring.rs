//! Makes the actors of a node and gives each the addresses that it sends to.
//!
//! All mailboxes come first, then the actors, sources last of those that read or write, and the
//! clock at the very end: sources begin with its first tick, so every actor lives by then.

use crate::clock::ClockActor;
use crate::closing::Closing;
use crate::coordinator::CoordinatorActor;
use crate::credit::{Backlog, Limits, Purse};
use crate::deliver::{self, Reports};
use crate::meter::Meters;
use crate::node::{Node, Outcome, Parts, SinkPart, SourcePart};
use crate::report::SinkReport;
use crate::shard::{Route, ShardActor, ShardLinks};
use crate::sink::SinkActor;
use crate::source::{DeadLetters, Phase, SourceActor, SourceLinks};
use actix::dev::channel::AddressReceiver;
use actix::{Actor, Addr, Arbiter, ArbiterHandle};
use nilometer_connectors::sink::Writer;
use nilometer_connectors::source::Polled;
use nilometer_model::engine::{Cut, Cycles};
use nilometer_model::expr::Refinement;
use nilometer_model::ingest::Ingest;
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::shard::{Output, Shard};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{Span, Watermark};
use nilometer_model::watermark::{
    Coordinator, Estimation, FutureSkew, ProgressRules, Surroundings,
};
use std::io;
use std::sync::{Arc, Mutex};

/// A node cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The operating system gives no thread.
    #[error("cannot start a thread: {0}; lower `shards`, or raise the limit of processes")]
    Thread(#[from] io::Error),
    /// A stage sends its panes to a sink that there is not.
    #[error("stage `{stage}` has a sink `{sink}` that is not defined; define it or leave it out")]
    UnknownSink {
        /// The stage.
        stage: Box<str>,
        /// The name of the sink.
        sink: Box<str>,
    },
    /// A stage sends a sink what it does not take.
    #[error(
        "stage `{stage}` sends its {what} to sink `{sink}`, which does not take them; give it a sink that does"
    )]
    WrongSink {
        /// The stage.
        stage: Box<str>,
        /// What it sends: panes, or late copies.
        what: &'static str,
        /// The name of the sink.
        sink: Box<str>,
    },
}

/// Stops the threads of a node and waits until they have gone.
pub(crate) fn stop(arbiters: Vec<Arbiter>) {
    for arbiter in &arbiters {
        arbiter.stop();
    }
    for arbiter in arbiters {
        // A thread that has panicked was heard of when it did.
        arbiter.join().ok();
    }
}

/// Starts the actors of a node.
pub(crate) fn start(parts: Parts) -> Result<Node, StartError> {
    let facts = Facts {
        routes: routes(&parts.plan, &parts.sinks)?,
        plan: parts.plan,
        symbols: parts.symbols,
        shards: parts.shards.max(1),
        progress: parts.progress,
        patience: parts.sources.iter().map(|part| part.watermark.settings.idle_after).collect(),
        is_in_step: is_in_step(&parts.progress, parts.sources.iter().map(|part| &part.watermark)),
        refinement: parts.refinement,
        dead_letters: parts.dead_letters.map(|file| Arc::new(Mutex::new(file))),
        limits: parts.limits,
    };
    let names = parts.sources.iter().map(|part| part.name.clone()).collect();
    let (reports, reported) = Reports::new();
    let (sources, source_inboxes) = mailboxes(parts.sources.len());
    let (shards, shard_inboxes) = mailboxes(facts.shards);
    let (sinks, sink_inboxes) = mailboxes(parts.sinks.len());
    let (coordinator, coordinator_inbox) = deliver::mailbox();
    let mut wiring = Wiring {
        meters: Arc::new(Meters::new(sources.len())),
        open: sources.len() + shards.len() + sinks.len() + 1,
        sources,
        shards,
        sinks,
        coordinator,
        reports,
        facts,
        arbiters: Vec::new(),
    };
    let started = wiring
        .start_sinks(parts.sinks, sink_inboxes)
        .and_then(|()| wiring.start_shards(shard_inboxes))
        .and_then(|()| wiring.start_sources(parts.sources, source_inboxes))
        .and_then(|()| wiring.start_control(coordinator_inbox));
    if let Err(error) = started {
        stop(wiring.arbiters);
        return Err(error);
    }
    Ok(Node {
        arbiters: wiring.arbiters,
        sources: wiring.sources,
        meters: wiring.meters,
        reports: reported,
        open: wiring.open,
        outcome: Outcome { names, ..Outcome::default() },
    })
}

fn mailboxes<A: Actor>(count: usize) -> (Vec<Addr<A>>, Vec<AddressReceiver<A>>) {
    (0..count).map(|_| deliver::mailbox()).unzip()
}

/// Where the output of every stage goes.
fn routes(plan: &Plan, sinks: &[SinkPart]) -> Result<Vec<Route>, StartError> {
    let find = |stage: &Stage, name: &str, is_late: bool| {
        let found = sinks.iter().enumerate().find(|(_, sink)| &*sink.name == name);
        let (stage, sink) = (stage.name.clone(), name.into());
        let Some((number, part)) = found else {
            return Err(StartError::UnknownSink { stage, sink });
        };
        if matches!(part.writer, Writer::Late(_)) != is_late {
            let what = if is_late { "late copies" } else { "panes" };
            return Err(StartError::WrongSink { stage, what, sink });
        }
        Ok(number)
    };
    let of_stage = |stage: &Stage| {
        let panes = stage.sinks.iter().map(|name| find(stage, name, false));
        let late = stage.late.iter();
        let late =
            late.map(|late| find(stage, &late.sink, true).map(|sink| (sink, late.include_late)));
        Ok(Route { panes: panes.collect::<Result<_, _>>()?, late: late.collect::<Result<_, _>>()? })
    };
    plan.stages.iter().map(of_stage).collect()
}

/// Whether sources wait for their turns: so that none runs ahead, or so that each knows what the
/// others have come to before its records count.
fn is_in_step<'a>(
    rules: &ProgressRules,
    mut sources: impl Iterator<Item = &'a Estimation>,
) -> bool {
    rules.max_drift.is_some()
        || sources.any(|source| matches!(source.settings.future_skew, FutureSkew::Others(_)))
}

/// What actors are made from.
struct Facts {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    shards: usize,
    progress: ProgressRules,
    /// Per source, how long it may be silent before it is idle.
    patience: Vec<Option<Span>>,
    is_in_step: bool,
    refinement: Arc<Refinement>,
    dead_letters: Option<DeadLetters>,
    limits: Limits,
    /// Per stage, where its output goes.
    routes: Vec<Route>,
}

/// The addresses of a node, and the threads started so far.
struct Wiring {
    facts: Facts,
    sources: Vec<Addr<SourceActor>>,
    shards: Vec<Addr<ShardActor>>,
    sinks: Vec<Addr<SinkActor>>,
    coordinator: Addr<CoordinatorActor>,
    meters: Arc<Meters>,
    reports: Reports,
    /// Actors that will report their end.
    open: usize,
    arbiters: Vec<Arbiter>,
}

impl Wiring {
    fn thread(&mut self) -> Result<ArbiterHandle, StartError> {
        let arbiter = Arbiter::try_new()?;
        let handle = arbiter.handle();
        self.arbiters.push(arbiter);
        Ok(handle)
    }

    fn start_sinks(
        &mut self,
        parts: Vec<SinkPart>,
        inboxes: Vec<AddressReceiver<SinkActor>>,
    ) -> Result<(), StartError> {
        for (part, inbox) in parts.into_iter().zip(inboxes) {
            let (shards, reports) = (self.facts.shards, self.reports.clone());
            deliver::start(&self.thread()?, inbox, move || SinkActor {
                report: SinkReport { name: part.name.clone(), ..SinkReport::default() },
                writer: part.writer,
                passed: vec![Watermark::MIN; shards],
                open_shards: shards,
                is_dirty: false,
                reports,
            });
        }
        Ok(())
    }

    fn start_shards(
        &mut self,
        inboxes: Vec<AddressReceiver<ShardActor>>,
    ) -> Result<(), StartError> {
        let shards = self.facts.shards;
        let is_exchanged = |stage: &&Stage| stage.exchange.is_some();
        let exchanges = self.facts.plan.stages.iter().filter(is_exchanged).count();
        for (id, inbox) in inboxes.into_iter().enumerate() {
            let links = ShardLinks {
                shards: self.shards.clone(),
                sinks: self.sinks.clone(),
                coordinator: self.coordinator.clone(),
                routes: self.facts.routes.clone(),
                reports: self.reports.clone(),
            };
            let (plan, symbols) = (self.facts.plan.clone(), self.facts.symbols.clone());
            let limits = self.facts.limits;
            deliver::start(&self.thread()?, inbox, move || ShardActor {
                id,
                shard: Shard::new(plan, symbols, id, shards),
                links,
                backlog: Backlog::new(limits),
                closing: Closing::new(shards, exchanges),
                output: Output::default(),
                records: 0,
                has_ended: false,
                passed: Watermark::MIN,
                finished: 0,
                has_failed: false,
            });
        }
        Ok(())
    }

    fn start_sources(
        &mut self,
        parts: Vec<SourcePart>,
        inboxes: Vec<AddressReceiver<SourceActor>>,
    ) -> Result<(), StartError> {
        let partitions = 0_u32..;
        for ((part, inbox), partition) in parts.into_iter().zip(inboxes).zip(partitions) {
            let facts = &self.facts;
            let links = SourceLinks {
                shards: self.shards.clone(),
                coordinator: self.coordinator.clone(),
                dead_letters: facts.dead_letters.clone(),
                meters: self.meters.clone(),
                reports: self.reports.clone(),
            };
            let (symbols, refinement) = (facts.symbols.clone(), facts.refinement.clone());
            let ingest =
                Ingest::new(&facts.plan, symbols, refinement, part.watermark, facts.shards);
            let is_in_step = facts.is_in_step;
            let polled = Polled::new(facts.plan.row.clone(), facts.dead_letters.is_some());
            let purse = Purse::new(facts.limits);
            let cut = Cut::new(facts.plan.engine);
            deliver::start(&self.thread()?, inbox, move || SourceActor {
                name: part.name,
                partition,
                reader: part.reader,
                polled,
                ingest,
                purse,
                cut,
                phase: Phase::Starting,
                is_in_step,
                at_hand: None,
                around: Surroundings::default(),
                reported: None,
                links,
            });
        }
        Ok(())
    }

    /// Starts coordinator and clock, which have little to do and share a thread.
    fn start_control(
        &mut self,
        inbox: AddressReceiver<CoordinatorActor>,
    ) -> Result<(), StartError> {
        let arbiter = self.thread()?;
        let engine = self.facts.plan.engine;
        let cycles = |pace| Cycles::new(pace, self.sources.len(), self.shards.len());
        let coordinator = CoordinatorActor {
            engine,
            cycles: engine.pace().map(cycles),
            machine: Coordinator::new(engine.heeds(self.facts.progress), &self.facts.patience, 0),
            sources: self.sources.clone(),
            shards: self.shards.clone(),
            open_sources: self.sources.len(),
            meters: self.meters.clone(),
            reports: self.reports.clone(),
        };
        let clock = ClockActor {
            coordinator: self.coordinator.clone(),
            sources: self.sources.clone(),
            shards: self.shards.clone(),
            sinks: self.sinks.clone(),
        };
        deliver::start(&arbiter, inbox, move || coordinator);
        let (_, clock_inbox) = deliver::mailbox();
        deliver::start(&arbiter, clock_inbox, move || clock);
        Ok(())
    }
}
