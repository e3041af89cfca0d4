//! What somebody holds in the end who heeds every retraction: of sessions, and of groups of results.
//!
//! An error says what was told that must not be.

use crate::world::Seen;
use nilometer_model::batch::{KeyValues, Place, Session};
use nilometer_model::pane::{AccumulationMode, PaneKind};
use nilometer_model::plan::Stage;
use nilometer_model::sequence::spec::{Release, SequenceSpec};
use nilometer_model::sequence::{RecordField, record_fields};
use nilometer_model::value::Value;
use std::collections::BTreeMap;

/// Whether something is told of sessions that go on.
pub(crate) fn is_early(spec: &SequenceSpec) -> bool {
    matches!(spec.release, Release::Eager | Release::OnTerminal)
}

/// Whether a field of a session does not depend on what was told of it when.
pub(crate) fn is_told(spec: &SequenceSpec, field: RecordField) -> bool {
    let is_of_telling = matches!(field, RecordField::SessionId | RecordField::Revision);
    !(is_early(spec) && is_of_telling)
}

/// What sinks hold of a group of results.
pub(crate) fn held(stage: &Stage, panes: &[Seen]) -> Result<BTreeMap<Place, Vec<Value>>, String> {
    let mut held: BTreeMap<Place, Vec<Value>> = BTreeMap::new();
    for pane in panes.iter().filter(|pane| pane.stage == stage.id) {
        let (grouping, key) = (stage.name.clone(), pane.key.clone());
        let Seen { meta, values, .. } = pane;
        let place = Place { grouping, key, window: meta.window, is_other: meta.is_other };
        let before = held.remove(&place);
        match (meta.kind, stage.mode, before) {
            (PaneKind::Retract, _, before) => {
                if before.as_ref() != Some(values) {
                    return Err(format!("taken back, and was {before:?}: {pane:?}"));
                }
            }
            (PaneKind::Insert, AccumulationMode::Discarding, Some(before)) => {
                let sums = before.iter().zip(values).map(|pair| match pair {
                    (Value::Int(before), Value::Int(delta)) => Value::Int(before + delta),
                    pair => panic!("{pair:?} do not add up"),
                });
                held.insert(place, sums.collect());
            }
            (PaneKind::Insert, AccumulationMode::Retracting, Some(_)) if stage.top_k.is_none() => {
                return Err(format!("not taken back: {pane:?}"));
            }
            (PaneKind::Insert, _, _) => {
                held.insert(place, values.clone());
            }
        }
    }
    // What a mode that takes nothing back has left of nothing.
    if stage.mode != AccumulationMode::Retracting {
        held.retain(|_, values| values[0] != Value::Int(0));
    }
    Ok(held)
}

/// Sessions as they come to be told and taken back.
struct Live<'a> {
    spec: &'a SequenceSpec,
    fields: Vec<(RecordField, Box<str>)>,
    /// By name: the record, and its revision.
    live: BTreeMap<String, (Session, u32)>,
    taken_back: Option<Session>,
    /// Records of sessions that were forgotten, and have begun again.
    again: Vec<Session>,
}

/// The records of sessions that stand in the end; an error if there were two of one session at any
/// time, one was taken back that was not told, or one was corrected for nothing.
pub(crate) fn live(
    spec: &SequenceSpec,
    stage: &Stage,
    panes: &[Seen],
) -> Result<Vec<Session>, String> {
    let fields = record_fields(spec);
    let mut known =
        Live { spec, fields, live: BTreeMap::new(), taken_back: None, again: Vec::new() };
    for pane in panes.iter().filter(|pane| pane.stage == stage.id) {
        known.hears(&stage.name, pane).map_err(|rule| format!("{rule}: {pane:?}"))?;
    }
    match known.taken_back {
        None => {
            Ok(known.live.into_values().map(|(session, _)| session).chain(known.again).collect())
        }
        Some(session) => Err(format!("nothing replaces {session:?}")),
    }
}

impl Live<'_> {
    fn value<'s>(&self, session: &'s Session, wanted: RecordField) -> &'s Value {
        let at = self.fields.iter().position(|(field, _)| *field == wanted).unwrap();
        &session.values[at]
    }

    fn hears(&mut self, grouping: &str, pane: &Seen) -> Result<(), &'static str> {
        let (key, values) = (pane.key.clone(), pane.values.clone());
        let session =
            Session { grouping: grouping.into(), key, time: pane.meta.event_time, values };
        let name = format!("{:?}", self.value(&session, RecordField::SessionId));
        let revision = pane.meta.index;
        if *self.value(&session, RecordField::Revision) != Value::Int(revision.into()) {
            return Err("two revisions");
        }
        match pane.meta.kind {
            PaneKind::Retract => {
                if self.live.remove(&name) != Some((session.clone(), revision)) {
                    return Err("taken back, and was not told");
                }
                match self.taken_back.replace(session) {
                    None => Ok(()),
                    Some(_) => Err("nothing replaces what was taken back before"),
                }
            }
            PaneKind::Insert => {
                let before = self.taken_back.take();
                if (revision > 0) != before.is_some() {
                    return Err("a revision replaces the one before it, the first replaces none");
                }
                if let Some(before) = before {
                    self.replaces(&before, &session)?;
                }
                let Some((twice, _)) = self.live.insert(name, (session, revision)) else {
                    return Ok(());
                };
                // What the clock, or want of room, has made forget may begin again.
                let bounds = self.spec.bounds;
                let forgets = self.spec.idle_timeout_processing.is_some()
                    || bounds.sessions.or(bounds.bytes).is_some();
                self.again.push(twice);
                if forgets { Ok(()) } else { Err("two records of one session") }
            }
        }
    }

    fn replaces(&self, before: &Session, session: &Session) -> Result<(), &'static str> {
        let id = |session| self.value(session, RecordField::SessionId);
        let says = |session: &Session| {
            let said = self.fields.iter().zip(&session.values);
            let said = said.filter(|((field, _), _)| !field.is_count());
            said.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        if id(before) != id(session) {
            return Err("another one replaces it");
        }
        if before.time != session.time {
            return Err("it has moved");
        }
        if says(before) == says(session) { Err("corrected for nothing") } else { Ok(()) }
    }
}

/// Sessions, in an order, as far as `is_told` says of their fields.
pub(crate) fn sorted(
    spec: &SequenceSpec,
    sessions: &[Session],
    is_told: impl Fn(RecordField) -> bool,
) -> Vec<(KeyValues, String)> {
    let fields = record_fields(spec);
    let told = |session: &Session| {
        let said = fields.iter().zip(&session.values).filter(|((field, _), _)| is_told(*field));
        let said: Vec<_> = said.map(|((_, name), value)| format!("{name} {value:?}")).collect();
        (session.key.clone(), said.join(", "))
    };
    let mut sorted: Vec<_> = sessions.iter().map(told).collect();
    sorted.sort();
    sorted
}
