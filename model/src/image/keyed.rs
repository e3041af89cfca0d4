//! A table whose entries can be written down and put back one by one.

use super::ImageError;
use super::bytes::Input;
use super::dirty::Dirty;
use super::form::Form;
use crate::key::is_same_key;

/// Entries of a key.
pub(crate) struct OfKey {
    /// Their numbers.
    pub(crate) entries: Vec<u32>,
    /// How many entries of the table were not looked at: some of them may be of the key, too.
    pub(crate) unseen: usize,
}

/// How many entries are looked at to find those of a key, where nothing finds them faster.
const WALK: usize = 1 << 20;

impl OfKey {
    /// The one entry of a key, where a key has one.
    pub(super) fn one(entry: Option<u32>) -> Self {
        Self { entries: entry.into_iter().collect(), unseen: 0 }
    }

    /// Those of `entries`, of which there are so many, whose names, which `name` tells, begin with
    /// `key`.
    pub(super) fn walk(
        (entries, count): (impl Iterator<Item = u32>, usize),
        name: impl Fn(u32, &mut Vec<u64>),
        key: &[u64],
    ) -> Self {
        let mut words = Vec::new();
        let is_of_key = |entry: &u32| {
            words.clear();
            name(*entry, &mut words);
            words.get(..key.len()).is_some_and(|words| is_same_key(words, key))
        };
        let entries = entries.take(WALK).filter(is_of_key).collect();
        Self { entries, unseen: count.saturating_sub(WALK) }
    }
}

/// A table of entries: mostly one per key, with all of its windows; one per key and window where a
/// key may have very many of these.
pub(crate) trait Keyed {
    /// The numbers of all entries.
    fn entries(&self) -> Vec<u32>;

    /// The words that name an entry: its packed key, and the bounds of its window where it is of
    /// one.
    fn name(&self, entry: u32, name: &mut Vec<u64>);

    /// The entries of a key.
    fn of_key(&self, key: &[u64]) -> OfKey;

    /// What is noted of changes; nothing before the first cut.
    fn dirty(&mut self) -> &mut Option<Box<Dirty>>;

    /// Appends what an entry holds: at least one byte.
    ///
    /// # Errors
    /// It does not serialise: never, as far as known.
    fn put(&self, entry: u32, form: &Form<'_>, out: &mut Vec<u8>) -> Result<(), ImageError>;

    /// Puts an entry back; the watermarks and the time of the table must be set first. Returns its
    /// number, `None` if one of that name is there already: then nothing changes.
    ///
    /// # Errors
    /// The bytes are damaged, or of another plan.
    fn install(
        &mut self,
        name: Input<'_>,
        content: Input<'_>,
        form: &Form<'_>,
    ) -> Result<Option<u32>, ImageError>;
}
