//! The machines of one process, made from nothing or from what the last epoch holds.

use crate::letters::{Covered, Letter, Who};
use crate::options::Options;
use crate::partition::Partition;
use crate::world::{LATE, PANES};
use nilometer_actors::checkpoint::{Checkpoint, Piece, keep_within, restore_shards};
use nilometer_connectors::account::SourceAccount;
use nilometer_connectors::store::Store;
use nilometer_model::epoch::{Barriers, Epoch, Schedule};
use nilometer_model::expr::{Refinement, TypedExpr};
use nilometer_model::image::Begins;
use nilometer_model::ingest::Ingest;
use nilometer_model::node::closing::Closing;
use nilometer_model::node::{
    CoordinatorNode, Gate, Route, ShardNode, ShardParts, SinkOrder, SinkOutbox, SourceNode,
    SourceParts, StoreNode,
};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::row::{Field, RowBatch};
use nilometer_model::shard::Shard;
use nilometer_model::symbol::Symbols;
use nilometer_model::tick::Tick;
use nilometer_model::time::ProcessingTime;
use nilometer_model::value::Type;
use nilometer_model::watermark::{
    Coordinator, Estimation, Punctuation, WatermarkSettings, WatermarkSpec,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The field that says whether the time of a record is a watermark.
pub(crate) const PUNCTUATION: &str = "flag";

pub(crate) struct Source {
    pub(crate) node: SourceNode,
    pub(crate) partition: Partition,
    /// What was read and has not been handed on.
    pub(crate) batch: RowBatch,
    /// Records handed on by this process.
    pub(crate) handed_on: u64,
    pub(crate) account: SourceAccount,
    /// Where it stood before it read last, if that may be asked for.
    pub(crate) before: Option<(Vec<u8>, SourceAccount)>,
    /// Whether it would read nothing new before the clock ticks.
    pub(crate) is_pending: bool,
}

pub(crate) struct ShardUnit {
    pub(crate) node: ShardNode<usize>,
    /// What has come and waits while the shard is held.
    pub(crate) inbox: VecDeque<Letter>,
    /// `None` where nothing is stored.
    pub(crate) gate: Option<Gate<Letter>>,
    /// Whether it has heard of the end of the input: behind that it takes no tick.
    pub(crate) has_ended: bool,
}

pub(crate) struct Sink {
    pub(crate) order: SinkOrder,
    /// `None` where nothing is stored.
    pub(crate) outbox: Option<SinkOutbox<Letter, usize>>,
    /// The epoch that it publishes.
    pub(crate) durable: Epoch,
    /// What it has written and not given away: numbers of [`crate::output::Seen`] outputs.
    pub(crate) written: Vec<u32>,
}

pub(crate) struct Storing {
    /// `None` once it has failed, or has been closed.
    pub(crate) store: Option<Box<dyn Store>>,
    pub(crate) node: StoreNode,
    /// Blocks of the epoch behind the one whose parts come.
    pub(crate) early: Vec<(Epoch, Piece, usize)>,
    /// Those who may still have something to say.
    pub(crate) open: usize,
}

/// A process: what is lost with it.
pub(crate) struct Node {
    pub(crate) coordinator: CoordinatorNode,
    /// The last tick that it has heard.
    pub(crate) heard: Option<ProcessingTime>,
    /// The last tick.
    pub(crate) clock: Option<Tick>,
    /// The epoch that the coordinator began last.
    pub(crate) epoch: Epoch,
    pub(crate) covered: Covered,
    pub(crate) sources: Vec<Source>,
    pub(crate) shards: Vec<ShardUnit>,
    pub(crate) sinks: Vec<Sink>,
    /// `None` where nothing is stored.
    pub(crate) storing: Option<Storing>,
    pub(crate) open_sinks: usize,
    pub(crate) mailboxes: BTreeMap<Who, VecDeque<Letter>>,
    /// What a step has given and is not appended yet, by sender.
    pub(crate) sends: BTreeMap<Who, VecDeque<(Who, Letter)>>,
    pub(crate) symbols: Arc<Symbols>,
}

impl Node {
    /// The machines behind `checkpoint`; what they store goes to `store`.
    pub(crate) fn new(
        options: &Options,
        store: Option<Box<dyn Store>>,
        checkpoint: Option<&Checkpoint>,
    ) -> Self {
        let (plan, symbols) = (&options.plan, Arc::new(Symbols::default()));
        let last = checkpoint.map_or(Epoch::NONE, |checkpoint| checkpoint.epoch);
        let is_stored = store.is_some();
        let (sources, shards) = (options.partitions.len(), options.shards);
        let barriers = Barriers::new(last, sources, shards, exchanges(plan));
        let bounds = options.stored.map(|stored| stored.bounds).unwrap_or_default();
        let unit = |machine| ShardUnit {
            node: shard(options, machine),
            inbox: VecDeque::new(),
            gate: is_stored.then(|| Gate::new(barriers.clone())),
            has_ended: false,
        };
        let machines = machines(options, &symbols, store.as_deref(), checkpoint);
        let sink = |_| Sink {
            order: SinkOrder::new(plan, shards),
            outbox: is_stored.then(|| SinkOutbox::new(shards, last, bounds)),
            durable: last,
            written: Vec::new(),
        };
        let storing = store.map(|store| Storing {
            store: Some(store),
            early: Vec::new(),
            node: StoreNode::new(last, 1 + sources + shards + 2, 2),
            open: 3,
        });
        let interval = options.stored.map(|stored| stored.interval);
        Self {
            coordinator: coordinator(options, checkpoint)
                .with_epochs(Schedule::new(interval, last)),
            heard: None,
            clock: None,
            epoch: last,
            covered: Arc::new(vec![0; sources]),
            sources: (0..sources).map(|id| source(options, &symbols, id, checkpoint)).collect(),
            shards: machines.into_iter().map(unit).collect(),
            sinks: [PANES, LATE].into_iter().map(sink).collect(),
            storing,
            open_sinks: 2,
            mailboxes: BTreeMap::new(),
            sends: BTreeMap::new(),
            symbols,
        }
    }
}

fn coordinator(options: &Options, checkpoint: Option<&Checkpoint>) -> CoordinatorNode {
    let plan = &options.plan;
    let patience: Vec<_> = options.watermarks.iter().map(|one| one.idle_after).collect();
    let rules = plan.engine.heeds(options.rules);
    let mut machine = Coordinator::new(rules, &patience, plan.shares.len());
    if let Some(checkpoint) = checkpoint {
        machine.restore(&checkpoint.coordinator, &checkpoint.renumbering);
    }
    CoordinatorNode::new(machine, plan.engine, options.partitions.len(), options.shards)
}

/// The machines of all shards, and how many records each has taken.
fn machines(
    options: &Options,
    symbols: &Arc<Symbols>,
    store: Option<&dyn Store>,
    checkpoint: Option<&Checkpoint>,
) -> Vec<(Shard, u64)> {
    let (plan, count) = (&options.plan, options.shards);
    let memory = options.stored.and_then(|stored| stored.memory);
    if let (Some(store), Some(checkpoint)) = (store, checkpoint) {
        let cuts = (checkpoint.shards.clone(), Begins::default());
        let shards = restore_shards(store, cuts, (plan, symbols), (count, memory));
        return shards.unwrap_or_else(|error| panic!("{error}"));
    }
    let new = |id| Shard::new(plan.clone(), symbols.clone(), id, count);
    let mut shards: Vec<_> = (0..count).map(new).collect();
    if let Some(store) = store {
        keep_within(&mut shards, memory, store).unwrap_or_else(|error| panic!("{error}"));
    }
    shards.into_iter().map(|shard| (shard, 0)).collect()
}

fn shard(options: &Options, (shard, records): (Shard, u64)) -> ShardNode<usize> {
    let plan = &options.plan;
    let parts = ShardParts {
        shard,
        closing: Closing::new(options.shards, exchanges(plan)),
        limits: options.limits,
        routes: routes(plan),
    };
    ShardNode::new(parts).behind(records)
}

fn source(
    options: &Options,
    symbols: &Arc<Symbols>,
    id: usize,
    checkpoint: Option<&Checkpoint>,
) -> Source {
    let plan = &options.plan;
    let estimations: Vec<_> =
        options.watermarks.iter().map(|one| estimation(*one, plan, symbols)).collect();
    let is_in_step = options.rules.reads_in_step(estimations.iter());
    let refinement = Arc::new(Refinement::bind(&[], None, &plan.row, symbols).unwrap());
    let watermark = estimations[id].clone();
    let mut ingest = Ingest::new(plan, symbols.clone(), refinement, watermark, options.shards);
    let mut partition = options.partitions[id].clone();
    let (mut account, mut cycle_records) = (SourceAccount::default(), 0);
    if let Some(checkpoint) = checkpoint {
        let cut = checkpoint.sources[id].as_ref().unwrap();
        assert!(cut.is_exact);
        partition.resume(&cut.position);
        (account, cycle_records) = (cut.account.clone(), cut.cycle_records);
        ingest.restore(cut.estimates.clone(), &checkpoint.renumbering);
    }
    let (engine, limits) = (plan.engine, options.limits);
    let epoch_bytes_max = options.stored.map(|stored| stored.bounds.epoch_bytes_max);
    let parts = SourceParts {
        partition: id as u32,
        ingest,
        engine,
        limits,
        epoch_bytes_max,
        is_in_step,
        cycle_records,
    };
    Source {
        node: SourceNode::new(parts),
        partition,
        batch: RowBatch::new(plan.row.clone()),
        handed_on: 0,
        account,
        before: None,
        is_pending: false,
    }
}

fn estimation(settings: WatermarkSettings, plan: &Plan, symbols: &Symbols) -> Estimation {
    let flag = || TypedExpr::field(&Field::new(PUNCTUATION, Type::Bool));
    let is_punctuated = settings.spec == WatermarkSpec::Punctuated;
    let punctuation =
        is_punctuated.then(|| Punctuation::bind(&flag(), &plan.row, symbols).unwrap());
    Estimation { punctuation, ..settings.into() }
}

fn exchanges(plan: &Plan) -> usize {
    plan.stages.iter().filter(|stage| stage.exchange.is_some()).count()
}

/// Where the output of every stage goes.
fn routes(plan: &Plan) -> Vec<Route> {
    let route = |stage: &Stage| Route {
        panes: stage.sinks.iter().map(|_| PANES).collect(),
        // Once, whoever asks.
        late: stage.late.iter().take(1).map(|late| (LATE, late.include_late)).collect(),
    };
    plan.stages.iter().map(route).collect()
}
