//! How a sequence takes records: each goes to its key, and what becomes of it is counted.

use super::SequenceTable;
use crate::late::LateReason;
use crate::roster::ActorId;
use crate::row::RowBatch;
use crate::sequence::cut::{after, end_of};
use crate::sequence::entry::Entry;
use crate::sequence::sessions::Fate;
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::time::Window;

impl SequenceTable {
    /// Takes a batch of records.
    pub(crate) fn take(&mut self, batch: &RowBatch, symbols: &Symbols, fired: &mut Fired) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for index in 0..batch.len() {
            if self.no_room.is_some() {
                break;
            }
            let row = batch.row(index);
            self.account.assigned += 1;
            let at = (batch.time(index), batch.position(index));
            let Some(entry) = self.frame.rules.entry(row, at, symbols) else {
                self.account.unknown_step += 1;
                continue;
            };
            self.input.key.pack(row, &mut scratch);
            let reason = match self.enter(entry, &scratch, (&mut *fired, symbols)) {
                Fate::InTime => {
                    self.account.on_time += 1;
                    continue;
                }
                Fate::Copy => {
                    self.account.duplicate += 1;
                    continue;
                }
                Fate::Late => {
                    self.account.late += 1;
                    LateReason::Late
                }
                Fate::Expired => {
                    self.account.expired += 1;
                    LateReason::Expired
                }
                Fate::Full => {
                    self.account.overflow += 1;
                    LateReason::Overflow
                }
            };
            let window = Window::new(entry.time, after(entry.time));
            fired.aside.drop_late(reason, &scratch);
            fired.aside.list((reason, self.watermark), (&scratch, window), (batch, index));
        }
        self.scratch = scratch;
    }

    /// The actor of a key, wherever it is.
    fn look_up(&mut self, hash: u64, key: &[u64]) -> Option<ActorId> {
        match self.actors.find(hash, key) {
            None if self.shelf.is_some() => self.recall_actor(key),
            known => known,
        }
    }

    /// One record comes to its key.
    fn enter(
        &mut self,
        entry: Entry,
        key: &[u64],
        (fired, symbols): (&mut Fired, &Symbols),
    ) -> Fate {
        let hash = self.actors.hash(key);
        let mut known = self.look_up(hash, key);
        if known.is_none() && self.frame.rules.is_lost(&entry, self.watermark) {
            return Fate::Expired;
        }
        if !self.has_room(known.is_none()) {
            if !self.make_room(known.is_none(), (fired, symbols)) {
                return Fate::Full;
            }
            // What made room may have been this key's, or has put it into a page.
            known = self.look_up(hash, key);
        }
        let id = match known {
            Some(id) => id,
            None => self.insert(hash, key),
        };
        let now = self.instants();
        let (frame, is_live) = (&self.frame, self.is_live);
        let rules = &frame.rules;
        let Some(actor) = self.actors.get_mut(id) else { return Fate::Full };
        actor.is_used = true;
        let before = actor.sessions.records();
        let fate = actor.sessions.take(entry, rules, now);
        self.records = (self.records + actor.sessions.records()).saturating_sub(before);
        let waiting = actor.sessions.entries.len();
        let most = rules.spec.max_events_per_session as usize;
        let is_crowd = is_live && waiting >= most.saturating_mul(2);
        if is_crowd {
            actor.sessions.release_all();
        }
        let is_waiting = is_live && rules.wait_max().is_some() && fate == Fate::InTime;
        if is_waiting && actor.sessions.waits_since.is_none() {
            actor.sessions.waits_since = Some(now.active);
        }
        if let Some(dirty) = &mut self.dirty {
            dirty.touch(id);
        }
        let is_new = actor.armed.is_none();
        match fate {
            Fate::Late => {
                self.touch(id);
                // The end of the cycle, in which it would be asked, may wait for room.
                self.register_tick(id);
            }
            Fate::InTime if is_crowd || rules.spec.release.is_early() => self.touch(id),
            // The copy may be the one that stays.
            Fate::Copy if rules.spec.release.is_early() => self.touch(id),
            Fate::InTime => {}
            Fate::Copy | Fate::Expired | Fate::Full if is_new => self.touch(id),
            Fate::Copy | Fate::Expired | Fate::Full => {}
        }
        if matches!(fate, Fate::InTime | Fate::Copy) {
            self.arm_for(id, &entry, waiting);
        }
        fate
    }

    /// Registers what a record that stands, or a copy that may, makes due, without a look at the others: too early
    /// is no harm.
    fn arm_for(&mut self, id: ActorId, entry: &Entry, waiting: usize) {
        let rules = &self.frame.rules;
        let is_end =
            rules.may_close(entry) || waiting >= rules.spec.max_events_per_session as usize;
        let due = if is_end { after(entry.time) } else { end_of(entry.time, entry.time, rules).at };
        let due = due.later(rules.spec.release.delay());
        let Some(actor) = self.actor(id) else { return };
        let is_first = actor.sessions.entries.first().map(|first| first.time) == Some(entry.time);
        if actor.armed.is_none_or(|armed| due < armed) {
            self.arm(id, due);
        }
        if is_first {
            self.settle_hold(id);
        }
        self.register_tick(id);
    }
}
