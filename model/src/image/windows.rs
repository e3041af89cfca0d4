//! Entries of a table of cells: the windows of a key, oldest first; or one window, where each stands
//! alone and is named by its bounds.
//!
//! A window is: its bounds (unless they are in the name), flags, the index of the next pane, the
//! words of the delta if it has news, those of the total if it has one.

use super::bytes::{Input, put_number};
use super::dirty::Dirty;
use super::form::{Form, put_sent, put_window, sent, window};
use super::keyed::Keyed;
use super::{ImageError, other_plan};
use crate::cells::{CellId, Meta};
use crate::table::KeyTable;

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
            let window = match named {
                Some(window) => window,
                None => window(&mut content)?,
            };
            let hash = self.cells.hash(&key);
            if number == 0 && self.cells.head(hash, &key, window).is_some() {
                return Ok(None);
            }
            let flags = content.byte()?;
            let has_news = flags & HAS_NEWS != 0;
            let (sent, index) = (sent(&mut content)?, content.small()?);
            let words = form.aggregates().words();
            let mut delta = vec![0; words];
            if has_news {
                form.words(&mut content, &mut delta)?;
            }
            let mut total = self.rules.keeps_total.then(|| vec![0; words]);
            if flags & HAS_TOTAL != 0 {
                let Some(total) = &mut total else {
                    return Err(other_plan("the accumulation mode"));
                };
                form.words(&mut content, total)?;
            }
            let meta = Meta { index, has_news, is_touched: false, sent, is_used: true };
            head = Some(self.restore(&key, window, meta, (&delta, total.as_deref())));
        }
        Ok(head)
    }
}
