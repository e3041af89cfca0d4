//! The form of a page: `count | prints.. | ends.. | bodies..`, numbers of 32 bits, little-endian.
//!
//! A body is what a key waits for, in postcard, and behind it the key's image. One key is found by
//! its print, without looking at the others. The store says whether a page is what was written; that
//! its bodies make sense is checked once, when the state is loaded.

use super::{Entry, KnownPage, PageError, PageNumber, Wants};

/// A page that is being filled.
#[derive(Debug, Default)]
pub(super) struct Draft {
    prints: Vec<u32>,
    ends: Vec<u32>,
    bodies: Vec<u8>,
}

impl Draft {
    pub(super) fn is_empty(&self) -> bool {
        self.prints.is_empty()
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.bodies.len() + self.prints.len() * 8 + 4
    }

    pub(super) fn push(&mut self, entry: &Entry) {
        self.prints.push(entry.print);
        // Into memory, of a type that always serialises: nothing can fail.
        let bodies = std::mem::take(&mut self.bodies);
        self.bodies = postcard::to_extend(&entry.wants, bodies).unwrap_or_default();
        self.bodies.extend_from_slice(&entry.image);
        self.ends.push(self.bodies.len() as u32);
    }

    pub(super) fn finish(self) -> Content {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend_from_slice(&(self.prints.len() as u32).to_le_bytes());
        for word in self.prints.iter().chain(&self.ends) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let count = self.prints.len();
        bytes.extend_from_slice(&self.bodies);
        Content { bytes, count }
    }
}

/// The images of the entries of a page that count: each a name behind its length, and what follows.
///
/// # Errors
/// `bytes`, which were read of the page, are none.
pub(crate) fn live_images(known: &KnownPage, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PageError> {
    let content = Content::of(known.number, bytes)?;
    content.check(known)?;
    Ok(content.live(&known.live).map(|number| content.image(number).to_vec()).collect())
}

/// A page that has been read, or made.
#[derive(Debug)]
pub(super) struct Content {
    bytes: Vec<u8>,
    count: usize,
}

impl Content {
    /// Checks what was read of page `number`.
    pub(super) fn of(number: PageNumber, bytes: Vec<u8>) -> Result<Self, PageError> {
        let damaged = || PageError::Damaged { page: number };
        let mut content = Self { bytes, count: 0 };
        let count = content.word(0).ok_or_else(damaged)? as usize;
        // No page has more entries than bytes.
        content.count = count.min(content.bytes.len());
        let end = count.checked_sub(1).map_or(Some(0), |last| content.end(last));
        let is_whole = end.is_some_and(|end| content.start() + end == content.bytes.len());
        if content.count == count && is_whole { Ok(content) } else { Err(damaged()) }
    }

    /// Whether all bodies make sense, and are as many as an epoch knows of.
    pub(super) fn check(&self, known: &KnownPage) -> Result<(), PageError> {
        let is_sound = (0..self.count).all(|number| self.parts(number).is_some());
        let is_whole = is_sound && self.all().len() == known.live.len();
        is_whole.then_some(()).ok_or(PageError::Damaged { page: known.number })
    }

    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bits of all entries.
    pub(super) fn all(&self) -> Vec<u64> {
        let words = self.count.div_ceil(64);
        let bits = |word: usize| match self.count - word * 64 {
            64.. => u64::MAX,
            left => (1 << left) - 1,
        };
        (0..words).map(bits).collect()
    }

    /// Numbers of the entries whose bits are set.
    pub(super) fn live<'a>(&self, bits: &'a [u64]) -> impl Iterator<Item = usize> + use<'a> {
        (0..self.count).filter(|number| is_set(bits, *number))
    }

    /// Those of them that have this print.
    pub(super) fn printed(&self, print: u32, bits: &[u64]) -> impl Iterator<Item = usize> {
        let prints = self.bytes.get(4..4 + self.count * 4).unwrap_or_default();
        let same = prints.chunks_exact(4).enumerate();
        let same = same.filter(move |(_, known)| **known == print.to_le_bytes());
        same.map(|(number, _)| number).filter(|number| is_set(bits, *number))
    }

    pub(super) fn print(&self, number: usize) -> u32 {
        self.word(1 + number).unwrap_or_default()
    }

    /// What the key of an entry waits for.
    pub(super) fn wants(&self, number: usize) -> Wants {
        self.parts(number).map(|(wants, _)| wants).unwrap_or_default()
    }

    /// The image of the key of an entry.
    pub(super) fn image(&self, number: usize) -> &[u8] {
        self.parts(number).map(|(_, image)| image).unwrap_or_default()
    }

    fn parts(&self, number: usize) -> Option<(Wants, &[u8])> {
        postcard::take_from_bytes(self.body(number)?).ok()
    }

    fn body(&self, number: usize) -> Option<&[u8]> {
        let from = number.checked_sub(1).map_or(Some(0), |before| self.end(before))?;
        let (from, to) = (self.start() + from, self.start() + self.end(number)?);
        self.bytes.get(from..to)
    }

    fn end(&self, number: usize) -> Option<usize> {
        self.word(1 + self.count + number).map(|end| end as usize)
    }

    /// Where bodies begin.
    fn start(&self) -> usize {
        4 + self.count * 8
    }

    fn word(&self, index: usize) -> Option<u32> {
        let bytes = self.bytes.get(index * 4..index * 4 + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Whether the bit of that number is.
fn is_set(bits: &[u64], number: usize) -> bool {
    bits.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
}
