//! How a sequence takes records: each goes to its key, and what becomes of it is counted.
//!
//! Keys are looked up some records ahead: where a table is larger than the caches, look-ups that need
//! not wait for each other wait for memory together.

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
use std::ops::Range;

/// Records whose keys are looked up at once.
const AHEAD: usize = 32;

/// The keys of the next records. Holds nothing between two batches.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Packed, side by side.
    keys: Vec<u64>,
    /// Of each key: its hash, and the actor that it had.
    found: Vec<(u64, Option<ActorId>)>,
}

impl SequenceTable {
    /// Takes a batch of records.
    pub(crate) fn take(&mut self, batch: &RowBatch, symbols: &Symbols, fired: &mut Fired) {
        let mut ahead = std::mem::take(&mut self.ahead);
        for start in (0..batch.len()).step_by(AHEAD) {
            let records = start..batch.len().min(start + AHEAD);
            self.look_ahead((batch, records.clone()), &mut ahead);
            let words = self.frame.key.words();
            for ((place, index), found) in records.enumerate().zip(&ahead.found) {
                if self.no_room.is_some() {
                    break;
                }
                let key = ahead.keys.get(place * words..(place + 1) * words).unwrap_or_default();
                self.take_one((batch, index), (key, found), (&mut *fired, symbols));
            }
        }
        self.ahead = ahead;
    }

    /// Packs and looks up the keys of `records`.
    fn look_ahead(&self, (batch, records): (&RowBatch, Range<usize>), ahead: &mut Ahead) {
        let words = self.frame.key.words();
        ahead.keys.resize(records.len() * words, 0);
        ahead.found.clear();
        for (place, index) in records.enumerate() {
            let key = ahead.keys.get_mut(place * words..(place + 1) * words).unwrap_or_default();
            self.input.key.pack(batch.row(index), key);
            let hash = self.actors.hash(key);
            ahead.found.push((hash, self.actors.find(hash, key)));
        }
    }

    /// Takes a record of `batch`; `known` is its key, and what was known of that a while ago.
    fn take_one(
        &mut self,
        (batch, index): (&RowBatch, usize),
        (key, found): (&[u64], &(u64, Option<ActorId>)),
        (fired, symbols): (&mut Fired, &Symbols),
    ) {
        self.account.assigned += 1;
        let at = (batch.time(index), batch.position(index));
        let Some(entry) = self.frame.rules.entry(batch.row(index), at, symbols) else {
            self.account.unknown_step += 1;
            return;
        };
        let reason = match self.enter(entry, (key, found), (&mut *fired, symbols)) {
            Fate::InTime => {
                self.account.on_time += 1;
                return;
            }
            Fate::Copy => {
                self.account.duplicate += 1;
                return;
            }
            Fate::Late => {
                self.account.late += 1;
                LateReason::Late
            }
            // Counted once its session is asked.
            Fate::Corrects => LateReason::Late,
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
        fired.aside.drop_late(reason, key);
        fired.aside.list((reason, self.watermark), (key, window), (batch, index));
    }

    /// The actor of a key, wherever it is.
    fn look_up(&mut self, key: &[u64], (hash, known): (u64, Option<ActorId>)) -> Option<ActorId> {
        match known.filter(|id| self.actors.is_of(*id, key)).or_else(|| self.actors.find(hash, key))
        {
            None if self.shelf.is_some() => self.recall_actor(key),
            known => known,
        }
    }

    /// One record comes to its key.
    fn enter(
        &mut self,
        entry: Entry,
        (key, found): (&[u64], &(u64, Option<ActorId>)),
        (fired, symbols): (&mut Fired, &Symbols),
    ) -> Fate {
        let mut known = self.look_up(key, *found);
        if known.is_none() && self.frame.rules.is_lost(&entry, self.watermark) {
            return Fate::Expired;
        }
        if !self.has_room(known.is_none()) {
            if !self.make_room(known.is_none(), (fired, symbols)) {
                return Fate::Full;
            }
            // What made room may have been this key's, or has put it into a page.
            known = self.look_up(key, *found);
        }
        let id = match known {
            Some(id) => id,
            None => self.insert(found.0, key),
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
            Fate::Late | Fate::Corrects => {
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
