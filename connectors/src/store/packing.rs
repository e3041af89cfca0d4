//! Packing of what is stored, with zstd.
//!
//! Each thread keeps what packing needs from one call to the next: to make that anew for a page costs more
//! than to unpack it, and on virtual machines many times more.

use std::cell::RefCell;
use std::io;
use zstd::bulk::{Compressor, Decompressor};

/// How hard it is tried to make something small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Fast before small: for what is seldom read.
    Fast,
    /// Faster still, also to unpack: for what is read again and again.
    Least,
}

impl Effort {
    const fn level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Least => -3,
        }
    }
}

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// `content`, packed.
///
/// # Errors
/// There is no memory for it.
pub(super) fn pack(content: &[u8], effort: Effort) -> io::Result<Vec<u8>> {
    PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            None => packer.insert(Compressor::new(effort.level())?),
        };
        packer.set_compression_level(effort.level())?;
        packer.compress(content)
    })
}

/// What was packed, if it is whole and so many bytes.
pub(super) fn unpack(packed: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let content = UNPACKER.with_borrow_mut(|unpacker| match unpacker {
        Some(unpacker) => unpacker.decompress(packed, bytes),
        None => unpacker.insert(Decompressor::new()?).decompress(packed, bytes),
    });
    content.ok().filter(|content| content.len() == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_in_whatever_order() {
        let contents = [Vec::new(), vec![7; 100_000], (0..=255).cycle().take(5_000).collect()];
        for effort in [Effort::Fast, Effort::Least, Effort::Fast] {
            for content in &contents {
                let packed = pack(content, effort).unwrap();
                assert_eq!(unpack(&packed, content.len()).as_ref(), Some(content));
                assert_eq!(unpack(&packed, content.len() + 1), None);
                assert_eq!(unpack(packed.split_last().unwrap().1, content.len()), None);
            }
        }
    }
}
