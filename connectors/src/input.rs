//! Files as streams of bytes, unpacked on the way: gzip and zstd are told by their first bytes,
//! never by the name.
//!
//! What was read before an error stays read: a packed file that ends early yields all its bytes up
//! to there, then [`io::ErrorKind::UnexpectedEof`].

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER_BYTES: usize = 256 << 10;
const GZIP: [u8; 2] = [0x1F, 0x8B];
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// An open file, its content unpacked.
pub struct Input {
    reader: Box<dyn Read + Send>,
    /// Bytes taken from the file, before unpacking.
    done: Arc<AtomicU64>,
    total: u64,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("done", &self.done()).field("total", &self.total).finish()
    }
}

impl Input {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The file cannot be opened or its beginning cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let total = file.metadata()?.len();
        Self::unpack(file, total)
    }

    /// Opens the file at `path` behind the first `offset` bytes of its content. What is not packed
    /// is not read up to there.
    ///
    /// # Errors
    /// The file cannot be opened or read, or has less content: then it is
    /// [`io::ErrorKind::UnexpectedEof`].
    pub fn open_at(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let total = file.metadata()?.len();
        let mut head = Vec::with_capacity(ZSTD.len());
        file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
        if Packing::of(&head) == Packing::None {
            if total < offset {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.seek(SeekFrom::Start(offset))?;
            let done = Arc::new(AtomicU64::new(offset));
            let rest = BufReader::with_capacity(
                BUFFER_BYTES,
                Counted { reader: file, done: done.clone() },
            );
            return Ok(Self { reader: Box::new(rest), done, total });
        }
        file.rewind()?;
        let mut input = Self::unpack(file, total)?;
        let skipped = io::copy(&mut input.by_ref().take(offset), &mut io::sink())?;
        if skipped < offset { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(input) }
    }

    /// The content of `packed`, which has `total` bytes as far as is known.
    ///
    /// # Errors
    /// The beginning of `packed` cannot be read.
    pub fn unpack(packed: impl Read + Send + 'static, total: u64) -> io::Result<Self> {
        let done = Arc::new(AtomicU64::new(0));
        let mut packed = Counted { reader: packed, done: done.clone() };
        let mut head = Vec::with_capacity(ZSTD.len());
        packed.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
        let kind = Packing::of(&head);
        let whole = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(head).chain(packed));
        let reader: Box<dyn Read + Send> = match kind {
            Packing::None => Box::new(whole),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(whole)?),
        };
        Ok(Self { reader, done, total })
    }

    /// Bytes taken from the file so far, before unpacking.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Tells [`Input::done`] also when the input has been given away.
    pub fn gauge(&self) -> Gauge {
        Gauge(self.done.clone())
    }

    /// Size of the file in bytes when it was opened.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// How far an [`Input`] has been read, for whoever has given it away.
#[derive(Debug, Clone)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Bytes taken from the file so far, before unpacking.
    pub fn done(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reader.read(bytes)
    }
}

/// How the content of a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Self {
        if head.starts_with(&GZIP) {
            Self::Gzip
        } else if head.starts_with(&ZSTD) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// Counts what passes.
struct Counted<R> {
    reader: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(bytes)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text() -> Vec<u8> {
        (0..100_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    /// What comes out of `packed`, and the error at its end.
    fn unpacked(packed: Vec<u8>) -> (Vec<u8>, Option<io::ErrorKind>) {
        let total = packed.len() as u64;
        let mut input = Input::unpack(io::Cursor::new(packed), total).unwrap();
        let (mut content, mut chunk) = (Vec::new(), [0; 1000]);
        loop {
            match input.read(&mut chunk) {
                Ok(0) => return (content, None),
                Ok(count) => content.extend_from_slice(&chunk[..count]),
                Err(error) => return (content, Some(error.kind())),
            }
        }
    }

    #[test]
    fn content_is_unpacked_by_its_first_bytes() {
        let text = text();
        let members = [gzip(&text), gzip(&text)].concat();
        let frames = [0, 3].map(|level| zstd::encode_all(&text[..], level).unwrap()).concat();
        for packed in [[&text[..], &text[..]].concat(), members, frames] {
            let (content, error) = unpacked(packed);
            assert_eq!(error, None);
            assert!(content == [&text[..], &text[..]].concat());
        }
        for short in [&b""[..], b"x", b"\x1f", b"\x28\xb5\x2f"] {
            assert_eq!(unpacked(short.to_vec()), (short.to_vec(), None));
        }
    }

    #[test]
    fn a_file_is_opened_behind_its_beginning() {
        let text = text();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for packed in [text.clone(), gzip(&text), zstd::encode_all(&text[..], 3).unwrap()] {
            std::fs::write(&path, packed).unwrap();
            for offset in [0, 1, 3, 4, 300_000, text.len()] {
                let mut rest = Vec::new();
                let mut input = Input::open_at(&path, offset as u64).unwrap();
                input.read_to_end(&mut rest).unwrap();
                assert!(rest == text[offset..], "from {offset}");
                assert_eq!(input.done(), input.total());
            }
            let error = Input::open_at(&path, text.len() as u64 + 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_packed_file_that_ends_early_keeps_what_came_before() {
        let text = text();
        let zstd = zstd::encode_all(&text[..], 3).unwrap();
        for mut packed in [gzip(&text), zstd] {
            packed.truncate(packed.len() * 3 / 4);
            let (content, error) = unpacked(packed);
            assert_eq!(error, Some(io::ErrorKind::UnexpectedEof));
            assert!(content.len() > text.len() / 2, "{} bytes", content.len());
            assert!(text.starts_with(&content));
        }
    }

    #[test]
    fn progress_counts_packed_bytes() {
        let packed = gzip(&text());
        let total = packed.len() as u64;
        let mut input = Input::unpack(io::Cursor::new(packed), total).unwrap();
        let gauge = input.gauge();
        io::copy(&mut input, &mut io::sink()).unwrap();
        assert_eq!((input.done(), input.total(), gauge.done()), (total, total, total));
    }
}
