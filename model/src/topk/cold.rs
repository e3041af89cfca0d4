//! Groups of candidates as they go into pages and come back: one parent key in one window each.

use super::{Group, GroupId, TopKTable};
use crate::cold::{Candidate, Chills, Shelf, Wants};
use crate::time::{EventTime, Window};

impl TopKTable {
    /// The group of a parent key and window that is not in memory, if it is cold: it has come back.
    #[cold]
    pub(super) fn recall_group(&mut self, parent: &[u64], window: Window) -> Option<GroupId> {
        let mut name = parent.to_vec();
        name.extend([window.start(), window.end()].map(|bound| bound.as_millis() as u64));
        self.recall(&name)
    }

    /// Counts anew what a group takes.
    pub(super) fn weigh(&mut self, number: GroupId) {
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        let Group { parent, total, candidates, listed, news, news_values, .. } = group;
        let words = parent.len() + total.len() + news_values.len();
        // What a listed entry was sent as is as wide as a total.
        let lists = news.len() * 4 + listed.len() * (size_of::<super::Listed>() + total.len() * 8);
        let bytes = size_of::<Group>() + words * 8 + lists + candidates.bytes();
        self.bytes = self.bytes + bytes - std::mem::replace(&mut group.weight, bytes);
    }
}

impl Chills for TopKTable {
    fn shelf(&mut self) -> &mut Option<Box<Shelf>> {
        &mut self.shelf
    }

    fn shelf_ref(&self) -> Option<&Shelf> {
        self.shelf.as_deref()
    }

    fn has_window(&self) -> bool {
        true
    }

    fn reached(&self) -> EventTime {
        self.watermark.0
    }

    fn weigh_all(&mut self) {
        self.is_weighed = true;
        for number in 0..self.groups.len() as GroupId {
            self.weigh(number);
        }
    }

    fn held(&self) -> usize {
        self.bytes
    }

    fn candidates(&self, until: EventTime) -> Vec<Candidate> {
        let candidate = |(entry, group): (GroupId, &Group)| {
            let deadline = group.window.and(group.armed).filter(|armed| *armed > until)?;
            let candidate = Candidate { entry, is_used: group.is_used, deadline: Some(deadline) };
            (!group.is_touched).then_some(candidate)
        };
        (0..).zip(&self.groups).filter_map(candidate).collect()
    }

    fn wants(&self, entry: u32) -> Wants {
        let Some(group) = self.groups.get(entry as usize) else { return Wants::default() };
        let is_open = group.window.is_some_and(|window| self.watermark.0 < window.end());
        Wants { deadline: group.armed, open: u32::from(is_open), ..Wants::default() }
    }

    fn let_go(&mut self, entry: u32, _: &Wants) {
        self.remove(entry);
        // Room for those that come is kept for groups that come, and not for those that went.
        self.spare.clear();
    }

    /// Nothing is held back here.
    fn hold(&mut self, _: &Wants, _: bool) {}

    fn rearm(&mut self, entry: u32, wants: &Wants) {
        let Some(group) = self.groups.get_mut(entry as usize) else { return };
        group.is_used = true;
        let was = std::mem::replace(&mut group.armed, wants.deadline);
        if was != wants.deadline {
            // It was registered for what the watermark is now.
            if let Some(numbers) = was.and_then(|was| self.deadlines.get_mut(&was)) {
                numbers.retain(|number| *number != entry);
            }
            if let Some(deadline) = wants.deadline {
                self.deadlines.entry(deadline).or_default().push(entry);
            }
        }
        self.weigh(entry);
    }

    fn settle(&mut self) {
        self.deadlines.clear();
        for (number, group) in (0..).zip(&mut self.groups) {
            group.is_used = false;
            if let Some(deadline) = group.window.and(group.armed) {
                self.deadlines.entry(deadline).or_default().push(number);
            }
        }
    }
}
