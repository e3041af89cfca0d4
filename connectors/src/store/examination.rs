//! A database read to its last byte: everything that is damaged is found, not only the first of it.

use super::StoreError;
use super::database::Database;
use nilometer_model::epoch::Epoch;

/// What was found of the epochs that a database keeps.
#[derive(Debug, Clone, Default)]
pub struct Examination {
    /// The epochs, the oldest first.
    pub epochs: Vec<Epoch>,
    /// Parts of the last two of them.
    pub parts: u64,
    /// Pieces of the log.
    pub pieces: u64,
    /// Pages of keys that are not in memory.
    pub pages: u64,
    /// Bytes of all these, before packing.
    pub bytes: u64,
    /// What is not what was stored, a sentence each.
    pub damage: Vec<String>,
}

impl Examination {
    /// Of what `database` keeps.
    ///
    /// # Errors
    /// It cannot be read. What is damaged is no error.
    pub fn of(database: &Database) -> Result<Self, StoreError> {
        let mut found = Self::default();
        // Of older ones only the log is kept.
        let kept = database.commits().count().saturating_sub(2);
        for (number, commit) in database.commits().enumerate() {
            found.epochs.push(commit.epoch);
            for part in commit.parts.iter().filter(|_| number >= kept) {
                let name = format!("part `{}` of epoch {}", part.name, commit.epoch);
                found.parts += 1;
                found.take(name, database.part((b'e', commit.epoch), part))?;
            }
            for piece in &commit.pieces {
                let name = format!("piece {} of the log of epoch {}", piece.name, commit.epoch);
                found.pieces += 1;
                found.take(name, database.part((b'l', commit.epoch), piece))?;
            }
        }
        for (number, content) in database.all_pages()? {
            found.pages += 1;
            match content {
                Ok(content) => found.bytes += content.len() as u64,
                Err(_) => found.damage.push(format!("page {number} is not what was stored")),
            }
        }
        Ok(found)
    }

    fn take(&mut self, name: String, read: Result<Vec<u8>, StoreError>) -> Result<(), StoreError> {
        match read {
            Ok(content) => self.bytes += content.len() as u64,
            Err(StoreError::Damaged { .. }) => {
                self.damage.push(format!("{name} is not what was stored"));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
