//! The rules of a sequence, bound: steps and statuses as symbols, fields as slots of rows.
//!
//! A record is parsed once, when it comes; behind that no text is looked at any more.

use super::entry::{Class, Entry};
use super::spec::{Regress, Release, SequenceSpec, StepSpec};
use crate::key::stable_datum_hash;
use crate::plan::SequenceInput;
use crate::row::{Position, Slot, read};
use crate::symbol::{Symbol, Symbols};
use crate::time::{EventTime, Span, Watermark};
use crate::value::Datum;
use std::sync::Arc;

/// The rules of a sequence, as its key actors need them.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) spec: Arc<SequenceSpec>,
    /// How long what was told of a session may be corrected, and how late a record may be.
    pub(crate) allowed_lateness: Span,
    slots: Slots,
    /// By number: the chain, then what ends a session.
    names: Vec<u32>,
    /// By step of the chain: what statuses say.
    classes: Vec<Vec<(u32, Class)>>,
    /// The first step that the chain is not complete without; the first of all if there is none.
    pub(crate) first_step: usize,
}

#[derive(Debug)]
struct Slots {
    step: Slot,
    status: Option<Slot>,
    reason: Option<Slot>,
    id: Option<Slot>,
    carried: Vec<Slot>,
}

impl Rules {
    pub(crate) fn new(input: &SequenceInput, allowed_lateness: Span, symbols: &Symbols) -> Self {
        let spec = Arc::clone(&input.spec);
        let slots = Slots {
            step: input.step,
            status: input.status,
            reason: input.reason,
            id: input.id,
            carried: input.carried.clone(),
        };
        Self::bind(spec, slots, allowed_lateness, symbols)
    }

    fn bind(
        spec: Arc<SequenceSpec>,
        slots: Slots,
        allowed_lateness: Span,
        symbols: &Symbols,
    ) -> Self {
        let symbol = |text: &str| symbols.intern(text).map_or(u32::MAX, Symbol::number);
        let names = spec.steps.iter().map(|step| &step.name).chain(&spec.ends);
        let names = names.map(|name| symbol(name)).collect();
        let classes = spec.steps.iter().map(|step| {
            let of = |texts: &[Box<str>], class| {
                texts.iter().map(|text| (symbol(text), class)).collect::<Vec<_>>()
            };
            let mut classes = of(&step.success, Class::Success);
            classes.extend(of(&step.failure, Class::Failure));
            classes.extend(of(&step.start, Class::Start));
            classes
        });
        let classes = classes.collect();
        let first_step = spec.steps.iter().position(|step| !step.optional).unwrap_or(0);
        Self { allowed_lateness, slots, names, classes, first_step, spec }
    }

    /// The steps of the chain.
    pub(crate) fn steps(&self) -> &[StepSpec] {
        &self.spec.steps
    }

    /// The symbol of the name of step number `step`.
    pub(crate) fn name(&self, step: usize) -> Option<u32> {
        self.names.get(step).copied()
    }

    /// Whether records of one key tell which of them are copies.
    pub(crate) const fn has_id(&self) -> bool {
        self.slots.id.is_some()
    }

    /// The record in `row`; `None` if its step is not known.
    pub(crate) fn entry(
        &self,
        row: &[u64],
        (time, position): (EventTime, Position),
        symbols: &Symbols,
    ) -> Option<Entry> {
        let number = small(read(row, self.slots.step))?;
        let step = self.names.iter().position(|name| *name == number)?;
        let status = self.slots.status.and_then(|slot| small(read(row, slot)));
        let class = match self.classes.get(step) {
            None => Class::End,
            Some(_) if self.slots.status.is_none() => Class::Success,
            Some(classes) => status
                .and_then(|status| classes.iter().find(|(known, _)| *known == status))
                .map_or(Class::Other, |(_, class)| *class),
        };
        let id = self.slots.id.map(|slot| read(row, slot)).filter(|id| *id != Datum::Null);
        let id = id.map_or(0, |id| stable_datum_hash(id, symbols));
        // Steps and ends are few: their numbers fit.
        let step = u8::try_from(step).ok()?;
        let place = (position.partition, position.offset);
        let mut entry = Entry { id, ..Entry::new(time, place, (step, class)) };
        entry.set_status(status);
        entry.set_reason(self.slots.reason.and_then(|slot| small(read(row, slot))));
        for (field, slot) in self.slots.carried.iter().enumerate() {
            entry.set_carried(field, small(read(row, *slot)));
        }
        Some(entry)
    }

    /// How far records have been let in: those before it.
    pub(crate) fn released(&self, watermark: Watermark) -> EventTime {
        watermark.0.saturating_sub(self.spec.release.delay())
    }

    /// Whether a record is too late for a key that has no session.
    pub(crate) fn is_lost(&self, entry: &Entry, watermark: Watermark) -> bool {
        entry.time < self.released(watermark) && self.is_expired(entry.time, watermark)
    }

    /// Whether a session can end with this record, or before it, whatever else comes.
    pub(crate) fn may_close(&self, entry: &Entry) -> bool {
        if self.spec.regress == Regress::Session {
            return true;
        }
        match entry.class {
            Class::End => true,
            Class::Success => self.spec.close_on_success,
            Class::Start | Class::Other | Class::Failure => false,
        }
    }

    /// Whether a record at `time` is too late, whatever it belongs to.
    pub(crate) fn is_expired(&self, time: EventTime, watermark: Watermark) -> bool {
        time.later(self.allowed_lateness) < watermark.0
    }

    /// When a session that is closed at `active` is gone in any case; `is_passed` says whether the
    /// watermark has come so far. `None` where the watermark decides.
    pub(crate) fn forgotten_at(&self, active: Span, is_passed: bool) -> Option<Span> {
        // While sources wait for room, the watermark waits with them.
        if is_passed && !self.spec.bounds.may_pause() {
            return None;
        }
        let wait = self.spec.idle_timeout_processing.or(self.wait_max())?;
        Some(active.saturating_add(wait).saturating_add(self.allowed_lateness))
    }

    /// For how long by the clock records wait at most, if there is such a limit.
    pub(crate) fn wait_max(&self) -> Option<Span> {
        match self.spec.release {
            Release::BoundedWait(wait) => Some(wait),
            Release::Watermark
            | Release::WatermarkPlus(_)
            | Release::Eager
            | Release::OnTerminal => None,
        }
    }
}

/// A value of at most 32 bits.
pub(crate) fn small(datum: Datum) -> Option<u32> {
    match datum {
        Datum::Text(symbol) | Datum::Object(symbol) => Some(symbol.number()),
        Datum::Bool(truth) => Some(u32::from(truth)),
        Datum::Int(number) => u32::try_from(number).ok(),
        Datum::Null | Datum::Float(_) | Datum::Ip(_) => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::row::{Field, RowLayout};
    use crate::value::Type;

    /// The rules of `spec`, whose records have a step and a status only.
    pub(crate) fn rules(spec: SequenceSpec, symbols: &Symbols) -> Rules {
        let layout =
            RowLayout::new([Field::new("step", Type::Text), Field::new("status", Type::Text)]);
        let slots = Slots {
            step: layout.slot("step").unwrap(),
            status: layout.slot("status"),
            reason: None,
            id: None,
            carried: Vec::new(),
        };
        Rules::bind(Arc::new(spec), slots, Span::ZERO, symbols)
    }
}
