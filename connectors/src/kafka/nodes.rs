//! Several nodes in one group: which of the partitions that the group gives are this node's to read.
//! Pure: facts in, decision out.
//!
//! Who has the state of a partition stands beside its offset in the group (`note`). Invariant: a
//! partition is read by the node that has its state; one that nobody has is claimed first, by a node
//! that the group gives it to while all nodes are there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the group is asked who is there, while that matters.
const INTERVAL: Duration = Duration::from_millis(500);

/// What a node knows when the group gives it a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// Whether its state is here.
    pub(crate) is_known: bool,
    /// Whether the state of any partition is here.
    pub(crate) knows_any: bool,
    /// The node that has claimed it.
    pub(crate) owner: Option<&'a str>,
    /// This node.
    pub(crate) instance: &'a str,
    /// How many nodes there are to be.
    pub(crate) nodes: usize,
    /// How many are in the group; `None` while that changes.
    pub(crate) members: Option<usize>,
}

/// What a node does with a partition that the group gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Reads it.
    Read,
    /// Claims it, and reads it once that stands in the group.
    Claim,
    /// Leaves it alone until the right nodes are there.
    Wait,
    /// Its state is where another node runs: this one can never read it.
    Elsewhere,
    /// There are more nodes than there are to be, and this one has no part in it.
    NoRoom,
}

impl Share {
    pub(crate) fn of(facts: &Facts<'_>) -> Self {
        let Facts { nodes, members, owner, instance, .. } = *facts;
        let is_others = owner.is_some_and(|owner| owner != instance);
        match members {
            _ if facts.is_known && is_others => Self::Elsewhere,
            _ if facts.is_known => Self::Read,
            None => Self::Wait,
            Some(members) if members < nodes => Self::Wait,
            Some(members) if members > nodes && facts.knows_any => Self::Wait,
            Some(members) if members > nodes => Self::NoRoom,
            Some(_) if is_others => Self::Elsewhere,
            Some(_) if owner.is_some() => Self::Read,
            Some(_) => Self::Claim,
        }
    }
}

/// What a group says of itself, while nothing in it changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// How many nodes are in it.
    pub(crate) members: usize,
    /// How many partitions of each topic they have been given, all together.
    partitions: BTreeMap<String, usize>,
}

impl Group {
    /// Of what each member has been given, as the protocol of consumers writes it.
    pub(crate) fn of<'a>(given: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut group = Self { members: 0, partitions: BTreeMap::new() };
        for given in given {
            group.members += 1;
            // Behind what cannot be read nothing is known.
            group.add(given);
        }
        group
    }

    /// Adds the partitions of a member: a version, then by topic its name and their numbers.
    fn add(&mut self, given: &[u8]) -> Option<()> {
        let (_version, given) = given.split_first_chunk::<2>()?;
        let (topics, mut given) = given.split_first_chunk::<4>()?;
        for _ in 0..u32::from_be_bytes(*topics) {
            let (length, rest) = given.split_first_chunk::<2>()?;
            let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let (count, rest) = rest.split_first_chunk::<4>()?;
            let count = usize::try_from(u32::from_be_bytes(*count)).ok()?;
            given = rest.get(count.checked_mul(4)?..)?;
            *self.partitions.entry(String::from_utf8_lossy(name).into()).or_default() += count;
        }
        Some(())
    }

    /// The topics and how many partitions each has, if those are not as many of each: then the records
    /// of one key would lie at several nodes.
    pub(crate) fn uneven(&self) -> Option<String> {
        let mut counts = self.partitions.values();
        let first = counts.next()?;
        counts.any(|count| count != first).then(|| {
            let told = self.partitions.iter().map(|(topic, count)| format!("`{topic}` {count}"));
            told.collect::<Vec<_>>().join(", ")
        })
    }
}

/// The note beside an offset: who has the state behind it, and what else there is to say.
pub(crate) fn note(instance: &str, more: &str) -> String {
    format!("{instance}/{more}")
}

/// The node that a note names.
pub(crate) fn owner(note: &str) -> Option<&str> {
    note.rsplit_once('/').map(|(instance, _)| instance)
}

/// How a node stands in its group.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Partitions that the group has given, and of which it is not clear who reads them.
    pub(crate) open: Vec<(Arc<str>, i32)>,
    /// All that the group has given, until it is clear that nothing is missing.
    pub(crate) unchecked: Option<Vec<(Arc<str>, i32)>>,
    /// Whether the group wants all partitions back.
    pub(crate) is_leaving: bool,
    /// How many nodes were there when that was said last.
    pub(crate) told: Option<usize>,
    asked: Option<Instant>,
}

impl Standing {
    /// The group has given these.
    pub(crate) fn given(&mut self, names: Vec<(Arc<str>, i32)>) {
        *self = Self { open: names.clone(), unchecked: Some(names), ..Self::default() };
    }

    /// Whether the group is to be asked who is there, at `now`.
    pub(crate) fn is_to_ask(&mut self, now: Instant) -> bool {
        let is_early = self.asked.is_some_and(|asked| now.duration_since(asked) < INTERVAL);
        if is_early || (self.open.is_empty() && self.unchecked.is_none()) {
            return false;
        }
        self.asked = Some(now);
        true
    }

    /// The group wants everything back; nothing needs to be brought to its end if `was_lost`.
    pub(crate) fn taken(&mut self, was_lost: bool) {
        *self = Self { is_leaving: !was_lost, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_read_where_its_state_is() {
        let (none, mine, other) = (None, Some("a"), Some("b"));
        for (is_known, knows_any, owner, members, expected) in [
            // The state is here: whoever else is there.
            (true, true, none, None, Share::Read),
            (true, true, mine, Some(1), Share::Read),
            (true, true, mine, Some(3), Share::Read),
            (true, true, other, Some(2), Share::Elsewhere),
            // Nobody has it.
            (false, false, none, None, Share::Wait),
            (false, false, none, Some(1), Share::Wait),
            (false, false, none, Some(2), Share::Claim),
            (false, true, none, Some(2), Share::Claim),
            (false, true, none, Some(3), Share::Wait),
            (false, false, none, Some(3), Share::NoRoom),
            // Claimed, and nothing stored of it yet.
            (false, false, mine, Some(2), Share::Read),
            (false, false, mine, Some(1), Share::Wait),
            // The state is elsewhere: for good only if all are there.
            (false, true, other, None, Share::Wait),
            (false, true, other, Some(1), Share::Wait),
            (false, true, other, Some(3), Share::Wait),
            (false, false, other, Some(3), Share::NoRoom),
            (false, true, other, Some(2), Share::Elsewhere),
            (false, false, other, Some(2), Share::Elsewhere),
        ] {
            let facts = Facts { is_known, knows_any, owner, instance: "a", nodes: 2, members };
            assert_eq!(Share::of(&facts), expected, "{facts:?}");
        }
    }

    /// The bytes are those of the protocol: version 1, the topics, and no data of the user's.
    #[test]
    fn topics_that_do_not_go_together_are_told() {
        let of = |topics: &[(&str, &[u8])]| {
            let mut given = vec![0, 1, 0, 0, 0, u8::try_from(topics.len()).unwrap()];
            for (topic, partitions) in topics {
                given.extend([0, u8::try_from(topic.len()).unwrap()]);
                given.extend(topic.as_bytes());
                given.extend([0, 0, 0, u8::try_from(partitions.len()).unwrap()]);
                partitions.iter().for_each(|partition| given.extend([0, 0, 0, *partition]));
            }
            given.extend([0xff; 4]);
            given
        };
        let (a, b) = (of(&[("x", &[0, 1]), ("y", &[0])]), of(&[("y", &[1]), ("z", &[0])]));
        for (given, uneven) in [
            (vec![], None),
            (vec![of(&[("x", &[0, 1, 2])])], None),
            (vec![of(&[("x", &[0])]), of(&[("x", &[1, 2])]), of(&[])], None),
            (vec![of(&[("x", &[0]), ("y", &[0])]), of(&[("x", &[1]), ("y", &[1])])], None),
            (vec![a.clone()], Some("`x` 2, `y` 1")),
            (vec![a.clone(), b], Some("`x` 2, `y` 2, `z` 1")),
            // Cut off, or nothing at all.
            (vec![a[..14].to_vec(), Vec::new()], None),
        ] {
            let group = Group::of(given.iter().map(Vec::as_slice));
            assert_eq!(group.members, given.len(), "{given:?}");
            assert_eq!(group.uneven().as_deref(), uneven, "{given:?}");
        }
    }

    #[test]
    fn a_note_names_its_owner() {
        for (text, expected) in [
            (note("a", ""), Some("a")),
            (note("rack/1", "5 00ff 00aa"), Some("rack/1")),
            (String::new(), None),
            ("by hand".into(), None),
        ] {
            assert_eq!(owner(&text), expected, "{text}");
        }
    }
}
