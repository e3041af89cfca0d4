//! Interned text: a string seen once is a four-byte number afterwards, so that keys and rows are
//! machine words.
//!
//! Append-only and bounded: a symbol stays valid for the life of the process, reading one takes no
//! lock, and a table that is full says so instead of growing. Numbers are local to the process:
//! they are never stored, never ordered by, never used to place a key (text is).

use hashbrown::HashTable;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A string in a [`Symbols`] table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

impl Symbol {
    /// The number, for packing into a word.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The symbol of a number that [`Symbol::number`] gave.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// The table is full; nothing was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {limit} different texts (names, hosts, applications): raise `max_texts`, or group by fewer text fields"
)]
pub struct SymbolsFull {
    /// How many texts the table holds.
    pub limit: usize,
}

/// All texts of a process, each once.
pub struct Symbols {
    texts: boxcar::Vec<Box<str>>,
    /// Numbers by hash of their text. Locked only for a text that a caller has not seen itself;
    /// sources keep a cache in front ([`SymbolCache`]).
    index: Mutex<HashTable<u32>>,
    hasher: foldhash::fast::RandomState,
    limit: usize,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("texts", &self.texts.count()).finish()
    }
}

impl Default for Symbols {
    fn default() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }
}

impl Symbols {
    /// How many texts a table holds unless told otherwise.
    pub const DEFAULT_LIMIT: usize = 4_000_000;

    /// A table for at most `limit` texts.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            texts: boxcar::Vec::new(),
            index: Mutex::new(HashTable::new()),
            hasher: foldhash::fast::RandomState::default(),
            limit: limit.min(u32::MAX as usize - 1),
        }
    }

    /// The symbol of `text`, added if it is new.
    ///
    /// # Errors
    /// The table is full and does not hold `text`.
    pub fn intern(&self, text: &str) -> Result<Symbol, SymbolsFull> {
        let hash = self.hasher.hash_one(text);
        let mut index = self.index();
        if let Some(known) = self.known(&index, hash, text) {
            return Ok(known);
        }
        if index.len() >= self.limit {
            return Err(SymbolsFull { limit: self.limit });
        }
        // The limit keeps the number within u32.
        let number = self.texts.push(text.into()) as u32;
        index.insert_unique(hash, number, |known| self.hasher.hash_one(self.text(Symbol(*known))));
        Ok(Symbol(number))
    }

    /// The symbol of `text`, if it has one.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.known(&self.index(), self.hasher.hash_one(text), text)
    }

    fn index(&self) -> MutexGuard<'_, HashTable<u32>> {
        // The table is consistent between any two statements under the lock.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, index: &HashTable<u32>, hash: u64, text: &str) -> Option<Symbol> {
        let is_same = |number: &u32| self.text(Symbol(*number)) == text;
        index.find(hash, is_same).map(|number| Symbol(*number))
    }

    /// The text of `symbol`; empty for a symbol of another table.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0 as usize).map_or("", |text| text)
    }

    /// How many texts the table holds.
    pub fn len(&self) -> usize {
        self.texts.count()
    }

    /// Whether the table holds no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One reader's view of a [`Symbols`] table: texts that this reader has seen cost no lock.
#[derive(Debug, Default)]
pub struct SymbolCache {
    /// Holds the symbols this reader has asked for. Cleared when it reaches `LIMIT`.
    known: HashTable<Symbol>,
    hasher: foldhash::fast::RandomState,
}

impl SymbolCache {
    const LIMIT: usize = 1 << 20;

    /// As [`Symbols::intern`].
    ///
    /// # Errors
    /// As [`Symbols::intern`].
    pub fn intern(&mut self, symbols: &Symbols, text: &str) -> Result<Symbol, SymbolsFull> {
        let hash = self.hasher.hash_one(text);
        if let Some(symbol) = self.known.find(hash, |known| symbols.text(*known) == text) {
            return Ok(*symbol);
        }
        let symbol = symbols.intern(text)?;
        if self.known.len() >= Self::LIMIT {
            self.known.clear();
        }
        let hasher = &self.hasher;
        self.known.insert_unique(hash, symbol, |known| hasher.hash_one(symbols.text(*known)));
        Ok(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_symbol_and_comes_back() {
        let symbols = Symbols::default();
        let mut cache = SymbolCache::default();
        let http = symbols.intern("http").unwrap();
        assert_eq!(cache.intern(&symbols, "http").unwrap(), http);
        assert_eq!(cache.intern(&symbols, "http").unwrap(), http);
        let empty = cache.intern(&symbols, "").unwrap();
        assert_ne!(empty, http);
        assert_eq!((symbols.text(http), symbols.text(empty), symbols.len()), ("http", "", 2));
    }

    #[test]
    fn a_full_table_refuses_new_texts_and_keeps_the_old() {
        let symbols = Symbols::with_limit(1);
        let one = symbols.intern("one").unwrap();
        assert_eq!(symbols.intern("two"), Err(SymbolsFull { limit: 1 }));
        assert_eq!(symbols.intern("one"), Ok(one));
    }
}
