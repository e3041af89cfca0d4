//! Entries of a table of sequences: the sessions of a key, record by record, and what was told of
//! them. Steps are numbers of the plan; statuses, reasons and what is carried are texts.

use super::ImageError;
use super::bytes::{Input, put_flags, put_number, put_signed};
use super::dirty::Dirty;
use super::form::Form;
use super::keyed::{Keyed, OfKey};
use super::view::{RecordView, SessionView};
use crate::aggregate::AggregateLayout;
use crate::pane::Timing;
use crate::sequence::{
    Cause, Class, Closed, Closing, Entry, Issued, Marks, Rules, SequenceTable, Sessions, Telling,
    small, typed,
};
use crate::time::{EventTime, Span};
use crate::value::{Datum, Type};

const IS_TOLD_EARLY: u8 = 1;
const WAITS: u8 = 2;
/// The cycle that runs has brought something for it.
const IS_TOUCHED: u8 = 4;

/// How a record is written, beside its place.
#[derive(Debug)]
pub(super) struct Records {
    /// Whether records tell which of them are copies.
    has_id: bool,
    /// The types of the reason, and of what is carried.
    reason: Type,
    carried: Vec<Type>,
}

impl Records {
    /// Of a sequence with these results, which takes over fields of these names.
    pub(super) fn new<'a>(
        aggregates: &AggregateLayout,
        carried: impl Iterator<Item = &'a str>,
        has_id: bool,
    ) -> Self {
        let type_of = |name: &str| {
            let found = aggregates.find(name).and_then(|at| aggregates.accumulators().get(at));
            found.map_or(Type::Text, |field| field.ty)
        };
        Self { has_id, reason: type_of("reason"), carried: carried.map(type_of).collect() }
    }

    fn of(rules: &Rules, form: &Form<'_>) -> Self {
        let carried = rules.spec.carried.iter().map(|carried| &*carried.field);
        Self::new(form.aggregates(), carried, rules.has_id())
    }

    /// The values of a record beside its place: the status, the reason, and what is carried.
    pub(super) fn values(&self, entry: &Entry) -> (Datum, Datum, Vec<Datum>) {
        let carried = self.carried.iter().enumerate();
        let carried = carried.map(|(field, ty)| typed(entry.carried(field), *ty));
        let (status, reason) = (entry.status(), entry.reason());
        (typed(status, Type::Text), typed(reason, self.reason), carried.collect())
    }
}

fn put_entry(entry: &Entry, records: &Records, form: &Form<'_>, out: &mut Vec<u8>) {
    put_signed(out, entry.time.as_millis());
    put_number(out, u64::from(entry.partition));
    put_number(out, entry.offset);
    out.extend_from_slice(&[entry.step, entry.class as u8, entry.marks.0]);
    if records.has_id {
        out.extend_from_slice(&entry.id.to_le_bytes());
    }
    let (status, reason, carried) = records.values(entry);
    form.put_datum(out, status);
    form.put_datum(out, reason);
    carried.into_iter().for_each(|value| form.put_datum(out, value));
}

fn entry(input: &mut Input<'_>, records: &Records, form: &Form<'_>) -> Result<Entry, ImageError> {
    let time = EventTime::from_millis(input.signed()?);
    let (partition, offset) = (input.small()?, input.number()?);
    let [step, class, marks] = input.array()?;
    let class = Class::ALL.into_iter().find(|known| *known as u8 == class);
    let class = class.ok_or(ImageError::Damaged("a status is of no known kind"))?;
    let id = if records.has_id { u64::from_le_bytes(input.array()?) } else { 0 };
    let mut entry = Entry::new(time, (partition, offset), (step, class));
    (entry.id, entry.marks) = (id, Marks(marks));
    entry.set_status(small(form.datum(input, (Type::Text, "status"))?));
    entry.set_reason(small(form.datum(input, (records.reason, "reason"))?));
    for (field, ty) in records.carried.iter().enumerate() {
        entry.set_carried(field, small(form.datum(input, (*ty, "what a session takes over"))?));
    }
    Ok(entry)
}

fn put_entries(entries: &[Entry], records: &Records, form: &Form<'_>, out: &mut Vec<u8>) {
    put_number(out, entries.len() as u64);
    entries.iter().for_each(|entry| put_entry(entry, records, form, out));
}

fn entries(
    input: &mut Input<'_>,
    records: &Records,
    form: &Form<'_>,
) -> Result<Vec<Entry>, ImageError> {
    (0..input.number()?).map(|_| entry(input, records, form)).collect()
}

fn put_issued(issued: Issued, out: &mut Vec<u8>) {
    out.extend_from_slice(&issued.id.to_le_bytes());
    put_signed(out, issued.first.as_millis());
    put_signed(out, issued.time.as_millis());
    put_number(out, u64::from(issued.revision));
}

fn issued(input: &mut Input<'_>) -> Result<Issued, ImageError> {
    let id = u64::from_le_bytes(input.array()?);
    let [first, time] = [input.signed()?, input.signed()?].map(EventTime::from_millis);
    Ok(Issued { id, first, time, revision: input.small()? })
}

fn put_telling(told: &Telling, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
    put_issued(told.issued, out);
    form.put_values(out, &told.values)
}

fn telling(input: &mut Input<'_>, form: &Form<'_>) -> Result<Box<Telling>, ImageError> {
    let (issued, values) = (issued(input)?, form.values(input)?);
    Ok(Box::new(Telling { issued, timing: Timing::Early, values }))
}

fn put_span(span: Option<Span>, out: &mut Vec<u8>) {
    // No span is the longest of all.
    put_signed(out, span.map_or(i64::MAX, Span::as_millis));
}

fn span(input: &mut Input<'_>) -> Result<Option<Span>, ImageError> {
    let millis = input.signed()?;
    Ok((millis != i64::MAX).then(|| Span::from_millis(millis)))
}

fn put_closed(closed: &Closed, records: &Records, form: &Form<'_>, out: &mut Vec<u8>) {
    out.push(closed.closing.cause as u8);
    put_signed(out, closed.closing.at.as_millis());
    out.push(match closed.timing {
        Timing::Early => 0,
        Timing::OnTime => 1,
        Timing::TimedOut => 2,
        Timing::Late => 3,
    });
    put_issued(closed.issued, out);
    put_span(closed.gone_at, out);
    put_number(out, u64::from(closed.late));
    put_entries(&closed.entries, records, form, out);
}

fn closed(input: &mut Input<'_>, records: &Records, form: &Form<'_>) -> Result<Closed, ImageError> {
    let cause = input.byte()?;
    let cause = Cause::ALL.into_iter().find(|known| *known as u8 == cause);
    let cause = cause.ok_or(ImageError::Damaged("a session is closed for no known reason"))?;
    let at = EventTime::from_millis(input.signed()?);
    let timings = [Timing::Early, Timing::OnTime, Timing::TimedOut, Timing::Late];
    let timing = timings.get(usize::from(input.byte()?)).copied();
    Ok(Closed {
        closing: Closing { cause, at },
        timing: timing.ok_or(ImageError::Damaged("a session was told at no known time"))?,
        issued: issued(input)?,
        gone_at: span(input)?,
        late: input.small()?,
        entries: entries(input, records, form)?,
    })
}

/// The sessions of a key, and whether they are to be asked when the cycle ends.
fn sessions(
    input: &mut Input<'_>,
    records: &Records,
    form: &Form<'_>,
) -> Result<(Sessions, bool), ImageError> {
    let flags = input.byte()?;
    let released = input.number()? as usize;
    let seen = span(input)?.unwrap_or_default();
    let waits_since = if flags & WAITS != 0 { span(input)? } else { None };
    let early = if flags & IS_TOLD_EARLY != 0 { Some(telling(input, form)?) } else { None };
    let entries = entries(input, records, form)?;
    let closed = (0..input.number()?).map(|_| closed(input, records, form));
    let closed = closed.collect::<Result<Vec<_>, _>>()?;
    let released = released.min(entries.len());
    let sessions = Sessions { entries, released, early, closed, seen, waits_since };
    Ok((sessions, flags & IS_TOUCHED != 0))
}

impl Keyed for SequenceTable {
    fn entries(&self) -> Vec<u32> {
        self.ids().collect()
    }

    fn name(&self, entry: u32, name: &mut Vec<u64>) {
        name.extend_from_slice(self.actor(entry).map_or(&[], |actor| &actor.key));
    }

    fn of_key(&self, key: &[u64]) -> OfKey {
        OfKey::one(self.find(key))
    }

    fn dirty(&mut self) -> &mut Option<Box<Dirty>> {
        &mut self.dirty
    }

    fn put(&self, entry: u32, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
        let Some(actor) = self.actor(entry) else { return Ok(()) };
        let sessions = &actor.sessions;
        let records = &Records::of(&self.frame.rules, form);
        let flags = [
            (sessions.early.is_some(), IS_TOLD_EARLY),
            (sessions.waits_since.is_some(), WAITS),
            (actor.is_touched, IS_TOUCHED),
        ];
        put_flags(out, &flags);
        put_number(out, sessions.released as u64);
        put_span(Some(sessions.seen), out);
        if let Some(since) = sessions.waits_since {
            put_span(Some(since), out);
        }
        if let Some(early) = &sessions.early {
            put_telling(early, form, out)?;
        }
        put_entries(&sessions.entries, records, form, out);
        put_number(out, sessions.closed.len() as u64);
        sessions.closed.iter().for_each(|closed| put_closed(closed, records, form, out));
        Ok(())
    }

    fn install(
        &mut self,
        mut name: Input<'_>,
        mut content: Input<'_>,
        form: &Form<'_>,
    ) -> Result<Option<u32>, ImageError> {
        let (key, _) = form.name(&mut name)?;
        if self.find(&key).is_some() {
            return Ok(None);
        }
        let records = Records::of(&self.frame.rules, form);
        let sessions = sessions(&mut content, &records, form)?;
        Ok(Some(self.restore(&key, sessions)))
    }
}

/// The sessions of an entry, for people: those that are closed, then what goes on.
pub(super) fn view(
    content: &mut Input<'_>,
    (steps, records): (&[Box<str>], &Records),
    form: &Form<'_>,
) -> Result<Vec<SessionView>, ImageError> {
    let (Sessions { entries, early, closed, .. }, _) = sessions(content, records, form)?;
    let record = |entry: &Entry| {
        let (status, reason, carried) = records.values(entry);
        let value = |datum: Datum| datum.value(form.symbols);
        RecordView {
            time: entry.time,
            place: (entry.partition, entry.offset),
            step: steps.get(usize::from(entry.step)).cloned().unwrap_or_default(),
            status: value(status),
            reason: value(reason),
            carried: carried.into_iter().map(value).collect(),
            is_late: entry.marks.is_late(),
            is_told: entry.marks.is_told(),
            copies: entry.marks.copies(),
        }
    };
    let mut views: Vec<_> = closed
        .iter()
        .map(|closed| SessionView {
            closed: Some((closed.closing.cause.name(), closed.closing.at)),
            told: Some((closed.issued.id, closed.issued.revision)),
            timing: Some(closed.timing),
            records: closed.entries.iter().map(record).collect(),
        })
        .collect();
    if !entries.is_empty() {
        views.push(SessionView {
            closed: None,
            told: early.map(|early| (early.issued.id, early.issued.revision)),
            timing: None,
            records: entries.iter().map(record).collect(),
        });
    }
    Ok(views)
}
