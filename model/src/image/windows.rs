//! Entries of a table of cells: the windows of a key, oldest first; or one window, where each stands
//! alone and is named by its bounds.
//!
//! A window is: its bounds (unless they are in the name), flags, the index of the next pane, the
//! words of the delta if it has news, those of the total if it has one.

use super::bytes::{Input, put_number};
use super::dirty::Dirty;
use super::form::{Form, put_sent, put_window, sent, window};
use super::keyed::{Keyed, OfKey};
use super::view::WindowView;
use super::{ImageError, other_plan};
use crate::cells::{CellId, Meta};
use crate::pane::Timing;
use crate::table::KeyTable;
use crate::time::Window;

const HAS_NEWS: u8 = 1;
const HAS_TOTAL: u8 = 2;

fn put_cell(table: &KeyTable, cell: CellId, form: &Form<'_>, out: &mut Vec<u8>) {
    let cells = &table.cells;
    if !form.has_window {
        put_window(out, cells.window(cell));
    }
    let (meta, total) = (cells.meta(cell), cells.total(cell));
    let has_total = total.iter().any(|word| *word != 0);
    out.push(if meta.has_news { HAS_NEWS } else { 0 } | if has_total { HAS_TOTAL } else { 0 });
    put_sent(out, meta.sent);
    put_number(out, u64::from(meta.index));
    if meta.has_news {
        form.put_words(out, cells.delta(cell));
    }
    if has_total {
        form.put_words(out, total);
    }
}

impl Keyed for KeyTable {
    fn entries(&self) -> Vec<u32> {
        self.cells.heads().collect()
    }

    fn name(&self, entry: u32, name: &mut Vec<u64>) {
        self.cells.name(entry, name);
    }

    fn of_key(&self, key: &[u64]) -> OfKey {
        if self.cells.is_apart() {
            let heads = (self.cells.heads(), self.cells.keys());
            return OfKey::walk(heads, |entry, name| self.name(entry, name), key);
        }
        // Where windows of a key stand together, any window finds them.
        OfKey::one(self.cells.head(self.cells.hash(key), key, Window::GLOBAL))
    }

    fn dirty(&mut self) -> &mut Option<Box<Dirty>> {
        &mut self.cells.dirty
    }

    fn put(&self, entry: u32, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError> {
        if self.cells.next(entry).is_none() {
            put_number(out, 1);
            put_cell(self, entry, form, out);
            return Ok(());
        }
        let chain = std::iter::successors(Some(entry), |cell| self.cells.next(*cell));
        let chain: Vec<_> = chain.collect();
        put_number(out, chain.len() as u64);
        chain.iter().rev().for_each(|cell| put_cell(self, *cell, form, out));
        Ok(())
    }

    fn install(
        &mut self,
        mut name: Input<'_>,
        mut content: Input<'_>,
        form: &Form<'_>,
    ) -> Result<Option<u32>, ImageError> {
        let (key, named) = form.name(&mut name)?;
        let mut head = None;
        for number in 0..content.number()? {
            let stored = stored(&mut content, named, form)?;
            let hash = self.cells.hash(&key);
            if number == 0 && self.cells.head(hash, &key, stored.window).is_some() {
                return Ok(None);
            }
            let Stored { window, sent, index, delta, total: stored } = stored;
            let words = form.aggregates().words();
            let mut total = self.rules.keeps_total.then(|| vec![0; words]);
            if let Some(stored) = stored {
                total.as_mut().ok_or_else(|| other_plan("the accumulation mode"))?;
                total = Some(stored);
            }
            let has_news = delta.is_some();
            let delta = delta.unwrap_or_else(|| vec![0; words]);
            let meta = Meta { index, has_news, is_touched: false, sent, is_used: true };
            head = Some(self.restore(&key, window, meta, (&delta, total.as_deref())));
        }
        Ok(head)
    }
}

/// A window as it is stored.
struct Stored {
    window: Window,
    sent: Option<Timing>,
    index: u32,
    delta: Option<Vec<u64>>,
    total: Option<Vec<u64>>,
}

fn stored(
    content: &mut Input<'_>,
    named: Option<Window>,
    form: &Form<'_>,
) -> Result<Stored, ImageError> {
    let window = match named {
        Some(window) => window,
        None => window(content)?,
    };
    let flags = content.byte()?;
    let (sent, index) = (sent(content)?, content.small()?);
    let mut words = |flag| -> Result<_, ImageError> {
        if flags & flag == 0 { Ok(None) } else { Ok(Some(form.new_words(content)?)) }
    };
    let (delta, total) = (words(HAS_NEWS)?, words(HAS_TOTAL)?);
    Ok(Stored { window, sent, index, delta, total })
}

/// The windows of an entry, for people.
pub(super) fn view(
    content: &mut Input<'_>,
    named: Option<Window>,
    form: &Form<'_>,
) -> Result<Vec<WindowView>, ImageError> {
    let count = content.number()?;
    let one = |_| {
        let Stored { window, sent, index, delta, total } = stored(content, named, form)?;
        let results = |words: Vec<u64>| form.results((&*words).into());
        let (news, total) = (delta.map(results), total.map(results));
        Ok(WindowView { sent, index, news, total, ..WindowView::new(window) })
    };
    (0..count).map(one).collect()
}
