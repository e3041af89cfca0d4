//! A whole node on one thread: the machines that actors are shells around, their mailboxes, a virtual
//! clock, and a seed that decides who does what next.
//!
//! A mailbox is what it is in production: one queue per receiver, to which a sender appends at once.
//! What threads leave to chance is left to chance here: who handles a message next, and when each
//! of the messages that a step gives is appended, one by one, while others append theirs. So order
//! per sender and receiver is kept, causes come before effects, and nothing else is promised: it is
//! what `actors::deliver` argues from.
//!
//! Room for what comes later: a store and a crash are two more of [`Who`], and a step that makes
//! new machines.

use crate::dice::Dice;
use crate::letters::{Covered, Letter, Who};
use crate::options::Options;
use crate::partition::Partition;
use crate::probes::Probes;
use crate::watch::Watch;
use nilometer_model::batch::KeyValues;
use nilometer_model::expr::Refinement;
use nilometer_model::ingest::Ingest;
use nilometer_model::node::closing::Closing;
use nilometer_model::node::{
    CoordinatorNode, FromCoordinator, FromShard, FromSource, Route, ShardNode, ShardParts,
    SinkOrder, SourceNode, SourceParts,
};
use nilometer_model::pane::{PaneMeta, StageId};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::row::RowBatch;
use nilometer_model::shard::Shard;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::ProcessingTime;
use nilometer_model::value::Value;
use nilometer_model::watermark::{Coordinator, Estimation};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A pane as a sink reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) stage: StageId,
    pub(crate) key: KeyValues,
    pub(crate) meta: PaneMeta,
    pub(crate) values: Vec<Value>,
}

/// More steps than any run needs: beyond it something waits for ever.
const STEPS_MAX: usize = 40_000;
/// While so many messages wait the clock does not tick.
const WAITING: usize = 30;
/// Steps that are told of when a run fails.
const TRACE: usize = 50;
/// Numbers of the sinks.
pub(crate) const PANES: usize = 0;
pub(crate) const LATE: usize = 1;

/// What is done to a node to see whether it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// A mark overtakes what lies in the mailbox of a shard.
    MarkOvertakes,
    /// Records are lost on the way.
    RecordsLost,
    /// Panes are written twice.
    PanesTwice,
    /// Panes are lost on the way.
    PanesLost,
    /// A shard tells what has passed before it sends its panes.
    PassedOvertakes,
    /// Credits never come back.
    CreditsLost,
}

struct Source {
    node: SourceNode,
    partition: Partition,
    /// What was read and has not been handed on.
    batch: RowBatch,
    /// Records handed on.
    handed_on: u64,
    /// Whether it would read nothing new before the clock ticks.
    is_pending: bool,
}

/// A node.
pub(crate) struct World {
    pub(crate) options: Options,
    symbols: Arc<Symbols>,
    dice: Dice,
    now: i64,
    coordinator: CoordinatorNode,
    covered: Covered,
    sources: Vec<Source>,
    pub(crate) shards: Vec<ShardNode<usize>>,
    sinks: Vec<SinkOrder>,
    open_sinks: usize,
    mailboxes: BTreeMap<Who, VecDeque<Letter>>,
    /// What a step has given and is not appended yet, by sender.
    sends: BTreeMap<Who, VecDeque<(Who, Letter)>>,
    pub(crate) watch: Watch,
    pub(crate) probes: Probes,
    trace: VecDeque<String>,
    sabotage: Option<Sabotage>,
}

impl World {
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let mut dice = Dice::new(seed);
        let options = Options::draw(&mut dice);
        let (plan, symbols) = (options.plan.clone(), Arc::new(Symbols::default()));
        let watermarks: Vec<_> =
            options.watermarks.iter().map(|settings| Estimation::from(*settings)).collect();
        let is_in_step = options.rules.reads_in_step(watermarks.iter());
        let patience: Vec<_> = options.watermarks.iter().map(|one| one.idle_after).collect();
        let rules = plan.engine.heeds(options.rules);
        let coordinator = Coordinator::new(rules, &patience, plan.shares.len());
        let counts = (options.partitions.len(), options.shards);
        let refinement = Arc::new(Refinement::bind(&[], None, &plan.row, &symbols).unwrap());
        let partitions = options.partitions.iter().cloned().zip(watermarks).zip(0_u32..);
        let source = |((partition, watermark), number)| {
            let ways = (symbols.clone(), refinement.clone());
            let ingest = Ingest::new(&plan, ways.0, ways.1, watermark, options.shards);
            let (engine, limits) = (plan.engine, options.limits);
            let parts = SourceParts { partition: number, ingest, engine, limits, is_in_step };
            Source {
                node: SourceNode::new(parts),
                partition,
                batch: RowBatch::new(plan.row.clone()),
                handed_on: 0,
                is_pending: false,
            }
        };
        let exchanges = plan.stages.iter().filter(|stage| stage.exchange.is_some()).count();
        let shard = |id| {
            ShardNode::new(ShardParts {
                shard: Shard::new(plan.clone(), symbols.clone(), id, options.shards),
                closing: Closing::new(options.shards, exchanges),
                limits: options.limits,
                routes: routes(&plan),
            })
        };
        Self {
            coordinator: CoordinatorNode::new(coordinator, plan.engine, counts.0, counts.1),
            covered: Arc::new(vec![0; counts.0]),
            sources: partitions.map(source).collect(),
            shards: (0..options.shards).map(shard).collect(),
            sinks: vec![SinkOrder::new(&plan, options.shards); 2],
            open_sinks: 2,
            mailboxes: BTreeMap::new(),
            sends: BTreeMap::new(),
            watch: Watch::new(plan.clone(), symbols.clone(), options.shards),
            probes: Probes::default(),
            trace: VecDeque::new(),
            now: options.now,
            sabotage,
            symbols,
            dice,
            options,
        }
    }

    /// Runs until everybody has ended.
    pub(crate) fn run(&mut self) {
        self.tick();
        let mut steps = 0;
        while self.open_sinks > 0 {
            self.step();
            steps += 1;
            assert!(steps < STEPS_MAX, "LIVENESS: it goes on for ever");
        }
        while self.able().next().is_some() {
            self.step();
        }
        self.watch.end(&self.coordinator);
    }

    /// The last steps, for people.
    pub(crate) fn trace(&self) -> String {
        self.trace.iter().map(|step| format!("{step}\n")).collect()
    }

    /// Those who can do something.
    fn able(&self) -> impl Iterator<Item = Who> {
        let senders = self.sends.iter().filter(|(_, sends)| !sends.is_empty()).map(|(who, _)| *who);
        let is_free = |who: &Who| self.sends.get(who).is_none_or(VecDeque::is_empty);
        let readers = self.mailboxes.iter().filter(move |(who, mailbox)| {
            !mailbox.is_empty() && is_free(who) && !self.only_waits(**who, mailbox)
        });
        senders.chain(readers.map(|(who, _)| *who))
    }

    /// Whether all that a source could do is to look once more where nothing is.
    fn only_waits(&self, who: Who, mailbox: &VecDeque<Letter>) -> bool {
        let Who::Source(number) = who else { return false };
        let source = &self.sources[number];
        let is_turn = mailbox.len() == 1 && matches!(mailbox[0], Letter::Turn);
        is_turn && source.is_pending && !source.partition.has_news(self.now)
    }

    fn step(&mut self) {
        let able: Vec<_> = self.able().collect();
        // A clock that ticked faster than anybody can listen would never let the input end.
        let waiting: usize = self.mailboxes.values().map(VecDeque::len).sum();
        let is_clocks_turn = waiting < WAITING && self.dice.one_in(self.options.tick_in);
        let is_ticking = self.sends.get(&Who::Clock).is_some_and(|sends| !sends.is_empty());
        if able.is_empty() {
            // Nothing happens for a while.
            self.now += self.dice.between(0, 20);
        }
        if able.is_empty() || is_clocks_turn && !is_ticking {
            return self.tick();
        }
        let mut who = self.dice.pick(&able);
        let is_slow = |who: Who| match who {
            Who::Sink(_) => self.options.is_slow.0,
            Who::Shard(_) => self.options.is_slow.1,
            Who::Coordinator | Who::Source(_) | Who::Clock => false,
        };
        if is_slow(who) && !self.dice.one_in(12) {
            who = self.dice.pick(&able);
        }
        if let Some((to, letter)) = self.sends.get_mut(&who).and_then(VecDeque::pop_front) {
            return self.append(who, to, letter);
        }
        let letter = self.mailboxes.get_mut(&who).and_then(VecDeque::pop_front).unwrap();
        self.note(format!("{who:?} handles {}", letter.told()));
        match who {
            Who::Coordinator => self.coordinator_handles(letter),
            Who::Source(number) => self.source_handles(number, letter),
            Who::Shard(number) => self.shard_handles(number, letter),
            Who::Sink(number) => self.sink_handles(number, letter),
            Who::Clock => panic!("the clock has no mailbox"),
        }
    }

    fn note(&mut self, step: String) {
        if self.trace.len() >= TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(step);
    }

    fn append(&mut self, from: Who, to: Who, letter: Letter) {
        let mailbox = self.mailboxes.entry(to).or_default();
        let is_hit = match (self.sabotage, &letter) {
            (Some(Sabotage::RecordsLost), Letter::Records { .. })
            | (Some(Sabotage::PanesTwice | Sabotage::PanesLost), Letter::Panes { .. })
            | (Some(Sabotage::CreditsLost), Letter::Returned(_)) => self.dice.one_in(3),
            (Some(Sabotage::MarkOvertakes), Letter::Marked(..))
            | (Some(Sabotage::PassedOvertakes), Letter::Passed { .. }) => true,
            _ => false,
        };
        if !is_hit {
            return mailbox.push_back(letter);
        }
        match self.sabotage {
            Some(Sabotage::PanesTwice) => mailbox.extend([letter.clone(), letter]),
            Some(Sabotage::MarkOvertakes | Sabotage::PassedOvertakes) => {
                mailbox.push_front(letter);
            }
            Some(Sabotage::RecordsLost | Sabotage::PanesLost | Sabotage::CreditsLost) | None => {
                self.note(format!("{from:?} loses {}", letter.told()));
            }
        }
    }

    /// Puts a message behind what `from` still has to send.
    fn send(&mut self, from: Who, to: Who, letter: Letter) {
        self.sends.entry(from).or_default().push_back((to, letter));
    }

    fn send_shards(&mut self, from: Who, letter: &Letter) {
        for shard in 0..self.shards.len() {
            self.send(from, Who::Shard(shard), letter.clone());
        }
    }

    /// The clock goes on, or back; it tells everybody in the order in which the real one does.
    fn tick(&mut self) {
        let before = self.now;
        self.now += self.dice.between(0, self.options.tick);
        if self.options.clock_jumps && self.dice.one_in(8) {
            self.now += self.dice.between(-30, 60);
        }
        if self.now < before {
            self.probes.hit("clock goes back");
        }
        let tick = Letter::Tick(ProcessingTime::from_millis(self.now));
        self.note(format!("the clock says {}", self.now));
        self.send(Who::Clock, Who::Coordinator, tick.clone());
        self.send_shards(Who::Clock, &tick);
        for source in 0..self.sources.len() {
            self.sources[source].is_pending = false;
            self.send(Who::Clock, Who::Source(source), tick.clone());
        }
    }

    fn coordinator_handles(&mut self, letter: Letter) {
        let node = &mut self.coordinator;
        match letter {
            Letter::Tick(now) => node.tick(now),
            Letter::Progress { report, handed_on } => {
                let covered = Arc::make_mut(&mut self.covered);
                let known = &mut covered[report.partition as usize];
                *known = handed_on.max(*known);
                node.progress(&report);
            }
            Letter::Waiting { partition, head, watermark } => {
                node.waiting(partition, head, watermark);
            }
            Letter::Cut { partition, after } => node.cut(partition, after),
            Letter::Ended(partition) => node.ended(partition),
            Letter::CycleFinished { shard, number } => node.cycle_finished(shard, number),
            other => panic!("not for a coordinator: {other:?}"),
        }
        self.watch.coordinator(&self.coordinator, &mut self.probes);
        let from = Who::Coordinator;
        for send in self.coordinator.take_sends() {
            match send {
                FromCoordinator::Marked(mark) => {
                    let covered = self.covered.clone();
                    self.send_shards(from, &Letter::Marked(mark, covered));
                }
                FromCoordinator::Granted { partition, others } => {
                    self.send(from, Who::Source(partition as usize), Letter::Granted(others));
                }
                FromCoordinator::CycleBegun(number) => {
                    self.probes.hit("cycle of micro-batches");
                    for source in 0..self.sources.len() {
                        self.send(from, Who::Source(source), Letter::CycleBegun(number));
                    }
                }
                FromCoordinator::StandsStill(_) | FromCoordinator::Ended(_) => {}
            }
        }
    }

    fn source_handles(&mut self, number: usize, letter: Letter) {
        let (partition, now) = (number as u32, self.now);
        let source = &mut self.sources[number];
        let taken = match letter {
            Letter::Tick(now) => {
                source.node.tick(now);
                None
            }
            Letter::Turn => source.node.turn().map(|room| {
                let place = (&self.options.job, partition);
                let Source { node, partition, batch, is_pending, .. } = &mut *source;
                // A reader may give less than it could.
                let room = self.dice.between(1, room.max(1) as i64) as usize;
                let stand = partition.poll((room, now), batch, place, &self.symbols);
                *is_pending = batch.is_empty();
                node.read(batch, stand)
            }),
            Letter::Returned(credit) => {
                source.node.returned(credit);
                None
            }
            Letter::Granted(others) => Some(source.node.granted(&mut source.batch, others)),
            Letter::CycleBegun(number) => {
                source.node.cycle_begun(number);
                None
            }
            other => panic!("not for a source: {other:?}"),
        };
        if source.node.is_out_of_credits() {
            self.probes.hit("source is out of credits");
        }
        if let Some(taken) = taken {
            self.watch.taken(&taken, &mut self.probes);
        }
        let from = Who::Source(number);
        for send in self.sources[number].node.take_sends() {
            match send {
                FromSource::Turn => self.send(from, from, Letter::Turn),
                FromSource::Records { shard, batch, credit } => {
                    self.sources[number].handed_on += batch.len() as u64;
                    self.watch.handed_on(number, &batch);
                    let letter = Letter::Records { batch, credit, source: number };
                    self.send(from, Who::Shard(shard), letter);
                }
                FromSource::Progress(report) => {
                    let handed_on = self.sources[number].handed_on;
                    self.send(from, Who::Coordinator, Letter::Progress { report, handed_on });
                }
                FromSource::Waiting { head, watermark } => {
                    let letter = Letter::Waiting { partition, head, watermark };
                    self.send(from, Who::Coordinator, letter);
                }
                FromSource::Cut { after } => {
                    self.send(from, Who::Coordinator, Letter::Cut { partition, after });
                }
                FromSource::Ended { is_finished } => {
                    assert!(is_finished, "nobody has stopped it");
                    self.send(from, Who::Coordinator, Letter::Ended(partition));
                }
            }
        }
    }

    fn shard_handles(&mut self, number: usize, letter: Letter) {
        self.watch.before(number, &letter, &self.options, &mut self.probes);
        let node = &mut self.shards[number];
        let (mut is_tick, mut owes, mut told) = (false, false, None);
        match letter {
            Letter::Tick(now) => {
                is_tick = true;
                node.tick(now);
            }
            Letter::Records { batch, credit, source } => {
                owes = true;
                node.records(&batch, credit, source);
            }
            Letter::Marked(mark, _) => node.marked(mark),
            Letter::Exchanged { deltas, bytes, sender } => {
                node.exchanged(&deltas);
                // Behind what the step gives.
                told = Some((sender, bytes));
            }
            Letter::StageMarked(mark) => node.stage_marked(&mark),
            Letter::Closed(round) => node.closed(round),
            Letter::Handled(bytes) => node.handled(bytes),
            other => panic!("not for a shard: {other:?}"),
        }
        let sends = node.take_sends();
        let is_returned = |send: &FromShard<usize>| matches!(send, FromShard::Returned { .. });
        if owes && !sends.iter().any(is_returned) {
            self.probes.hit("shard keeps credits while its output waits");
        }
        if is_tick && sends.iter().any(|send| matches!(send, FromShard::Panes { .. })) {
            self.probes.hit("pane because the clock ticked");
        }
        for send in sends {
            self.shard_sends(number, send);
        }
        if let Some((sender, bytes)) = told {
            self.send(Who::Shard(number), Who::Shard(sender), Letter::Handled(bytes));
        }
        self.watch.after(number, self.shards[number].shard());
    }

    fn shard_sends(&mut self, shard: usize, send: FromShard<usize>) {
        let from = Who::Shard(shard);
        match send {
            FromShard::Panes { sink, panes, bytes } => {
                self.send(from, Who::Sink(sink), Letter::Panes { panes, bytes, shard });
            }
            FromShard::Late { sink, late, bytes } => {
                self.send(from, Who::Sink(sink), Letter::Late { late, bytes, shard });
            }
            FromShard::Exchanged { to, deltas, bytes } => {
                if to != shard {
                    self.probes.hit("deltas go from one shard to another");
                }
                self.send(from, Who::Shard(to), Letter::Exchanged { deltas, bytes, sender: shard });
            }
            FromShard::StageMarked(mark) => self.send_shards(from, &Letter::StageMarked(mark)),
            FromShard::Passed(watermark) => {
                for sink in 0..self.sinks.len() {
                    self.send(from, Who::Sink(sink), Letter::Passed { shard, watermark });
                }
            }
            FromShard::PassedAll => {
                for sink in 0..self.sinks.len() {
                    self.send(from, Who::Sink(sink), Letter::PassedAll);
                }
            }
            FromShard::CycleFinished(number) => {
                self.send(from, Who::Coordinator, Letter::CycleFinished { shard, number });
            }
            FromShard::Closed { round } => {
                self.probes.hit("round of closing");
                self.send_shards(from, &Letter::Closed(round));
            }
            FromShard::Returned { to, credit } => {
                self.send(from, Who::Source(to), Letter::Returned(credit));
            }
            FromShard::Failed(error) => panic!("a shard fails: {error}"),
            FromShard::Ended => {}
        }
    }

    fn sink_handles(&mut self, number: usize, letter: Letter) {
        let order = &mut self.sinks[number];
        match letter {
            Letter::Panes { panes, bytes, shard } => {
                assert_eq!(number, PANES);
                self.watch.panes(shard, &panes, order, &mut self.probes);
                self.send(Who::Sink(number), Who::Shard(shard), Letter::Handled(bytes));
            }
            Letter::Late { late, bytes, shard } => {
                assert_eq!(number, LATE);
                self.watch.late(shard, &late, &mut self.probes);
                self.send(Who::Sink(number), Who::Shard(shard), Letter::Handled(bytes));
            }
            Letter::Passed { shard, watermark } => {
                self.watch.passed((number, shard), watermark);
                order.passed(shard, watermark);
            }
            Letter::PassedAll => {
                if order.ended() {
                    self.open_sinks -= 1;
                }
            }
            other => panic!("not for a sink: {other:?}"),
        }
    }
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
