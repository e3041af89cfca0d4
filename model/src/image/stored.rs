//! The entries that a log holds, read without the plan that they are of: with nothing but the layouts
//! that are stored beside them.
//!
//! Pieces come newest epoch first, as in [`super::Restoration`]. Entries of keys that lie in pages are
//! read there. Whoever looks at an entry has it read to its last byte: what cannot be read is damaged.

use super::bytes::Input;
use super::counting::{Counting, EntryName};
use super::form::Form;
use super::segment::{Shape, StoredSegment, TableId, TableKind, entry, segments};
use super::sequences::Records;
use super::view::EntryView;
use super::{ImageError, StageLayout, UnknownFunction};
use super::{lists, machines, other_plan, pages, sequences, slices, windows};
use crate::aggregate::AggregateLayout;
use crate::cold::{Pages, live_images};
use crate::epoch::Epoch;
use crate::key::{KeyGroup, KeyLayout};
use crate::pane::StageId;
use crate::symbol::Symbols;
use hashbrown::HashSet;
use std::sync::Arc;

/// How the entries of all stages are read.
#[derive(Debug)]
pub struct Layouts(Vec<Known>);

/// How those of one stage are.
#[derive(Debug)]
struct Known {
    stage: Box<str>,
    shape: Shape,
    /// Of the key that entries are kept by.
    key: KeyLayout,
    /// Of what may be listed.
    listed: KeyLayout,
    aggregates: AggregateLayout,
    is_apart: bool,
    sequence: Option<(Vec<Box<str>>, Records)>,
}

/// An entry that counts.
#[derive(Debug, Clone, Copy)]
pub struct StoredEntry<'a> {
    /// Name of its stage.
    pub stage: &'a str,
    /// Its table.
    pub kind: TableKind,
    /// Its key group.
    pub group: KeyGroup,
    /// Whether it lies in a page.
    pub is_cold: bool,
    /// Its name, as it is stored.
    pub name: &'a [u8],
    /// What it holds, as it is stored; at least one byte.
    pub content: &'a [u8],
}

/// Reads the pieces of a log.
#[derive(Debug)]
pub struct Reader<'a> {
    layouts: &'a Layouts,
    pages: Arc<dyn Pages>,
    counting: Counting,
    /// Entries that have come.
    seen: HashSet<EntryName, foldhash::fast::RandomState>,
}

impl Layouts {
    /// Of stages of these names.
    ///
    /// # Errors
    /// One of them cannot be read by this program.
    pub fn new<'a>(
        stages: impl IntoIterator<Item = (&'a str, &'a StageLayout)>,
    ) -> Result<Self, UnknownFunction> {
        let known = stages.into_iter().map(|(stage, layout)| {
            let (listed, aggregates) = (layout.key(), layout.aggregates()?);
            let shape = Shape {
                fields: listed.fields().len() as u64,
                words: aggregates.words() as u64,
                has_total: layout.keeps_total(),
            };
            Ok(Known {
                stage: stage.into(),
                shape,
                key: layout.parent().unwrap_or_else(|| listed.clone()),
                listed,
                is_apart: layout.is_apart(),
                sequence: layout.sequence(&aggregates),
                aggregates,
            })
        });
        known.collect::<Result<_, _>>().map(Self)
    }

    /// Names of the fields of the key by which a stage keeps its entries; `None` if there is no such
    /// stage.
    pub fn key(&self, stage: &str) -> Option<impl Iterator<Item = &str>> {
        let (_, known) = self.find(stage)?;
        Some(known.key.fields().iter().map(|field| &*field.name))
    }

    /// Of which shape the entries of a stage are.
    pub(super) fn shape(&self, stage: &str) -> Option<Shape> {
        self.find(stage).map(|(_, known)| known.shape)
    }

    /// What an entry holds, for people.
    ///
    /// # Errors
    /// It is damaged, or its stage is not known.
    pub fn view(&self, stored: &StoredEntry<'_>) -> Result<EntryView, ImageError> {
        let found = self.find(stored.stage);
        let (_, known) = found.ok_or_else(|| other_plan(&format!("stage `{}`", stored.stage)))?;
        known.view(stored)
    }

    fn find(&self, stage: &str) -> Option<(StageId, &Known)> {
        let index = self.0.iter().position(|known| *known.stage == *stage)?;
        Some((StageId(u16::try_from(index).ok()?), self.0.get(index)?))
    }
}

impl Known {
    fn view(&self, stored: &StoredEntry<'_>) -> Result<EntryView, ImageError> {
        let is_apart = match stored.kind {
            TableKind::Windows => self.is_apart,
            TableKind::Lists => true,
            TableKind::Slices | TableKind::Machines | TableKind::Sequences => false,
            TableKind::WindowPages
            | TableKind::SlicePages
            | TableKind::MachinePages
            | TableKind::ListPages
            | TableKind::SequencePages => return Err(ImageError::Damaged("a page is no entry")),
        };
        // A text is looked at once: a table for all of them would hold every text of the state.
        let symbols = Symbols::default();
        let form = Form::new((&self.key, is_apart), &self.aggregates, &symbols);
        let (mut name, mut content) = (Input(stored.name), Input(stored.content));
        let (key, named) = form.name(&mut name)?;
        let key = form.named(&self.key, &key);
        let mut view = EntryView { key, windows: Vec::new(), sessions: Vec::new() };
        match stored.kind {
            TableKind::Machines => view.windows = machines::view(&mut content, &form)?,
            TableKind::Slices => view.windows = slices::view(&mut content, &form)?,
            TableKind::Lists => {
                let window = named.ok_or(ImageError::Damaged("a list has no window"))?;
                view.windows.push(lists::view(&mut content, (window, &self.listed), &form)?);
            }
            TableKind::Sequences => {
                let sequence = self.sequence.as_ref();
                let (steps, records) = sequence.ok_or_else(|| other_plan("a sequence"))?;
                view.sessions = sequences::view(&mut content, (steps, records), &form)?;
            }
            TableKind::Windows
            | TableKind::WindowPages
            | TableKind::SlicePages
            | TableKind::MachinePages
            | TableKind::ListPages
            | TableKind::SequencePages => view.windows = windows::view(&mut content, named, &form)?,
        }
        let is_read = name.is_empty() && content.is_empty();
        is_read.then_some(view).ok_or(ImageError::Damaged("an entry is too long"))
    }
}

impl<'a> Reader<'a> {
    /// Of a log whose cold keys lie in `pages`.
    pub fn new(layouts: &'a Layouts, pages: Arc<dyn Pages>) -> Self {
        let (counting, seen) = (Counting::default(), HashSet::default());
        Self { layouts, pages, counting, seen }
    }

    /// Reads a piece of `epoch`, none of a later epoch comes after it; gives every entry that counts
    /// to `take`.
    ///
    /// # Errors
    /// The piece or a page that it names is damaged, or of a stage that is not known; or `take` fails.
    pub fn read<E: From<ImageError>>(
        &mut self,
        epoch: Epoch,
        piece: &[u8],
        take: &mut impl FnMut(StoredEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.counting.begin(epoch);
        for segment in segments(piece)? {
            self.segment(&segment?, take)?;
        }
        Ok(())
    }

    fn segment<E: From<ImageError>>(
        &mut self,
        segment: &StoredSegment<'_>,
        take: &mut impl FnMut(StoredEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let StoredSegment { stage, kind, group, is_base, shape, mut entries } = *segment;
        let found = self.layouts.find(stage);
        let (id, known) = found.ok_or_else(|| other_plan(&format!("stage `{stage}`")))?;
        let table = TableId { stage: id, kind };
        if !self.counting.counts((table, group), is_base) {
            return Ok(());
        }
        known.shape.check(shape)?;
        if let Some(kind) = kind.in_pages() {
            while !entries.is_empty() {
                let known = pages::known(group, &mut entries)?;
                let bytes = self.pages.read(known.number).map_err(ImageError::from)?;
                for image in live_images(&known, bytes).map_err(ImageError::from)? {
                    let mut content = Input(&image);
                    let name = content.bytes()?;
                    let content = content.0;
                    take(StoredEntry { stage, kind, group, is_cold: true, name, content })?;
                }
            }
            return Ok(());
        }
        while !entries.is_empty() {
            let (name, content) = entry(&mut entries)?;
            let is_there = self.counting.is_there(table, name, content);
            if is_there && self.seen.insert((table, name.0.into())) {
                let (name, content) = (name.0, content.0);
                take(StoredEntry { stage, kind, group, is_cold: false, name, content })?;
            }
        }
        Ok(())
    }
}
