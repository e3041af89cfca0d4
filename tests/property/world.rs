//! Several shards without threads: a queue per sender and receiver, and a seed that picks which
//! message is delivered next. Order between senders is arbitrary, per sender fixed, as with
//! threads.

use crate::sinks::place_of;
use nilometer_connectors::generator::Dice;
use nilometer_model::account::{DropReason, StageAccount};
use nilometer_model::batch::{Closed, KeyValues, Place, Placed, Record};
use nilometer_model::cold::{MemoryPages, Pages};
use nilometer_model::engine::Cycle;
use nilometer_model::image::{self, Log, LookError, WrittenKey, place_displaced};
use nilometer_model::invariant::{ORDER_1, WM_1};
use nilometer_model::key::Router;
use nilometer_model::late::{LateBatch, LateReason};
use nilometer_model::node::is_behind;
use nilometer_model::pane::{PaneBatch, PaneMeta, StageId};
use nilometer_model::plan::{Job, Plan};
use nilometer_model::row::{Position, RowBatch};
use nilometer_model::sequence::SequenceUse;
use nilometer_model::shard::{ExchangeDeltas, ExchangeMark, Output, Shard};
use nilometer_model::symbol::Symbols;
use nilometer_model::tick::Tick;
use nilometer_model::time::{ProcessingTime, Span, Watermark};
use nilometer_model::value::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// A pane as a sink reads it.
#[derive(Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) stage: StageId,
    pub(crate) key: KeyValues,
    pub(crate) meta: PaneMeta,
    pub(crate) values: Vec<Value>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, key, meta, values } = self;
        write!(f, "stage {} {:?} {meta:?} {values:?}", stage.0, key.0)
    }
}

enum Message {
    Records(RowBatch),
    Watermark(Watermark),
    Shares(Vec<Watermark>),
    Cycle(Cycle),
    Tick(Tick),
    Signal(&'static str),
    Deltas(ExchangeDeltas),
    Mark(ExchangeMark),
}

/// A window copy that came late, as an output of its own is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listed {
    pub(crate) reason: LateReason,
    /// Number of the record among all.
    pub(crate) record: usize,
    /// Where it would have gone; of windows that merge, the one that it makes by itself.
    pub(crate) place: Place,
}

/// A node without actors.
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    shards: Vec<Shard>,
    /// What they were at cuts.
    log: Log,
    router: Router,
    /// By sender and receiver; the source is the sender after the last shard.
    queues: BTreeMap<(usize, usize), VecDeque<Message>>,
    /// The last mark of each exchanged stage and sender, as the receivers saw it.
    marks: BTreeMap<(StageId, usize, usize), Watermark>,
    dice: Dice,
    /// The last tick of this process.
    clock: Option<Tick>,
    /// Number of the last cycle.
    cycle: u64,
    /// How many panes a slice has.
    slice: usize,
    /// Slices behind the first of their round.
    pub(crate) slices: usize,
    /// Number of the next record.
    next_record: u64,
    /// By shard: what it has let pass.
    passed: Vec<Watermark>,
    /// In the order in which they came.
    pub(crate) panes: Vec<Seen>,
    /// Copies dropped since they had expired, by grouping and key.
    pub(crate) dropped: BTreeMap<(Box<str>, KeyValues), u64>,
    /// Copies that came late, of groupings that ask for them.
    pub(crate) late: Vec<Listed>,
    /// Where keys go that are not in memory.
    pages: Arc<MemoryPages>,
    /// Bytes of state that each shard keeps in memory.
    budget: Option<usize>,
}

/// A cut, and what the world outside had seen by then.
pub(crate) struct Epoch {
    log: Log,
    dice: Dice,
    next_record: u64,
    seen: (usize, usize),
    dropped: BTreeMap<(Box<str>, KeyValues), u64>,
}

impl World {
    pub(crate) fn new(plan: Arc<Plan>, shards: usize, seed: u64) -> Self {
        let symbols = Arc::new(Symbols::default());
        let make = |id| {
            let mut shard = Shard::new(plan.clone(), symbols.clone(), id, shards);
            shard.trace_drops(true);
            shard
        };
        Self {
            shards: (0..shards).map(make).collect(),
            router: Router::from_row(&plan.row, &plan.shard_by, plan.key_groups, shards),
            log: Log::default(),
            queues: BTreeMap::new(),
            marks: BTreeMap::new(),
            dice: Dice::new(seed),
            clock: None,
            cycle: 0,
            slice: usize::MAX,
            slices: 0,
            next_record: 0,
            passed: vec![Watermark::MIN; shards],
            panes: Vec::new(),
            dropped: BTreeMap::new(),
            late: Vec::new(),
            pages: Arc::default(),
            budget: None,
            symbols,
            plan,
        }
    }

    /// Lets every shard keep so many bytes in memory, and the rest in pages.
    pub(crate) fn keep_within(&mut self, budget: Option<usize>) {
        self.budget = budget;
        for shard in &mut self.shards {
            shard.keep_within(budget, self.pages.clone()).unwrap();
        }
        place_displaced(&mut self.shards).unwrap();
    }

    /// As [`World::restart`], with another budget.
    pub(crate) fn restart_within(&mut self, budget: Option<usize>) {
        self.budget = budget;
        self.restart();
    }

    /// Keys that have gone into pages, and keys that have come back.
    pub(crate) fn moved(&self) -> (u64, u64) {
        let memory = self.shards.iter().filter_map(Shard::memory);
        memory.fold((0, 0), |(went, came), memory| (went + memory.went, came + memory.came))
    }

    /// What all shards hold of a key.
    pub(crate) fn look(&mut self, stage: StageId, key: &WrittenKey) -> Vec<image::Seen> {
        let looks = self.shards.iter_mut().map(|shard| shard.look(stage, key));
        let entries = |look| match look {
            Ok(image::Look { entries, unseen }) => {
                assert_eq!(unseen, 0);
                entries
            }
            // Results that this program alone can read.
            Err(LookError::Function(_)) => Vec::new(),
            Err(error) => panic!("{error}"),
        };
        looks.flat_map(entries).collect()
    }

    /// Pages that have not been deleted.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.count()
    }

    /// The next of a sequence that the seed decides.
    fn draw(&mut self, below: usize) -> usize {
        (self.dice.word() % below.max(1) as u64) as usize
    }

    fn push(&mut self, from: usize, to: usize, message: Message) {
        let queue = self.queues.entry((from, to)).or_default();
        // A later tick says all that an earlier one does, unless the clock was set back.
        if let (Message::Tick(tick), Some(Message::Tick(last))) = (&message, queue.back_mut())
            && last.now() <= tick.now()
        {
            *last = *tick;
            return;
        }
        queue.push_back(message);
    }

    /// The same node, whose shards fire so many panes of a stage at a time.
    pub(crate) fn in_slices(mut self, panes: usize) -> Self {
        self.shards = self.shards.into_iter().map(|shard| shard.in_slices(panes)).collect();
        self.slice = panes;
        self
    }

    /// Records of one partition come, numbered as they come.
    pub(crate) fn records(&mut self, job: &Job, records: &[Record]) {
        let first = self.next_record;
        self.next_record += records.len() as u64;
        let placed = (first..).zip(records).map(|(offset, record)| Placed {
            position: Position { partition: 0, offset },
            record: record.clone(),
        });
        self.placed(job, &placed.collect::<Vec<_>>());
    }

    /// Places records on their shards and delivers some of what is queued.
    pub(crate) fn placed(&mut self, job: &Job, records: &[Placed]) {
        let mut parts: Vec<_> =
            self.shards.iter().map(|_| RowBatch::new(self.plan.row.clone())).collect();
        let mut all = RowBatch::new(self.plan.row.clone());
        for Placed { position, record } in records {
            let mut row = all.push(record.time, *position);
            for (field, value) in job.fields.iter().zip(&record.values) {
                if let Some(slot) = self.plan.row.slot(&field.name) {
                    row.set(slot, value.intern(&self.symbols).unwrap());
                }
            }
        }
        for index in 0..all.len() {
            let shard = self.router.shard(all.row(index), &self.symbols);
            parts[shard].push_row(all.row(index), all.time(index), all.position(index));
        }
        let source = self.shards.len();
        for (shard, part) in parts.into_iter().enumerate() {
            if !part.is_empty() {
                self.push(source, shard, Message::Records(part));
            }
        }
        self.deliver_some();
    }

    pub(crate) fn watermark(&mut self, watermark: Watermark) {
        self.tell(|| Message::Watermark(watermark));
        // Of the lower of two percentiles as much is promised, or more.
        let ahead = (0_i64..).map(|number| Span::from_millis(10 * number));
        let shares =
            ahead.take(self.plan.shares.len()).map(|ahead| watermark.0.saturating_add(ahead));
        let mut shares: Vec<_> = shares.map(Watermark).collect();
        shares.reverse();
        if !shares.is_empty() {
            self.tell(|| Message::Shares(shares.clone()));
        }
    }

    pub(crate) fn tick(&mut self, now: ProcessingTime) {
        let tick = Tick::after(self.clock, now);
        self.clock = Some(tick);
        self.tell(|| Message::Tick(tick));
    }

    pub(crate) fn signal(&mut self, name: &'static str) {
        self.tell(|| Message::Signal(name));
    }

    /// Sends a message to every shard and delivers some of what is queued.
    fn tell(&mut self, message: impl Fn() -> Message) {
        for shard in 0..self.shards.len() {
            self.push(self.shards.len(), shard, message());
        }
        self.deliver_some();
    }

    /// A cycle of micro-batches ends, once all shards have finished the one before.
    pub(crate) fn cycle(&mut self, watermark: Watermark) {
        while self.shards.iter().any(|shard| shard.finished_cycle() < self.cycle) {
            assert!(self.deliver(), "nothing is on the way, and cycle {} does not end", self.cycle);
        }
        self.cycle += 1;
        let cycle = Cycle { number: self.cycle, watermark };
        self.tell(|| Message::Cycle(cycle));
    }

    fn deliver_some(&mut self) {
        for _ in 0..self.draw(2 * self.shards.len() + 1) {
            self.deliver();
        }
    }

    /// Delivers everything.
    pub(crate) fn settle(&mut self) {
        while self.deliver() {}
    }

    /// All input has ended, and everything has been delivered.
    pub(crate) fn end(&mut self) {
        if self.plan.engine.pace().is_some() {
            self.cycle(Watermark::MAX);
        } else {
            self.watermark(Watermark::MAX);
        }
        self.settle();
    }

    /// Everything that is queued is delivered; then every shard hands over what has changed.
    pub(crate) fn cut(&mut self) -> &Log {
        self.settle();
        self.log.cut(&self.plan, &mut self.shards).unwrap();
        &self.log
    }

    /// Everything that is queued is delivered; then all of it is cut.
    pub(crate) fn epoch(&mut self) -> Epoch {
        Epoch {
            log: self.cut().clone(),
            dice: self.dice.clone(),
            next_record: self.next_record,
            seen: (self.panes.len(), self.late.len()),
            dropped: self.dropped.clone(),
        }
    }

    /// Crashes, and comes back where it was cut.
    pub(crate) fn go_back(&mut self, epoch: &Epoch) {
        self.come_back(&epoch.log, self.shards.len());
        (self.dice, self.next_record) = (epoch.dice.clone(), epoch.next_record);
        self.panes.truncate(epoch.seen.0);
        self.late.truncate(epoch.seen.1);
        self.dropped.clone_from(&epoch.dropped);
    }

    /// The node as it was when it was cut, of `shards` shards, in a process that has never seen a
    /// text; what it has emitted before is not known to it.
    pub(crate) fn of_log(plan: Arc<Plan>, log: &Log, (shards, seed): (usize, u64)) -> Self {
        let mut world = Self::new(plan, shards, seed);
        world.log = log.clone();
        world.shards = log.restore(&world.plan, &world.symbols, shards).unwrap();
        for (shard, passed) in world.shards.iter_mut().zip(&mut world.passed) {
            shard.trace_drops(true);
            *passed = shard.passed();
        }
        world
    }

    /// Is cut, dropped, and comes back.
    pub(crate) fn restart(&mut self) {
        self.restart_as(self.shards.len());
    }

    /// Is cut, dropped, and comes back with any number of shards.
    pub(crate) fn restart_anyhow(&mut self) {
        let shards = [1, 2, 3, 7][self.draw(4)];
        self.restart_as(shards);
    }

    fn restart_as(&mut self, shards: usize) {
        let log = self.cut().clone();
        self.come_back(&log, shards);
    }

    fn come_back(&mut self, log: &Log, shards: usize) {
        let mut restored = Self::of_log(self.plan.clone(), log, (shards, 0)).in_slices(self.slice);
        restored.pages = self.pages.clone();
        restored.keep_within(self.budget);
        let needed: Vec<_> = restored.shards.iter().map(Shard::pages).collect();
        self.pages.retain(&needed.into_iter().flatten().collect()).unwrap();
        let before = std::mem::replace(self, restored);
        // Chance, and what the world outside has seen.
        self.dice = before.dice;
        self.next_record = before.next_record;
        (self.panes, self.dropped, self.late) = (before.panes, before.dropped, before.late);
        self.slices = before.slices;
    }

    /// Delivers the first message of some queue; `false` if there is none.
    fn deliver(&mut self) -> bool {
        self.queues.retain(|_, queue| !queue.is_empty());
        let choice = self.draw(self.queues.len());
        let Some(entry) = self.queues.iter_mut().nth(choice) else { return false };
        let to = entry.0.1;
        let Some(message) = entry.1.pop_front() else { return false };
        let mut out = Output::default();
        let shard = &mut self.shards[to];
        match message {
            Message::Records(batch) => shard.records(&batch, &mut out),
            Message::Watermark(watermark) => shard.watermark(watermark, &mut out),
            Message::Shares(shares) => shard.shares(&shares, &mut out),
            Message::Cycle(cycle) => shard.cycle(cycle, &mut out),
            Message::Tick(tick) => shard.tick(tick, &mut out),
            Message::Signal(name) => shard.signal(name, &mut out),
            Message::Deltas(deltas) => shard.exchange(&deltas, &mut out),
            Message::Mark(mark) => {
                let last = self.marks.entry((mark.stage, mark.from, to)).or_insert(Watermark::MIN);
                assert!(*last <= mark.watermark, "{WM_1}: {mark:?} after {last:?}");
                *last = mark.watermark;
                shard.mark(&mark, &mut out)
            }
        }
        .unwrap();
        self.take(to, out);
        while self.shards[to].is_firing() {
            self.slices += 1;
            let mut out = Output::default();
            self.shards[to].go_on(&mut out).unwrap();
            self.take(to, out);
        }
        true
    }

    fn take(&mut self, from: usize, out: Output) {
        // Deltas before marks: what ORDER-1 asks of whoever sends them.
        assert!(out.marks.is_empty() || self.shards.len() > 1, "{ORDER_1}: nothing to exchange");
        for (to, deltas) in out.exchanges {
            self.push(from, to, Message::Deltas(deltas));
        }
        for mark in out.marks {
            for to in 0..self.shards.len() {
                self.push(from, to, Message::Mark(mark));
            }
        }
        for dropped in out.dropped {
            match dropped.reason {
                DropReason::Expired => {}
                DropReason::NoWindow
                | DropReason::Closed
                | DropReason::Refused
                | DropReason::Overflow => continue,
            }
            let stage = &self.plan.stages[dropped.stage.index()];
            let name = stage.name.strip_suffix("/all").unwrap_or(&stage.name);
            let key = KeyValues(stage.key.values(&dropped.key, &self.symbols));
            *self.dropped.entry((name.into(), key)).or_default() += 1;
        }
        for batch in out.panes {
            self.check_order(from, &batch);
            self.see(&batch);
        }
        for batch in out.late {
            self.list(&batch);
        }
        if self.shards[from].is_firing() {
            return;
        }
        let passed = self.shards[from].passed();
        assert!(self.passed[from] <= passed, "{WM_1}: {passed} after {}", self.passed[from]);
        self.passed[from] = passed;
    }

    /// What a sink asks of every pane: that no watermark has come before it that it is behind of.
    fn check_order(&self, from: usize, batch: &PaneBatch) {
        let passed = self.passed[from];
        let stage = &self.plan.stages[batch.stage.index()];
        let overtaken = batch.panes.iter().find(|pane| is_behind(stage, pane, passed));
        assert!(overtaken.is_none(), "{ORDER_1}: {passed} has passed before {overtaken:?}");
    }

    fn list(&mut self, batch: &LateBatch) {
        let stage = &self.plan.stages[batch.stage.index()];
        for copy in batch.iter() {
            let place = place_of(stage, (copy.key, copy.window), &self.symbols);
            let record = copy.position.offset as usize;
            self.late.push(Listed { reason: copy.reason, record, place });
        }
    }

    /// Copies that triggers have kept out.
    pub(crate) fn closed(&self) -> Closed {
        let closed = self.late.iter().filter(|late| late.reason == LateReason::Closed);
        closed.map(|late| (late.record, late.place.clone())).collect()
    }

    /// Copies that were dropped for this reason, by place.
    pub(crate) fn listed(&self, reason: LateReason) -> BTreeMap<Place, u64> {
        let mut places = BTreeMap::new();
        for late in self.late.iter().filter(|late| late.reason == reason) {
            *places.entry(late.place.clone()).or_default() += 1;
        }
        places
    }

    fn see(&mut self, batch: &PaneBatch) {
        let stage = &self.plan.stages[batch.stage.index()];
        for (meta, key, words) in batch.iter(stage.key.words(), stage.aggregates.words()) {
            let values = (0..stage.aggregates.accumulators().len())
                .map(|index| stage.aggregates.result(words, index, &self.symbols));
            self.panes.push(Seen {
                stage: batch.stage,
                key: KeyValues(stage.key.values(key, &self.symbols)),
                meta: *meta,
                values: values.collect(),
            });
        }
    }

    /// Whether no shard holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(Shard::is_empty)
    }

    /// What the sequences of all shards keep.
    pub(crate) fn sequence(&self) -> SequenceUse {
        let mut all = SequenceUse::default();
        let used = self.shards.iter().flat_map(Shard::sequences);
        used.for_each(|(_, used)| all.merge(&used));
        all
    }

    /// Accounts by stage, over all shards.
    pub(crate) fn accounts(&self) -> Vec<StageAccount> {
        let mut all = vec![StageAccount::default(); self.plan.stages.len()];
        for shard in &self.shards {
            for (sum, account) in all.iter_mut().zip(shard.accounts()) {
                sum.merge(&account);
            }
        }
        all
    }
}
