//! Which entries of a table have changed since its last cut, and which are gone.
//!
//! Noted where a table changes: a flag and a number per entry and epoch, nothing per record beyond
//! a look at the flag. There is none of this before the first cut, which hands over everything. The
//! group of an entry is found when it is handed over first, and kept: entries that come and go
//! between two cuts leave no trace.

use crate::epoch::{Epoch, GroupFacts};
use crate::key::KeyGroup;

/// An entry that was never handed over, or a number without an entry.
const NONE: u16 = u16::MAX;

/// What has happened to the entries of one table.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// By entry: the group in which it was handed over.
    groups: Vec<u16>,
    /// By entry: whether it has changed. Cleared by a cut.
    flags: Vec<bool>,
    /// Entries that have changed; one may stand here that is gone since. Cleared by a cut.
    touched: Vec<u32>,
    /// Names of entries that are gone, `name_words` each. Cleared by a cut.
    gone: Vec<u64>,
    /// The groups in which they were handed over.
    gone_groups: Vec<u16>,
    name_words: usize,
    /// By group.
    facts: Vec<GroupFacts>,
}

impl Dirty {
    /// Of a table whose entries have names of `name_words` words, among `groups` groups: nothing has
    /// been handed over.
    pub(crate) fn new(name_words: usize, groups: u16) -> Self {
        Self {
            groups: Vec::new(),
            flags: Vec::new(),
            touched: Vec::new(),
            gone: Vec::new(),
            gone_groups: Vec::new(),
            name_words,
            facts: vec![GroupFacts::default(); usize::from(groups)],
        }
    }

    /// An entry changes.
    pub(crate) fn touch(&mut self, entry: u32) {
        match self.flags.get_mut(entry as usize) {
            Some(true) => {}
            Some(flag) => {
                *flag = true;
                self.touched.push(entry);
            }
            None => {
                self.grow(entry);
                self.touch(entry);
            }
        }
    }

    /// Makes room for an entry.
    fn grow(&mut self, entry: u32) {
        let len = (entry as usize + 1).max(self.flags.len());
        self.flags.resize(len, false);
        self.groups.resize(len, NONE);
    }

    /// An entry goes; `name` appends the words that name it.
    pub(crate) fn remove(&mut self, entry: u32, name: impl FnOnce(&mut Vec<u64>)) {
        let at = entry as usize;
        let (Some(flag), Some(group)) = (self.flags.get_mut(at), self.groups.get_mut(at)) else {
            return;
        };
        *flag = false;
        let group = std::mem::replace(group, NONE);
        if group == NONE {
            return;
        }
        name(&mut self.gone);
        self.gone_groups.push(group);
        if let Some(facts) = self.facts.get_mut(usize::from(group)) {
            facts.live = facts.live.saturating_sub(1);
        }
    }

    /// An entry has been handed over in `group`, by the process before.
    pub(super) fn restored(&mut self, entry: u32, group: KeyGroup) {
        self.grow(entry);
        if let (Some(known), Some(facts)) =
            (self.groups.get_mut(entry as usize), self.facts.get_mut(usize::from(group.0)))
        {
            *known = group.0;
            facts.live += 1;
        }
    }

    /// Nothing has changed since the last cut of the process before.
    pub(super) fn settle(&mut self) {
        self.flags.fill(false);
        self.touched.clear();
    }

    /// What is known of a group.
    pub(super) fn facts_mut(&mut self, group: KeyGroup) -> Option<&mut GroupFacts> {
        self.facts.get_mut(usize::from(group.0))
    }

    /// What is known of every group at a cut; `place` finds the group of an entry.
    pub(super) fn count(&mut self, mut place: impl FnMut(u32) -> KeyGroup) -> Vec<GroupFacts> {
        let changed = |facts: &mut [GroupFacts], group: u16, came: u32| {
            if let Some(facts) = facts.get_mut(usize::from(group)) {
                facts.changed += 1;
                facts.live += came;
            }
        };
        self.order();
        for entry in &self.touched {
            let Some(group) = self.groups.get_mut(*entry as usize) else { continue };
            let is_new = *group == NONE;
            if is_new {
                *group = place(*entry).0;
            }
            changed(&mut self.facts, *group, u32::from(is_new));
        }
        for group in &self.gone_groups {
            changed(&mut self.facts, *group, 0);
        }
        self.facts.clone()
    }

    /// Brings what has changed into the order in which it lies in memory, each entry once.
    fn order(&mut self) {
        if self.touched.len() > self.flags.len() / 8 {
            self.touched.clear();
            let flags = (0..).zip(&self.flags).filter(|(_, flag)| **flag);
            self.touched.extend(flags.map(|(entry, _)| entry));
            return;
        }
        let flags = &self.flags;
        self.touched.retain(|entry| flags.get(*entry as usize).copied().unwrap_or(false));
        self.touched.sort_unstable();
        self.touched.dedup();
    }

    /// The entries that have changed, with their groups; [`Dirty::count`] comes first.
    pub(super) fn changed(&self) -> impl Iterator<Item = (u32, KeyGroup)> {
        let group = |entry: &u32| self.groups.get(*entry as usize);
        self.touched.iter().filter_map(move |entry| Some((*entry, KeyGroup(*group(entry)?))))
    }

    /// All entries, with their groups; [`Dirty::count`] comes first.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, KeyGroup)> {
        let known = (0..).zip(&self.groups).filter(|(_, group)| **group != NONE);
        known.map(|(entry, group)| (entry, KeyGroup(*group)))
    }

    /// The names of the entries that are gone, with their groups.
    pub(super) fn gone(&self) -> impl Iterator<Item = (&[u64], KeyGroup)> {
        let name = |number: usize| {
            let at = number * self.name_words;
            self.gone.get(at..at + self.name_words).unwrap_or_default()
        };
        self.gone_groups.iter().enumerate().map(move |(at, group)| (name(at), KeyGroup(*group)))
    }

    /// The cut of `epoch` is over; `is_base` says which groups have handed over all.
    pub(super) fn clear(&mut self, epoch: Epoch, is_base: impl Fn(KeyGroup) -> bool) {
        for entry in self.touched.drain(..) {
            if let Some(flag) = self.flags.get_mut(entry as usize) {
                *flag = false;
            }
        }
        self.gone.clear();
        self.gone_groups.clear();
        for (group, facts) in (0..).zip(&mut self.facts) {
            let changed = std::mem::take(&mut facts.changed);
            if is_base(KeyGroup(group)) {
                (facts.base, facts.since_base) = (Some(epoch), 0);
            } else {
                facts.since_base = facts.since_base.saturating_add(changed);
            }
        }
    }

    /// The oldest base that is needed.
    pub(super) fn oldest(&self) -> Option<Epoch> {
        self.facts.iter().filter_map(|facts| facts.base).min()
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.capacity() * 2
            + self.flags.capacity()
            + self.touched.capacity() * 4
            + self.gone.capacity() * 8
    }
}
