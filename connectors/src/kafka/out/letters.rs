//! Dead letters as records of a topic: the input as it came, where it stood and why it is no record in
//! the headers. At least once, as the file is.

use super::block::Block;
use super::repeats::Repeats;
use super::settings::KafkaSinkSettings;
use crate::dead_letter::DeadLetter;
use crate::sink::SinkError;

/// Bytes that are sent together.
const TOGETHER: usize = 1 << 18;

/// Writes dead letters to a topic.
#[derive(Debug)]
pub struct LetterTopic {
    block: Block,
    repeats: Repeats,
}

impl LetterTopic {
    /// Connects with nobody yet.
    ///
    /// # Errors
    /// An option is wrong.
    pub fn open(settings: KafkaSinkSettings) -> Result<Self, SinkError> {
        Ok(Self { block: Block::default(), repeats: Repeats::new(settings)? })
    }

    /// Takes a letter.
    ///
    /// # Errors
    /// The topic does not take it.
    pub(crate) fn write(&mut self, letter: &DeadLetter) -> Result<(), SinkError> {
        let (unit, number) = letter.place();
        let (number, bytes) = (number.to_string(), letter.full_bytes().to_string());
        let headers = [
            ("nilometer.origin", letter.origin().as_bytes()),
            ("nilometer.unit", unit.as_bytes()),
            ("nilometer.position", number.as_bytes()),
            ("nilometer.reason", letter.reason().as_bytes()),
            ("nilometer.error", letter.detail().as_bytes()),
            ("nilometer.bytes", bytes.as_bytes()),
        ];
        self.block.push(None, Some(letter.raw()), headers);
        if self.block.len() < TOGETHER { Ok(()) } else { self.flush() }
    }

    /// Sends what there is, and returns when the brokers have it.
    ///
    /// # Errors
    /// The topic does not take it.
    pub(crate) fn flush(&mut self) -> Result<(), SinkError> {
        if self.block.len() > 0 {
            self.repeats.send(&self.block.take())?;
        }
        Ok(())
    }
}
