//! A firing of a top-K group on its way to the sinks: what leaves the list, what enters or changed,
//! and `other`.

use super::{Group, Listed, Sent, TopKTable};
use crate::aggregate::Overflow;
use crate::candidates::EntryId;
use crate::pane::{AccumulationMode, PaneBatch, PaneKind, PaneMeta};
use crate::ranking::Ranked;
use crate::value::Datum;

/// One firing of a group on its way to the sinks.
pub(super) struct Announcement<'a> {
    pub(super) table: &'a mut TopKTable,
    pub(super) pane: PaneMeta,
    pub(super) panes: &'a mut PaneBatch,
}

impl Announcement<'_> {
    /// Emits what changed between the group's list and `best`, then `other`; the group then holds
    /// the new list.
    pub(super) fn make(&mut self, group: &mut Group, best: &[Ranked]) -> Result<(), Overflow> {
        let mut leaving = std::mem::take(&mut group.listed);
        let mut listed = Vec::with_capacity(best.len());
        let mut staying = Vec::with_capacity(best.len());
        for ranked in best {
            let at = leaving.iter().position(|known| known.entry == ranked.entry);
            staying.push(at.map(|at| leaving.swap_remove(at).sent));
        }
        for gone in &leaving {
            let key = group.candidates.key(&self.table.layout, gone.entry);
            self.retract(key, &gone.sent, false);
        }
        for (ranked, sent) in best.iter().zip(staying) {
            let sent = self.announce(group, ranked.entry, sent)?;
            listed.push(Listed { entry: ranked.entry, rank: ranked.rank, sent });
        }
        group.listed = listed;
        if self.table.spec.other {
            self.announce_other(group)?;
        }
        Ok(())
    }

    /// Emits a listed entry if it has news; returns what sinks then know of it.
    fn announce(
        &mut self,
        group: &Group,
        entry: EntryId,
        sent: Option<Sent>,
    ) -> Result<Sent, Overflow> {
        let words = self.table.rules.aggregates.words();
        let news = group.candidates.news(&self.table.layout, entry);
        let (Some(sent), Some(news)) = (&sent, news) else {
            if let Some(quiet) = sent {
                return Ok(quiet);
            }
            let total: Box<[u64]> = group.candidates.total(&self.table.layout, entry).into();
            let key = group.candidates.key(&self.table.layout, entry);
            self.insert(key, &total, false);
            return Ok(self.sent(total));
        };
        let key = group.candidates.key(&self.table.layout, entry);
        let total: Box<[u64]> = group.candidates.total(&self.table.layout, entry).into();
        match self.table.rules.mode {
            AccumulationMode::Discarding => {
                let delta = group.news_values.get(news * words..(news + 1) * words);
                self.insert(key, delta.unwrap_or_default(), false);
            }
            AccumulationMode::Accumulating => self.insert(key, &total, false),
            AccumulationMode::Retracting => {
                if self.table.rules.aggregates.same_results(&sent.values, &total) {
                    return Ok(sent.clone());
                }
                self.retract(key, sent, false);
                self.insert(key, &total, false);
            }
        }
        Ok(self.sent(total))
    }

    /// Emits the `other` entry if it changed: the total of all candidates less the listed ones.
    fn announce_other(&mut self, group: &mut Group) -> Result<(), Overflow> {
        let aggregates = self.table.rules.aggregates.clone();
        let mut rest = group.total.clone();
        for listed in &group.listed {
            let part = group.candidates.total(&self.table.layout, listed.entry);
            aggregates.subtract_all(&mut rest, part)?;
        }
        if group.listed.is_empty() {
            // Also what cannot be subtracted means the unlisted: nothing.
            aggregates.subtract_all(&mut rest, &vec![0; aggregates.words()])?;
        }
        let mut key = vec![0; self.table.key.words()];
        self.other_key(group, &mut key);
        let candidates = group.candidates.entries(&self.table.layout);
        let standing = candidates.filter(|entry| !self.table.is_empty_entry(group, *entry));
        let is_any = if self.table.may_be_empty {
            standing.count() > group.listed.len()
        } else {
            group.candidates.len(&self.table.layout) > group.listed.len()
        };
        let before = group.other.take();
        match (&before, is_any) {
            (None, false) => {}
            (Some(sent), false) => self.retract(&key, sent, true),
            (None, true) => self.insert(&key, &rest, true),
            (Some(sent), true) if aggregates.same_results(&sent.values, &rest) => {
                group.other = before;
                return Ok(());
            }
            (Some(sent), true) => match self.table.rules.mode {
                AccumulationMode::Discarding => {
                    let mut delta = rest.clone();
                    aggregates.subtract_all(&mut delta, &sent.values)?;
                    self.insert(&key, &delta, true);
                }
                AccumulationMode::Accumulating => self.insert(&key, &rest, true),
                AccumulationMode::Retracting => {
                    self.retract(&key, sent, true);
                    self.insert(&key, &rest, true);
                }
            },
        }
        group.other = is_any.then(|| self.sent(rest.into()));
        Ok(())
    }

    /// The key of the `other` entry: the parent's fields, and null for what names an entry.
    fn other_key(&self, group: &Group, key: &mut [u64]) {
        let mut parents = 0..;
        let data: Vec<_> = (0..self.table.key.fields().len())
            .map(|field| {
                if self.table.spec.entity.contains(&field) {
                    return Datum::Null;
                }
                parents
                    .next()
                    .map_or(Datum::Null, |at| self.table.spec.parent.read(&group.parent, at))
            })
            .collect();
        self.table.key.write(&data, key);
    }

    fn sent(&self, values: Box<[u64]>) -> Sent {
        Sent { values, index: self.pane.index, timing: self.pane.timing }
    }

    fn insert(&mut self, key: &[u64], values: &[u64], is_other: bool) {
        self.panes.push(key, PaneMeta { is_other, ..self.pane }, values);
        self.table.account.panes += 1;
    }

    fn retract(&mut self, key: &[u64], sent: &Sent, is_other: bool) {
        let pane = PaneMeta {
            index: sent.index,
            timing: sent.timing,
            kind: PaneKind::Retract,
            is_last: false,
            is_other,
            ..self.pane
        };
        self.panes.push(key, pane, &sent.values);
        self.table.account.retracts += 1;
    }
}
