//! Entries of a table of machines: the open windows of a key, with their triggers, holds, what they
//! owe and what they keep.

use super::bytes::{Input, put_flags, put_number, put_signed};
use super::dirty::Dirty;
use super::form::{Form, put_sent, put_window, sent, window};
use super::keyed::{Keyed, OfKey};
use super::view::WindowView;
use super::{ImageError, other_plan};
use crate::aggregate::Values;
use crate::kept::{Kept, KeptValue};
use crate::key_machine::KeyMachine;
use crate::machine_table::MachineTable;
use crate::open_window::{OpenWindow, Owed};
use crate::time::EventTime;
use crate::trigger::TriggerState;

const HAS_NEWS: u8 = 1;
const HAS_LATE: u8 = 2;
const IS_WITHDRAWN: u8 = 4;
const IS_HELD: u8 = 8;
const IS_TOLD: u8 = 16;
const KEEPS_VALUES: u8 = 32;

fn put_open(open: &OpenWindow, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
    put_window(out, open.window);
    let kept = open.kept.iter(form.aggregates()).count();
    let flags = [
        (open.has_news, HAS_NEWS),
        (open.has_late, HAS_LATE),
        (open.is_withdrawn, IS_WITHDRAWN),
        (open.hold.is_some(), IS_HELD),
        (open.told.is_some(), IS_TOLD),
        (kept > 0, KEEPS_VALUES),
    ];
    put_flags(out, &flags);
    put_sent(out, open.sent);
    put_number(out, u64::from(open.index));
    put_signed(out, open.rows);
    for time in open.hold.iter().chain(&open.told) {
        put_signed(out, time.as_millis());
    }
    *out = postcard::to_extend(&open.trigger, std::mem::take(out))?;
    form.put_values(out, &open.delta)?;
    form.put_values(out, &open.total)?;
    put_number(out, open.owed.len() as u64);
    open.owed.iter().try_for_each(|owed| put_owed(owed, form, out))?;
    if kept > 0 {
        put_number(out, kept as u64);
        open.kept.iter(form.aggregates()).for_each(|value| put_kept(value, form, out));
    }
    Ok(())
}

/// A window as it is stored, and the values that it keeps.
fn stored(
    input: &mut Input<'_>,
    form: &Form<'_>,
) -> Result<(OpenWindow, Vec<KeptValue>), ImageError> {
    let window = window(input)?;
    let flags = input.byte()?;
    let has = |flag| flags & flag != 0;
    let (sent, index, rows) = (sent(input)?, input.small()?, input.signed()?);
    let mut time = |flag| -> Result<Option<EventTime>, ImageError> {
        if has(flag) { Ok(Some(EventTime::from_millis(input.signed()?))) } else { Ok(None) }
    };
    let (hold, told) = (time(IS_HELD)?, time(IS_TOLD)?);
    let (trigger, rest) = postcard::take_from_bytes::<TriggerState>(input.0)?;
    *input = Input(rest);
    let (delta, total) = (form.values(input)?, form.values(input)?);
    let mut owed = Vec::new();
    for _ in 0..input.number()? {
        owed.push(read_owed(input, form)?);
    }
    let kept = if has(KEEPS_VALUES) { input.number()? } else { 0 };
    let kept = (0..kept).map(|_| read_kept(input, form)).collect::<Result<_, _>>()?;
    let open = OpenWindow {
        window,
        delta,
        total,
        trigger,
        hold,
        owed,
        index,
        sent,
        is_withdrawn: has(IS_WITHDRAWN),
        told,
        rows,
        kept: Kept::default(),
        has_news: has(HAS_NEWS),
        has_late: has(HAS_LATE),
        is_touched: false,
    };
    Ok((open, kept))
}

fn open(
    input: &mut Input<'_>,
    table: &MachineTable,
    form: &Form<'_>,
) -> Result<OpenWindow, ImageError> {
    let (mut open, values) = stored(input, form)?;
    if !open.trigger.fits(&table.rules.trigger) {
        return Err(other_plan("a trigger"));
    }
    open.kept = Kept::new(&table.rules.keeps_values, form.aggregates());
    for value in values {
        let added = open.kept.add(value, form.aggregates(), form.symbols);
        added.map_err(|_| other_plan("a kept value"))?;
    }
    Ok(open)
}

/// The windows of an entry, for people.
pub(super) fn view(
    content: &mut Input<'_>,
    form: &Form<'_>,
) -> Result<Vec<WindowView>, ImageError> {
    let count = content.number()?;
    let one = |_| {
        let (open, _) = stored(content, form)?;
        let results = |values: &Values| (!values.is_absent()).then(|| form.results(values.view()));
        let (news, total) = (results(&open.delta), results(&open.total));
        let OpenWindow { window, sent, index, trigger, has_news, .. } = open;
        let news = news.filter(|_| has_news);
        let trigger = Some(trigger);
        Ok(WindowView { sent, index, news, total, trigger, ..WindowView::new(window) })
    };
    (0..count).map(one).collect()
}

fn put_owed(owed: &Owed, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
    put_window(out, owed.window);
    put_number(out, u64::from(owed.index));
    put_sent(out, owed.sent);
    out.push(u8::from(owed.told.is_some()));
    if let Some(told) = owed.told {
        put_signed(out, told.as_millis());
    }
    form.put_values(out, &owed.values)
}

fn read_owed(input: &mut Input<'_>, form: &Form<'_>) -> Result<Owed, ImageError> {
    let (window, index, sent) = (window(input)?, input.small()?, sent(input)?);
    let told = match input.byte()? {
        0 => None,
        _ => Some(EventTime::from_millis(input.signed()?)),
    };
    Ok(Owed { window, index, sent, told, values: form.values(input)? })
}

fn put_kept(value: KeptValue, form: &Form<'_>, out: &mut Vec<u8>) {
    put_number(out, value.aggregate as u64);
    form.put_datum(out, value.datum);
    put_signed(out, value.time.as_millis());
    put_signed(out, value.count);
}

fn read_kept(input: &mut Input<'_>, form: &Form<'_>) -> Result<KeptValue, ImageError> {
    let aggregate = input.small()? as usize;
    let accumulator = form.aggregates().accumulators().get(aggregate);
    let accumulator = accumulator.ok_or_else(|| other_plan("a kept value"))?;
    let datum = form.datum(input, (accumulator.ty, &accumulator.name))?;
    let (time, count) = (EventTime::from_millis(input.signed()?), input.signed()?);
    Ok(KeptValue { aggregate, datum, time, count })
}

impl Keyed for MachineTable {
    fn entries(&self) -> Vec<u32> {
        self.ids().collect()
    }

    fn name(&self, entry: u32, name: &mut Vec<u64>) {
        name.extend_from_slice(self.get(entry).map_or(&[], |actor| &actor.key));
    }

    fn of_key(&self, key: &[u64]) -> OfKey {
        OfKey::one(self.find(key))
    }

    fn dirty(&mut self) -> &mut Option<Box<Dirty>> {
        &mut self.dirty
    }

    fn put(&self, entry: u32, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
        let windows = self.get(entry).map_or(&[][..], |actor| &actor.machine.windows);
        put_number(out, windows.len() as u64);
        windows.iter().try_for_each(|open| put_open(open, form, out))
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
        let mut machine = KeyMachine::default();
        for _ in 0..content.number()? {
            machine.windows.push(open(&mut content, self, form)?);
        }
        Ok(Some(self.restore(&key, machine)))
    }
}
