//! A file that is the content of one datagram, packed or not.
//!
//! It says neither who sent it nor when: the exporter is given, and it arrived when the file was
//! last written.

use super::{Datagram, Ending};
use crate::input::Input;
use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The content of one datagram.
#[derive(Debug)]
pub struct DatagramFile {
    content: Vec<u8>,
    arrival_ms: Option<i64>,
    ending: Ending,
}

impl DatagramFile {
    /// The largest content of a UDP datagram.
    pub const BYTES_MAX: u64 = 65_535;

    /// Reads the file at `path`. Of a longer file than a datagram can be only the beginning is
    /// kept, and its [`DatagramFile::ending`] says so.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn read(path: &Path) -> io::Result<Self> {
        let written = fs::metadata(path)?.modified().ok();
        let arrival_ms = written
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .and_then(|age| i64::try_from(age.as_millis()).ok());
        let mut content = Vec::new();
        let input = Input::open(path)?;
        let ending = match input.take(Self::BYTES_MAX + 1).read_to_end(&mut content) {
            Ok(_) if content.len() as u64 > Self::BYTES_MAX => Ending::Damaged {
                detail: format!("it is longer than a datagram, {} bytes", Self::BYTES_MAX),
            },
            Ok(_) => Ending::Whole,
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ending::CutShort,
            Err(error) => Ending::Damaged { detail: error.to_string() },
        };
        content.truncate(Self::BYTES_MAX as usize);
        Ok(Self { content, arrival_ms, ending })
    }

    /// The datagram, as if `exporter` had sent it.
    pub fn datagram(&self, exporter: SocketAddr) -> Datagram<'_> {
        Datagram { exporter, arrival_ms: self.arrival_ms, payload: &self.content }
    }

    /// How the file ended.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_a_datagram() {
        let directory = tempfile::tempdir().unwrap();
        let exporter = "192.0.2.1:0".parse().unwrap();
        let content = b"whatever it is".repeat(20);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&content).unwrap();
        let gzip = gzip.finish().unwrap();
        for (bytes, expected, ending) in [
            (&content[..], &content[..], Ending::Whole),
            (&gzip, &content, Ending::Whole),
            (&gzip[..gzip.len() - 4], &content, Ending::CutShort),
            (&[7; 65_535], &[7; 65_535], Ending::Whole),
            (
                &[7; 65_536],
                &[7; 65_535],
                Ending::Damaged { detail: "it is longer than a datagram, 65535 bytes".into() },
            ),
        ] {
            let path = directory.path().join("datagram");
            fs::write(&path, bytes).unwrap();
            let file = DatagramFile::read(&path).unwrap();
            let datagram = file.datagram(exporter);
            assert_eq!(datagram.exporter, exporter);
            assert!(datagram.payload == expected);
            assert!(datagram.arrival_ms.is_some());
            assert_eq!(*file.ending(), ending);
        }
        let missing = DatagramFile::read(&directory.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
