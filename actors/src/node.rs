//! A node: the actors of one pipeline, wired into one straight line, from start to end.
//!
//! ```text
//! source -> shard [ window actor -> rollup actor -> ... ] -> sink
//!    |        ^
//!    v        | watermark, end
//!  coordinator                       clock -> tick -> coordinator, sources, sinks
//! ```
//!
//! Sources, shards and sinks have a thread (an arbiter) each; coordinator and clock share one.
//! Every address exists before any actor lives, so nobody waits for an introduction.
//! The host awaits [`Node::news`] until the node has ended, then [`Node::finish`].

use crate::checkpoint::Checkpoint;
use crate::coordinator::CoordinatorActor;
use crate::credit::Limits;
use crate::deliver;
use crate::handle::Handle;
use crate::meter::{Busy, Meters};
use crate::report::{Failure, Report, ShardReport, SinkReport, SourceReport, StoreReport};
use crate::shard::ShardActor;
use crate::source::SourceActor;
use crate::trace::Tracing;
use crate::wiring::{self, StartError};
use actix::{Addr, Arbiter};
use nilometer_connectors::account::SourceAccount;
use nilometer_connectors::dead_letter::DeadLetters;
use nilometer_connectors::sink::Writer;
use nilometer_connectors::source::Source;
use nilometer_connectors::store::Store;
use nilometer_model::account::StageAccount;
use nilometer_model::epoch::{Bounds, OffsetRange};
use nilometer_model::expr::Refinement;
use nilometer_model::memory::MemoryUse;
use nilometer_model::pane::StageId;
use nilometer_model::plan::Plan;
use nilometer_model::sequence::SequenceUse;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{Span, Watermark};
use nilometer_model::watermark::{Estimation, ProgressRules, Standing};
use opentelemetry::trace::SpanContext;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// One input of a node.
pub struct SourcePart {
    /// Name for people.
    pub name: Arc<str>,
    /// The reader. It fills the partition whose number is its place among the sources.
    pub reader: Box<dyn Source>,
    /// How its watermark is estimated.
    pub watermark: Estimation,
    /// What is left out of its records, and rejected instead.
    pub skipped: Vec<OffsetRange>,
}

/// One output of a node.
pub struct SinkPart {
    /// The name by which stages refer to it.
    pub name: Arc<str>,
    /// The writer.
    pub writer: Writer,
}

/// Everything that makes a node.
pub struct Parts {
    /// What is computed.
    pub plan: Arc<Plan>,
    /// The texts that sources and sinks share.
    pub symbols: Arc<Symbols>,
    /// How many shards; at least 1.
    pub shards: usize,
    /// What holds for the watermark over all inputs.
    pub progress: ProgressRules,
    /// What is derived from records, and which are left out.
    pub refinement: Arc<Refinement>,
    /// Inputs, at least one: a node without any ends at once without a watermark.
    pub sources: Vec<SourcePart>,
    /// Outputs.
    pub sinks: Vec<SinkPart>,
    /// Where rejected input goes.
    pub dead_letters: Option<DeadLetters>,
    /// How much may be in flight.
    pub limits: Limits,
    /// Where epochs are stored; nothing is stored without it.
    pub state: Option<StatePart>,
    /// Who wants spans, if anybody does.
    pub tracing: Tracing,
}

/// Where epochs are stored, and what to go on with.
pub struct StatePart {
    /// The store.
    pub store: Box<dyn Store>,
    /// From the beginning of one epoch to that of the next.
    pub interval: Span,
    /// How much an epoch may hold, and how much may wait for it.
    pub bounds: Bounds,
    /// Bytes of state that all shards keep in memory; `None`: all of it.
    pub memory: Option<usize>,
    /// What the host puts into every epoch, see [`crate::checkpoint::host_part`].
    pub host: Vec<u8>,
    /// The epoch to go on behind; `None` to begin anew. Readers and writers have been opened there
    /// by the host, and the blocks of the epoch have been published.
    pub checkpoint: Option<Checkpoint>,
}

/// What a host hears of a running node.
#[derive(Debug)]
pub enum News {
    /// Something worth knowing about a source, one sentence.
    Notice {
        /// Name of the source.
        name: Arc<str>,
        /// The sentence.
        text: String,
        /// The span of the batch that was read last, if it is traced.
        span: Option<SpanContext>,
    },
    /// What must be in memory of the state of a shard is more than it may take.
    Tight {
        /// Number of the shard.
        shard: usize,
        /// Bytes that it takes.
        bytes: usize,
        /// Bytes that it may take.
        budget: usize,
    },
    /// The watermark has not risen for long: who holds it, and how all partitions stand, each by
    /// its place among the sources. Told ever more seldom.
    StandsStill(Standing),
    /// The node cannot do its work and is draining: why, as [`Failure`] prints.
    Failed {
        /// The reason.
        text: String,
        /// The span of what failed, if that is traced.
        span: Option<SpanContext>,
    },
    /// Everything has passed.
    Ended,
}

/// Whom a node waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// The input of the source with this name.
    Source(Arc<str>),
    /// The output of the sink with this name.
    Sink(Arc<str>),
    /// The disk that state lies on.
    Store,
    /// Shards that compute.
    Shards,
}

/// Those of `names` whose place in `is_busy` says so.
fn busy(names: &[Arc<str>], is_busy: impl Iterator<Item = bool>) -> impl Iterator<Item = Arc<str>> {
    names.iter().zip(is_busy).filter(|(_, is_busy)| *is_busy).map(|(name, _)| name.clone())
}

/// What a node has done, in numbers that add up.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Per source, in their order of ending.
    pub sources: Vec<SourceReport>,
    /// Per shard, in their order of ending.
    pub shards: Vec<ShardReport>,
    /// Per sink, in their order of ending.
    pub sinks: Vec<SinkReport>,
    /// What went wrong, first things first.
    pub failures: Vec<Failure>,
    /// What was stored; `None` where nothing is, or if the node did not get so far.
    pub store: Option<StoreReport>,
    /// Names of the sources, by partition.
    pub names: Vec<Arc<str>>,
    /// How the watermark stood at the end; `None` if the node did not get so far.
    pub standing: Option<Standing>,
}

impl Outcome {
    /// The accounts of all sources together. `accepted` is what the shards took, which is less than
    /// what the sources handed on only after a failure: the rest is then in flight for ever.
    pub fn records(&self) -> SourceAccount {
        let mut all = SourceAccount::default();
        for source in &self.sources {
            all.merge(&source.account);
        }
        let taken = self.shards.iter().map(|shard| shard.records);
        SourceAccount { accepted: taken.fold(0, u64::saturating_add), ..all }
    }

    /// Records that sources handed on and no shard took; `None` if shards took more than was
    /// handed on, which is a fault of this program.
    pub fn in_flight(&self) -> Option<u64> {
        let handed_on = self.sources.iter().map(|source| source.account.accepted);
        handed_on.fold(0, u64::saturating_add).checked_sub(self.records().accepted)
    }

    /// The accounts of the stages over all shards, in plan order.
    pub fn stages(&self) -> Vec<StageAccount> {
        let mut all: Vec<StageAccount> = Vec::new();
        for shard in &self.shards {
            all.resize_with(all.len().max(shard.accounts.len()), StageAccount::default);
            for (stage, account) in all.iter_mut().zip(&shard.accounts) {
                stage.merge(account);
            }
        }
        all
    }

    /// Windows that are not complete, by stage in plan order: what a drain does not emit.
    pub fn incomplete_windows(&self) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::new();
        for shard in &self.shards {
            all.resize(all.len().max(shard.incomplete_windows.len()), 0);
            for (sum, windows) in all.iter_mut().zip(&shard.incomplete_windows) {
                *sum += windows;
            }
        }
        all
    }

    /// The watermark at the end; `None` if the node did not get so far.
    pub fn watermark(&self) -> Option<Watermark> {
        self.standing.as_ref().map(|standing| standing.watermark)
    }

    /// What the state of all shards takes; `None` if it is not kept within a budget.
    pub fn memory(&self) -> Option<MemoryUse> {
        let mut shards = self.shards.iter().filter_map(|shard| shard.memory);
        let mut all = shards.next()?;
        shards.for_each(|shard| all.merge(&shard));
        Some(all)
    }

    /// What the sequences of all shards kept at the end, by stage.
    pub fn sequences(&self) -> BTreeMap<StageId, SequenceUse> {
        SequenceUse::total(self.shards.iter().flat_map(|shard| &shard.sequences))
    }

    /// Whether no window, timer or key is left in any shard.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty)
    }
}

/// The actors of one pipeline.
pub struct Node {
    pub(crate) arbiters: Vec<Arbiter>,
    pub(crate) sources: Vec<Addr<SourceActor>>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reports: UnboundedReceiver<Report>,
    /// Actors whose last report is still to come. Falls only.
    pub(crate) open: usize,
    /// Names of the sinks, by number.
    pub(crate) sink_names: Vec<Arc<str>>,
    pub(crate) outcome: Outcome,
}

impl Node {
    /// Starts all actors; the sources begin to read. A [`actix::System`] must run on this thread.
    ///
    /// # Errors
    /// See [`StartError`]. Actors started before the error are stopped.
    pub fn start(parts: Parts) -> Result<Self, StartError> {
        wiring::start(parts)
    }

    /// Numbers to look at while the node runs.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// What others may hold to look at the node and to tell it something, from any thread. From the
    /// first one on actors show what takes time to find out.
    pub fn handle(&self) -> Handle {
        self.meters.watch();
        Handle {
            meters: self.meters.clone(),
            coordinator: self.coordinator.clone(),
            shards: self.shards.clone(),
            sources: self.outcome.names.clone(),
            sinks: self.sink_names.clone(),
        }
    }

    /// Names of the sources, by partition.
    pub fn names(&self) -> &[Arc<str>] {
        &self.outcome.names
    }

    /// Asks all sources to read no more; everything in flight passes and what is due is emitted.
    pub fn drain(&self) {
        deliver::drain(&self.sources);
    }

    /// What holds up a node that does not end: who is in a call that does not return, else who has
    /// not ended.
    pub fn waits_for(&self) -> Vec<Waited> {
        let meters = &self.meters;
        let reading = meters.sources().iter().map(|meter| meter.reading.is_busy());
        let reading = busy(&self.outcome.names, reading).map(Waited::Source);
        let writing = meters.writing.iter().map(Busy::is_busy);
        let writing = busy(&self.sink_names, writing).map(Waited::Sink);
        let storing = meters.storing.is_busy().then_some(Waited::Store);
        let calls: Vec<_> = reading.chain(writing).chain(storing).collect();
        if !calls.is_empty() {
            return calls;
        }
        let has_ended = |name: &Arc<str>| self.outcome.sources.iter().any(|end| end.name == *name);
        let open = self.outcome.names.iter().filter(|name| !has_ended(name));
        let open: Vec<_> = open.cloned().map(Waited::Source).collect();
        if open.is_empty() { vec![Waited::Shards] } else { open }
    }

    /// Why the node drains by itself, what came first; `None` if it does not.
    pub fn take_failure(&mut self) -> Option<Failure> {
        let failures = &mut self.outcome.failures;
        (!failures.is_empty()).then(|| failures.remove(0))
    }

    /// Waits for the next piece of news; [`News::Ended`] comes last and again at every call. May be
    /// dropped while it waits, nothing is lost.
    pub async fn news(&mut self) -> News {
        while self.open > 0 {
            // Without any actor left to report, nothing more can come.
            let Some(report) = self.reports.recv().await else { break };
            if let Some(news) = self.note(report) {
                return news;
            }
        }
        News::Ended
    }

    fn note(&mut self, report: Report) -> Option<News> {
        match report {
            Report::Notice { name, text, span } => return Some(News::Notice { name, text, span }),
            Report::Tight { shard, bytes, budget } => {
                return Some(News::Tight { shard, bytes, budget });
            }
            Report::Failure(failure) => {
                self.drain();
                deliver::given_up(&self.coordinator);
                let (text, span) = (failure.to_string(), failure.span().cloned());
                self.outcome.failures.push(failure);
                return Some(News::Failed { text, span });
            }
            Report::Source(source) => self.outcome.sources.push(source),
            Report::Shard(shard) => self.outcome.shards.push(shard),
            Report::Sink(sink) => self.outcome.sinks.push(sink),
            Report::Store(store) => self.outcome.store = Some(store),
            Report::StandsStill(standing) => return Some(News::StandsStill(standing)),
            Report::Coordinator(standing) => self.outcome.standing = Some(standing),
        }
        self.open = self.open.saturating_sub(1);
        None
    }

    /// Waits for the end, then stops all threads.
    pub async fn finish(mut self) -> Outcome {
        while !matches!(self.news().await, News::Ended) {}
        wiring::stop(self.arbiters);
        self.outcome
    }
}
