//! Top-K stages: the largest entries of each parent key and window, by the window's total.
//!
//! A [`TopKTable`] keeps the exact total of every candidate until the window expires, so that late
//! data can lift an entry into the list; the one that it displaces is retracted. In every mode the
//! sum of what was sent for an entry is its total while it is listed, and zero otherwise. The
//! optional `other` entry is the total of all candidates less the listed ones, so that a list and
//! its `other` always sum to the parent. A firing looks at the listed and at what changed: a late
//! delta costs O(late data); only a listed entry that shrinks makes it look at all.

mod announce;
mod cold;

use announce::Announcement;

use crate::account::{DropReason, StageAccount};
use crate::aggregate::{AggregateLayout, Overflow, ValuesRef};
use crate::candidates::{CandidateLayout, Candidates, EntryId};
use crate::cells::hash_words;
use crate::cold::{Chills, Shelf};
use crate::firing::{Due, Fires, Flow};
use crate::image::Dirty;
use crate::intake::regroup;
use crate::key::{KeyLayout, KeyPacker};
use crate::late::Aside;
use crate::pane::{AccumulationMode, Deltas, PaneBatch, PaneKind, PaneMeta, Timing};
use crate::plan::{PaneCopy, PaneInput, Stage, TopK};
use crate::ranking::{self, Ranked};
use crate::symbol::Symbols;
use crate::table::{Fired, Rules};
use crate::time::{EventTime, Lateness, Watermark, Window, judge};
use crate::value::Datum;
use crate::window::WindowFn;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

/// Number of a group of candidates.
pub(crate) type GroupId = u32;

/// What was last sent for a listed entry, or for `other`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) values: Box<[u64]>,
    pub(crate) index: u32,
    pub(crate) timing: Timing,
}

/// An entry that is in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) entry: EntryId,
    pub(crate) rank: i128,
    pub(crate) sent: Sent,
}

/// One parent key in one window.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) parent: Box<[u64]>,
    pub(crate) window: Option<Window>,
    /// Total of all candidates, listed or not.
    pub(crate) total: Vec<u64>,
    /// Whatever may be listed.
    pub(crate) candidates: Candidates,
    /// The list as sinks know it, best first.
    pub(crate) listed: Vec<Listed>,
    /// Candidates with news since the firing before. Cleared by a firing.
    pub(crate) news: Vec<EntryId>,
    /// What came for each of them, accumulator words, if panes may have to tell it. Cleared by a
    /// firing.
    pub(crate) news_values: Vec<u64>,
    pub(crate) other: Option<Sent>,
    /// Index of the next firing.
    pub(crate) index: u32,
    /// Timing of the firing before, if one was emitted.
    pub(crate) sent: Option<Timing>,
    pub(crate) is_touched: bool,
    /// The deadline that it has registered.
    pub(crate) armed: Option<EventTime>,
    /// Whether something came since it was decided last which groups leave memory.
    pub(crate) is_used: bool,
    /// Bytes that it took when they were counted last.
    pub(crate) weight: usize,
}

/// Places that are kept for groups to come when the last one goes.
const GROUPS_KEPT: usize = 1_024;

/// A watermark on its way to the groups, slice by slice.
#[derive(Debug)]
struct Delivery {
    /// The watermark before it.
    before: Watermark,
    /// How many groups there were.
    groups: usize,
    /// Groups of a deadline that has come.
    due: Due<GroupId>,
}

/// All top-K actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct TopKTable {
    pub(crate) rules: Rules,
    pub(crate) spec: TopK,
    pub(crate) key: KeyLayout,
    pub(crate) layout: CandidateLayout,
    /// Groups by number; a number is used again once its group has expired.
    pub(crate) groups: Vec<Group>,
    free: Vec<GroupId>,
    /// Room of groups that have gone, for those that come: as much as groups came between the last
    /// two times that groups went.
    spare: Vec<Candidates>,
    /// Groups that came since groups went.
    come: usize,
    by_parent: HashTable<GroupId>,
    hasher: foldhash::fast::RandomState,
    /// Groups by the end of their window, then by its expiry. Cleared as the watermark passes.
    deadlines: BTreeMap<EventTime, Vec<GroupId>>,
    /// Groups with late news. Cleared at the end of the round.
    touched: Vec<GroupId>,
    /// The watermark before, while one is delivered, and the groups that are due. `None` between
    /// two rounds.
    delivery: Option<Delivery>,
    /// Groups that are asked one after the other. `None` between two rounds.
    asked: Option<Due<GroupId>>,
    pub(crate) watermark: Watermark,
    pub(crate) account: StageAccount,
    window: WindowFn,
    /// Whether the stage below fires before windows are complete.
    fires_early: bool,
    /// Whether what came for an entry may have been taken back: one of which nothing is left is
    /// not listed.
    may_be_empty: bool,
    /// Room for a parent key.
    parent_key: Vec<u64>,
    /// Which groups have changed since the last cut; `None` where nothing is stored.
    pub(crate) dirty: Option<Box<Dirty>>,
    /// Where groups are that are not in memory; `None` if all are.
    shelf: Option<Box<Shelf>>,
    /// Whether it is counted what groups take: where they may leave memory.
    is_weighed: bool,
    /// Bytes of all groups, if that is counted.
    bytes: usize,
}

impl Group {
    /// The words that name it: its parent key, and the bounds of its window.
    pub(crate) fn name(&self, name: &mut Vec<u64>) {
        name.extend_from_slice(&self.parent);
        if let Some(window) = self.window {
            name.extend([window.start(), window.end()].map(|bound| bound.as_millis() as u64));
        }
    }
}

impl TopKTable {
    pub(crate) fn new(stage: &Stage, spec: &TopK) -> Self {
        let rules = Rules::of(stage);
        Self {
            layout: CandidateLayout::new(stage.key.words(), rules.aggregates.words()),
            spec: spec.clone(),
            key: stage.key.clone(),
            groups: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            come: 0,
            by_parent: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            deadlines: BTreeMap::new(),
            touched: Vec::new(),
            delivery: None,
            asked: None,
            watermark: Watermark::MIN,
            account: StageAccount {
                cut: vec![0; rules.aggregates.accumulators().len()],
                ..StageAccount::default()
            },
            window: stage.window,
            fires_early: !stage.trigger.is_default(),
            may_be_empty: spec.of_results,
            parent_key: vec![0; spec.parent.words()],
            dirty: None,
            shelf: None,
            is_weighed: false,
            bytes: 0,
            rules,
        }
    }

    /// Takes deltas of the stage below, whose key and aggregates are `parent`'s.
    pub(crate) fn take(
        &mut self,
        input: &PaneInput,
        (deltas, parent): (&Deltas, (&KeyLayout, &AggregateLayout)),
        symbols: &Symbols,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        let (parent_key, parent_values) = parent;
        let mut key = vec![0; self.key.words()];
        for (source, window, values) in deltas.iter(parent_key.words(), parent_values.words()) {
            let window =
                if input.same_window { window } else { self.window.assign(window.start(), 0) };
            for copy in &input.copies {
                copy.key.pack(source, &mut key);
                self.enter(&key, window, (copy, (parent_values, values)), symbols, aside)?;
            }
        }
        Ok(())
    }

    /// Takes deltas that are already in the stage's own key and aggregates: what an exchange
    /// brings.
    pub(crate) fn take_exchanged(
        &mut self,
        deltas: &Deltas,
        symbols: &Symbols,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        let aggregates = self.rules.aggregates.clone();
        let from = (0..aggregates.accumulators().len()).collect();
        let copy = PaneCopy { key: KeyPacker::default(), from, is_plain: true };
        for (key, window, values) in deltas.iter(self.key.words(), aggregates.words()) {
            self.enter(key, window, (&copy, (&aggregates, values)), symbols, aside)?;
        }
        Ok(())
    }

    /// Judges one delta for `key` and adds it to its candidate.
    fn enter(
        &mut self,
        key: &[u64],
        window: Window,
        source: (&PaneCopy, (&AggregateLayout, ValuesRef<'_>)),
        symbols: &Symbols,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if !self.rules.is_observed {
            // Nobody sees the list, and no stage reads it.
            return Ok(());
        }
        self.account.assigned += 1;
        let is_late = match judge(window, self.watermark, self.rules.allowed_lateness) {
            Lateness::OnTime => {
                self.account.on_time += 1;
                false
            }
            Lateness::Late => {
                self.account.late += 1;
                true
            }
            Lateness::Expired => {
                self.account.expired += 1;
                aside.drop(DropReason::Expired, key);
                return Ok(());
            }
        };
        self.account.operations += 1;
        let mut parent = std::mem::take(&mut self.parent_key);
        self.spec.parent_of.pack(key, &mut parent);
        let number = self.group(&parent, window);
        self.parent_key = parent;
        self.add(number, key, source, symbols)?;
        if (is_late || self.fires_early)
            && let Some(group) = self.groups.get_mut(number as usize)
            && !group.is_touched
        {
            group.is_touched = true;
            self.touched.push(number);
        }
        Ok(())
    }

    /// The numbers of all groups.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = GroupId> + '_ {
        let groups = (0..).zip(&self.groups).filter(|(_, group)| group.window.is_some());
        groups.map(|(number, _)| number)
    }

    fn find_hashed(&self, hash: u64, parent: &[u64], window: Window) -> Option<GroupId> {
        let is_same = |number: &GroupId| {
            self.groups
                .get(*number as usize)
                .is_some_and(|group| &*group.parent == parent && group.window == Some(window))
        };
        self.by_parent.find(hash, is_same).copied()
    }

    /// The group of a parent key and window, if there is one.
    pub(crate) fn find(&self, parent: &[u64], window: Window) -> Option<GroupId> {
        self.find_hashed(group_hash(&self.hasher, parent, window), parent, window)
    }

    /// The group of a parent key and window, made if it is new.
    pub(crate) fn group(&mut self, parent: &[u64], window: Window) -> GroupId {
        let hash = group_hash(&self.hasher, parent, window);
        if let Some(number) = self.find_hashed(hash, parent, window) {
            return number;
        }
        if self.shelf.is_some()
            && let Some(number) = self.recall_group(parent, window)
        {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            (self.groups.len() - 1) as GroupId
        });
        if let Some(group) = self.groups.get_mut(number as usize) {
            group.parent = parent.into();
            group.window = Some(window);
            group.total = vec![0; self.rules.aggregates.words()];
            group.candidates = self.spare.pop().unwrap_or_default();
        }
        self.come += 1;
        let (groups, hasher) = (&self.groups, &self.hasher);
        self.by_parent.insert_unique(hash, number, |known| {
            groups.get(*known as usize).map_or(0, |group| {
                group.window.map_or(0, |window| group_hash(hasher, &group.parent, window))
            })
        });
        let deadline = if self.watermark.0 < window.end() {
            window.end()
        } else {
            window.end().saturating_add(self.rules.allowed_lateness)
        };
        self.arm(number, deadline);
        number
    }

    fn arm(&mut self, number: GroupId, deadline: EventTime) {
        if let Some(group) = self.groups.get_mut(number as usize) {
            group.armed = Some(deadline);
            self.deadlines.entry(deadline).or_default().push(number);
        }
    }

    /// Adds what came for a candidate to its total, to the group's, and to the news.
    fn add(
        &mut self,
        number: GroupId,
        key: &[u64],
        (copy, (parent, values)): (&PaneCopy, (&AggregateLayout, ValuesRef<'_>)),
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        self.touch(number);
        let Some(group) = self.groups.get_mut(number as usize) else { return Ok(()) };
        let layout = &self.layout;
        let known = group.candidates.find(layout, key);
        let entry = known.unwrap_or_else(|| group.candidates.insert(layout, key));
        let aggregates = &self.rules.aggregates;
        let source = (parent, values);
        if self.spec.other {
            regroup(aggregates, ((&mut group.total).into(), false), copy, source, symbols)?;
        }
        let total = group.candidates.total_mut(layout, entry);
        regroup(aggregates, (total.into(), known.is_none()), copy, source, symbols)?;
        // Only discarding panes tell what came, and only of what was sent before; all others tell
        // totals.
        let tells_news = self.rules.mode == AccumulationMode::Discarding && group.index > 0;
        let words = if tells_news { aggregates.words() } else { 0 };
        let (at, is_empty) = match group.candidates.news(layout, entry) {
            Some(news) => (news * words, false),
            None => {
                group.candidates.set_news(layout, entry, Some(group.news.len()));
                group.news.push(entry);
                group.news_values.resize(group.news_values.len() + words, 0);
                (group.news_values.len() - words, true)
            }
        };
        if words > 0
            && let Some(sum) = group.news_values.get_mut(at..at + words)
        {
            regroup(aggregates, (sum.into(), is_empty), copy, source, symbols)?;
        }
        group.is_used = true;
        if self.is_weighed {
            self.weigh(number);
        }
        Ok(())
    }

    /// Every group that has news waits for the end of a round.
    pub(crate) fn touch_news(&mut self) {
        for (number, group) in self.groups.iter_mut().enumerate() {
            if !group.news.is_empty() && !std::mem::replace(&mut group.is_touched, true) {
                self.touched.push(number as GroupId);
            }
        }
    }

    fn touch(&mut self, number: GroupId) {
        if let Some(dirty) = &mut self.dirty {
            dirty.touch(number);
        }
    }

    fn remove(&mut self, number: GroupId) {
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        if let Some(dirty) = &mut self.dirty {
            dirty.remove(number, |name| group.name(name));
        }
        let mut group = std::mem::take(group);
        let Some(window) = group.window else { return };
        let hash = group_hash(&self.hasher, &group.parent, window);
        if let Ok(entry) = self.by_parent.find_entry(hash, |known| *known == number) {
            entry.remove();
        }
        self.bytes -= group.weight;
        group.candidates.clear();
        self.spare.push(group.candidates);
        self.free.push(number);
    }

    /// A group whose deadline has come sees the watermark; `before` is the one that it saw last.
    fn deliver(
        &mut self,
        number: GroupId,
        before: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let window = self.groups.get(number as usize).and_then(|group| group.window);
        let Some(window) = window else { return Ok(()) };
        let lateness = judge(window, self.watermark, self.rules.allowed_lateness);
        let is_last = lateness == Lateness::Expired;
        let timing = if before.0 < window.end() { Timing::OnTime } else { Timing::Late };
        self.fire(number, (timing, is_last), fired, symbols)?;
        if is_last {
            self.remove(number);
        } else {
            let expiry = window.end().saturating_add(self.rules.allowed_lateness);
            self.arm(number, expiry);
        }
        Ok(())
    }

    /// Whether no group and no deadline is left.
    pub(crate) fn is_empty(&self) -> bool {
        let has_cold = self.shelf.as_ref().is_some_and(|shelf| !shelf.cold.is_empty());
        self.by_parent.is_empty() && self.deadlines.is_empty() && !has_cold
    }

    /// Decides the list anew and tells the sinks what changed.
    fn fire(
        &mut self,
        number: GroupId,
        (timing, is_last): (Timing, bool),
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let Some(mut group) = self.groups.get_mut(number as usize).map(std::mem::take) else {
            return Ok(());
        };
        group.is_touched = false;
        // A list that was complete is late from then on (PANE-1).
        let was_complete = group.sent.is_some_and(Timing::completes);
        let timing = if was_complete { Timing::Late } else { timing };
        let result = if let (Some(window), false) = (group.window, group.news.is_empty()) {
            self.touch(number);
            let pane = PaneMeta {
                window,
                index: group.index,
                timing,
                is_last,
                kind: PaneKind::Insert,
                event_time: window.last_instant(),
                is_other: false,
            };
            let best = self.best(&group, symbols);
            let panes = fired.panes.get_or_insert_with(|| PaneBatch::new(self.rules.stage));
            let before = panes.panes.len();
            let result = Announcement { table: self, pane, panes }.make(&mut group, &best);
            if fired.panes.as_ref().is_some_and(|panes| panes.panes.len() > before) {
                group.index = group.index.saturating_add(1);
                group.sent = Some(timing);
            }
            for entry in std::mem::take(&mut group.news) {
                group.candidates.set_news(&self.layout, entry, None);
            }
            group.news_values = Vec::new();
            result
        } else {
            Ok(())
        };
        if let Some(place) = self.groups.get_mut(number as usize) {
            *place = group;
        }
        if self.is_weighed {
            self.weigh(number);
        }
        result
    }

    /// The list as it should be: the K best of what was listed and what has news; of all, if a
    /// listed entry has shrunk or gone.
    fn best(&mut self, group: &Group, symbols: &Symbols) -> Vec<Ranked> {
        let (layout, candidates) = (&self.layout, &group.candidates);
        let listed = &group.listed;
        let has_shrunk = listed.iter().any(|known| {
            self.rank(group, known.entry) < known.rank || !self.is_listable(group, known.entry)
        });
        let mut count = 0;
        let rank = |entry: EntryId| {
            count += 1;
            Ranked { rank: self.rank(group, entry), entry }
        };
        let by_key = |a, b| {
            let (a, b) = (candidates.key(layout, a), candidates.key(layout, b));
            self.spec.ties.order(self.key.compare(a, b, symbols))
        };
        let is_listable = |entry: &EntryId| self.is_listable(group, *entry);
        let best = if has_shrunk {
            let all = candidates.entries(layout);
            ranking::best(all.filter(is_listable).map(rank), self.spec.k, by_key)
        } else {
            // A listed entry with news stands among the news.
            let quiet = listed.iter().map(|known| known.entry);
            let quiet = quiet.filter(|entry| candidates.news(layout, *entry).is_none());
            let news = group.news.iter().copied().filter(is_listable);
            ranking::best(quiet.chain(news).map(rank), self.spec.k, by_key)
        };
        self.account.operations += count;
        best
    }

    /// What an entry is ranked by.
    fn rank(&self, group: &Group, entry: EntryId) -> i128 {
        let total = group.candidates.total(&self.layout, entry);
        let aggregates = &self.rules.aggregates;
        let parts = self.spec.rank.iter().map(|aggregate| aggregates.number(total, *aggregate));
        parts.fold(0, i128::saturating_add)
    }

    fn is_listable(&self, group: &Group, entry: EntryId) -> bool {
        let key = group.candidates.key(&self.layout, entry);
        !self.is_empty_entry(group, entry)
            && self.spec.require.iter().all(|field| self.key.read(key, *field) != Datum::Null)
    }

    /// Whether all that came for an entry has been taken back.
    fn is_empty_entry(&self, group: &Group, entry: EntryId) -> bool {
        let total = || group.candidates.total(&self.layout, entry);
        self.may_be_empty && total().iter().all(|word| *word == 0)
    }

    /// Number of candidates, and bytes held, room for new ones included.
    pub(crate) fn size(&self) -> (usize, usize) {
        let lens = self.groups.iter().map(|group| group.candidates.len(&self.layout));
        let rooms = self.groups.iter().map(|group| &group.candidates).chain(&self.spare);
        let dirty = self.dirty.as_ref().map_or(0, |dirty| dirty.bytes());
        (lens.sum(), rooms.map(Candidates::bytes).sum::<usize>() + dirty)
    }
}

fn group_hash(hasher: &foldhash::fast::RandomState, parent: &[u64], window: Window) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_u64(hash_words(hasher, parent));
    state.write_i64(window.start().as_millis());
    state.write_i64(window.end().as_millis());
    state.finish()
}

impl Fires for TopKTable {
    /// Ends a round that brought deltas: groups with late news fire once. Where the stage below
    /// fires early, so do groups with early news, unless `upcoming`, the watermark of the same
    /// round, completes their window: they then fire with it.
    fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let asked = self.asked.take();
        let mut asked = asked.unwrap_or_else(|| Due::of(std::mem::take(&mut self.touched)));
        while let Some(number) = asked.first() {
            if fired.is_full() {
                self.asked = Some(asked);
                return Ok(Flow::More);
            }
            asked.pass();
            let window = self.groups.get(number as usize).and_then(|group| group.window);
            let Some(window) = window else { continue };
            let is_early = self.watermark.0 < window.end();
            if is_early && upcoming.is_some_and(|upcoming| upcoming.0 >= window.end()) {
                if let Some(group) = self.groups.get_mut(number as usize) {
                    group.is_touched = false;
                }
                continue;
            }
            let timing = if is_early { Timing::Early } else { Timing::Late };
            self.fire(number, (timing, false), fired, symbols)?;
        }
        Ok(Flow::Done)
    }

    /// Delivers a watermark to the groups that are due.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let mut delivery = match self.delivery.take() {
            Some(delivery) => delivery,
            None if watermark <= self.watermark => return Ok(Flow::Done),
            None => Delivery {
                before: std::mem::replace(&mut self.watermark, watermark),
                groups: self.by_parent.len(),
                due: Due::default(),
            },
        };
        loop {
            while let Some(number) = delivery.due.first() {
                if fired.is_full() {
                    self.delivery = Some(delivery);
                    return Ok(Flow::More);
                }
                delivery.due.pass();
                self.deliver(number, delivery.before, fired, symbols)?;
            }
            if self.shelf.is_some() {
                let hot = self.deadlines.first_key_value().map(|(deadline, _)| *deadline);
                self.recall_due(hot, |at| at <= watermark.0, watermark.0);
            }
            match self.deadlines.first_entry() {
                Some(first) if *first.key() <= watermark.0 => {
                    delivery.due = Due::of(first.remove());
                }
                Some(_) | None => break,
            }
        }
        if self.by_parent.len() < delivery.groups {
            self.spare.truncate(std::mem::take(&mut self.come));
        }
        if self.by_parent.is_empty() && self.groups.len() > GROUPS_KEPT {
            // What a burst of groups took goes with the last of them.
            (self.groups, self.free) = (Vec::new(), Vec::new());
        }
        Ok(Flow::Done)
    }

    /// The watermark has stood still for too long: groups that it has not completed emit what they
    /// hold.
    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<Flow, Overflow> {
        let mut asked = match self.asked.take() {
            Some(asked) => asked,
            None => {
                self.recall_each();
                Due::of((0..self.groups.len() as GroupId).collect())
            }
        };
        loop {
            while let Some(number) = asked.first() {
                if fired.is_full() {
                    self.asked = Some(asked);
                    return Ok(Flow::More);
                }
                asked.pass();
                let window = self.groups.get(number as usize).and_then(|group| group.window);
                if window.is_some_and(|window| self.watermark.0 < window.end()) {
                    self.fire(number, (Timing::TimedOut, false), fired, symbols)?;
                }
            }
            let Some(numbers) = self.recall_next(self.watermark.0) else { return Ok(Flow::Done) };
            asked = Due::of(numbers);
        }
    }
}
