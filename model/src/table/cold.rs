//! Keys of a table of cells as they go into pages and come back.

use super::KeyTable;
use crate::cells::{CellId, Meta};
use crate::cold::{Candidate, Chills, Shelf, Wants};
use crate::time::{EventTime, Window};

impl KeyTable {
    /// The head of a key that is not in memory, if it is cold: it has come back.
    #[cold]
    pub(super) fn recall_head(&mut self, key: &[u64], window: Window) -> Option<CellId> {
        let name = self.name_of(key, window);
        self.recall(&name)
    }

    /// Whether a window is cold; seldom, so of one that is not.
    pub(crate) fn is_cold(&self, key: &[u64], window: Window) -> bool {
        let shelf = self.shelf.as_ref();
        shelf.is_some_and(|shelf| shelf.may_hold(&self.name_of(key, window)))
    }

    fn name_of(&self, key: &[u64], window: Window) -> Vec<u64> {
        let mut name = key.to_vec();
        if self.cells.is_apart() {
            name.extend([window.start(), window.end()].map(|bound| bound.as_millis() as u64));
        }
        name
    }

    /// The cells of a key.
    fn chain(&self, head: CellId) -> impl Iterator<Item = CellId> {
        std::iter::successors(Some(head), |cell| self.cells.next(*cell))
    }
}

impl Chills for KeyTable {
    fn shelf(&mut self) -> &mut Option<Box<Shelf>> {
        &mut self.shelf
    }

    fn shelf_ref(&self) -> Option<&Shelf> {
        self.shelf.as_deref()
    }

    fn has_window(&self) -> bool {
        self.cells.is_apart()
    }

    fn reached(&self) -> EventTime {
        self.watermark.0
    }

    fn held(&self) -> usize {
        self.cells.bytes_live()
    }

    fn candidates(&self, until: EventTime) -> Vec<Candidate> {
        let candidate = |head: CellId| {
            let deadline = self.cells.armed(head)?;
            // What has late news waits for the end of the round.
            let cells = self.chain(head).map(|cell| self.cells.meta(cell));
            let (is_used, is_touched) = cells.fold((false, false), |known, meta| {
                (known.0 | meta.is_used, known.1 | meta.is_touched)
            });
            let candidate = Candidate { entry: head, is_used, deadline: Some(deadline) };
            (deadline > until && !is_touched).then_some(candidate)
        };
        self.cells.heads().filter_map(candidate).collect()
    }

    fn wants(&self, entry: u32) -> Wants {
        let is_open = |cell: &CellId| self.watermark.0 < self.cells.window(*cell).end();
        let open = self.chain(entry).filter(is_open).count();
        Wants { deadline: self.cells.armed(entry), open: open as u32, ..Wants::default() }
    }

    fn let_go(&mut self, entry: u32, _: &Wants) {
        while self.cells.next(entry).is_some() {
            self.cells.remove(entry, None, entry);
        }
        self.cells.remove(entry, None, entry);
    }

    /// Nothing is held back here.
    fn hold(&mut self, _: &Wants, _: bool) {}

    fn rearm(&mut self, entry: u32, wants: &Wants) {
        if let Some(deadline) = wants.deadline {
            self.cells.arm(entry, deadline);
            self.deadlines.entry(deadline).or_default().push(entry);
        }
    }

    fn settle(&mut self) {
        self.deadlines.clear();
        for head in self.cells.heads().collect::<Vec<_>>() {
            for cell in self.chain(head).collect::<Vec<_>>() {
                self.cells.set_meta(cell, Meta { is_used: false, ..self.cells.meta(cell) });
            }
            if let Some(deadline) = self.cells.armed(head) {
                self.deadlines.entry(deadline).or_default().push(head);
            }
        }
    }
}
