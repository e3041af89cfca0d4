//! The oracle of sequences: what is told of sessions in the end, from the records in the order of
//! their arrival, or all at once.
//!
//! Everything is kept as lists that are sorted and cut anew for whatever comes; nothing is told but
//! the last. Without a watermark among the rounds nothing is late: all records, sorted, cut, and run
//! through the chain. The clock is not known here, nor what bounds sessions all together; what is
//! told early is, in the end, what is told when a session is closed.

use super::chain::{Chain, End, Says};
use super::{KeyValues, Record};
use crate::aggregate::Overflow;
use crate::key::{encode, stable_hash};
use crate::plan::{Grouping, Job};
use crate::row::Position;
use crate::sequence::spec::{OutputTime, Release, SequenceSpec};
use crate::sequence::{RecordField, record_fields};
use crate::time::{EventTime, Span, Watermark};
use crate::value::Value;
use std::collections::BTreeMap;

/// A record, and where it stands in the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Its partition and its number there.
    pub position: Position,
    /// The record.
    pub record: Record,
}

/// What reaches a sequence at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Round {
    /// Records: what is late among them is judged together.
    Records(Vec<Placed>),
    /// The watermark stands here from now on.
    Watermark(Watermark),
}

/// What became of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fates {
    /// They came in time.
    pub on_time: u64,
    /// They came late, whether or not that has changed anything.
    pub late: u64,
    /// They are copies of others.
    pub duplicate: u64,
    /// They came too late.
    pub expired: u64,
    /// Their session had as many records as it may have.
    pub overflow: u64,
    /// Their step is not known.
    pub unknown_step: u64,
}

/// A session, as it was told last.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Name of the sequence.
    pub grouping: Box<str>,
    /// Its key.
    pub key: KeyValues,
    /// The time at which it counts.
    pub time: EventTime,
    /// By field of its record, in order.
    pub values: Vec<Value>,
}

/// What a sequence gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sessions {
    /// In no order that counts.
    pub sessions: Vec<Session>,
    /// What became of the records.
    pub fates: Fates,
}

/// A record of a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) time: EventTime,
    pub(super) step: usize,
    pub(super) says: Says,
    pub(super) status: Value,
    pub(super) reason: Value,
    pub(super) carried: Vec<Value>,
    id: Value,
    position: Position,
    pub(super) is_out_of_order: bool,
    pub(super) is_late: bool,
    pub(super) copies: usize,
    is_told: bool,
}

/// Most copies that are counted of one record.
const COPIES_MAX: usize = 15;

impl Item {
    pub(super) fn order(&self) -> (EventTime, usize, u32, u64) {
        (self.time, self.step, self.position.partition, self.position.offset)
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self.says, Says::Success | Says::Failure)
    }

    fn is_copy_of(&self, other: &Self) -> bool {
        let is_same = match &self.id {
            Value::Null if other.id == Value::Null => {
                self.step == other.step && self.status == other.status
            }
            id => *id == other.id,
        };
        self.time == other.time && is_same
    }
}

/// A session that is closed.
struct Closed {
    items: Vec<Item>,
    end: End,
    /// Its number among all.
    number: usize,
    id: u64,
    revision: u32,
    is_new: bool,
}

#[derive(Default)]
struct OfKey {
    open: Vec<Item>,
    /// How many of these have been let in for their number.
    let_in: usize,
    closed: Vec<Closed>,
}

struct Oracle<'a> {
    job: &'a Job,
    grouping: &'a Grouping,
    spec: &'a SequenceSpec,
    /// Whether results come before the input has ended.
    is_live: bool,
    watermark: Watermark,
    keys: BTreeMap<KeyValues, OfKey>,
    given: Sessions,
}

/// Judges what comes to a sequence of `job`; `is_live` says whether its results come as the watermark
/// rises. Of a grouping that is no sequence there are none. The input has ended with the rounds.
pub fn judge_sequence(
    job: &Job,
    grouping: &Grouping,
    (rounds, is_live): (&[Round], bool),
) -> Sessions {
    let Some(spec) = grouping.sequence.as_deref() else { return Sessions::default() };
    let mut oracle = Oracle {
        job,
        grouping,
        spec,
        is_live,
        watermark: Watermark::MIN,
        keys: BTreeMap::new(),
        given: Sessions::default(),
    };
    for round in rounds {
        match round {
            Round::Records(records) => records.iter().for_each(|placed| oracle.take(placed)),
            Round::Watermark(given) => oracle.watermark = oracle.watermark.max(*given),
        }
        oracle.settle();
    }
    oracle.watermark = Watermark::MAX;
    oracle.settle();
    oracle.given
}

/// The results of all groupings that read sessions, or results of those, once `sessions` are all
/// that was told of every sequence of the job.
///
/// # Errors
/// A sum does not fit 128 bits.
pub fn roll_up(
    job: &Job,
    sessions: &[Session],
) -> Result<BTreeMap<super::Place, Vec<Value>>, Overflow> {
    let mut totals = BTreeMap::new();
    super::results::finish(job, &mut totals, sessions)?;
    Ok(totals)
}

/// Where in `entries` the first one stands behind `item`, or the end.
fn place_of(items: &[Item], item: &Item) -> usize {
    items.iter().position(|known| known.order() > item.order()).unwrap_or(items.len())
}

/// Puts an item in its place; the place, unless a copy of it is there.
fn put(items: &mut Vec<Item>, mut item: Item) -> Option<usize> {
    if let Some(at) = items.iter().position(|known| known.is_copy_of(&item)) {
        let known = items.get(at)?;
        if known.is_told {
            return None;
        }
        let copies = (known.copies + 1).min(COPIES_MAX);
        // Of copies the one counts that stands first.
        if item.order() < known.order() {
            let (is_late, is_out_of_order) = (known.is_late, known.is_out_of_order);
            items.remove(at);
            (item.is_late, item.is_out_of_order) = (is_late, is_out_of_order);
            let place = place_of(items, &item);
            items.insert(place, item);
            let known = items.get_mut(place)?;
            known.copies = copies;
        } else if let Some(known) = items.get_mut(at) {
            known.copies = copies;
        }
        return None;
    }
    let at = place_of(items, &item);
    item.is_out_of_order = at < items.len();
    items.insert(at, item);
    Some(at)
}

impl Oracle<'_> {
    fn field<'r>(&self, record: &'r Record, name: &str) -> &'r Value {
        let index = self.job.fields.iter().position(|field| &*field.name == name);
        index.and_then(|index| record.values.get(index)).unwrap_or(&Value::Null)
    }

    /// The record as the sequence reads it; `None` if it does not know its step.
    fn item(&self, Placed { position, record }: &Placed) -> Option<Item> {
        let Value::Text(name) = self.field(record, &self.spec.step) else { return None };
        let optional = |name: &Option<Box<str>>| {
            name.as_ref().map_or(Value::Null, |name| self.field(record, name).clone())
        };
        let status = optional(&self.spec.status);
        let step = self.spec.steps.iter().position(|step| *step.name == **name);
        let (step, says) = match step.and_then(|at| Some((at, self.spec.steps.get(at)?))) {
            Some((at, step)) => {
                let is_in = |texts: &[Box<str>]| {
                    texts.iter().any(|text| Value::Text((&**text).into()) == status)
                };
                let says = if self.spec.status.is_none() || is_in(&step.success) {
                    Says::Success
                } else if is_in(&step.failure) {
                    Says::Failure
                } else if is_in(&step.start) {
                    Says::Start
                } else {
                    Says::Nothing
                };
                (at, says)
            }
            None => {
                let end = self.spec.ends.iter().position(|end| **end == **name)?;
                (self.spec.steps.len() + end, Says::End)
            }
        };
        let carried = self.spec.carried.iter();
        Some(Item {
            time: record.time,
            step,
            says,
            status,
            reason: optional(&self.spec.reason),
            carried: carried.map(|carried| self.field(record, &carried.field).clone()).collect(),
            id: optional(&self.spec.id),
            position: *position,
            is_out_of_order: false,
            is_late: false,
            copies: 0,
            is_told: false,
        })
    }

    /// How far records have been let in.
    fn passed(&self) -> EventTime {
        let delay = match self.spec.release {
            Release::WatermarkPlus(delay) => delay,
            Release::Watermark | Release::BoundedWait(_) | Release::Eager | Release::OnTerminal => {
                Span::ZERO
            }
        };
        self.watermark.0.saturating_sub(delay)
    }

    fn take(&mut self, placed: &Placed) {
        let Some(mut item) = self.item(placed) else {
            self.given.fates.unknown_step += 1;
            return;
        };
        let columns = self.grouping.key.iter();
        let names = columns.map(|column| column.each.first().map_or("", |name| &**name));
        let key = KeyValues(names.map(|name| self.field(&placed.record, name).clone()).collect());
        let (passed, watermark) = (self.passed(), self.watermark.0);
        let patience = self.grouping.allowed_lateness;
        let most = self.spec.max_events_per_session as usize;
        let of_key = self.keys.entry(key).or_default();
        let covering = of_key.closed.iter().position(|closed| covers(closed, &item));
        let is_behind =
            |known: Option<&Item>| known.is_some_and(|known| item.order() < known.order());
        let let_in = of_key.let_in.checked_sub(1).and_then(|last| of_key.open.get(last));
        item.is_late = covering.is_some()
            || item.time < passed
            || is_behind(let_in)
            || of_key.closed.iter().any(|closed| is_behind(closed.items.last()));
        if item.is_late && item.time.saturating_add(patience) < watermark {
            self.given.fates.expired += 1;
            return;
        }
        let is_late = item.is_late;
        let begins = || begun_by(of_key, &item, self.spec);
        let target = is_late.then(|| covering.or_else(begins)).flatten();
        let put_at = match target.and_then(|at| of_key.closed.get_mut(at)) {
            Some(closed) if closed.items.len() >= most => {
                self.given.fates.overflow += 1;
                return;
            }
            Some(closed) => {
                let at = put(&mut closed.items, item);
                closed.is_new |= at.is_some();
                at
            }
            None => {
                let at = put(&mut of_key.open, item);
                of_key.let_in += usize::from(at.is_some_and(|at| at < of_key.let_in));
                at
            }
        };
        if self.is_live && of_key.open.len() >= 2 * most {
            of_key.let_in = of_key.open.len();
        }
        let fates = &mut self.given.fates;
        *match (put_at, is_late) {
            (None, _) => &mut fates.duplicate,
            (Some(_), true) => &mut fates.late,
            (Some(_), false) => &mut fates.on_time,
        } += 1;
    }

    /// A round is over.
    fn settle(&mut self) {
        if !self.is_live && self.watermark != Watermark::MAX {
            return;
        }
        let passed = self.passed();
        let mut keys = std::mem::take(&mut self.keys);
        for (key, of_key) in &mut keys {
            let is_in = |item: &&Item| item.time < passed || passed == EventTime::MAX;
            let let_in = of_key.open.iter().take_while(is_in).count();
            of_key.let_in = of_key.let_in.max(let_in);
            while let Some((count, end)) = first_session(
                of_key.open.get(..of_key.let_in).unwrap_or_default(),
                self.spec,
                passed,
            ) {
                let items = of_key.open.drain(..count).collect();
                of_key.let_in -= count;
                let closed = self.close(key, items, end);
                let first = |closed: &Closed| closed.items.first().map(|first| first.time);
                let before = |known: &&Closed| first(known) <= first(&closed);
                let at = of_key.closed.iter().take_while(before).count();
                of_key.closed.insert(at, closed);
            }
            of_key.closed.iter_mut().for_each(|closed| self.correct(closed));
            let (watermark, patience) = (self.watermark.0, self.grouping.allowed_lateness);
            let is_gone = |closed: &Closed| {
                let is_behind = closed.end.at.saturating_add(patience) <= watermark;
                let is_at = closed.end.at.saturating_add(patience) == watermark;
                // The instant of a record that ends a session is the session's own.
                let has_instant = matches!(closed.end.cause, "terminal" | "max_events");
                is_behind && !(has_instant && is_at && watermark != EventTime::MAX)
            };
            of_key.closed.retain(|closed| !is_gone(closed));
        }
        self.keys = keys;
    }

    fn close(&mut self, key: &KeyValues, mut items: Vec<Item>, end: End) -> Closed {
        let first = items.first().map_or(EventTime::MIN, |first| first.time);
        let mut encoded = Vec::new();
        encode(&key.0, &mut encoded);
        encoded.extend_from_slice(&first.as_millis().to_be_bytes());
        let mut id = stable_hash(&encoded);
        let is_taken = |id: u64| {
            let mut own = self.given.sessions.iter().filter(|session| session.key == *key);
            own.any(|session| self.id_of(session) == Some(id))
        };
        // Only sessions that begin at one instant need more to be told apart.
        if is_taken(id) {
            if let Some(item) = items.first() {
                encoded.push(u8::try_from(item.step).unwrap_or(u8::MAX));
                encoded.extend_from_slice(&item.position.partition.to_be_bytes());
                encoded.extend_from_slice(&item.position.offset.to_be_bytes());
            }
            id = stable_hash(&encoded);
        }
        let values = Chain::new(self.spec, &items).values(end, (id, 0));
        let time = match self.spec.output_time {
            OutputTime::First => first,
            OutputTime::Close => end.at,
        };
        let number = self.given.sessions.len();
        let (grouping, key) = (self.grouping.name.clone(), key.clone());
        self.given.sessions.push(Session { grouping, key, time, values });
        items.iter_mut().for_each(|item| item.is_told = true);
        Closed { items, end, number, id, revision: 0, is_new: false }
    }

    fn id_of(&self, session: &Session) -> Option<u64> {
        let fields = record_fields(self.spec);
        let at = fields.iter().position(|(field, _)| *field == RecordField::SessionId)?;
        match session.values.get(at) {
            Some(Value::Int(id)) => u64::try_from(*id).ok(),
            _ => None,
        }
    }

    /// Tells anew of a session that has changed.
    fn correct(&mut self, closed: &mut Closed) {
        if !std::mem::take(&mut closed.is_new) {
            return;
        }
        // A record that ends it may have come late.
        if let Some((count, end)) = first_session(&closed.items, self.spec, closed.end.at)
            && count == closed.items.len()
            && end.at < closed.end.at
        {
            closed.end = end;
        }
        let issued = (closed.id, closed.revision + 1);
        let values = Chain::new(self.spec, &closed.items).values(closed.end, issued);
        let fields = record_fields(self.spec);
        let says = |values: &[Value]| {
            let said = fields.iter().zip(values).filter(|((field, _), _)| !is_count(*field));
            said.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        let Some(told) = self.given.sessions.get_mut(closed.number) else { return };
        if says(&told.values) != says(&values) {
            told.values = values;
            closed.revision += 1;
            closed.items.iter_mut().for_each(|item| item.is_told = true);
        }
    }
}

/// Whether a field of a session only counts, so that nothing is told anew for it.
pub const fn is_count(field: RecordField) -> bool {
    matches!(
        field,
        RecordField::Events
            | RecordField::OutOfOrder
            | RecordField::Late
            | RecordField::Duplicate
            | RecordField::Revision
    )
}

fn covers(closed: &Closed, item: &Item) -> bool {
    let (Some(first), Some(last)) = (closed.items.first(), closed.items.last()) else {
        return false;
    };
    item.order() >= first.order() && (item.time < closed.end.at || item.order() <= last.order())
}

/// The closed session that a late record in front of it should have begun.
fn begun_by(of_key: &OfKey, item: &Item, spec: &SequenceSpec) -> Option<usize> {
    let longest = item.time.saturating_add(spec.max_session_duration);
    let joins = |closed: &Closed| {
        let (Some(first), Some(last)) = (closed.items.first(), closed.items.last()) else {
            return false;
        };
        item.order() < first.order()
            && first.time < item.time.saturating_add(spec.idle_timeout)
            && first.time < longest
            && last.time < longest
    };
    let at = of_key.closed.iter().position(|closed| item.says != Says::End && joins(closed))?;
    let first = of_key.closed.get(at).and_then(|closed| closed.items.first());
    let is_between = |open: &Item| first.is_some_and(|first| open.order() < first.order());
    (!of_key.open.first().is_some_and(is_between)).then_some(at)
}

/// How many of `items` are the first session, and how it ends; if nothing can come to it any more.
fn first_session(items: &[Item], spec: &SequenceSpec, now: EventTime) -> Option<(usize, End)> {
    let first = items.first()?.time;
    (1..=items.len()).find_map(|count| {
        let own = items.get(..count)?;
        let last = own.last()?;
        let is_success = || Chain::new(spec, own).connected.is_some();
        let is_success = spec.close_on_success && last.says == Says::Success && is_success();
        if last.says == Says::End || is_success {
            return Some((count, End { cause: "terminal", at: last.time }));
        }
        if count >= spec.max_events_per_session as usize {
            return Some((count, End { cause: "max_events", at: last.time }));
        }
        let idle = last.time.saturating_add(spec.idle_timeout);
        let old = first.saturating_add(spec.max_session_duration);
        let end = if idle <= old {
            End { cause: "idle", at: idle }
        } else {
            End { cause: "max_age", at: old }
        };
        let is_over = match items.get(count) {
            Some(next) => next.time >= end.at,
            None => end.at <= now,
        };
        is_over.then_some((count, end))
    })
}
