//! A state that is looked at: its last epoch, and how it is read.

use super::ToolError;
use crate::state::manifest::Manifest;
use crate::state::stored_manifest;
use nilometer_actors::checkpoint::{Changes, Checkpoint, Shape};
use nilometer_connectors::store::database::Database;
use nilometer_connectors::store::{Look, Store};
use nilometer_model::image::{
    ImageError, Layouts, Reader, StageStanding, StoredEntry, UnknownFunction,
};
use std::path::Path;
use std::sync::Arc;

/// A copy of a state, and its last epoch.
pub(super) struct Opened {
    pub(super) path: Box<str>,
    pub(super) look: Look,
    pub(super) manifest: Manifest,
    pub(super) layouts: Layouts,
}

impl Opened {
    /// Copies and opens the state in the directory at `path`.
    pub(super) fn new(path: &Path) -> Result<Self, ToolError> {
        let look = Look::open(path)?;
        let shown: Box<str> = path.to_string_lossy().into();
        let manifest = stored_manifest(look.store(), path)?;
        let manifest = manifest.ok_or_else(|| ToolError::NothingStored { path: shown.clone() })?;
        let layouts = layouts(&manifest);
        let layouts =
            layouts.map_err(|source| ToolError::Function { path: shown.clone(), source })?;
        Ok(Self { path: shown, look, manifest, layouts })
    }

    pub(super) const fn store(&self) -> &Database {
        self.look.store()
    }

    /// The epoch, but for what is kept by key.
    pub(super) fn checkpoint(&self) -> Result<Checkpoint, ToolError> {
        let changes = Changes::default();
        let sources = names(self.manifest.sources.iter().map(|source| &*source.name));
        let sinks = names(self.manifest.sinks.iter().map(|sink| &*sink.name));
        let shape = Shape { sources: &sources, sinks: &sinks, changes: &changes };
        let checkpoint = Checkpoint::load(self.store(), shape).map_err(super::StateError::from)?;
        checkpoint.ok_or_else(|| ToolError::NothingStored { path: self.path.clone() })
    }

    /// How far stages have come, shard by shard.
    pub(super) fn stages(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<Vec<StageStanding>>, ToolError> {
        let shards = checkpoint.shards.iter().map(|shard| StageStanding::all(&shard.part));
        shards.collect::<Result<_, _>>().map_err(|source| self.image(source))
    }

    /// Gives every entry to `take`.
    pub(super) fn each(
        &self,
        mut take: impl FnMut(StoredEntry<'_>) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let store = self.store();
        let mut reader = Reader::new(&self.layouts, store.pages());
        for id in store.log() {
            let piece = store.piece(id)?;
            let mut take = |entry: StoredEntry<'_>| take(entry).map_err(Stop::Tool);
            reader.read(id.epoch, &piece, &mut take).map_err(|stop| match stop {
                Stop::Image(source) => self.image(source),
                Stop::Tool(error) => error,
            })?;
        }
        Ok(())
    }

    pub(super) fn image(&self, source: ImageError) -> ToolError {
        ToolError::Image { path: self.path.clone(), source }
    }
}

/// Why entries are not read any further.
enum Stop {
    Image(ImageError),
    Tool(ToolError),
}

impl From<ImageError> for Stop {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

/// How the entries of the stages of a manifest are read.
pub(super) fn layouts(manifest: &Manifest) -> Result<Layouts, UnknownFunction> {
    Layouts::new(manifest.stages.iter().map(|stage| (&*stage.print.name, &stage.layout)))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Arc<str>> {
    names.map(Arc::from).collect()
}
