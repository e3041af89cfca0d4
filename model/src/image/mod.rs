//! The state of a shard as bytes and back: what a restart needs, in a form that outlives the
//! process.
//!
//! It is written entry by entry (`Keyed`), mostly an entry a key, so that an epoch can hold what
//! has changed; entries of one table and key group make a [`Segment`]. Beside them stands what is of
//! the shard and not of a key: watermarks, the clock, accounts (`part`). Symbols are written as
//! texts; numbers of cells, groups and symbols are not written. Everything carries a version and
//! fits one plan: another plan's is refused, never guessed at. Taken between two rounds, when
//! nothing waits.

mod begin;
mod bytes;
mod counting;
mod cut;
mod dirty;
mod displaced;
mod form;
mod keyed;
mod layout;
mod lists;
mod log;
mod look;
mod machines;
mod pages;
mod part;
mod restoration;
mod rewriting;
mod segment;
mod sequences;
mod slices;
mod stored;
mod view;
mod windows;

pub use begin::Begins;
pub(crate) use bytes::{Input, put_bytes};
pub use cut::Cut;
pub(crate) use dirty::Dirty;
pub use displaced::place_displaced;
pub(crate) use form::Form;
pub(crate) use keyed::Keyed;
pub use layout::{StageLayout, UnknownFunction};
pub use log::Log;
pub use look::{Look, LookError, Seen, WrittenKey};
pub use part::StageStanding;
pub use restoration::Restoration;
pub use rewriting::Rewriter;
pub use segment::{Segment, TableKind, pack};
pub use stored::{Layouts, Reader, StoredEntry};
pub use view::{EntryView, ListedView, Named, RecordView, SessionView, WindowView};

use crate::cold::PageError;
use crate::plan::Stage;
use crate::shard::Machine;
use crate::symbol::{Symbols, SymbolsFull};

/// Version of the image format.
pub const IMAGE_VERSION: u16 = 4;

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
    /// Keys that are not in memory cannot be had.
    #[error(transparent)]
    Page(#[from] PageError),
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
const fn kinds(machine: &Machine) -> &'static [TableKind] {
    match machine {
        Machine::Keys(..) => &[TableKind::Windows],
        Machine::Sliding(..) => &[TableKind::Windows, TableKind::Slices],
        Machine::Machines(..) => &[TableKind::Machines],
        Machine::TopK(_) => &[TableKind::Lists],
        Machine::Sequence(_) => &[TableKind::Sequences],
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
        (Machine::Sequence(table), TableKind::Sequences) => Some(&mut **table),
        (
            Machine::Keys(..)
            | Machine::Sliding(..)
            | Machine::Machines(..)
            | Machine::TopK(_)
            | Machine::Sequence(_),
            TableKind::Windows
            | TableKind::Slices
            | TableKind::Machines
            | TableKind::Lists
            | TableKind::WindowPages
            | TableKind::SlicePages
            | TableKind::MachinePages
            | TableKind::ListPages
            | TableKind::Sequences
            | TableKind::SequencePages,
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
        Machine::Machines(..) | Machine::Sequence(_) => false,
        Machine::TopK(_) => true,
    };
    let key = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent);
    Form::new((key, is_apart), &stage.aggregates, symbols)
}
