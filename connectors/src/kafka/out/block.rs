//! Records on their way out, in one piece of bytes: what a sink holds of an epoch, what the store
//! keeps of it, and what is sent. Blocks are stored, so their form never changes: a record is its
//! parts, each behind its length in four bytes, little-endian, plus one; nothing is length zero.

/// One record of a block. `'a` is the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing<'a> {
    pub(crate) key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers<'a>,
}

/// Headers of a record, in order. All of them are whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headers<'a>(Records<'a>);

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        let name = self.0.part()??;
        Some((std::str::from_utf8(name).ok()?, self.0.part()??))
    }
}

/// Name and value of a header.
pub(crate) type Header<'a> = (&'a str, &'a [u8]);

/// Records, as they are written one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
}

impl Block {
    pub(crate) fn push<'a>(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = Header<'a>>,
    ) {
        self.part(key);
        self.part(value);
        for (name, value) in headers {
            self.part(Some(name.as_bytes()));
            self.part(Some(value));
        }
        self.part(None);
    }

    fn part(&mut self, part: Option<&[u8]>) {
        // Parts are bounded far below four gigabytes by whoever makes them.
        let length = part.map_or(0, |part| u32::try_from(part.len()).unwrap_or(u32::MAX - 1) + 1);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(part.unwrap_or_default());
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// The records of a block. Ends at the first one that is damaged, which no block from a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Records<'a>(pub(crate) &'a [u8]);

impl<'a> Records<'a> {
    /// The next part; nothing inside for one that is not there, `None` for no more parts.
    fn part(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let Some(length) = length.checked_sub(1) else {
            self.0 = rest;
            return Some(None);
        };
        let (part, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Some(part))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Outgoing<'a>;

    fn next(&mut self) -> Option<Outgoing<'a>> {
        let (key, value) = (self.part()?, self.part()?);
        let headers = Headers(Records(self.0));
        while let Some(name) = self.part()? {
            std::str::from_utf8(name).ok()?;
            self.part()??;
        }
        Some(Outgoing { key, value, headers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_of_a_block_as_they_went_in() {
        let mut block = Block::default();
        block.push(Some(b"k"), Some(b"value"), [("a", b"1".as_slice()), ("b", b"")]);
        block.push(None, None, []);
        block.push(Some(b""), Some(b""), []);
        let length = block.len();
        let bytes = block.take();
        assert_eq!((bytes.len(), block.len()), (length, 0));
        let of = |outgoing: Outgoing<'static>| {
            (outgoing.key, outgoing.value, outgoing.headers.collect::<Vec<_>>())
        };
        let expected = [
            (Some(&b"k"[..]), Some(&b"value"[..]), vec![("a", &b"1"[..]), ("b", b"")]),
            (None, None, vec![]),
            (Some(b""), Some(b""), vec![]),
        ];
        let bytes: &'static [u8] = bytes.leak();
        assert_eq!(Records(bytes).map(of).collect::<Vec<_>>(), expected);
        // The form that is stored.
        assert_eq!(&bytes[..15], b"\x02\0\0\0k\x06\0\0\0value\x02");
        for cut in 0..bytes.len() {
            assert!(Records(&bytes[..cut]).count() < 3, "{cut}");
        }
    }
}
