//! Entries of a table of slices: all slices of a key, oldest first, each its start and its words.

use super::ImageError;
use super::bytes::{Input, put_number, put_signed};
use super::dirty::Dirty;
use super::form::Form;
use super::keyed::{Keyed, OfKey};
use super::view::WindowView;
use crate::sliding::SlidingTable;
use crate::time::{EventTime, Window};

impl Keyed for SlidingTable {
    fn entries(&self) -> Vec<u32> {
        self.actors().collect()
    }

    fn name(&self, entry: u32, name: &mut Vec<u64>) {
        name.extend_from_slice(self.key(entry));
    }

    fn of_key(&self, key: &[u64]) -> OfKey {
        OfKey::one(self.find(key))
    }

    fn dirty(&mut self) -> &mut Option<Box<Dirty>> {
        &mut self.dirty
    }

    fn put(&self, entry: u32, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
        put_number(out, self.slices_of(entry).count() as u64);
        for (start, values) in self.slices_of(entry) {
            put_signed(out, start.as_millis());
            form.put_words(out, values);
        }
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
        for _ in 0..content.number()? {
            let (start, words) = stored(&mut content, form)?;
            self.restore(&key, start, &words);
        }
        Ok(self.find(&key))
    }
}

/// A slice as it is stored: its start, and its words.
fn stored(content: &mut Input<'_>, form: &Form<'_>) -> Result<(EventTime, Vec<u64>), ImageError> {
    Ok((EventTime::from_millis(content.signed()?), form.new_words(content)?))
}

/// The slices of an entry, for people.
pub(super) fn view(
    content: &mut Input<'_>,
    form: &Form<'_>,
) -> Result<Vec<WindowView>, ImageError> {
    let count = content.number()?;
    let one = |_| {
        let (start, words) = stored(content, form)?;
        let news = Some(form.results((&*words).into()));
        Ok(WindowView { is_slice: true, news, ..WindowView::new(Window::new(start, start)) })
    };
    (0..count).map(one).collect()
}
