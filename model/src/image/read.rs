//! From an image to the machines of a shard: everything is checked against the plan.
#![expect(clippy::indexing_slicing, reason = "lengths are checked against the plan first")]

use super::{
    ImageError, KeptImage, MachineImage, SentImage, SlicesImage, StageImage, Stored, Words,
    accumulators, other_plan,
};
use crate::aggregate::{AggregateLayout, Values};
use crate::candidates::Candidates;
use crate::cells::Meta;
use crate::kept::{Kept, KeptValue};
use crate::key::KeyLayout;
use crate::key_machine::KeyMachine;
use crate::machine_table::MachineTable;
use crate::sliding::SlidingTable;
use crate::symbol::Symbols;
use crate::table::KeyTable;
use crate::topk::{Listed, Sent, TopKTable};
use crate::value::{Datum, Type, Value, ip_address};

pub(super) struct Reader<'a> {
    pub(super) symbols: &'a Symbols,
}

impl Reader<'_> {
    /// A value that must be of type `ty`; `name` is what it is of.
    fn datum(&self, stored: &Stored, (ty, name): (Type, &str)) -> Result<Datum, ImageError> {
        let value = match stored {
            Stored::Null => Value::Null,
            Stored::Bool(truth) => Value::Bool(*truth),
            Stored::Int(number) => Value::Int(*number),
            Stored::Float(number) => Value::Float(*number),
            Stored::Text(text) => Value::Text((**text).into()),
            Stored::Object(text) => Value::Object((**text).into()),
            Stored::Ip(bits) => Value::Ip(ip_address(*bits)),
        };
        let datum = value.intern(self.symbols)?;
        if !crate::row::fits(datum, ty) {
            return Err(other_plan(&format!("the type of `{name}`")));
        }
        Ok(datum)
    }

    fn key(&self, layout: &KeyLayout, stored: &[Stored]) -> Result<Vec<u64>, ImageError> {
        if stored.len() != layout.fields().len() {
            return Err(other_plan("a key"));
        }
        let mut data = Vec::with_capacity(stored.len());
        for (value, field) in stored.iter().zip(layout.fields()) {
            data.push(self.datum(value, (field.ty, &field.name))?);
        }
        let mut key = vec![0; layout.words()];
        layout.write(&data, &mut key);
        Ok(key)
    }

    fn words(&self, layout: &AggregateLayout, image: &Words) -> Result<Vec<u64>, ImageError> {
        if image.words.len() != layout.words() {
            return Err(other_plan("an aggregate"));
        }
        let mut words = image.words.clone();
        let mut texts = image.texts.iter();
        for at in layout.symbol_words() {
            if words[at] != 0 {
                let text = texts.next().ok_or_else(|| other_plan("an aggregate"))?;
                let Datum::Text(symbol) = Value::Text((**text).into()).intern(self.symbols)? else {
                    continue;
                };
                words[at] = u64::from(symbol.number()) + 1;
            }
        }
        Ok(words)
    }

    pub(super) fn table(
        &self,
        table: &mut KeyTable,
        layout: &KeyLayout,
        image: StageImage,
    ) -> Result<(), ImageError> {
        for key_image in &image.keys {
            let key = self.key(layout, &key_image.key)?;
            // Oldest first: each newer one takes the head.
            for cell_image in key_image.cells.iter().rev() {
                let delta = self.words(&table.rules.aggregates, &cell_image.delta)?;
                let total = match &cell_image.total {
                    Some(total) => Some(self.words(&table.rules.aggregates, total)?),
                    None => None,
                };
                if total.is_some() != table.rules.keeps_total {
                    return Err(other_plan("the accumulation mode"));
                }
                let meta = Meta {
                    index: cell_image.index,
                    has_news: cell_image.has_news,
                    is_touched: false,
                    sent: cell_image.sent,
                };
                let values = (delta.as_slice(), total.as_deref());
                table.restore(&key, cell_image.window, meta, values, image.watermark);
            }
        }
        table.watermark = image.watermark;
        table.account = image.account;
        Ok(())
    }

    pub(super) fn sliding(
        &self,
        table: &mut SlidingTable,
        layout: &KeyLayout,
        mut image: StageImage,
    ) -> Result<(), ImageError> {
        if let Some(now) = image.now {
            table.start_at(now);
        }
        let sliced = std::mem::take(&mut image.slices);
        self.table(&mut table.windows, layout, image)?;
        for SlicesImage { key, slices } in sliced {
            let key = self.key(layout, &key)?;
            for (start, values) in slices {
                let values = self.words(&table.windows.rules.aggregates, &values)?;
                table.restore(&key, start, &values);
            }
        }
        Ok(())
    }

    pub(super) fn machines(
        &self,
        table: &mut MachineTable,
        layout: &KeyLayout,
        image: StageImage,
    ) -> Result<(), ImageError> {
        (table.watermark, table.output) = (image.watermark, image.output);
        table.account = image.account;
        if let Some(now) = image.now {
            table.start_at(now);
        }
        if !table.shares.restore(&image.shares) {
            return Err(other_plan("a trigger"));
        }
        for MachineImage { key, mut machine, texts, kept } in image.machines {
            let key = self.key(layout, &key)?;
            let mut texts = texts.into_iter();
            for Values { words, sides } in accumulators(&mut machine) {
                let aggregates = &table.rules.aggregates;
                if words.len() != aggregates.words() || !aggregates.give_sides(sides) {
                    return Err(other_plan("an aggregate"));
                }
                let named = aggregates.symbol_words().filter(|at| words[*at] != 0).count();
                let texts = texts.by_ref().take(named).collect();
                *words = self.words(aggregates, &Words { words: std::mem::take(words), texts })?;
            }
            self.keep(table, &mut machine, &kept)?;
            table.restore(&key, machine);
        }
        Ok(())
    }

    /// Gives the windows of a machine the values that they keep.
    fn keep(
        &self,
        table: &MachineTable,
        machine: &mut KeyMachine,
        kept: &[KeptImage],
    ) -> Result<(), ImageError> {
        let aggregates = &table.rules.aggregates;
        for open in &mut machine.windows {
            open.kept = Kept::new(&table.rules.keeps_values, aggregates);
        }
        for KeptImage { window, aggregate, value, time, count } in kept {
            let number = *aggregate as usize;
            let accumulator = aggregates.accumulators().get(number);
            let open = machine.windows.get_mut(*window as usize);
            let (Some(accumulator), Some(open)) = (accumulator, open) else {
                return Err(other_plan("a kept value"));
            };
            let datum = self.datum(value, (accumulator.ty, &accumulator.name))?;
            let value = KeptValue { aggregate: number, datum, time: *time, count: *count };
            let added = open.kept.add(value, aggregates, self.symbols);
            added.map_err(|_| other_plan("a kept value"))?;
        }
        Ok(())
    }

    pub(super) fn top_k(&self, table: &mut TopKTable, image: StageImage) -> Result<(), ImageError> {
        // Groups are registered for the deadline that follows the watermark.
        table.watermark = image.watermark;
        table.account = image.account;
        for group_image in &image.groups {
            let parent = self.key(&table.spec.parent, &group_image.parent)?;
            let number = table.group(&parent, group_image.window);
            let mut candidates = Candidates::default();
            for (key, total) in &group_image.candidates {
                let key = self.key(&table.key, key)?;
                let total = self.words(&table.rules.aggregates, total)?;
                let entry = candidates.insert(&table.layout, &key);
                candidates.total_mut(&table.layout, entry).copy_from_slice(&total);
            }
            let count = candidates.len(&table.layout);
            let entry = |place: u32| {
                let is_known = (place as usize) < count;
                is_known.then_some(place).ok_or_else(|| other_plan("a top-K list"))
            };
            let sent = |sent: &SentImage| -> Result<Sent, ImageError> {
                let values = self.words(&table.rules.aggregates, &sent.values)?;
                Ok(Sent { values: values.into(), index: sent.index, timing: sent.timing })
            };
            let mut listed = Vec::new();
            for (place, rank, known) in &group_image.listed {
                listed.push(Listed { entry: entry(*place)?, rank: *rank, sent: sent(known)? });
            }
            let other = group_image.other.as_ref().map(sent).transpose()?;
            let total = self.words(&table.rules.aggregates, &group_image.total)?;
            let (mut news, mut news_values) = (Vec::new(), Vec::new());
            for (place, values) in &group_image.news {
                news.push(entry(*place)?);
                if let Some(values) = values {
                    news_values.extend(self.words(&table.rules.aggregates, values)?);
                }
            }
            for (index, entry) in news.iter().enumerate() {
                candidates.set_news(&table.layout, *entry, Some(index));
            }
            if let Some(group) = table.groups.get_mut(number as usize) {
                group.candidates = candidates;
                group.total = total;
                group.listed = listed;
                group.news = news;
                group.news_values = news_values;
                group.other = other;
                group.index = group_image.index;
                group.sent = group_image.sent;
            }
        }
        Ok(())
    }
}
