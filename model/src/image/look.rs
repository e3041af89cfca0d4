//! What a shard holds of one key, looked at while it runs: nothing is changed by it.
//!
//! An entry is written down as for an epoch and read back as by whoever looks at a stored state, so
//! both see the same. Keys that are not in memory are read where they lie, and stay there.

use super::bytes::Input;
use super::keyed::OfKey;
use super::stored::{Layouts, StoredEntry};
use super::{
    EntryView, Form, ImageError, StageLayout, TableKind, UnknownFunction, form, kinds, table_mut,
};
use crate::cold::PageError;
use crate::key::{KeyGroup, KeyLayout};
use crate::memory::shelves_mut;
use crate::pane::StageId;
use crate::shard::Shard;
use crate::symbol::{Symbol, Symbols};
use crate::value::{Datum, Type};
use std::net::IpAddr;
use std::sync::Arc;

/// A key as people write it: fields and values, `None` for null.
pub type WrittenKey = Vec<(Box<str>, Option<Box<str>>)>;

/// What a shard holds of a key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// Its entries.
    pub entries: Vec<Seen>,
    /// How many keys of the stage were not looked at, since that would take too long: there may be
    /// more entries of the key among them. 0 unless an entry is of one window.
    pub unseen: usize,
}

/// An entry that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its table.
    pub kind: TableKind,
    /// Whether it lies in a page, not in memory.
    pub is_cold: bool,
    /// What it holds.
    pub view: EntryView,
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
    /// A part of the state that is not in memory cannot be read.
    #[error(transparent)]
    Page(#[from] PageError),
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
        let stored_as = StageLayout::of(stage);
        let layouts = Layouts::new([(&*stage.name, &stored_as)])?;
        let see = |(kind, is_cold), name: &[u8], content: &[u8]| {
            let (stage, group) = (&*stage.name, KeyGroup(0));
            let view = layouts.view(&StoredEntry { stage, kind, group, is_cold, name, content })?;
            Ok::<_, ImageError>(Seen { kind, is_cold, view })
        };
        let mut look = Look::default();
        // A text that no record had is of no key in memory.
        let find = |text: &str| symbols.find(text);
        if let Some(key) = packed(layout, key, find)? {
            for kind in kinds(machine) {
                let form = form(machine, *kind, stage, &symbols);
                let Some(table) = table_mut(machine, *kind) else { continue };
                let OfKey { entries, unseen } = table.of_key(&key);
                look.unseen += unseen;
                for entry in entries {
                    let (mut words, mut name, mut content) = (Vec::new(), Vec::new(), Vec::new());
                    table.name(entry, &mut words);
                    form.put_name(&mut name, &words);
                    table.put(entry, &form, &mut content)?;
                    look.entries.push(see((*kind, false), &name, &content)?);
                }
            }
        }
        // Texts in pages are texts; that somebody asks for one is no reason to remember it.
        let own = Symbols::default();
        let intern = |text: &str| own.intern(text).ok();
        let Some(key) = packed(layout, key, intern)? else { return Ok(look) };
        let mut name = Vec::new();
        Form::new((layout, false), &stage.aggregates, &own).put_name(&mut name, &key);
        for (kind, shelf) in shelves_mut(machine) {
            let group = shelf.group(&key, &own);
            let (images, unseen) = shelf.look(&name, group)?;
            look.unseen += unseen;
            for image in images {
                let mut content = Input(&image);
                let name = content.bytes()?;
                look.entries.push(see((kind, true), name, content.0)?);
            }
        }
        Ok(look)
    }
}

/// The packed key, whose texts `symbol` knows; `None` if no record can have it.
fn packed(
    layout: &KeyLayout,
    written: &WrittenKey,
    symbol: impl Fn(&str) -> Option<Symbol>,
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
        match datum(field.ty, value.as_deref(), &symbol) {
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

fn datum(ty: Type, text: Option<&str>, symbol: impl Fn(&str) -> Option<Symbol>) -> Read {
    let Some(text) = text else { return Read::Is(Datum::Null) };
    let is = |datum: Option<Datum>| datum.map_or(Read::Wrong, Read::Is);
    let known = |datum: Option<Datum>| datum.map_or(Read::Unknown, Read::Is);
    match ty {
        Type::Text => known(symbol(text).map(Datum::Text)),
        Type::Object => known(symbol(text).map(Datum::Object)),
        _ if text == "null" => Read::Is(Datum::Null),
        Type::Bool => is(text.parse().ok().map(Datum::Bool)),
        Type::F64 => is(text.parse().ok().map(Datum::Float)),
        Type::Ip => is(text.parse::<IpAddr>().ok().map(Datum::ip)),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I64 | Type::Big => {
            is(text.parse().ok().map(Datum::Int))
        }
    }
}
