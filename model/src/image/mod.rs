//! The state of a shard as bytes and back: what a restart needs, in a form that outlives the
//! process.
//!
//! It is written entry by entry ([`Keyed`]), mostly an entry a key, so that an epoch can hold what
//! has changed; entries of one table and key group make a [`Segment`]. Beside them stands what is of
//! the shard and not of a key: watermarks, the clock, accounts ([`part`]). Symbols are written as
//! texts; numbers of cells, groups and symbols are not written. Everything carries a version and
//! fits one plan: another plan's is refused, never guessed at. Taken between two rounds, when
//! nothing waits.

mod bytes;
mod form;
mod keyed;
mod lists;
mod machines;
mod part;
mod segment;
mod slices;
mod windows;

pub use segment::{Segment, TableKind, pack};

use crate::key::Placing;
use crate::plan::{Plan, Stage};
use crate::shard::{Machine, Shard};
use crate::symbol::{Symbols, SymbolsFull};
use bytes::{Input, put_bytes};
use form::Form;
use keyed::Keyed;
use segment::{Shape, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of the image format.
pub const IMAGE_VERSION: u16 = 3;

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 1 << 20;

/// An image that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The bytes are not an image, or a damaged one.
    #[error("the state is damaged or no state at all: {0}")]
    Damaged(&'static str),
    /// Another version wrote it.
    #[error(
        "the state has format version {found}, this program reads {IMAGE_VERSION}: run the version that wrote it, or start anew"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// It is the state of another plan.
    #[error(
        "the state is of another pipeline: {what} differs; start it with the configuration that wrote it, or start anew"
    )]
    OtherPlan {
        /// What does not fit.
        what: Box<str>,
    },
    /// The texts do not fit the table.
    #[error(transparent)]
    Texts(#[from] SymbolsFull),
}

impl From<postcard::Error> for ImageError {
    fn from(_: postcard::Error) -> Self {
        Self::Damaged("a part of it makes no sense")
    }
}

fn other_plan(what: &str) -> ImageError {
    ImageError::OtherPlan { what: what.into() }
}

/// The tables of a machine.
fn tables(machine: &Machine) -> Vec<(TableKind, &dyn Keyed)> {
    match machine {
        Machine::Keys(table, _) => vec![(TableKind::Windows, &**table as &dyn Keyed)],
        Machine::Sliding(table, _) => {
            vec![(TableKind::Windows, &table.windows as &dyn Keyed), (TableKind::Slices, &**table)]
        }
        Machine::Machines(table, _) => vec![(TableKind::Machines, &**table as &dyn Keyed)],
        Machine::TopK(table) => vec![(TableKind::Lists, &**table as &dyn Keyed)],
    }
}

/// The table of that kind; `None` if the machine has none.
fn table_mut(machine: &mut Machine, kind: TableKind) -> Option<&mut dyn Keyed> {
    match (machine, kind) {
        (Machine::Keys(table, _), TableKind::Windows) => Some(&mut **table as &mut dyn Keyed),
        (Machine::Sliding(table, _), TableKind::Windows) => Some(&mut table.windows),
        (Machine::Sliding(table, _), TableKind::Slices) => Some(&mut **table),
        (Machine::Machines(table, _), TableKind::Machines) => Some(&mut **table),
        (Machine::TopK(table), TableKind::Lists) => Some(&mut **table),
        (
            Machine::Keys(..) | Machine::Sliding(..) | Machine::Machines(..) | Machine::TopK(_),
            TableKind::Windows | TableKind::Slices | TableKind::Machines | TableKind::Lists,
        ) => None,
    }
}

/// How the entries of a table of `stage` are written.
fn form<'a>(
    machine: &Machine,
    kind: TableKind,
    stage: &'a Stage,
    symbols: &'a Symbols,
) -> Form<'a> {
    let is_apart = match machine {
        Machine::Keys(table, _) => table.cells.is_apart(),
        Machine::Sliding(table, _) => kind == TableKind::Windows && table.windows.cells.is_apart(),
        Machine::Machines(..) => false,
        Machine::TopK(_) => true,
    };
    let key = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent);
    Form::new((key, is_apart), stage, symbols)
}

impl Shard {
    /// All segments.
    fn segments(&self) -> Result<Vec<Segment>, ImageError> {
        let mut segments = BTreeMap::new();
        let (mut name, mut bytes) = (Vec::new(), Vec::new());
        for (stage, machine) in self.plan.stages.iter().zip(&self.machines) {
            let mut placing = Placing::of_stage(&self.plan, stage);
            for (kind, table) in tables(machine) {
                let form = form(machine, kind, stage, &self.symbols);
                for entry in table.entries() {
                    name.clear();
                    table.name(entry, &mut name);
                    let group = placing.group(&name, &self.symbols);
                    let table_id = TableId { stage: stage.id, kind };
                    let segment = segments.entry((table_id, group)).or_insert_with(|| Segment {
                        table: table_id,
                        group,
                        is_base: true,
                        entries: Vec::new(),
                    });
                    bytes.clear();
                    form.put_name(&mut bytes, &name);
                    put_bytes(&mut segment.entries, &bytes);
                    bytes.clear();
                    table.put(entry, &form, &mut bytes)?;
                    put_bytes(&mut segment.entries, &bytes);
                }
            }
        }
        Ok(segments.into_values().collect())
    }

    /// The state as bytes.
    ///
    /// # Errors
    /// The state does not serialise: never, as far as known.
    pub fn encode(&self) -> Result<Vec<u8>, ImageError> {
        let mut image = Vec::new();
        put_bytes(&mut image, &self.part()?);
        for piece in pack(&self.plan, self.segments()?, PIECE_BYTES) {
            put_bytes(&mut image, &piece);
        }
        Ok(image)
    }

    /// Shard `id` of `shards` with the state of `bytes`, which the same plan must have written.
    ///
    /// # Errors
    /// The bytes are damaged, of another version, or of another plan.
    pub fn decode(
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        (id, shards): (usize, usize),
        bytes: &[u8],
    ) -> Result<Self, ImageError> {
        let mut image = Input(bytes);
        let mut shard = Self::new(plan, symbols, id, shards);
        shard.take_part(image.bytes()?)?;
        while !image.is_empty() {
            shard.take_piece(image.bytes()?)?;
        }
        shard.recall_sent();
        if shard.plan.engine.pace().is_some() {
            shard.touch_news();
        }
        Ok(shard)
    }

    fn take_piece(&mut self, piece: &[u8]) -> Result<(), ImageError> {
        for segment in segment::segments(piece)? {
            let mut segment = segment?;
            let plan = Arc::clone(&self.plan);
            let stage = plan.stage(segment.stage);
            let machine = stage.and_then(|stage| self.machines.get_mut(stage.id.index()));
            let (Some(stage), Some(machine)) = (stage, machine) else {
                return Err(other_plan(&format!("stage `{}`", segment.stage)));
            };
            if segment.group.0 >= plan.key_groups {
                return Err(other_plan("the number of key groups"));
            }
            if !segment.is_base {
                return Err(ImageError::Damaged("changes stand alone"));
            }
            let found = Shape::of(stage);
            if segment.shape.fields != found.fields {
                return Err(other_plan("a key"));
            }
            if segment.shape.words != found.words {
                return Err(other_plan("an aggregate"));
            }
            if segment.shape.has_total != found.has_total {
                return Err(other_plan("the accumulation mode"));
            }
            let form = form(machine, segment.kind, stage, &self.symbols);
            let Some(table) = table_mut(machine, segment.kind) else {
                return Err(other_plan(&format!("the window or trigger of `{}`", stage.name)));
            };
            while !segment.entries.is_empty() {
                let (name, content) = segment::entry(&mut segment.entries)?;
                table.install(name, content, &form)?;
            }
        }
        Ok(())
    }
}
