//! A table whose entries can be written down and put back one by one.

use super::ImageError;
use super::bytes::Input;
use super::dirty::Dirty;
use super::form::Form;

/// A table of entries: mostly one per key, with all of its windows; one per key and window where a
/// key may have very many of these.
pub(crate) trait Keyed {
    /// The numbers of all entries.
    fn entries(&self) -> Vec<u32>;

    /// The words that name an entry: its packed key, and the bounds of its window where it is of
    /// one.
    fn name(&self, entry: u32, name: &mut Vec<u64>);

    /// The numbers of the entries of a key.
    fn of_key(&self, key: &[u64]) -> Vec<u32>;

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
