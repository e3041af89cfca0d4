//! Entries of a table of top-K lists: one parent key in one window, with all of its candidates.

use super::ImageError;
use super::bytes::{Input, put_number, put_wide_signed};
use super::dirty::Dirty;
use super::form::{Form, put_sent, sent};
use super::keyed::{Keyed, OfKey};
use super::view::{ListedView, WindowView};
use crate::candidates::EntryId;
use crate::key::KeyLayout;
use crate::pane::Timing;
use crate::time::Window;
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
        self.numbers().collect()
    }

    fn name(&self, entry: u32, name: &mut Vec<u64>) {
        if let Some(group) = self.groups.get(entry as usize) {
            group.name(name);
        }
    }

    fn of_key(&self, key: &[u64]) -> OfKey {
        let groups = (self.numbers(), self.groups.len());
        OfKey::walk(groups, |entry, name| self.name(entry, name), key)
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
        let stored = Stored::read(&mut content, &self.key, form)?;
        let mut read = Group {
            sent: stored.sent,
            index: stored.index,
            total: stored.total,
            listed: stored.listed,
            other: stored.other,
            ..Group::default()
        };
        for (key, total) in stored.candidates {
            let entry = read.candidates.insert(&self.layout, &key);
            read.candidates.total_mut(&self.layout, entry).copy_from_slice(&total);
        }
        for (number, (entry, values)) in stored.news.into_iter().enumerate() {
            read.news.push(entry);
            read.candidates.set_news(&self.layout, entry, Some(number));
            read.news_values.extend(values);
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

/// A list as it is stored.
struct Stored {
    sent: Option<Timing>,
    index: u32,
    total: Vec<u64>,
    /// Keys, and totals.
    candidates: Vec<(Vec<u64>, Vec<u64>)>,
    /// Which candidates have news, and what came for them, where that is kept.
    news: Vec<(EntryId, Vec<u64>)>,
    listed: Vec<Listed>,
    other: Option<Sent>,
}

impl Stored {
    /// Reads a list of entries whose keys are of `layout`.
    fn read(
        content: &mut Input<'_>,
        layout: &KeyLayout,
        form: &Form<'_>,
    ) -> Result<Self, ImageError> {
        let (sent, index) = (sent(content)?, content.small()?);
        let total = form.new_words(content)?;
        let candidates = (0..content.number()?)
            .map(|_| Ok((form.key(content, layout)?, form.new_words(content)?)))
            .collect::<Result<Vec<_>, ImageError>>()?;
        let entry = |input: &mut Input<'_>| -> Result<EntryId, ImageError> {
            let place = input.small()?;
            let is_known = (place as usize) < candidates.len();
            is_known.then_some(place).ok_or(ImageError::Damaged("a list names no candidate"))
        };
        let (mut news, mut listed, mut other) = (Vec::new(), Vec::new(), None);
        let count = content.number()?;
        let has_values = content.byte()? != 0;
        for _ in 0..count {
            let place = entry(content)?;
            news.push((place, if has_values { form.new_words(content)? } else { Vec::new() }));
        }
        for _ in 0..content.number()? {
            let (entry, rank) = (entry(content)?, content.wide_signed()?);
            listed.push(Listed { entry, rank, sent: read_last(content, form)? });
        }
        if content.byte()? != 0 {
            other = Some(read_last(content, form)?);
        }
        Ok(Self { sent, index, total, candidates, news, listed, other })
    }
}

/// The list of an entry whose own keys are of `layout`, for people.
pub(super) fn view(
    content: &mut Input<'_>,
    (window, layout): (Window, &KeyLayout),
    form: &Form<'_>,
) -> Result<WindowView, ImageError> {
    let stored = Stored::read(content, layout, form)?;
    let place = |entry: usize| {
        let is_it = |listed: &Listed| listed.entry as usize == entry;
        stored.listed.iter().position(is_it).and_then(|place| u32::try_from(place + 1).ok())
    };
    let listed = stored.candidates.iter().enumerate().map(|(entry, (key, total))| ListedView {
        place: place(entry),
        key: form.named(layout, key),
        total: form.results((&**total).into()),
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_by_key(|candidate| candidate.place.unwrap_or(u32::MAX));
    Ok(WindowView {
        sent: stored.sent,
        index: stored.index,
        listed,
        total: Some(form.results((&*stored.total).into())),
        ..WindowView::new(window)
    })
}
