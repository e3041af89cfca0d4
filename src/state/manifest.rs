//! What is stored beside a state so that it can be told what it is of: by the next start, and by
//! people who have nothing but the directory.
//!
//! It is JSON with a version of its own. Names and texts are those of the pipeline that wrote it; how
//! values are read follows from the layouts of keys and aggregates, which are stored whole.

use super::prints;
use crate::config::Pipeline;
use nilometer_model::change::StagePrint;
use nilometer_model::image::StageLayout;
use nilometer_model::watermark::{Percentile, Renumbering};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the manifest.
pub(crate) const MANIFEST_VERSION: u32 = 2;

/// What a state is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// [`MANIFEST_VERSION`], first of all.
    manifest: u32,
    /// Version of the program that stored it.
    pub(crate) nilometer: Box<str>,
    /// Name of the pipeline.
    pub(crate) pipeline: Box<str>,
    /// The shares of the records that have a second watermark, in order.
    shares: Vec<Percentile>,
    /// Number of key groups.
    key_groups: u16,
    /// Stages, in plan order.
    pub(crate) stages: Vec<StageEntry>,
    /// Sources, by partition.
    pub(crate) sources: Vec<PartPrint>,
    /// Sinks.
    pub(crate) sinks: Vec<PartPrint>,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageEntry {
    /// What decides what its state means.
    pub(crate) print: StagePrint,
    /// How its state is read.
    pub(crate) layout: StageLayout,
    /// The fields of its key that place it in a key group.
    placed_by: Vec<Box<str>>,
}

/// A source or a sink, and what decides what is stored of it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartPrint {
    /// Its name.
    pub(crate) name: Box<str>,
    /// By the name of the setting.
    pub(crate) settings: BTreeMap<Box<str>, Box<str>>,
}

/// A manifest that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Another version wrote it.
    Version(u32),
    /// It is none.
    Damaged,
}

impl Manifest {
    /// What the state of a pipeline is of.
    pub(crate) fn of(pipeline: &Pipeline) -> Self {
        let prints = prints::stages(pipeline).into_iter();
        let stages = prints.zip(&pipeline.plan.stages);
        Self {
            manifest: MANIFEST_VERSION,
            nilometer: env!("CARGO_PKG_VERSION").into(),
            pipeline: pipeline.job.name.clone(),
            shares: pipeline.plan.shares.clone(),
            stages: stages
                .map(|(print, stage)| StageEntry {
                    print,
                    layout: StageLayout::of(stage),
                    placed_by: pipeline.plan.placing_fields(stage).to_vec(),
                })
                .collect(),
            key_groups: pipeline.plan.key_groups,
            sources: pipeline.sources.iter().map(prints::source).collect(),
            sinks: pipeline.sinks.iter().map(|sink| prints::sink(sink, &pipeline.plan)).collect(),
        }
    }

    /// As it is stored.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Names, texts and numbers: there is nothing that JSON could not say.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What was stored.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Head {
            manifest: u32,
        }
        let head: Head = serde_json::from_slice(bytes).map_err(|_| Unreadable::Damaged)?;
        if head.manifest != MANIFEST_VERSION {
            return Err(Unreadable::Version(head.manifest));
        }
        serde_json::from_slice(bytes).map_err(|_| Unreadable::Damaged)
    }

    /// Which numbers partitions and shares of `self` had in `was`.
    pub(crate) fn renumbering(&self, was: &Self) -> Renumbering {
        let partition =
            |source: &PartPrint| was.sources.iter().position(|old| old.name == source.name);
        let share = |share: &Percentile| was.shares.iter().position(|old| old == share);
        Renumbering {
            partitions: self.sources.iter().map(partition).collect(),
            shares: self.shares.iter().map(share).collect(),
        }
    }

    /// Whether keys lie in other groups than in `was`.
    pub(crate) fn is_placed_anew(&self, was: &Self) -> bool {
        let is_moved = |stage: &StageEntry| {
            let mut known = was.stages.iter();
            let known = known.find(|known| known.print.name == stage.print.name);
            known.is_some_and(|known| known.placed_by != stage.placed_by)
        };
        self.key_groups != was.key_groups || self.stages.iter().any(is_moved)
    }

    /// The prints of the stages.
    pub(crate) fn prints(&self) -> Vec<StagePrint> {
        self.stages.iter().map(|stage| stage.print.clone()).collect()
    }
}
