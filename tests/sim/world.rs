//! A whole node on one thread: the machines that actors are shells around, their mailboxes, a virtual
//! clock, a disk, and a seed that decides who does what next.
//!
//! A mailbox is what it is in production: one queue per receiver, to which a sender appends at once.
//! What threads leave to chance is left to chance here: who handles a message next, and when each
//! of the messages that a step gives is appended, one by one, while others append theirs. So order
//! per sender and receiver is kept, causes come before effects, and nothing else is promised: it is
//! what `actors::deliver` argues from.
//!
//! Where state is stored, a process may end at any step (`endings`), and another one goes on with
//! what the disk and the outputs hold.

use crate::dice::Dice;
use crate::letters::{Letter, Who};
use crate::node::Node;
use crate::options::Options;
use crate::output::Output;
use crate::probes::Probes;
use crate::storing::Phase;
use crate::watch::Watch;
use nilometer_connectors::store::memory::Disk;
use nilometer_model::batch::KeyValues;
use nilometer_model::pane::{PaneMeta, StageId};
use nilometer_model::tick::Tick;
use nilometer_model::time::{ProcessingTime, Span};
use nilometer_model::value::Value;
use nilometer_model::watermark::WatermarkSpec;
use std::collections::VecDeque;

/// A pane as a sink reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) stage: StageId,
    pub(crate) key: KeyValues,
    pub(crate) meta: PaneMeta,
    pub(crate) values: Vec<Value>,
}

/// More steps than any process needs: beyond it something waits for ever. Most need some hundreds; of
/// 10,000 the longest took 48,000, with one record in flight and an epoch for each.
const STEPS_MAX: usize = 400_000;
/// While so many messages wait the clock does not tick.
const WAITING: usize = 30;
/// Ticks that are further apart say that the machine has slept; all `idle_after` are shorter.
pub(crate) const SLEEP: Span = Span::from_millis(1_000);
/// Steps that are told of when a run fails.
const TRACE: usize = 60;
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
    /// A barrier overtakes what lies in the mailbox of a shard.
    BarrierOvertakes,
    /// Marks do not wait for the cut, where sources are slow to begin one.
    MarkNotHeld,
    /// Records do not wait for the cut.
    RecordsNotHeld,
    /// What sinks have written is published when they are cut.
    PublishedEarly,
    /// An epoch is committed without one of its parts.
    PartMissing,
    /// A start does not publish what was not.
    NotRepublished,
}

/// A node, process after process.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) dice: Dice,
    pub(crate) now: i64,
    pub(crate) node: Node,
    pub(crate) disk: Disk,
    /// By sink.
    pub(crate) outputs: [Output; 2],
    pub(crate) watch: Watch,
    pub(crate) probes: Probes,
    /// How far the epoch in flight has come.
    pub(crate) phase: Phase,
    /// Processes that may still end before their end.
    pub(crate) endings: usize,
    /// Processes that may still die where they like to.
    pub(crate) deaths: usize,
    /// Whether this process has been asked to end, or cannot go on.
    pub(crate) is_stopping: bool,
    /// For so many steps the sink of panes still does nothing.
    hangs: usize,
    /// Whether its disk fills up.
    pub(crate) is_full: bool,
    /// Whether it has just been killed.
    pub(crate) is_dead: bool,
    trace: VecDeque<String>,
    pub(crate) sabotage: Option<Sabotage>,
}

impl World {
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let mut dice = Dice::new(seed);
        let options = Options::draw(&mut dice);
        let node = Node::new(&options, None, None);
        let can_be_cut = options.stored.map_or([false; 2], |stored| stored.can_be_cut);
        Self {
            watch: Watch::new(&options, node.symbols.clone()),
            outputs: can_be_cut.map(Output::new),
            disk: Disk::default(),
            probes: Probes::default(),
            phase: Phase::default(),
            endings: options.stored.map_or(0, |stored| stored.endings),
            deaths: 2,
            is_stopping: false,
            is_full: false,
            hangs: 0,
            is_dead: false,
            trace: VecDeque::new(),
            now: options.now,
            node,
            sabotage,
            dice,
            options,
        }
    }

    /// Runs until everybody has ended.
    pub(crate) fn run(&mut self) {
        let mut watermarks = self.options.watermarks.iter();
        if watermarks.any(|one| one.spec == WatermarkSpec::Punctuated) {
            self.probes.hit("punctuated partition");
        }
        self.start();
        while !self.comes_to_its_end() {
            self.start();
        }
        self.watch.end(&self.node.coordinator);
        if self.options.stored.is_some() && self.dice.one_in(4) {
            self.starts_again();
        }
    }

    /// Everything is done: another process finds nothing to do.
    fn starts_again(&mut self) {
        self.probes.hit("start behind the end");
        (self.endings, self.deaths) = (0, 0);
        let before = self.outputs.clone();
        self.start();
        assert!(self.comes_to_its_end());
        self.watch.end(&self.node.coordinator);
        for (before, after) in before.iter().zip(&self.outputs) {
            assert_eq!(
                before.settled(),
                after.settled(),
                "{}",
                nilometer_model::invariant::EPOCH_2
            );
        }
    }

    /// Lets a process live; `true` if it has done all there was to do.
    fn comes_to_its_end(&mut self) -> bool {
        self.tick();
        self.hangs = self.options.hangs;
        let mut steps = 0;
        while self.node.open_sinks > 0 || self.able().next().is_some() {
            self.step();
            if self.is_dead || self.dies() {
                self.crash();
                return false;
            }
            steps += 1;
            assert!(steps < STEPS_MAX, "LIVENESS: it goes on for ever");
        }
        !self.is_stopping
    }

    /// What somebody has read of the panes.
    pub(crate) fn published(&self) -> Vec<Seen> {
        let numbers = self.outputs[PANES].settled().into_iter();
        numbers.map(|number| self.watch.panes[number as usize].clone()).collect()
    }

    /// The last steps, for people.
    pub(crate) fn trace(&self) -> String {
        self.trace.iter().map(|step| format!("{step}\n")).collect()
    }

    /// Those who can do something.
    fn able(&self) -> impl Iterator<Item = Who> {
        let senders =
            self.node.sends.iter().filter(|(_, sends)| !sends.is_empty()).map(|(who, _)| *who);
        let is_hanging = self.hangs > 0;
        let is_free = |who: &Who| self.node.sends.get(who).is_none_or(VecDeque::is_empty);
        let readers = self.node.mailboxes.iter().filter(move |(who, mailbox)| {
            let may_take = !is_hanging || **who != Who::Sink(PANES);
            may_take && !mailbox.is_empty() && is_free(who) && !self.only_waits(**who, mailbox)
        });
        senders.chain(readers.map(|(who, _)| *who))
    }

    /// Whether all that a source could do is to look once more where nothing is.
    fn only_waits(&self, who: Who, mailbox: &VecDeque<Letter>) -> bool {
        let Who::Source(number) = who else { return false };
        let source = &self.node.sources[number];
        let is_turn = mailbox.len() == 1 && matches!(mailbox[0], Letter::Turn);
        is_turn && source.is_pending && !source.partition.has_news(self.now)
    }

    fn step(&mut self) {
        if self.hangs == 1 {
            self.probes.hit("sink that hangs comes back");
        }
        self.hangs = self.hangs.saturating_sub(1);
        let able: Vec<_> = self.able().collect();
        // A clock that ticked faster than anybody can listen would never let the input end.
        let waiting: usize = self.node.mailboxes.values().map(VecDeque::len).sum();
        let is_clocks_turn = waiting < WAITING && self.dice.one_in(self.options.tick_in);
        let is_ticking = self.node.sends.get(&Who::Clock).is_some_and(|sends| !sends.is_empty());
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
            Who::Coordinator | Who::Source(_) | Who::Store | Who::Clock | Who::Host => false,
        };
        if is_slow(who) && !self.dice.one_in(12) {
            who = self.dice.pick(&able);
        }
        if let Some((to, letter)) = self.node.sends.get_mut(&who).and_then(VecDeque::pop_front) {
            return self.append(who, to, letter);
        }
        let is_slow_to_cut = self.sabotage == Some(Sabotage::MarkNotHeld) && !self.dice.one_in(20);
        if is_slow_to_cut && matches!(self.node.mailboxes[&who][0], Letter::EpochBegun) {
            return;
        }
        let letter = self.node.mailboxes.get_mut(&who).and_then(VecDeque::pop_front).unwrap();
        self.note(format!("{who:?} handles {}", letter.told()));
        match who {
            Who::Coordinator => self.coordinator_handles(letter),
            Who::Source(number) => self.source_handles(number, letter),
            Who::Shard(number) => self.shard_handles(number, letter),
            Who::Sink(number) => self.sink_handles(number, letter),
            Who::Store => self.store_handles(letter),
            Who::Clock | Who::Host => panic!("{who:?} has no mailbox"),
        }
    }

    pub(crate) fn note(&mut self, step: String) {
        if self.trace.len() >= TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(step);
    }

    fn append(&mut self, from: Who, to: Who, letter: Letter) {
        let mailbox = self.node.mailboxes.entry(to).or_default();
        let is_hit = match (self.sabotage, &letter) {
            (Some(Sabotage::RecordsLost), Letter::Records { .. })
            | (Some(Sabotage::PanesTwice | Sabotage::PanesLost), Letter::Panes { .. })
            | (Some(Sabotage::CreditsLost), Letter::Returned(_)) => self.dice.one_in(3),
            (Some(Sabotage::MarkOvertakes), Letter::Marked { .. })
            | (Some(Sabotage::BarrierOvertakes), Letter::Barrier(_))
            | (Some(Sabotage::PassedOvertakes), Letter::Passed { .. }) => true,
            _ => false,
        };
        if !is_hit {
            return mailbox.push_back(letter);
        }
        match self.sabotage {
            Some(Sabotage::PanesTwice) => mailbox.extend([letter.clone(), letter]),
            Some(
                Sabotage::MarkOvertakes | Sabotage::PassedOvertakes | Sabotage::BarrierOvertakes,
            ) => mailbox.push_front(letter),
            _ => {
                self.note(format!("{from:?} loses {}", letter.told()));
            }
        }
    }

    /// Puts a message behind what `from` still has to send.
    pub(crate) fn send(&mut self, from: Who, to: Who, letter: Letter) {
        self.node.sends.entry(from).or_default().push_back((to, letter));
    }

    pub(crate) fn send_shards(&mut self, from: Who, letter: &Letter) {
        for shard in 0..self.node.shards.len() {
            self.send(from, Who::Shard(shard), letter.clone());
        }
    }

    pub(crate) fn send_sources(&mut self, from: Who, letter: &Letter) {
        for source in 0..self.node.sources.len() {
            self.send(from, Who::Source(source), letter.clone());
        }
    }

    pub(crate) fn send_sinks(&mut self, from: Who, letter: &Letter) {
        for sink in 0..self.node.sinks.len() {
            self.send(from, Who::Sink(sink), letter.clone());
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
        if self.options.sleeps && self.dice.one_in(8) {
            let slept_from = self.now;
            self.now += self.dice.between(SLEEP.as_millis() + 1, 3 * SLEEP.as_millis());
            let mut sources = self.node.sources.iter().map(|source| &source.partition);
            if sources.any(|known| !known.has_news(slept_from) && known.has_news(self.now)) {
                self.probes.hit("machine sleeps while records come");
            }
        }
        let tick = Tick::after(self.node.clock, ProcessingTime::from_millis(self.now));
        self.node.clock = Some(tick);
        let tick = Letter::Tick(tick);
        self.note(format!("the clock says {}", self.now));
        self.send(Who::Clock, Who::Coordinator, tick.clone());
        self.send_shards(Who::Clock, &tick);
        for source in 0..self.node.sources.len() {
            self.node.sources[source].is_pending = false;
            self.send(Who::Clock, Who::Source(source), tick.clone());
        }
    }
}
