//! What a poller does as one of several nodes of a group: what it is given, it reads once it is clear
//! that it is its own to read; what is wanted back, it lets go of once all that was read is stored.
//!
//! The assignment is "range", which is made anew as a whole and goes by names only, so that the same
//! nodes always get the same partitions, whoever was there first.

use super::super::nodes::{Facts, Group, Share, note, owner};
use super::{ANSWER, KafkaError, Known, Poller, carrier, list, name};
use crate::source::Change;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Poller {
    /// Whether the group is read by several nodes.
    pub(super) const fn is_shared(&self) -> bool {
        self.settings.nodes > 1
    }

    /// The group has given these, and nothing else.
    pub(super) fn is_given(&mut self, names: Vec<(Arc<str>, i32)>) {
        // The group is to hear that it was heard; what is read follows once that is clear.
        self.consumer.assign(&TopicPartitionList::new()).ok();
        self.standing.given(names);
    }

    /// The group wants all partitions back: nothing more is read of them.
    pub(super) fn let_go(&mut self) {
        let was_lost = self.consumer.assignment_lost();
        self.given.clear();
        self.hear_wanted();
        self.tracks.iter_mut().for_each(|track| track.is_ours = false);
        self.standing.taken(was_lost);
        if was_lost {
            self.consumer.unassign().ok();
            self.tell_gone(Change::Lost);
            self.say("lost touch with its group; goes on when it is back".into());
        } else if let Ok(reading) = self.consumer.assignment() {
            self.consumer.pause(&reading).ok();
        }
    }

    /// Tells the group that it may go on without this node's partitions, once an epoch holds all that
    /// was read of them.
    pub(super) fn acknowledge(&mut self) {
        if !self.standing.is_leaving || !self.queue.lock().partitions.iter().all(Known::is_stored) {
            return;
        }
        self.standing.is_leaving = false;
        if let Err(error) = self.consumer.unassign() {
            return self.say(format!("cannot let go of its partitions: {error}"));
        }
        self.tell_gone(Change::LetGo);
        self.say("lets go of its partitions: all that was read of them is stored".into());
    }

    /// Reads what is clear to be this node's, claims what nobody has, and leaves the rest.
    pub(super) fn share_out(&mut self) -> Result<(), KafkaError> {
        if !self.standing.is_to_ask(Instant::now()) {
            return Ok(());
        }
        let Some(noted) = self.noted() else { return Ok(()) };
        let group = self.group();
        if let Some(topics) = group.as_ref().and_then(Group::uneven) {
            let group = self.settings.group.clone();
            return Err(KafkaError::Uneven { topics: topics.into(), group });
        }
        let members = group.map(|group| group.members);
        let knows_any = !self.tracks.is_empty();
        let (mut claims, mut open) = (Vec::new(), Vec::new());
        for (place, offset, noted) in noted {
            let (group, instance) = (self.settings.group.clone(), self.settings.instance.clone());
            let facts = Facts {
                is_known: self.number(&place.0, place.1).is_some(),
                knows_any,
                owner: owner(&noted),
                instance: &instance,
                nodes: self.settings.nodes,
                members,
            };
            match Share::of(&facts) {
                Share::Read => self.given.push(place),
                Share::Wait => open.push(place),
                Share::Claim => {
                    let first = || self.log(&place.0, place.1).map(|log| log.low);
                    claims.extend(offset.or_else(first).map(|at| (place.0.clone(), place.1, at)));
                    open.push(place);
                }
                Share::Elsewhere => {
                    return Err(KafkaError::Elsewhere {
                        partition: name(&place.0, place.1),
                        owner: facts.owner.unwrap_or_default().into(),
                        group,
                        instance,
                    });
                }
                Share::NoRoom => {
                    return Err(KafkaError::NoRoom { group, instance, nodes: self.settings.nodes });
                }
            }
        }
        self.standing.open = open;
        if !claims.is_empty() {
            let claims = carrier::list(&claims, &note(&self.settings.instance, ""));
            if self.consumer.commit(&claims, CommitMode::Async).is_ok() {
                self.consumer.context().commits.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.say_who_is_there(members);
        self.check_all_given(members)
    }

    /// What stands in the group beside what is open: offset, and note. `None` if it does not say now.
    #[expect(clippy::type_complexity, reason = "taken apart where it is made use of")]
    fn noted(&self) -> Option<Vec<((Arc<str>, i32), Option<i64>, String)>> {
        if self.standing.open.is_empty() {
            return Some(Vec::new());
        }
        let asked = list(&self.standing.open);
        let answered = self.consumer.committed_offsets(asked, ANSWER).ok()?;
        let noted = self.standing.open.iter().map(|place| {
            let found = answered.find_partition(&place.0, place.1)?;
            found.error().ok()?;
            let offset = match found.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            Some((place.clone(), offset, found.metadata().to_owned()))
        });
        noted.collect()
    }

    /// Who is in the group and has been given what, if that does not change just now.
    fn group(&self) -> Option<Group> {
        let name = &*self.settings.group;
        let groups = self.consumer.fetch_group_list(Some(name), ANSWER).ok()?;
        let group = groups.groups().iter().find(|known| known.name() == name)?;
        let given = group.members().iter().map(|member| member.assignment().unwrap_or_default());
        (group.state() == "Stable").then(|| Group::of(given))
    }

    /// Says for whom the partitions that are left alone wait, once.
    fn say_who_is_there(&mut self, members: Option<usize>) {
        let nodes = self.settings.nodes;
        let others = members.filter(|members| *members != nodes && !self.standing.open.is_empty());
        if others.is_some() && self.standing.told != others {
            self.standing.told = others;
            let members = others.unwrap_or_default();
            self.say(format!(
                "group `{}` has {members} of {nodes} nodes; some partitions wait until it has {nodes}",
                self.settings.group
            ));
        }
    }

    /// Once all nodes are there, every partition whose state is here has to have been given.
    fn check_all_given(&mut self, members: Option<usize>) -> Result<(), KafkaError> {
        if members != Some(self.settings.nodes) {
            return Ok(());
        }
        let Some(given) = self.standing.unchecked.take() else { return Ok(()) };
        let state = self.queue.lock();
        let missing = state.partitions.iter().filter(|known| !given.contains(&known.place()));
        let missing: Vec<_> =
            missing.map(|known| name(&known.topic, known.partition).to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(KafkaError::NotGiven {
            partitions: missing.join(", ").into(),
            group: self.settings.group.clone(),
            instance: self.settings.instance.clone(),
        })
    }

    /// Begins with `begun`, and goes on with the rest; which partitions were assigned with it.
    pub(super) fn assign(&mut self, begun: TopicPartitionList) -> KafkaResult<TopicPartitionList> {
        if !self.is_shared() {
            return self.consumer.incremental_assign(&begun).map(|()| begun);
        }
        let mut all = TopicPartitionList::new();
        for (known, track) in self.queue.lock().partitions.iter().zip(&mut self.tracks) {
            if track.is_ours {
                track.is_held = false;
                let next = Offset::Offset(track.next);
                all.add_partition_offset(&known.topic, known.partition, next)?;
            }
        }
        self.consumer.assign(&all).map(|()| all)
    }
}
