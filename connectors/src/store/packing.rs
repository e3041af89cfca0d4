//! Packing of what is stored, with zstd: fast before small.
//!
//! Each thread keeps what packing needs from one call to the next: to make that anew for a page costs more
//! than to unpack it, and on virtual machines many times more.

use std::cell::RefCell;
use std::io;
use zstd::bulk::{Compressor, Decompressor};

const LEVEL: i32 = 1;

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// `content`, packed.
///
/// # Errors
/// There is no memory for it.
pub(super) fn pack(content: &[u8]) -> io::Result<Vec<u8>> {
    PACKER.with_borrow_mut(|packer| match packer {
        Some(packer) => packer.compress(content),
        None => packer.insert(Compressor::new(LEVEL)?).compress(content),
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
