//! The oracle of sequences: what is told of sessions in the end, from the records in the order of
//! their arrival, or all at once.
//!
//! Everything is kept as lists that are sorted and cut anew for whatever comes; nothing is told but
//! the last. Without a watermark among the rounds nothing is late: all records, sorted, cut, and run
//! through the chain. The clock is not known here, nor what bounds sessions all together; what is
//! told early is, in the end, what is told when a session is closed.

use super::chain::{Chain, End, Says};
use super::cuts::{begun_by, covers, first_session};
use super::items::{Item, distance, join, millis, put};
use super::{KeyValues, Record};
use crate::aggregate::Overflow;
use crate::key::{encode, stable_datum_hash, stable_hash};
use crate::plan::{Grouping, Job};
use crate::row::Position;
use crate::sequence::record_fields;
use crate::sequence::spec::{OutputTime, Release, SequenceSpec};
use crate::symbol::Symbols;
use crate::time::{EventTime, Span, Watermark};
use crate::value::{Datum, Value};
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

/// A session that is closed.
pub(super) struct Closed {
    pub(super) items: Vec<Item>,
    pub(super) end: End,
    /// Its number among all.
    number: usize,
    id: u64,
    revision: u32,
    is_new: bool,
}

#[derive(Default)]
pub(super) struct OfKey {
    pub(super) open: Vec<Item>,
    /// How many of these have been let in for their number.
    let_in: usize,
    pub(super) closed: Vec<Closed>,
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
        self.watermark.0.saturating_sub(self.delay())
    }

    /// How far behind the watermark records are let in.
    fn delay(&self) -> Span {
        match self.spec.release {
            Release::WatermarkPlus(delay) => delay,
            Release::Watermark | Release::BoundedWait(_) | Release::Eager | Release::OnTerminal => {
                Span::ZERO
            }
        }
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
        if item.is_late && distance(item.time, watermark) > millis(patience) {
            self.given.fates.expired += 1;
            return;
        }
        let closed = of_key.closed.iter_mut().map(|closed| &mut closed.items);
        if closed.chain([&mut of_key.open]).any(|items| join(items, &item)) {
            self.given.fates.duplicate += 1;
            return;
        }
        let is_late = item.is_late;
        let begins = || begun_by(of_key, &item, self.spec);
        let target = is_late.then(|| covering.or_else(begins)).flatten();
        match target.and_then(|at| of_key.closed.get_mut(at)) {
            Some(closed) if closed.items.len() >= most => {
                self.given.fates.overflow += 1;
                return;
            }
            Some(closed) => {
                put(&mut closed.items, item);
                closed.is_new = true;
            }
            None => {
                let at = put(&mut of_key.open, item);
                of_key.let_in += usize::from(at < of_key.let_in);
            }
        }
        if self.is_live && of_key.open.len() >= 2 * most {
            of_key.let_in = of_key.open.len();
        }
        let fates = &mut self.given.fates;
        *if is_late { &mut fates.late } else { &mut fates.on_time } += 1;
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
                let first = |closed: &Closed| closed.items.first().map(Item::order);
                let before = |known: &&Closed| first(known) <= first(&closed);
                let at = of_key.closed.iter().take_while(before).count();
                of_key.closed.insert(at, closed);
            }
            of_key.closed.iter_mut().for_each(|closed| self.correct(closed));
            // What is not late is accepted, whatever has closed its session.
            let patience = self.grouping.allowed_lateness.max(self.delay());
            let watermark = self.watermark.0;
            let is_gone = |closed: &Closed| {
                // The instant of a record that ends a session is the session's own.
                let has_instant = matches!(closed.end.cause, "terminal" | "max_events" | "restart");
                let kept = millis(patience) + i128::from(has_instant);
                watermark == EventTime::MAX || distance(closed.end.at, watermark) >= kept
            };
            of_key.closed.retain(|closed| !is_gone(closed));
        }
        self.keys = keys;
    }

    fn close(&mut self, key: &KeyValues, mut items: Vec<Item>, end: End) -> Closed {
        let first = items.first().map_or(EventTime::MIN, |first| first.time);
        let id = items.first().map_or(0, |first| self.name(key, first));
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

    /// The name of a session of `key` that begins with `first`: whatever makes that the record it is.
    fn name(&self, key: &KeyValues, first: &Item) -> u64 {
        let mut encoded = Vec::new();
        encode(&key.0, &mut encoded);
        encoded.extend_from_slice(&first.time.as_millis().to_be_bytes());
        let symbols = Symbols::default();
        match first.id.intern(&symbols) {
            Ok(id) if id != Datum::Null => {
                encoded.extend_from_slice(&stable_datum_hash(id, &symbols).to_be_bytes());
            }
            Ok(_) | Err(_) => {
                let chain = self.spec.steps.iter().map(|step| &step.name);
                let name = chain.chain(&self.spec.ends).nth(first.step);
                let name = name.map_or(Value::Null, |name| Value::Text((&**name).into()));
                encode(&[name, first.status.clone()], &mut encoded);
            }
        }
        stable_hash(&encoded)
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
            let said = fields.iter().zip(values).filter(|((field, _), _)| !field.is_count());
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
