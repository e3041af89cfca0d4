//! Entries of a table of top-K lists: one parent key in one window, with all of its candidates.

use super::ImageError;
use super::bytes::{Input, put_number, put_wide_signed};
use super::dirty::Dirty;
use super::form::{Form, put_sent, sent};
use super::keyed::Keyed;
use crate::candidates::{Candidates, EntryId};
use crate::topk::{Group, Listed, Sent, TopKTable};

fn put_last(last: &Sent, form: &Form<'_>, out: &mut Vec<u8>) {
    put_sent(out, Some(last.timing));
    put_number(out, u64::from(last.index));
    form.put_words(out, &last.values);
}

fn read_last(input: &mut Input<'_>, form: &Form<'_>) -> Result<Sent, ImageError> {
    let timing = sent(input)?.ok_or(ImageError::Damaged("a timing is none"))?;
    Ok(Sent { timing, index: input.small()?, values: form.new_words(input)?.into() })
}

impl Keyed for TopKTable {
    fn entries(&self) -> Vec<u32> {
        let groups = (0..).zip(&self.groups).filter(|(_, group)| group.window.is_some());
        groups.map(|(number, _)| number).collect()
    }

    fn name(&self, entry: u32, name: &mut Vec<u64>) {
        if let Some(group) = self.groups.get(entry as usize) {
            group.name(name);
        }
    }

    fn dirty(&mut self) -> &mut Option<Box<Dirty>> {
        &mut self.dirty
    }

    fn put(&self, entry: u32, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
        let Some(group) = self.groups.get(entry as usize) else { return Ok(()) };
        let (layout, known) = (&self.layout, &group.candidates);
        put_sent(out, group.sent);
        put_number(out, u64::from(group.index));
        form.put_words(out, &group.total);
        put_number(out, known.len(layout) as u64);
        for entry in known.entries(layout) {
            form.put_key(out, &self.key, known.key(layout, entry));
            form.put_words(out, known.total(layout, entry));
        }
        put_number(out, group.news.len() as u64);
        out.push(u8::from(!group.news_values.is_empty()));
        let width = group.news_values.len() / group.news.len().max(1);
        let mut values = group.news_values.chunks_exact(width.max(1));
        for entry in &group.news {
            put_number(out, u64::from(*entry));
            form.put_words(out, values.next().unwrap_or_default());
        }
        put_number(out, group.listed.len() as u64);
        for listed in &group.listed {
            put_number(out, u64::from(listed.entry));
            put_wide_signed(out, listed.rank);
            put_last(&listed.sent, form, out);
        }
        out.push(u8::from(group.other.is_some()));
        if let Some(other) = &group.other {
            put_last(other, form, out);
        }
        Ok(())
    }

    fn install(
        &mut self,
        mut name: Input<'_>,
        mut content: Input<'_>,
        form: &Form<'_>,
    ) -> Result<Option<u32>, ImageError> {
        let (parent, window) = form.name(&mut name)?;
        let window = window.ok_or(ImageError::Damaged("a list has no window"))?;
        if self.find(&parent, window).is_some() {
            return Ok(None);
        }
        let mut read = Group { sent: sent(&mut content)?, ..Group::default() };
        read.index = content.small()?;
        read.total = form.new_words(&mut content)?;
        self.read_candidates(&mut read, &mut content, form)?;
        let count = read.candidates.len(&self.layout);
        let entry = |input: &mut Input<'_>| -> Result<EntryId, ImageError> {
            let place = input.small()?;
            let is_known = (place as usize) < count;
            is_known.then_some(place).ok_or(ImageError::Damaged("a list names no candidate"))
        };
        let news = content.number()?;
        let has_values = content.byte()? != 0;
        for number in 0..news {
            let place = entry(&mut content)?;
            read.news.push(place);
            read.candidates.set_news(&self.layout, place, Some(number as usize));
            if has_values {
                read.news_values.extend(form.new_words(&mut content)?);
            }
        }
        for _ in 0..content.number()? {
            let (entry, rank) = (entry(&mut content)?, content.wide_signed()?);
            read.listed.push(Listed { entry, rank, sent: read_last(&mut content, form)? });
        }
        if content.byte()? != 0 {
            read.other = Some(read_last(&mut content, form)?);
        }
        let number = self.group(&parent, window);
        if let Some(group) = self.groups.get_mut(number as usize) {
            (read.parent, read.window) = (std::mem::take(&mut group.parent), group.window);
            (read.armed, read.weight) = (group.armed, group.weight);
            *group = read;
        }
        Ok(Some(number))
    }
}

impl TopKTable {
    fn read_candidates(
        &self,
        into: &mut Group,
        input: &mut Input<'_>,
        form: &Form<'_>,
    ) -> Result<(), ImageError> {
        let mut candidates = Candidates::default();
        for _ in 0..input.number()? {
            let key = form.key(input, &self.key)?;
            let entry = candidates.insert(&self.layout, &key);
            form.words(input, candidates.total_mut(&self.layout, entry))?;
        }
        into.candidates = candidates;
        Ok(())
    }
}
