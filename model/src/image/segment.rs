//! Segments: entries of one table and key group; and pieces, which hold segments.
//!
//! A piece is a version and segments one after another; a segment is the name of its stage, the kind
//! of the table, the number of the group, whether it is a base, the shape of its entries, and the
//! entries behind their length. An entry is a name and what it holds, each behind its length; one
//! that holds nothing is gone. All that is needed to find an entry, or to skip it, is in the bytes.

use super::bytes::{Input, put_bytes, put_number};
use super::{IMAGE_VERSION, ImageError, other_plan};
use crate::key::KeyGroup;
use crate::pane::StageId;
use crate::plan::{Plan, Stage};

/// What kind of table the entries of a segment are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// Windows of keys, in cells.
    Windows,
    /// Slices of sliding windows.
    Slices,
    /// Key machines.
    Machines,
    /// Top-K lists.
    Lists,
    /// Pages of windows of keys that are not in memory.
    WindowPages,
    /// Pages of slices.
    SlicePages,
    /// Pages of key machines.
    MachinePages,
    /// Pages of top-K lists.
    ListPages,
    /// Sessions of sequences.
    Sequences,
    /// Pages of sessions.
    SequencePages,
}

impl TableKind {
    const ALL: [Self; 10] = [
        Self::Windows,
        Self::Slices,
        Self::Machines,
        Self::Lists,
        Self::WindowPages,
        Self::SlicePages,
        Self::MachinePages,
        Self::ListPages,
        Self::Sequences,
        Self::SequencePages,
    ];

    /// Of the entries that pages of this kind hold; `None` if these are no pages.
    pub(super) const fn in_pages(self) -> Option<Self> {
        match self {
            Self::WindowPages => Some(Self::Windows),
            Self::SlicePages => Some(Self::Slices),
            Self::MachinePages => Some(Self::Machines),
            Self::ListPages => Some(Self::Lists),
            Self::SequencePages => Some(Self::Sequences),
            Self::Windows | Self::Slices | Self::Machines | Self::Lists | Self::Sequences => None,
        }
    }

    /// Of pages that hold entries of this kind.
    pub(super) const fn pages(self) -> Self {
        match self {
            Self::Windows | Self::WindowPages => Self::WindowPages,
            Self::Slices | Self::SlicePages => Self::SlicePages,
            Self::Machines | Self::MachinePages => Self::MachinePages,
            Self::Lists | Self::ListPages => Self::ListPages,
            Self::Sequences | Self::SequencePages => Self::SequencePages,
        }
    }

    /// The name of a table of entries, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Windows | Self::WindowPages => "windows",
            Self::Slices | Self::SlicePages => "slices",
            Self::Machines | Self::MachinePages => "machines",
            Self::Lists | Self::ListPages => "lists",
            Self::Sequences | Self::SequencePages => "sequences",
        }
    }

    /// The table of entries of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.in_pages().is_none() && kind.name() == name)
    }

    /// Its number as it is stored. Never changed.
    const fn number(self) -> u8 {
        match self {
            Self::Windows => 0,
            Self::Slices => 1,
            Self::Machines => 2,
            Self::Lists => 3,
            Self::WindowPages => 4,
            Self::SlicePages => 5,
            Self::MachinePages => 6,
            Self::ListPages => 7,
            Self::Sequences => 8,
            Self::SequencePages => 9,
        }
    }
}

/// A table of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TableId {
    pub(super) stage: StageId,
    pub(super) kind: TableKind,
}

/// Entries of one table and key group, on their way out.
#[derive(Debug, Clone)]
pub struct Segment {
    pub(super) table: TableId,
    pub(super) group: KeyGroup,
    /// Whether these are all entries of the group, together with the segments that follow it in its
    /// epoch; else those that have changed.
    pub(super) is_base: bool,
    pub(super) entries: Vec<u8>,
}

/// What entries must agree about with the plan that reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Fields of the key.
    pub(super) fields: u64,
    /// Words of the accumulators.
    pub(super) words: u64,
    /// Whether totals are kept.
    pub(super) has_total: bool,
}

impl Shape {
    pub(super) fn of(stage: &Stage) -> Self {
        Self {
            fields: stage.key.fields().len() as u64,
            words: stage.aggregates.words() as u64,
            has_total: stage.keeps_total(),
        }
    }

    /// Whether entries of shape `found` can be read.
    pub(super) fn check(self, found: Self) -> Result<(), ImageError> {
        let what = if found.fields != self.fields {
            "a key"
        } else if found.words != self.words {
            "an aggregate"
        } else if found.has_total != self.has_total {
            "the accumulation mode"
        } else {
            return Ok(());
        };
        Err(other_plan(what))
    }
}

/// Packs segments into pieces of about `bytes`, in order, piece by piece.
pub fn pack(
    plan: &Plan,
    segments: Vec<Segment>,
    bytes: usize,
) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut segments = segments.into_iter();
    std::iter::from_fn(move || {
        let mut piece = Vec::new();
        while piece.len() < bytes
            && let Some(segment) = segments.next()
        {
            put_segment(&mut piece, &segment, plan);
        }
        (!piece.is_empty()).then_some(piece)
    })
}

fn put_segment(piece: &mut Vec<u8>, segment: &Segment, plan: &Plan) {
    let Some(stage) = plan.stages.get(segment.table.stage.index()) else { return };
    let Segment { table, group, is_base, entries } = segment;
    let (kind, shape, entries) = (table.kind, Shape::of(stage), Input(entries));
    let stage = &*stage.name;
    let stored = StoredSegment { stage, kind, group: *group, is_base: *is_base, shape, entries };
    stored.put(piece);
}

/// A segment of a piece that is read.
pub(super) struct StoredSegment<'a> {
    pub(super) stage: &'a str,
    pub(super) kind: TableKind,
    pub(super) group: KeyGroup,
    pub(super) is_base: bool,
    pub(super) shape: Shape,
    pub(super) entries: Input<'a>,
}

impl StoredSegment<'_> {
    /// Appends the segment to a piece.
    pub(super) fn put(&self, piece: &mut Vec<u8>) {
        if piece.is_empty() {
            put_number(piece, u64::from(IMAGE_VERSION));
        }
        put_bytes(piece, self.stage.as_bytes());
        piece.push(self.kind.number());
        put_number(piece, u64::from(self.group.0));
        piece.push(u8::from(self.is_base));
        put_number(piece, self.shape.fields);
        put_number(piece, self.shape.words);
        piece.push(u8::from(self.shape.has_total));
        put_bytes(piece, self.entries.0);
    }
}

/// The segments of a piece.
pub(super) fn segments(
    piece: &[u8],
) -> Result<impl Iterator<Item = Result<StoredSegment<'_>, ImageError>>, ImageError> {
    let mut input = Input(piece);
    let found = input.small()?;
    if found != u32::from(IMAGE_VERSION) {
        return Err(ImageError::Version { found });
    }
    Ok(std::iter::from_fn(move || {
        if input.is_empty() {
            return None;
        }
        let segment = segment(&mut input);
        if segment.is_err() {
            input = Input(&[]);
        }
        Some(segment)
    }))
}

fn segment<'a>(input: &mut Input<'a>) -> Result<StoredSegment<'a>, ImageError> {
    let stage = input.text()?;
    let kind = input.byte()?;
    let kind = TableKind::ALL.into_iter().find(|known| known.number() == kind);
    let kind = kind.ok_or(ImageError::Damaged("a table is of no known kind"))?;
    let group = u16::try_from(input.small()?);
    let group = KeyGroup(group.map_err(|_| ImageError::Damaged("a key group is too large"))?);
    let is_base = input.byte()? != 0;
    let shape =
        Shape { fields: input.number()?, words: input.number()?, has_total: input.byte()? != 0 };
    let entries = Input(input.bytes()?);
    Ok(StoredSegment { stage, kind, group, is_base, shape, entries })
}

/// The next entry of a segment: its name, and what it holds; nothing if it is gone.
pub(super) fn entry<'a>(entries: &mut Input<'a>) -> Result<(Input<'a>, Input<'a>), ImageError> {
    Ok((Input(entries.bytes()?), Input(entries.bytes()?)))
}
