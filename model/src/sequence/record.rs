//! The record of a session: a verdict as fields with names, for sinks and for groups that read it.
//!
//! The fields are laid out as the results of a stage are, each with the largest of one value, so
//! that whatever carries results carries sessions. Their names and order are public.

use super::entry::Entry;
use super::rules::Rules;
use super::spec::SequenceSpec;
use super::verdict::{Cause, Counts, Outcome, Standing, StepVerdict, Verdict};
use crate::aggregate::{AggregateLayout, Function, Values};
use crate::key::{KeyLayout, encode_data, stable_hash};
use crate::row::Field;
use crate::symbol::{Symbol, Symbols};
use crate::time::EventTime;
use crate::value::{Datum, Type};

/// A field of the record of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordField {
    /// How it came out.
    Outcome,
    /// The step that failed, is stuck, or was the last.
    Step,
    /// Why it failed.
    Reason,
    /// Why the session was closed.
    CloseCause,
    /// Its first record, ms.
    First,
    /// Its last record, ms.
    Last,
    /// When the chain was complete, ms.
    Connected,
    /// When it was closed, ms.
    Closed,
    /// From the first record of the first step until the chain was complete, ms.
    TimeToConnect,
    /// Records.
    Events,
    /// Records that came behind others that stand after them.
    OutOfOrder,
    /// Records that came late.
    Late,
    /// Copies that were dropped.
    Duplicate,
    /// How often the chain began anew.
    Restarts,
    /// How often the client moved once the chain was complete.
    Roams,
    /// Steps that failed in these.
    RoamFailures,
    /// Its name: the hash of what makes its first record the one it is, as it was told first.
    SessionId,
    /// How often it was told before.
    Revision,
    /// A field taken over from its records.
    Carried(usize),
    /// Something about one step.
    OfStep(usize, StepField),
}

impl RecordField {
    /// Whether it only counts, so that nothing is told anew for it.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::Events | Self::OutOfOrder | Self::Late | Self::Duplicate | Self::Revision
        )
    }
}

/// What a session says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepField {
    /// `success`, `failure` or `open`; null if nothing came.
    Result,
    /// Beginning of the first attempt, ms.
    Start,
    /// When its result came, ms.
    End,
    /// From the beginning to the result, ms.
    Duration,
    /// Attempts, those before the chain began anew included.
    Attempts,
    /// The last status.
    Status,
    /// Why it came out so.
    Reason,
    /// Whether it took longer than it should.
    Slow,
}

/// The fields of a session that are not about a step, and their names.
const FIELDS: [(RecordField, &str); 18] = [
    (RecordField::Outcome, "outcome"),
    (RecordField::Step, "step"),
    (RecordField::Reason, "reason"),
    (RecordField::CloseCause, "close_cause"),
    (RecordField::First, "t_first"),
    (RecordField::Last, "t_last"),
    (RecordField::Connected, "t_connected"),
    (RecordField::Closed, "t_closed"),
    (RecordField::TimeToConnect, "time_to_connect_ms"),
    (RecordField::Events, "n_events"),
    (RecordField::OutOfOrder, "n_out_of_order"),
    (RecordField::Late, "n_late"),
    (RecordField::Duplicate, "n_duplicate"),
    (RecordField::Restarts, "restarts"),
    (RecordField::Roams, "roams"),
    (RecordField::RoamFailures, "roam_failures"),
    (RecordField::SessionId, "session_id"),
    (RecordField::Revision, "revision"),
];

/// What is said of each step, and how these names end.
const STEP_FIELDS: [(StepField, &str); 8] = [
    (StepField::Result, "result"),
    (StepField::Start, "start"),
    (StepField::End, "end"),
    (StepField::Duration, "ms"),
    (StepField::Attempts, "attempts"),
    (StepField::Status, "status"),
    (StepField::Reason, "reason"),
    (StepField::Slow, "slow"),
];

/// The fields of the record of a session, in order: what each is, and its name.
pub fn record_fields(spec: &SequenceSpec) -> Vec<(RecordField, Box<str>)> {
    let plain = FIELDS.iter().map(|(field, name)| (*field, (*name).into()));
    let carried = spec.carried.iter().enumerate();
    let carried =
        carried.map(|(number, carried)| (RecordField::Carried(number), carried.field.clone()));
    let steps = spec.steps.iter().enumerate().flat_map(|(number, step)| {
        STEP_FIELDS.iter().map(move |(field, name)| {
            (RecordField::OfStep(number, *field), format!("{}_{name}", step.name).into())
        })
    });
    plain.chain(carried).chain(steps).collect()
}

/// The record of a session as results of a stage; `fields` are those of the records that it is made
/// of.
pub fn record_layout(spec: &SequenceSpec, fields: &[Field]) -> AggregateLayout {
    let type_of = |name: &str| {
        let known = fields.iter().find(|field| &*field.name == name);
        known.map_or(Type::Text, |field| field.ty)
    };
    let reason = spec.reason.as_deref().map_or(Type::Text, type_of);
    AggregateLayout::new(record_fields(spec).into_iter().map(|(field, name)| {
        let ty = match field {
            RecordField::Outcome
            | RecordField::Step
            | RecordField::CloseCause
            | RecordField::OfStep(_, StepField::Result | StepField::Status) => Type::Text,
            RecordField::Reason | RecordField::OfStep(_, StepField::Reason) => reason,
            RecordField::First
            | RecordField::Last
            | RecordField::Connected
            | RecordField::Closed
            | RecordField::TimeToConnect
            | RecordField::OfStep(_, StepField::Start | StepField::End | StepField::Duration) => {
                Type::I64
            }
            RecordField::Events
            | RecordField::OutOfOrder
            | RecordField::Late
            | RecordField::Duplicate
            | RecordField::Restarts
            | RecordField::Roams
            | RecordField::RoamFailures
            | RecordField::Revision
            | RecordField::OfStep(_, StepField::Attempts) => Type::U32,
            RecordField::SessionId => Type::U64,
            RecordField::Carried(number) => {
                spec.carried.get(number).map_or(Type::Text, |carried| type_of(&carried.field))
            }
            RecordField::OfStep(_, StepField::Slow) => Type::Bool,
        };
        (name, Function::Max, ty)
    }))
}

/// What is told of a session that has been told before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Issued {
    /// Its name.
    pub(crate) id: u64,
    /// The time of its first record, as it was told first.
    pub(crate) first: EventTime,
    /// The time at which it counts.
    pub(crate) time: EventTime,
    /// How often it was told before.
    pub(crate) revision: u32,
}

impl Issued {
    /// The same, told once more.
    pub(crate) const fn again(self) -> Self {
        Self { revision: self.revision.saturating_add(1), ..self }
    }
}

/// The name of a session of `key` that was named after `record`: the hash of what makes it the record
/// it is, the key, the instant, and its `id`, or its step and status. Fixed for ever. A record is of
/// one session, so no two have one name.
pub(crate) fn session_id(
    (layout, key): (&KeyLayout, &[u64]),
    record: &Entry,
    (rules, symbols): (&Rules, &Symbols),
) -> u64 {
    let mut encoded = Vec::with_capacity(128);
    encode_data(layout.data(key), symbols, &mut encoded);
    encoded.extend_from_slice(&record.time.as_millis().to_be_bytes());
    if record.id == 0 {
        let texts = [rules.name(usize::from(record.step)), record.status()];
        encode_data(texts.map(|text| typed(text, Type::Text)), symbols, &mut encoded);
    } else {
        encoded.extend_from_slice(&record.id.to_be_bytes());
    }
    stable_hash(&encoded)
}

/// Writes the records of sessions of one stage.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    fields: Vec<RecordField>,
    pub(crate) layout: AggregateLayout,
    outcomes: Vec<u32>,
    causes: Vec<u32>,
    standings: [u32; 3],
}

impl RecordWriter {
    pub(crate) fn new(fields: &[RecordField], layout: &AggregateLayout, symbols: &Symbols) -> Self {
        let symbol = |text: &str| symbols.intern(text).map_or(u32::MAX, Symbol::number);
        let standings = [Standing::Open, Standing::Succeeded, Standing::Failed];
        Self {
            fields: fields.to_vec(),
            layout: layout.clone(),
            outcomes: Outcome::ALL.iter().map(|outcome| symbol(outcome.name())).collect(),
            causes: Cause::ALL.iter().map(|cause| symbol(cause.name())).collect(),
            standings: standings.map(|standing| symbol(standing.name().unwrap_or_default())),
        }
    }

    /// The values of a record.
    pub(crate) fn write(
        &self,
        (verdict, counts): (&Verdict, Counts),
        issued: Issued,
        rules: &Rules,
    ) -> Values {
        let mut values = self.layout.empty();
        for (index, field) in self.fields.iter().enumerate() {
            let ty = self.layout.accumulators().get(index).map_or(Type::Text, |own| own.ty);
            let datum = self.datum((*field, ty), (verdict, counts), issued, rules);
            self.layout.put(&mut values, index, datum);
        }
        values
    }

    /// Whether two records say the same, but for what only counts.
    pub(crate) fn is_same(&self, a: &Values, b: &Values) -> bool {
        let said = self.fields.iter().enumerate().filter(|(_, field)| !field.is_count());
        said.map(|(index, _)| index)
            .all(|index| self.layout.finish(a, index) == self.layout.finish(b, index))
    }

    fn datum(
        &self,
        (field, ty): (RecordField, Type),
        (verdict, counts): (&Verdict, Counts),
        issued: Issued,
        rules: &Rules,
    ) -> Datum {
        let text = |known: Option<&u32>| {
            known.map_or(Datum::Null, |number| Datum::Text(Symbol::from_number(*number)))
        };
        let number = |number: u32| Datum::Int(number.into());
        match field {
            RecordField::Outcome => text(self.outcomes.get(verdict.outcome as usize)),
            RecordField::Step => text(verdict.step.and_then(|step| rules.name(step)).as_ref()),
            RecordField::Reason => typed(verdict.reason, ty),
            RecordField::CloseCause => {
                let cause = verdict.closing.map(|closing| closing.cause as usize);
                text(cause.and_then(|cause| self.causes.get(cause)))
            }
            RecordField::First => instant(Some(verdict.first)),
            RecordField::Last => instant(Some(verdict.last)),
            RecordField::Connected => instant(verdict.connected),
            RecordField::Closed => instant(verdict.closing.map(|closing| closing.at)),
            RecordField::TimeToConnect => {
                let both = verdict.connected.zip(verdict.begun);
                both.map_or(Datum::Null, |(connected, begun)| {
                    Datum::Int(connected.since(begun).as_millis().into())
                })
            }
            RecordField::Events => number(counts.records),
            RecordField::OutOfOrder => number(counts.out_of_order),
            RecordField::Late => number(counts.late),
            RecordField::Duplicate => number(counts.copies),
            RecordField::Restarts => number(verdict.restarts),
            RecordField::Roams => number(verdict.roams),
            RecordField::RoamFailures => number(verdict.roam_failures),
            RecordField::SessionId => Datum::Int(issued.id.into()),
            RecordField::Revision => number(issued.revision),
            RecordField::Carried(field) => typed(verdict.carried.get(field).copied().flatten(), ty),
            RecordField::OfStep(step, field) => {
                let (Some(known), Some(spec)) = (verdict.steps.get(step), rules.steps().get(step))
                else {
                    return Datum::Null;
                };
                match field {
                    StepField::Slow => known.is_slow(spec).map_or(Datum::Null, Datum::Bool),
                    StepField::Result
                    | StepField::Start
                    | StepField::End
                    | StepField::Duration
                    | StepField::Attempts
                    | StepField::Status
                    | StepField::Reason => self.of_step(known, (field, ty)),
                }
            }
        }
    }

    fn of_step(&self, step: &StepVerdict, (field, ty): (StepField, Type)) -> Datum {
        let [open, success, failure] = self.standings;
        match field {
            StepField::Result => match step.standing {
                Standing::Unseen => Datum::Null,
                Standing::Open => Datum::Text(Symbol::from_number(open)),
                Standing::Succeeded => Datum::Text(Symbol::from_number(success)),
                Standing::Failed => Datum::Text(Symbol::from_number(failure)),
            },
            StepField::Start => instant(step.start),
            StepField::End => instant(step.end),
            StepField::Duration => step
                .duration()
                .map_or(Datum::Null, |duration| Datum::Int(duration.as_millis().into())),
            StepField::Attempts => Datum::Int(step.attempts.into()),
            StepField::Status => typed(step.status, Type::Text),
            StepField::Reason => typed(step.reason, ty),
            StepField::Slow => Datum::Null,
        }
    }
}

fn instant(time: Option<EventTime>) -> Datum {
    time.map_or(Datum::Null, |time| Datum::Int(time.as_millis().into()))
}

/// A value of at most 32 bits, as its field has it.
pub(crate) fn typed(value: Option<u32>, ty: Type) -> Datum {
    let Some(value) = value else { return Datum::Null };
    match ty {
        Type::Text => Datum::Text(Symbol::from_number(value)),
        Type::Object => Datum::Object(Symbol::from_number(value)),
        Type::Bool => Datum::Bool(value != 0),
        Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::I64
        | Type::Big
        | Type::F64
        | Type::Ip => Datum::Int(value.into()),
    }
}
