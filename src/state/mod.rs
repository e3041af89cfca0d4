//! The state of a pipeline on disk: opened, held against the pipeline, and loaded.
//!
//! A state belongs to what is computed. With each epoch a manifest is stored that says what that
//! was, stage by stage, source by source, sink by sink; at start it is held against the pipeline, so
//! that a difference is named and never found out later. What goes on and what begins anew is
//! decided in `difference`; that anything which is held goes away only if the user names it, too.

mod difference;
mod difference_text;
mod manifest;
mod prints;
pub mod tools;

use crate::config::{Pipeline, SinkConfig, SinkKind, StateConfig};
use crate::progress::Bar;
use crate::run_failure::RunFailure;
use crate::supervision::Supervision;
use difference::{Difference, What};
use manifest::{MANIFEST_VERSION, Manifest, Unreadable};
use nilometer_actors::checkpoint::{
    Changes, Checkpoint, CheckpointError, Shape, SinkCut, has_results, host_part, outbox_block,
};
use nilometer_actors::node::{SourcePart, StatePart};
use nilometer_connectors::panes::Delivery;
use nilometer_connectors::sink::{Receipt, Writer};
use nilometer_connectors::store::database::Database;
use nilometer_connectors::store::{Directory, Look, Store, StoreError};
use nilometer_model::epoch::Wish;
use nilometer_model::image::Begins;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The state of a pipeline, which this process has for itself.
pub struct State {
    /// Where epochs are stored, and what to go on with.
    pub part: StatePart,
    /// What begins here and what is forgotten, a sentence each.
    pub notices: Vec<String>,
    /// What is remembered of runs that have failed.
    pub supervision: Arc<Supervision>,
}

/// What a start asks of a state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// How to go on behind runs that have failed.
    pub wish: Wish,
    /// What is to be dropped.
    pub drops: &'a [String],
}

/// Stored state that is refused.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it holds cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// What is stored beside it is of another version.
    #[error(
        "the state in `{path}` has a manifest of version {found}, this program reads {MANIFEST_VERSION}: run the version that wrote it, or delete the directory to start anew"
    )]
    Manifest {
        /// The directory.
        path: Box<str>,
        /// The version found.
        found: u32,
    },
    /// It does not fit the pipeline.
    #[error("the state in `{path}` does not fit the pipeline:\n{refusal}")]
    OtherPlan {
        /// The directory.
        path: Box<str>,
        /// What differs, and what to do.
        refusal: Box<str>,
    },
    /// Its runs fail again and again.
    #[error(
        "the pipeline starts held, and nothing was read: its last {count} runs have failed, and stored nothing beyond that\n  the last one{last}\n{ways}"
    )]
    Held {
        /// How often.
        count: usize,
        /// Where, and why.
        last: Box<str>,
        /// What can be done.
        ways: &'static str,
    },
    /// Something was to be dropped that is not there, or does not have to be.
    #[error("--drop-state: {}", .0.join("\n  "))]
    Drop(Vec<String>),
}

/// What a start makes of a stored state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StateReport {
    /// The directory.
    dir: String,
    /// The epoch to go on behind.
    epoch: u64,
    /// Version of the program that stored it.
    stored_by: Box<str>,
    /// What goes on, what begins, and what stops the start.
    #[serde(flatten)]
    difference: Difference,
}

impl StateReport {
    /// Holds the state in the directory at `path` against `pipeline`, as a start would that drops
    /// what `drops` says. Nothing is changed; `None` if nothing is stored there yet.
    ///
    /// # Errors
    /// The state cannot be used, or `drops` cannot be dropped.
    pub(crate) fn new(
        path: &Path,
        pipeline: &Pipeline,
        drops: &[String],
    ) -> Result<Option<Self>, StateError> {
        let name = &pipeline.job.name;
        let look = Look::open_of(path, name)?;
        let store = look.store();
        let Some(was) = stored_manifest(store, path)? else { return Ok(None) };
        let difference = differ(store, (&was, &Manifest::of(pipeline)), drops)?;
        Ok(Some(Self {
            dir: path.to_string_lossy().into(),
            epoch: store.last().number(),
            stored_by: was.nilometer,
            difference,
        }))
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let Self { dir, epoch, stored_by, difference } = self;
        let table = difference_text::table(difference);
        format!("state `{dir}`, epoch {epoch}, stored by nilometer {stored_by}\n\n{table}")
    }
}

/// Opens the state of `pipeline`, if it has one, for a run that asks this of it.
///
/// # Errors
/// It cannot be used, does not fit the pipeline, or holds the run.
pub fn open_for(pipeline: &Pipeline, asked: Asked<'_>) -> Result<Option<State>, StateError> {
    let open = |config| open(config, pipeline, asked);
    pipeline.state.as_ref().map(open).transpose()
}

fn open(config: &StateConfig, pipeline: &Pipeline, asked: Asked<'_>) -> Result<State, StateError> {
    let name = &pipeline.job.name;
    let directory = Directory::open(&config.dir, name)?;
    let file = directory.abort_file();
    let open = if config.is_checked { Database::open_proven } else { Database::open };
    let store = open(directory, name)?;
    let manifest = Manifest::of(pipeline);
    let (checkpoint, mut notices) = match stored_manifest(&store, &config.dir)? {
        Some(was) => {
            let difference = differ(&store, (&was, &manifest), asked.drops)?;
            if !difference.starts {
                return Err(StateError::OtherPlan {
                    path: config.dir.to_string_lossy().into(),
                    refusal: difference_text::refusal(&difference).into(),
                });
            }
            let checkpoint = load(&store, pipeline, &changes(&difference, &manifest, &was))?;
            (checkpoint, difference_text::notices(&difference))
        }
        None if asked.drops.is_empty() => (None, Vec::new()),
        None => {
            return Err(StateError::Drop(vec![
                "nothing is stored yet that could be dropped".into(),
            ]));
        }
    };
    if store.is_mended() {
        notices.push(format!(
            "the state directory `{}`: the summary of its log was damaged, and was made anew from the \
             log, of which nothing is missing",
            config.dir.display()
        ));
    }
    let supervision = Supervision::open(file, checkpoint.as_ref(), pipeline, asked.wish)?;
    let part = StatePart {
        store: Box::new(store),
        interval: config.interval,
        bounds: config.bounds,
        memory: config.memory,
        host: manifest.to_bytes(),
        checkpoint,
    };
    Ok(State { part, notices, supervision: Arc::new(supervision) })
}

/// How what goes on differs from what was stored.
fn changes(difference: &Difference, is: &Manifest, was: &Manifest) -> Changes {
    let names = |what| difference.beginning(what).map(|entry| entry.name.clone());
    Changes {
        renumbering: Some(is.renumbering(was)),
        new_sinks: names(What::Sink).map(Into::into).collect(),
        begins: Begins {
            stages: names(What::Stage).collect(),
            counts: difference.counts_begin(),
            is_placed_anew: is.is_placed_anew(was),
            ..Begins::default()
        },
    }
}

fn load(
    store: &dyn Store,
    pipeline: &Pipeline,
    changes: &Changes,
) -> Result<Option<Checkpoint>, CheckpointError> {
    let sources: Vec<Arc<str>> =
        pipeline.sources.iter().map(|source| source.name.as_str().into()).collect();
    let sinks: Vec<Arc<str>> =
        pipeline.sinks.iter().map(|sink| sink.name.as_str().into()).collect();
    Checkpoint::load(store, Shape { sources: &sources, sinks: &sinks, changes })
}

/// The manifest of the last epoch of `store`; `None` if there is none.
fn stored_manifest(store: &dyn Store, path: &Path) -> Result<Option<Manifest>, StateError> {
    let Some(bytes) = host_part(store)? else { return Ok(None) };
    match Manifest::from_bytes(&bytes) {
        Ok(manifest) => Ok(Some(manifest)),
        Err(Unreadable::Version(found)) => {
            Err(StateError::Manifest { path: path.to_string_lossy().into(), found })
        }
        Err(Unreadable::Damaged) => Err(CheckpointError::no_host(store.last()).into()),
    }
}

/// How a state differs from a pipeline that drops what `drops` names.
fn differ(
    store: &dyn Store,
    (was, is): (&Manifest, &Manifest),
    drops: &[String],
) -> Result<Difference, StateError> {
    let mut unwritten = BTreeSet::new();
    for sink in &was.sinks {
        if has_results(store, &sink.name)? {
            unwritten.insert(sink.name.clone());
        }
    }
    let difference = Difference::new(was, is, &unwritten);
    difference.dropping(drops).map_err(StateError::Drop)
}

/// Lets readers go on where the checkpoint has them, and says which cannot do so exactly.
///
/// # Errors
/// An input is not what it was.
pub fn resume(sources: &mut [SourcePart], state: &State, bar: &Bar) -> Result<(), RunFailure> {
    if let Some(checkpoint) = &state.part.checkpoint {
        bar.say(&format!("goes on behind epoch {}", checkpoint.epoch));
    }
    for notice in &state.notices {
        bar.say(notice);
    }
    for (number, source) in sources.iter_mut().enumerate() {
        let name = &*source.name;
        let checkpoint = state.part.checkpoint.as_ref();
        let cut = checkpoint.and_then(|checkpoint| checkpoint.sources.get(number)?.as_ref());
        if let Some(cut) = cut {
            let resumed = source.reader.resume(&cut.position);
            resumed.map_err(|error| RunFailure::Source { name: name.into(), error })?;
        }
        if !source.reader.position().is_exact {
            bar.say(&format!(
                "source `{name}`: cannot be read again; what comes behind the last epoch is lost \
                 when the process is killed, and what comes before it is started again"
            ));
        }
    }
    Ok(())
}

/// Says so if the output of a sink cannot be cut off, so that it may show results twice.
pub fn declare(sink: &SinkConfig, bar: &Bar) {
    let can_be_cut = match &sink.kind {
        SinkKind::File { path, .. } => std::fs::metadata(path).is_ok_and(|file| file.is_file()),
        SinkKind::Stdout { .. } => false,
        // A topic is read as its readers choose; and no table is shown of a state.
        SinkKind::Kafka(_) | SinkKind::Table => true,
    };
    if !can_be_cut {
        bar.say(&format!(
            "sink `{}`: cannot be cut off; results of the last epoch may come twice when the \
             process is killed, each with the same stage, key, window and index",
            sink.name
        ));
    }
}

/// How a sink delivers: with a state it is told whether there is one, and what the last epoch holds
/// of the sink.
pub fn delivery(has_state: bool, cut: Option<&SinkCut>) -> Delivery {
    match cut {
        Some(cut) => Delivery::Resumed { behind: cut.begins },
        None if has_state => Delivery::Held,
        None => Delivery::AtOnce,
    }
}

/// Publishes what the last epoch of `state` holds of the sink called `name`, unless that was done.
///
/// # Errors
/// The state cannot be read, or the output cannot be written.
pub fn publish(
    writer: &mut Writer,
    (state, name): (&State, &str),
    cut: &SinkCut,
) -> Result<(), RunFailure> {
    let blocks = cut.missing().end;
    let mut number = 0;
    while number < blocks {
        let block = outbox_block(&*state.part.store, name, number).map_err(StateError::from)?;
        let next = number.saturating_add(1);
        let published = writer.publish(&block, next == blocks);
        number = match published.map_err(|error| RunFailure::Sink { name: name.into(), error })? {
            Receipt::Taken => next,
            Receipt::Again => 0,
        };
    }
    Ok(())
}
