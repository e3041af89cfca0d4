//! How long a change of what is read takes: from when the group is heard to when it is done.

use super::Poller;
use crate::kafka::queue::name;
use crate::source::{Change, Rebalance};
use std::sync::Arc;
use std::time::SystemTime;

/// Changes that are under way.
#[derive(Debug, Default)]
pub(super) struct Rebalances {
    /// Since the group gave what is not read yet.
    given: Option<SystemTime>,
    /// Since the group wants everything back, and what that is.
    wanted: Option<(SystemTime, Vec<Arc<str>>)>,
}

impl Poller {
    /// The group has given partitions.
    pub(super) fn hear_given(&mut self) {
        self.rebalances.given = Some(SystemTime::now());
    }

    /// These are read from now on.
    pub(super) fn tell_gained(&mut self, names: &[(Arc<str>, i32)]) {
        // What waits for others came with the same change.
        let Some(since) = self.rebalances.given.filter(|_| !names.is_empty()) else { return };
        self.tell_change(Change::Gained, named(names), since);
    }

    /// The group wants back all that is read.
    pub(super) fn hear_wanted(&mut self) {
        let state = self.queue.lock();
        let ours = state.partitions.iter().zip(&self.tracks).filter(|(_, track)| track.is_ours);
        let names = ours.map(|(known, _)| name(&known.topic, known.partition)).collect();
        drop(state);
        self.rebalances.wanted = Some((SystemTime::now(), names));
    }

    /// What the group wanted back has been let go of, or was lost.
    pub(super) fn tell_gone(&mut self, change: Change) {
        if let Some((since, names)) = self.rebalances.wanted.take() {
            self.tell_change(change, names, since);
        }
    }

    /// These have been lost.
    pub(super) fn tell_lost(&mut self, names: &[(Arc<str>, i32)]) {
        self.tell_change(Change::Lost, named(names), SystemTime::now());
    }

    fn tell_change(&self, change: Change, partitions: Vec<Arc<str>>, since: SystemTime) {
        let took = (since, SystemTime::now());
        self.queue.lock().rebalances.push(Rebalance { change, partitions, took });
        self.queue.tell();
    }
}

fn named(names: &[(Arc<str>, i32)]) -> Vec<Arc<str>> {
    names.iter().map(|(topic, partition)| name(topic, *partition)).collect()
}
