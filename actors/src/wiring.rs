//! Makes the actors of a node and gives each the addresses that it sends to.
//!
//! All mailboxes come first, then the actors, sources last of those that read or write, and the
//! clock at the very end: sources begin with its first tick, so every actor lives by then.

use crate::checkpoint::RestoreError;
use crate::clock::{ClockActor, Stopwatch};
use crate::coordinator::CoordinatorActor;
use crate::credit::Limits;
use crate::cutting::Cutting;
use crate::deliver::{self, Reports};
use crate::figures::{Measuring, Outgoing, SinkFigures};
use crate::histogram::Histogram;
use crate::inbox::Inbox;
use crate::meter::Meters;
use crate::node::{Node, Outcome, Parts, SinkPart, SourcePart, StatePart};
use crate::outbox::Outbox;
use crate::report::{SinkReport, StoreReport};
use crate::restoring::Restoring;
use crate::shard::{ShardActor, ShardLinks};
use crate::shard_spans::ShardSpans;
use crate::sink::SinkActor;
use crate::source::{DeadLetters, SourceActor, SourceLinks};
use crate::source_spans::SourceSpans;
use crate::store::StoreActor;
use crate::trace::Tracing;
use actix::dev::channel::AddressReceiver;
use actix::{Actor, Addr, Arbiter, ArbiterHandle};
use nilometer_connectors::sink::Writer;
use nilometer_connectors::source::Polled;
use nilometer_connectors::store::Store;
use nilometer_model::epoch::{Barriers, Bounds, Schedule};
use nilometer_model::expr::Refinement;
use nilometer_model::ingest::Ingest;
use nilometer_model::node::closing::Closing;
use nilometer_model::node::{
    CoordinatorNode, Route, ShardNode, ShardParts, SinkOrder, SourceNode, SourceParts, StoreNode,
};
use nilometer_model::plan::{Plan, Stage, StageInput};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Span;
use nilometer_model::watermark::{Coordinator, ProgressRules};
use std::io;
use std::sync::{Arc, Mutex};

/// A node cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The operating system gives no thread.
    #[error("cannot start a thread: {0}; lower `shards`, or raise the limit of processes")]
    Thread(#[from] io::Error),
    /// The state that was stored does not fit.
    #[error(transparent)]
    State(#[from] RestoreError),
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
        max_drift: parts.progress.max_drift,
        is_in_step: parts.progress.reads_in_step(parts.sources.iter().map(|part| &part.watermark)),
        refinement: parts.refinement,
        dead_letters: parts.dead_letters.map(|file| Arc::new(Mutex::new(file))),
        limits: parts.limits,
        tracing: parts.tracing,
        bounds: parts.state.as_ref().map(|state| state.bounds).unwrap_or_default(),
    };
    let (keeper, restoring, memory) = match parts.state {
        Some(StatePart { store, interval, memory, host, checkpoint, bounds: _ }) => {
            (Some(Keeper { store, interval, host }), Restoring::new(checkpoint), memory)
        }
        None => (None, Restoring::default(), None),
    };
    let (store, store_inbox) = deliver::mailbox();
    let names = parts.sources.iter().map(|part| part.name.clone()).collect();
    let sink_names = parts.sinks.iter().map(|part| part.name.clone()).collect();
    let (reports, reported) = Reports::new();
    let (sources, source_inboxes) = mailboxes(parts.sources.len());
    let (shards, shard_inboxes) = mailboxes(facts.shards);
    let (sinks, sink_inboxes) = mailboxes(parts.sinks.len());
    let (coordinator, coordinator_inbox) = deliver::mailbox();
    let mut wiring = Wiring {
        meters: Arc::new(Meters::new(sources.len(), shards.len(), sinks.len())),
        open: sources.len() + shards.len() + sinks.len() + 1 + usize::from(keeper.is_some()),
        sources,
        shards,
        sinks,
        coordinator,
        store: keeper.is_some().then_some(store),
        restoring,
        memory,
        reports,
        facts,
        arbiters: Vec::new(),
    };
    let started = wiring
        .start_sinks(parts.sinks, sink_inboxes)
        .and_then(|()| {
            let store = keeper.as_ref().map(|keeper| &*keeper.store);
            wiring.start_shards(shard_inboxes, store)
        })
        .and_then(|()| wiring.start_sources(parts.sources, source_inboxes))
        .and_then(|()| wiring.start_store(keeper, store_inbox))
        .and_then(|schedule| wiring.start_control(coordinator_inbox, schedule));
    if let Err(error) = started {
        stop(wiring.arbiters);
        return Err(error);
    }
    Ok(Node {
        arbiters: wiring.arbiters,
        sources: wiring.sources,
        coordinator: wiring.coordinator,
        meters: wiring.meters,
        reports: reported,
        open: wiring.open,
        shards: wiring.shards,
        sink_names,
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

/// Whether a record counts for windows before its event time.
fn is_spread(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| match &stage.input {
        StageInput::Records(input) => input.spread.is_some(),
        StageInput::Panes(_) | StageInput::Changes(_) => false,
    })
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
    /// How far one partition may be ahead of others.
    max_drift: Option<Span>,
    refinement: Arc<Refinement>,
    dead_letters: Option<DeadLetters>,
    limits: Limits,
    /// Who wants spans.
    tracing: Tracing,
    /// How much an epoch may hold.
    bounds: Bounds,
    /// Per stage, where its output goes.
    routes: Vec<Route>,
}

/// What the store is made from.
struct Keeper {
    store: Box<dyn Store>,
    interval: Span,
    host: Vec<u8>,
}

/// The addresses of a node, and the threads started so far.
struct Wiring {
    facts: Facts,
    sources: Vec<Addr<SourceActor>>,
    shards: Vec<Addr<ShardActor>>,
    sinks: Vec<Addr<SinkActor>>,
    coordinator: Addr<CoordinatorActor>,
    /// `None` where nothing is stored.
    store: Option<Addr<StoreActor>>,
    restoring: Restoring,
    /// Bytes of state that shards keep in memory; `None`: all.
    memory: Option<usize>,
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
        for (number, (part, inbox)) in parts.into_iter().zip(inboxes).enumerate() {
            let order = SinkOrder::new(&self.facts.plan, self.facts.shards);
            let reports = self.reports.clone();
            let takes_late = matches!(part.writer, Writer::Late(_));
            let name = part.name.clone();
            let mut report = SinkReport { name, takes_late, ..SinkReport::default() };
            self.restoring.sink(&mut report);
            let (links, last) = (self.coordinator.clone(), self.restoring.epoch());
            let (shards, bounds) = (self.facts.shards, self.facts.bounds);
            let outbox = self.store.clone();
            let outbox = outbox.map(|store| Outbox::new((store, links), (shards, last), bounds));
            let (meters, tracing) = (self.meters.clone(), self.facts.tracing.clone());
            deliver::start(&self.thread()?, inbox, move || SinkActor {
                number,
                tracing,
                meters,
                report,
                outbox,
                writer: part.writer,
                order,
                is_dirty: false,
                figures: SinkFigures::default(),
                outgoing: Outgoing::default(),
                reports,
            });
        }
        Ok(())
    }

    fn start_shards(
        &mut self,
        inboxes: Vec<AddressReceiver<ShardActor>>,
        store: Option<&dyn Store>,
    ) -> Result<(), StartError> {
        let shards = self.facts.shards;
        let known = (&self.facts.plan, &self.facts.symbols);
        let machines = self.restoring.shards(known, (shards, self.memory), store)?;
        let is_exchanged = |stage: &&Stage| stage.exchange.is_some();
        let exchanges = self.facts.plan.stages.iter().filter(is_exchanged).count();
        for ((id, inbox), (shard, records)) in inboxes.into_iter().enumerate().zip(machines) {
            let links = ShardLinks {
                shards: self.shards.clone(),
                sinks: self.sinks.clone(),
                coordinator: self.coordinator.clone(),
                meters: self.meters.clone(),
                reports: self.reports.clone(),
            };
            let Facts { limits, routes, tracing, .. } = &self.facts;
            let spans = ShardSpans::new(tracing.clone(), id, is_spread(&self.facts.plan));
            let (limits, routes) = (*limits, routes.clone());
            let (cut, sources) = (self.restoring.epoch(), self.sources.len());
            let barriers = Barriers::new(cut, sources, shards, exchanges);
            let cutting = self.store.clone().map(|store| Cutting::new(store, barriers));
            deliver::start(&self.thread()?, inbox, move || {
                let closing = Closing::new(shards, exchanges);
                let parts = ShardParts { shard, closing, limits, routes };
                let machine = ShardNode::new(parts).behind(records);
                let (inbox, measuring) = (Inbox::default(), Measuring::default());
                let since = Stopwatch::start();
                ShardActor { id, machine, inbox, cutting, since, measuring, spans, links }
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
                store: self.store.clone(),
                reports: self.reports.clone(),
            };
            let spans = SourceSpans::new(facts.tracing.clone());
            let (symbols, refinement) = (facts.symbols.clone(), facts.refinement.clone());
            let mut ingest =
                Ingest::new(&facts.plan, symbols, refinement, part.watermark, facts.shards);
            if part.reader.is_partitioned() {
                ingest = ingest.partitioned(facts.max_drift);
            }
            let mut polled = Polled::new(facts.plan.row.clone(), facts.dead_letters.is_some());
            let cycle_records = self.restoring.source(&mut polled, &mut ingest);
            let (engine, limits) = (facts.plan.engine, facts.limits);
            let is_in_step = facts.is_in_step;
            let epoch_bytes_max = self.store.as_ref().map(|_| facts.bounds.epoch_bytes_max);
            let parts = SourceParts {
                partition,
                ingest,
                engine,
                limits,
                epoch_bytes_max,
                is_in_step,
                cycle_records,
            };
            deliver::start(&self.thread()?, inbox, move || SourceActor {
                name: part.name,
                partition,
                reader: part.reader,
                skipped: part.skipped,
                named: 0,
                polled,
                machine: SourceNode::new(parts),
                before: None,
                stored: None,
                since: Stopwatch::start(),
                holder: None,
                spans,
                has_letters: false,
                links,
            });
        }
        Ok(())
    }

    /// Starts the store, if there is one; returns when epochs begin, and what the host puts there.
    fn start_store(
        &mut self,
        keeper: Option<Keeper>,
        inbox: AddressReceiver<StoreActor>,
    ) -> Result<(Schedule, Vec<u8>), StartError> {
        let last = self.restoring.epoch();
        let Some(Keeper { store, interval, host }) = keeper else {
            return Ok((Schedule::new(None, last), Vec::new()));
        };
        let parts = 1 + self.sources.len() + self.shards.len() + self.sinks.len();
        let opened_in = store.opened_in();
        let actor = StoreActor {
            store: Some(store),
            plan: self.facts.plan.clone(),
            tracing: self.facts.tracing.clone(),
            early: Vec::new(),
            ahead_bytes: 0,
            keeper: StoreNode::new(last, parts, self.sinks.len()),
            sources: self.sources.clone(),
            sinks: self.sinks.clone(),
            coordinator: self.coordinator.clone(),
            open: 1 + self.sinks.len(),
            meters: self.meters.clone(),
            begun: None,
            epochs: Histogram::new(),
            report: StoreReport { opened_in, ..StoreReport::default() },
            reports: self.reports.clone(),
        };
        deliver::start(&self.thread()?, inbox, move || actor);
        Ok((Schedule::new(Some(interval), last), host))
    }

    /// Starts coordinator and clock, which have little to do and share a thread.
    fn start_control(
        &mut self,
        inbox: AddressReceiver<CoordinatorActor>,
        (schedule, host): (Schedule, Vec<u8>),
    ) -> Result<(), StartError> {
        let arbiter = self.thread()?;
        let engine = self.facts.plan.engine;
        let (sources, shards) = (self.sources.len(), self.shards.len());
        let rules = engine.heeds(self.facts.progress);
        let mut machine =
            Coordinator::new(rules, &self.facts.patience, self.facts.plan.shares.len());
        self.restoring.coordinator(&mut machine);
        self.meters.set_watermark(machine.watermark());
        let machine = CoordinatorNode::new(machine, engine, sources, shards);
        let coordinator = CoordinatorActor {
            epoch: schedule.last(),
            tracing: self.facts.tracing.clone(),
            span: None,
            machine: machine.with_epochs(schedule),
            state: self.store.clone().map(|store| (store, host)),
            sources: self.sources.clone(),
            shards: self.shards.clone(),
            meters: self.meters.clone(),
            reports: self.reports.clone(),
        };
        let clock = ClockActor {
            coordinator: self.coordinator.clone(),
            sources: self.sources.clone(),
            shards: self.shards.clone(),
            sinks: self.sinks.clone(),
            last: None,
        };
        deliver::start(&arbiter, inbox, move || coordinator);
        let (_, clock_inbox) = deliver::mailbox();
        deliver::start(&arbiter, clock_inbox, move || clock);
        Ok(())
    }
}
