//! What a shard holds of one key, looked at while it runs: nothing is changed by it.
//!
//! An entry is written down as for an epoch and read back as by whoever looks at a stored state, so
//! both see the same. Keys that are not in memory are left where they are.

use super::stored::{Layouts, StoredEntry};
use super::{
    EntryView, ImageError, StageLayout, TableKind, UnknownFunction, form, kinds, table_mut,
};
use crate::key::{KeyGroup, KeyLayout, is_same_key};
use crate::memory::shelves;
use crate::pane::StageId;
use crate::shard::Shard;
use crate::symbol::Symbols;
use crate::value::{Datum, Type};
use std::net::IpAddr;
use std::sync::Arc;

/// A key as people write it: fields and values.
pub type WrittenKey = Vec<(Box<str>, Box<str>)>;

/// What a shard holds of a key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// Its entries in memory, and the table of each.
    pub entries: Vec<(TableKind, EntryView)>,
    /// Keys of the stage that are not in memory; the key may be among them.
    pub cold_keys: usize,
}

/// A key that cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// It is no key of the stage.
    #[error("a key of this stage is: {fields}")]
    Key {
        /// Names and types of its fields.
        fields: Box<str>,
    },
    /// Results of the stage can be read by this program alone.
    #[error(transparent)]
    Function(#[from] UnknownFunction),
    /// The state does not serialise: never, as far as known.
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl Shard {
    /// What this shard holds of the key of a stage (of a list, of the key that its entries share);
    /// nothing of keys of other shards, and nothing where there is no such stage.
    ///
    /// # Errors
    /// See [`LookError`].
    pub fn look(&mut self, stage: StageId, key: &WrittenKey) -> Result<Look, LookError> {
        let (plan, symbols) = (Arc::clone(&self.plan), Arc::clone(&self.symbols));
        let Some(stage) = plan.stages.get(stage.index()) else { return Ok(Look::default()) };
        let Some(machine) = self.machines.get_mut(stage.id.index()) else {
            return Ok(Look::default());
        };
        let layout = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent);
        let cold_keys = shelves(machine).map(|(_, shelf)| shelf.cold.keys()).sum();
        let mut look = Look { entries: Vec::new(), cold_keys };
        // A text that no record had is of no key.
        let Some(key) = packed(layout, key, &symbols)? else { return Ok(look) };
        let stored_as = StageLayout::of(stage);
        let layouts = Layouts::new([(&*stage.name, &stored_as)])?;
        for kind in kinds(machine) {
            let form = form(machine, *kind, stage, &symbols);
            let Some(table) = table_mut(machine, *kind) else { continue };
            let mut words = Vec::new();
            for entry in table.of_key(&key) {
                words.clear();
                table.name(entry, &mut words);
                let (mut name, mut content) = (Vec::new(), Vec::new());
                form.put_name(&mut name, &words);
                table.put(entry, &form, &mut content)?;
                let view = layouts.view(&StoredEntry {
                    stage: &stage.name,
                    kind: *kind,
                    group: KeyGroup(0),
                    is_cold: false,
                    name: &name,
                    content: &content,
                })?;
                look.entries.push((*kind, view));
            }
        }
        Ok(look)
    }
}

/// The packed key; `None` if no record can have it.
fn packed(
    layout: &KeyLayout,
    written: &WrittenKey,
    symbols: &Symbols,
) -> Result<Option<Vec<u64>>, LookError> {
    let wrong = || {
        let fields = layout.fields().iter().map(|field| format!("{} ({})", field.name, field.ty));
        let fields = fields.collect::<Vec<_>>().join(", ");
        LookError::Key { fields: if fields.is_empty() { "empty".into() } else { fields.into() } }
    };
    if written.len() != layout.fields().len() {
        return Err(wrong());
    }
    let mut data = Vec::new();
    for field in layout.fields() {
        let value = written.iter().find(|(name, _)| *name == field.name);
        let (_, value) = value.ok_or_else(wrong)?;
        match datum(field.ty, value, symbols) {
            Read::Is(datum) => data.push(datum),
            Read::Unknown => return Ok(None),
            Read::Wrong => return Err(wrong()),
        }
    }
    let mut key = vec![0; layout.words()];
    layout.write(&data, &mut key);
    // A number beyond its field is of no record.
    let is_held = data.iter().enumerate().all(|(field, datum)| layout.read(&key, field) == *datum);
    Ok(is_held.then_some(key))
}

/// What a text says as a value of a field.
enum Read {
    Is(Datum),
    /// A text that is in no record.
    Unknown,
    /// No value of that type.
    Wrong,
}

fn datum(ty: Type, text: &str, symbols: &Symbols) -> Read {
    let is = |datum: Option<Datum>| datum.map_or(Read::Wrong, Read::Is);
    match ty {
        Type::Text => symbols.find(text).map_or(Read::Unknown, |text| Read::Is(Datum::Text(text))),
        Type::Object => {
            symbols.find(text).map_or(Read::Unknown, |text| Read::Is(Datum::Object(text)))
        }
        _ if text == "null" => Read::Is(Datum::Null),
        Type::Bool => is(text.parse().ok().map(Datum::Bool)),
        Type::F64 => is(text.parse().ok().map(Datum::Float)),
        Type::Ip => is(text.parse::<IpAddr>().ok().map(Datum::ip)),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I64 | Type::Big => {
            is(text.parse().ok().map(Datum::Int))
        }
    }
}

/// Of `entries`, which `name` tells the names of, those of a key, where nothing finds them faster.
pub(super) fn scan(entries: Vec<u32>, name: impl Fn(u32, &mut Vec<u64>), key: &[u64]) -> Vec<u32> {
    let mut words = Vec::new();
    let mut is_of_key = |entry: &u32| {
        words.clear();
        name(*entry, &mut words);
        words.get(..key.len()).is_some_and(|words| is_same_key(words, key))
    };
    entries.into_iter().filter(|entry| is_of_key(entry)).collect()
}
