//! Keys with slices as they go into pages and come back. Windows that have fired and are kept do so
//! by themselves, see [`crate::table`].

use super::{Actor, ActorId, SlidingTable, following};
use crate::cold::{Candidate, Chills, Shelf, Wants};
use crate::image::{Form, ImageError, Input, Keyed};
use crate::time::{EventTime, Watermark};

impl SlidingTable {
    /// The actor of a key that is not in memory, if it is cold: it has come back.
    #[cold]
    pub(super) fn recall_actor(&mut self, key: &[u64]) -> Option<ActorId> {
        self.recall(key)
    }

    /// The shelves: of windows that have fired and are kept, and of slices.
    pub(crate) fn shelves(&mut self) -> (&mut Option<Box<Shelf>>, &mut Option<Box<Shelf>>) {
        (self.windows.shelf(), &mut self.shelf)
    }

    /// Counts anew what an actor takes.
    pub(super) fn weigh(&mut self, id: ActorId) {
        let key_bytes = self.key_words * 8;
        if let Some(actor) = self.actors.get_mut(id as usize) {
            let bytes = actor.slices.bytes() + size_of::<Actor>() + key_bytes;
            self.bytes = self.bytes + bytes - std::mem::replace(&mut actor.weight, bytes);
        }
    }

    /// Something has come for an actor.
    pub(super) fn use_actor(&mut self, id: ActorId, is_heavier: bool) {
        if let Some(actor) = self.actors.get_mut(id as usize) {
            actor.is_used = true;
        }
        if is_heavier {
            self.weigh(id);
        }
    }

    /// What is cold waits for the clock, too.
    pub(crate) fn wait_for_cold(&mut self) {
        if self.shelf.as_ref().is_some_and(|shelf| !shelf.cold.is_empty()) {
            self.wait_for_mark();
        }
    }
}

impl Chills for SlidingTable {
    fn shelf(&mut self) -> &mut Option<Box<Shelf>> {
        &mut self.shelf
    }

    fn shelf_ref(&self) -> Option<&Shelf> {
        self.shelf.as_deref()
    }

    fn reached(&self) -> EventTime {
        self.windows.watermark.0
    }

    fn weigh_all(&mut self) {
        self.is_weighed = true;
        for id in self.actors().collect::<Vec<_>>() {
            self.weigh(id);
        }
    }

    fn held(&self) -> usize {
        self.bytes
    }

    fn candidates(&self, until: EventTime) -> Vec<Candidate> {
        let candidate = |id: ActorId| {
            let actor = self.actors.get(id as usize)?;
            let deadline = actor.next.map(|next| next.end()).filter(|end| *end > until)?;
            Some(Candidate { entry: id, is_used: actor.is_used, deadline: Some(deadline) })
        };
        self.actors().filter_map(candidate).collect()
    }

    fn wants(&self, entry: u32) -> Wants {
        let next = self.actors.get(entry as usize).and_then(|actor| actor.next);
        let open = self.sliced(entry).count() as u32;
        Wants { deadline: next.map(|next| next.end()), open, ..Wants::default() }
    }

    fn let_go(&mut self, entry: u32, _: &Wants) {
        self.retire(entry);
    }

    /// Nothing is held back here.
    fn hold(&mut self, _: &Wants, _: bool) {}

    /// Slices that are no more needed by a watermark that is being delivered are still needed by
    /// the windows that it completes.
    fn put_in(
        &mut self,
        (name, content): (Input<'_>, Input<'_>),
        form: &Form<'_>,
    ) -> Result<Option<u32>, ImageError> {
        let watermark = std::mem::replace(&mut self.windows.watermark, Watermark::MIN);
        let installed = self.install(name, content, form);
        self.windows.watermark = watermark;
        installed
    }

    fn rearm(&mut self, entry: u32, wants: &Wants) {
        let (grid, width) = (self.grid, self.sum.len());
        let Some(actor) = self.actors.get_mut(entry as usize) else { return };
        let windows = std::iter::successors(actor.next, |window| {
            following(&actor.slices, *window, (&grid, width))
        });
        let mut windows = windows.skip_while(|window| Some(window.end()) < wants.deadline);
        actor.next = windows.next();
        actor.is_used = true;
        if let Some(next) = actor.next {
            self.deadlines.entry(next.end()).or_default().push(entry);
        }
    }

    fn settle(&mut self) {
        self.deadlines.clear();
        for (id, actor) in (0..).zip(&mut self.actors) {
            actor.is_used = false;
            if let Some(next) = actor.next {
                self.deadlines.entry(next.end()).or_default().push(id);
            }
        }
    }
}
