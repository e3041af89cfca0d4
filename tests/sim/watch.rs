//! What always holds, looked at after every step; and what is needed to judge the end.
//!
//! Every check names the invariant that it is of (`model::invariant`).

use crate::letters::{Covered, Letter};
use crate::options::{Options, TEN_YEARS};
use crate::probes::Probes;
use crate::sequences;
use crate::sinks::place_of;
use crate::world::{PANES, Seen};
use nilometer_model::batch::{Arrival, KeyValues, Place, Record};
use nilometer_model::epoch::Epoch;
use nilometer_model::ingest::Taken;
use nilometer_model::invariant::{
    CLOCK_1, GC_1, LATE_1, ORDER_1, PANE_1, PANE_2, POS_1, SHARD_1, WM_1,
};
use nilometer_model::key::{KeyGroup, Router};
use nilometer_model::late::{LateBatch, LateReason};
use nilometer_model::node::{CoordinatorNode, Mark, SinkOrder};
use nilometer_model::pane::{PaneBatch, PaneKind, PaneMeta, StageId, Timing};
use nilometer_model::plan::{Plan, StageKind};
use nilometer_model::row::{Position, RowBatch};
use nilometer_model::shard::Shard;
use nilometer_model::symbol::Symbols;
use nilometer_model::tick::Tick;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::watermark::PartitionState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Tells the key group of a record: each is as a shard of its own.
fn router(plan: &Plan) -> Router {
    Router::from_row(&plan.row, &plan.shard_by, plan.key_groups, plan.key_groups.into())
}

/// Numbers of outputs.
fn numbers(range: std::ops::Range<usize>) -> Vec<u32> {
    range.map(|number| number as u32).collect()
}

/// A window copy that came late: of which key group, why, of which record, and where it would have
/// gone.
pub(crate) struct Listed {
    pub(crate) group: usize,
    pub(crate) reason: LateReason,
    /// Number of the record among all of the run.
    pub(crate) record: usize,
    pub(crate) place: Place,
}

/// What a shard has handled of a key group.
#[derive(Debug, Clone)]
pub(crate) struct Handled {
    /// Number of the record among all of the run; of a watermark none.
    pub(crate) record: usize,
    pub(crate) position: Position,
    /// Number of the message with which it came.
    pub(crate) letter: u64,
    pub(crate) arrival: Arrival,
}

/// What is known of a run.
pub(crate) struct Watch {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    given: Watermark,
    /// By record: its partition and its number among those that the partition has handed on.
    handed_on: BTreeMap<u64, (usize, u64)>,
    counts: BTreeMap<usize, u64>,
    /// By shard: how many records of each partition the last mark lay behind.
    covered: Vec<Covered>,
    /// By key group: what the shard that has it has handled of it, in order. Shards come and go, key
    /// groups stay.
    pub(crate) logs: Vec<Vec<Handled>>,
    /// Messages with records that were handled.
    letters: u64,
    /// What shards kept of sessions.
    pub(crate) kept: sequences::Kept,
    /// The key group of each record that has been handled.
    groups: BTreeMap<usize, usize>,
    router: Router,
    /// By exchanged stage, receiver and sender: the last mark.
    stage_marks: BTreeMap<(StageId, usize, usize), Watermark>,
    /// By sink and shard.
    passed: BTreeMap<(usize, usize), Watermark>,
    /// By stage and key.
    owners: BTreeMap<(StageId, KeyValues), usize>,
    last: Last,
    expired: BTreeSet<Place>,
    /// All that was ever written, also by processes whose work was lost.
    pub(crate) panes: Vec<Seen>,
    pub(crate) late: Vec<Listed>,
    /// What was known where epochs were cut.
    cuts: BTreeMap<Epoch, Cut>,
    /// By stage and what a tick says: for how long the clock had run. Cleared with each process.
    lived: BTreeMap<(StageId, Span), Span>,
}

/// What is known of a run where an epoch was cut.
#[derive(Debug, Clone, Default)]
struct Cut {
    /// By source: how many records it had handed on in this process.
    handed_on: BTreeMap<usize, u64>,
    /// By source: how many records it had read, and how many of them it had rejected.
    read: BTreeMap<usize, (u64, u64)>,
    /// By key group: how much of it had been handled.
    handled: BTreeMap<usize, usize>,
    /// By shard: what the last mark lay behind.
    covered: BTreeMap<usize, Covered>,
    last: Last,
    expired: BTreeSet<Place>,
}

/// By stage, key, kind and window: index and timing of the last pane.
type Last = BTreeMap<(StageId, KeyValues, bool, nilometer_model::time::Window), (u32, Timing)>;

/// Whether it is a record, and not a watermark.
pub(crate) fn is_record(handled: &Handled) -> bool {
    matches!(handled.arrival, Arrival::Record(_))
}

impl Watch {
    pub(crate) fn new(options: &Options, symbols: Arc<Symbols>) -> Self {
        let (shards, groups) = (options.shards, options.plan.key_groups);
        Self {
            plan: options.plan.clone(),
            symbols,
            given: Watermark::MIN,
            handed_on: BTreeMap::new(),
            counts: BTreeMap::new(),
            covered: vec![Arc::default(); shards],
            logs: vec![Vec::new(); groups.into()],
            letters: 0,
            kept: sequences::Kept::new(),
            groups: BTreeMap::new(),
            router: router(&options.plan),
            stage_marks: BTreeMap::new(),
            passed: BTreeMap::new(),
            owners: BTreeMap::new(),
            last: BTreeMap::new(),
            expired: BTreeSet::new(),
            panes: Vec::new(),
            late: Vec::new(),
            cuts: BTreeMap::new(),
            lived: BTreeMap::new(),
        }
    }

    /// The coordinator has handled a message.
    pub(crate) fn coordinator(&mut self, node: &CoordinatorNode, probes: &mut Probes) {
        let standing = node.machine().standing();
        assert!(self.given <= standing.watermark, "{WM_1}: {} falls", self.given);
        self.given = standing.watermark;
        for partition in &standing.partitions {
            match partition.state {
                PartitionState::Idle if partition.head == EventTime::MIN => {
                    probes.hit("idle partition that never spoke");
                }
                PartitionState::Idle => probes.hit("idle partition"),
                PartitionState::CatchingUp => probes.hit("idle partition wakes"),
                PartitionState::Active | PartitionState::Finished => {}
            }
            if partition.is_waiting {
                probes.hit("partition waits for one that is behind");
            }
        }
    }

    /// A source has taken what it read.
    pub(crate) fn taken(&mut self, taken: &Taken, probes: &mut Probes) {
        let rejected = taken.too_far.len() as u64;
        if rejected > 0 {
            probes.hit("record too far in the future, rejected");
        }
        if taken.marks.clamped > rejected {
            probes.hit("record too far in the future, kept");
        }
    }

    /// A source hands on records.
    pub(crate) fn handed_on(&mut self, source: usize, batch: &RowBatch) {
        let count = self.counts.entry(source).or_default();
        for index in 0..batch.len() {
            self.handed_on.insert(batch.position(index).offset, (source, *count));
        }
        // Those of one batch are covered together.
        *count += batch.len() as u64;
    }

    /// A shard has heard of a tick.
    pub(crate) fn lived(&mut self, tick: Tick, shard: &Shard) {
        for (stage, active) in shard.active() {
            let of_others = *self.lived.entry((stage, tick.active())).or_insert(active);
            assert_eq!(active, of_others, "{CLOCK_1}: {tick:?}");
        }
    }

    /// A shard is about to handle a message.
    pub(crate) fn before(
        &mut self,
        shard: usize,
        letter: &Letter,
        options: &Options,
        probes: &mut Probes,
    ) {
        match letter {
            Letter::Records { batch, .. } => self.records(shard, batch, options, probes),
            Letter::Marked { mark, covered, .. } => {
                self.covered[shard] = covered.clone();
                let watermark = match mark {
                    Mark::Watermark(watermark) => *watermark,
                    Mark::Cycle(cycle) => cycle.watermark,
                    Mark::Shares(_) | Mark::Signal(_) | Mark::End => return,
                };
                for group in self.groups_of(shard) {
                    self.logs[group].push(Handled {
                        record: usize::MAX,
                        position: Position { partition: 0, offset: 0 },
                        letter: self.letters,
                        arrival: Arrival::Watermark(watermark),
                    });
                }
            }
            Letter::StageMarked(mark) => {
                let place = (mark.stage, shard, mark.from);
                let last = self.stage_marks.insert(place, mark.watermark);
                let last = last.unwrap_or(Watermark::MIN);
                assert!(last <= mark.watermark, "{WM_1}: {mark:?} after {last}");
                let others = self
                    .stage_marks
                    .iter()
                    .filter(|((stage, to, _), _)| (*stage, *to) == (mark.stage, shard));
                if others.clone().any(|(_, watermark)| *watermark != mark.watermark) {
                    probes.hit("senders of an exchange stand apart");
                }
            }
            _ => {}
        }
    }

    fn records(&mut self, shard: usize, batch: &RowBatch, options: &Options, probes: &mut Probes) {
        self.letters += 1;
        for index in 0..batch.len() {
            let number = batch.position(index).offset;
            let (source, count) = self.handed_on[&number];
            let covered = self.covered[shard].get(source).copied().unwrap_or(0);
            assert!(count >= covered, "{ORDER_1}: record {number} comes behind a mark over it");
            let entries = &options.partitions[source].entries;
            let entry = entries.iter().find(|entry| entry.number as u64 == number).unwrap();
            let times = entries.iter().map(|entry| entry.record.time.as_millis());
            let lowest = times.min().unwrap_or(0);
            if entry.record.time.as_millis().saturating_sub(lowest) > TEN_YEARS / 2 {
                probes.hit("record that jumps ten years");
            }
            // Where records take the time of their arrival, that is their time.
            let record = Record { time: batch.time(index), values: entry.record.values.clone() };
            let group = self.router.shard(batch.row(index), &self.symbols);
            self.groups.insert(number as usize, group);
            self.logs[group].push(Handled {
                record: number as usize,
                position: batch.position(index),
                letter: self.letters,
                arrival: Arrival::Record(record),
            });
        }
    }

    /// The key groups that a shard has.
    fn groups_of(&self, shard: usize) -> impl Iterator<Item = usize> + use<> {
        let (groups, shards) = (self.plan.key_groups, self.covered.len());
        let has = move |group: &u16| KeyGroup(*group).shard(groups, shards) == shard;
        (0..groups).filter(has).map(usize::from)
    }

    /// A shard has handled a message.
    pub(crate) fn after(&mut self, number: usize, shard: &Shard, probes: &mut Probes) {
        let passed = shard.passed();
        for (stage, key, window) in shard.windows() {
            let stage = &self.plan.stages[stage.index()];
            let expires = match &stage.sequence {
                Some(sequence) => sequences::kept_until(&sequence.spec, stage, window.start()),
                None => {
                    let complete = stage.window.complete_at(window);
                    complete.saturating_add(stage.allowed_lateness)
                }
            };
            assert!(
                expires > passed.0,
                "{GC_1}: shard {number} keeps {window} of {} {key:?} at {passed}",
                stage.name
            );
        }
        for (stage, used) in shard.sequences() {
            if let Some(sequence) = &self.plan.stages[stage.index()].sequence {
                let bounds = (&*sequence.spec, self.covered.len());
                sequences::after(bounds, (number, used), &mut self.kept);
                if used.cold > 0 {
                    probes.hit("sessions lie in pages");
                }
            }
        }
        if shard.is_full() {
            probes.hit("source waits for room for a session");
        }
    }

    /// A sink takes panes.
    pub(crate) fn panes(
        &mut self,
        shard: usize,
        batch: &PaneBatch,
        order: &SinkOrder,
        probes: &mut Probes,
    ) -> Vec<u32> {
        let first = self.panes.len();
        if let Err(overtaken) = order.panes(shard, batch) {
            panic!("{ORDER_1}: {overtaken:?}");
        }
        let plan = self.plan.clone();
        let stage = &plan.stages[batch.stage.index()];
        let mut taken_back = None;
        for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
            let key = KeyValues(stage.key.values(key, &self.symbols));
            let results = (0..stage.aggregates.accumulators().len())
                .map(|index| stage.aggregates.result(values, index, &self.symbols));
            let values: Vec<_> = results.collect();
            self.owned((stage.id, key.clone()), shard, stage.kind);
            if let Some(sequence) = &stage.sequence {
                sequences::told(&sequence.spec, (meta, &values), probes);
                self.panes.push(Seen { stage: stage.id, key, meta: *meta, values });
                continue;
            }
            match meta.kind {
                PaneKind::Retract => {
                    probes.hit("pane taken back");
                    taken_back = stage.window.is_merging().then_some(meta.window);
                }
                PaneKind::Insert => {
                    if taken_back.take().is_some_and(|window| window != meta.window) {
                        probes.hit("session merged away and taken back");
                    }
                    match meta.timing {
                        Timing::Early => probes.hit("early pane"),
                        Timing::Late => probes.hit("late pane"),
                        Timing::TimedOut => probes.hit("pane of a window that timed out"),
                        Timing::OnTime => {}
                    }
                    if stage.kind != StageKind::TopK {
                        self.follow((stage.id, key.clone()), meta);
                    }
                }
            }
            self.panes.push(Seen { stage: stage.id, key, meta: *meta, values });
        }
        numbers(first..self.panes.len())
    }

    /// A key is heard of from one shard only. The entries of a list are where their parent is.
    fn owned(&mut self, key: (StageId, KeyValues), shard: usize, kind: StageKind) {
        if kind != StageKind::TopK {
            let owner = *self.owners.entry(key).or_insert(shard);
            assert_eq!(owner, shard, "{SHARD_1}");
        }
    }

    fn follow(&mut self, (stage, key): (StageId, KeyValues), meta: &PaneMeta) {
        let place = (stage, key, meta.is_other, meta.window);
        let last = self.last.insert(place, (meta.index, meta.timing));
        match last {
            None => assert_eq!(meta.index, 0, "{PANE_2}: {meta:?}"),
            Some((index, timing)) => {
                assert_eq!(meta.index, index + 1, "{PANE_2}: {meta:?}");
                let may_follow = match timing {
                    Timing::Early => true,
                    Timing::OnTime | Timing::TimedOut | Timing::Late => meta.timing == Timing::Late,
                };
                assert!(may_follow, "{PANE_1}: {meta:?} after {timing:?}");
            }
        }
    }

    /// A sink takes late copies.
    pub(crate) fn late(&mut self, batch: &LateBatch, probes: &mut Probes) -> Vec<u32> {
        let first = self.late.len();
        let stage = &self.plan.stages[batch.stage.index()];
        for copy in batch.iter() {
            let place = place_of(stage, (copy.key, copy.window), &self.symbols);
            let is_alone = !stage.window.is_merging();
            match copy.reason {
                LateReason::Late => {
                    probes.hit("late record");
                    let was_expired = is_alone && self.expired.contains(&place);
                    assert!(!was_expired, "{LATE_1}: late after it has expired: {place:?}");
                }
                LateReason::Expired => {
                    probes.hit("expired record");
                    self.expired.insert(place.clone());
                }
                LateReason::Closed => probes.hit("closed record"),
                LateReason::Refused | LateReason::Overflow => {}
            }
            let record = copy.position.offset as usize;
            let group = self.groups[&record];
            self.late.push(Listed { group, reason: copy.reason, record, place });
        }
        numbers(first..self.late.len())
    }

    /// A shard has told a sink what has passed.
    pub(crate) fn passed(&mut self, place: (usize, usize), watermark: Watermark) {
        let last = self.passed.insert(place, watermark).unwrap_or(Watermark::MIN);
        assert!(last < watermark, "{WM_1}: {watermark} passes after {last}");
    }

    /// An epoch begins; one of the same number may have been lost.
    pub(crate) fn epoch_begun(&mut self, epoch: Epoch) {
        self.cuts.insert(epoch, Cut::default());
    }

    /// A source is cut: so many records it has handed on in this process, read, and rejected.
    pub(crate) fn source_cut(&mut self, epoch: Epoch, source: usize, counts: (u64, u64, u64)) {
        let (handed_on, read, rejected) = counts;
        let cut = self.cuts.entry(epoch).or_default();
        cut.handed_on.insert(source, handed_on);
        cut.read.insert(source, (read, rejected));
    }

    /// A shard is cut.
    pub(crate) fn shard_cut(&mut self, epoch: Epoch, shard: usize) {
        let groups = self.groups_of(shard);
        let cut = self.cuts.entry(epoch).or_default();
        cut.covered.insert(shard, self.covered[shard].clone());
        cut.handled.extend(groups.map(|group| (group, self.logs[group].len())));
    }

    /// A sink is cut.
    pub(crate) fn sink_cut(&mut self, epoch: Epoch, sink: usize) {
        let cut = self.cuts.entry(epoch).or_default();
        if sink == PANES {
            cut.last.clone_from(&self.last);
        } else {
            cut.expired.clone_from(&self.expired);
        }
    }

    /// All parts of an epoch are there.
    pub(crate) fn epoch_cut(&self, epoch: Epoch, options: &Options) {
        let cut = &self.cuts[&epoch];
        let mut handled = BTreeSet::new();
        for (shard, covered) in &cut.covered {
            for (source, known) in covered.iter().enumerate() {
                let handed_on = cut.handed_on[&source];
                assert!(
                    *known <= handed_on,
                    "{POS_1}: shard {shard} was told of {known} records of {source}, cut behind {handed_on}"
                );
            }
        }
        for (group, length) in &cut.handled {
            let records = self.logs[*group][..*length].iter();
            for Handled { record, .. } in records.filter(|one| is_record(one)) {
                assert!(handled.insert(*record), "{POS_1}: record {record} was handled twice");
            }
        }
        for (source, (read, rejected)) in &cut.read {
            let entries = &options.partitions[*source].entries;
            let before = entries.iter().take(*read as usize).map(|entry| entry.number);
            let count = before.filter(|number| handled.remove(number)).count() as u64;
            assert_eq!(count + rejected, *read, "{POS_1}: records of {source} before its cut");
        }
        assert!(handled.is_empty(), "{POS_1}: {handled:?} lie behind the cut of their source");
    }

    /// A process begins behind `epoch`: what was known then is known now.
    pub(crate) fn restart(&mut self, epoch: Epoch, shards: usize, coordinator: &CoordinatorNode) {
        let cut = self.cuts.get(&epoch).cloned().unwrap_or_default();
        for (group, log) in self.logs.iter_mut().enumerate() {
            log.truncate(cut.handled.get(&group).copied().unwrap_or(0));
        }
        if shards != self.covered.len() {
            self.owners.clear();
        }
        self.covered = vec![Arc::default(); shards];
        (self.last, self.expired) = (cut.last, cut.expired);
        self.given = coordinator.machine().watermark();
        self.lived.clear();
        self.handed_on.clear();
        self.counts.clear();
        self.kept.clear();
        self.stage_marks.clear();
        self.passed.clear();
    }

    /// The texts of another process.
    pub(crate) fn reads_with(&mut self, symbols: Arc<Symbols>) {
        self.symbols = symbols;
        // What it remembers is of the texts before.
        self.router = router(&self.plan);
    }

    /// Everybody has ended.
    pub(crate) fn end(&mut self, coordinator: &CoordinatorNode) {
        let watermark = coordinator.machine().watermark();
        assert_eq!(watermark, Watermark::MAX, "LIVENESS: the watermark has not come to the end");
    }
}
