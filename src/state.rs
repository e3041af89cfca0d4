//! The state of a pipeline on disk: opened, held against the pipeline, and loaded.
//!
//! A state belongs to one plan. What the plan is made of - every setting in force that has a part
//! in what is computed - is stored with each epoch, and compared at start, so that a difference is
//! named and never found out later.

use crate::config::{Origin, Pipeline, StateConfig};
use crate::progress::Bar;
use crate::run_failure::RunFailure;
use crate::supervision::Supervision;
use nilometer_actors::checkpoint::{
    Checkpoint, CheckpointError, Shape, SinkCut, host_part, outbox_block,
};
use nilometer_actors::node::{SourcePart, StatePart};
use nilometer_connectors::panes::Delivery;
use nilometer_connectors::sink::Writer;
use nilometer_connectors::store::database::Database;
use nilometer_connectors::store::{Directory, Store, StoreError};
use nilometer_model::epoch::{Epoch, Wish};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The state of a pipeline, which this process has for itself.
pub struct State {
    /// Where epochs are stored, and what to go on with.
    pub part: StatePart,
    /// What is remembered of runs that have failed.
    pub supervision: Arc<Supervision>,
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
    /// It is the state of another plan.
    #[error(
        "the state in `{path}` was written by a pipeline with other settings:\n{differences}put them back, or set another `state.dir` to start anew"
    )]
    OtherPlan {
        /// The directory.
        path: Box<str>,
        /// One line for each setting.
        differences: String,
    },
    /// Its runs fail again and again.
    #[error(
        "the pipeline starts held, and nothing was read: its last {count} runs have failed, and stored nothing beyond that\n  the last one{last}\n{ways}"
    )]
    Held {
        /// How often.
        count: u32,
        /// Where, and why.
        last: Box<str>,
        /// What can be done.
        ways: &'static str,
    },
}

/// Settings that have no part in what is computed.
const FREE: [&str; 5] =
    ["limits.", "state.", "dead_letters", "pipeline.max_texts", "pipeline.shards"];

/// Settings by path.
type Settings = BTreeMap<String, Json>;

/// Opens the state of `pipeline`, if it has one, for a run that is started with this wish.
///
/// # Errors
/// It cannot be used, is that of another pipeline, or holds the run.
pub fn open_for(pipeline: &Pipeline, wish: Wish) -> Result<Option<State>, StateError> {
    let open = |config| open(config, pipeline, wish);
    pipeline.state.as_ref().map(open).transpose()
}

fn open(config: &StateConfig, pipeline: &Pipeline, wish: Wish) -> Result<State, StateError> {
    let name = &pipeline.job.name;
    let directory = Directory::open(&config.dir, name)?;
    let file = directory.abort_file();
    let store = Database::open(directory, name)?;
    let settings = settings(pipeline);
    if let Some(stored) = host_part(&store)? {
        compare(&config.dir, (&stored, store.last()), &settings, pipeline)?;
    }
    let sources: Vec<Arc<str>> =
        pipeline.sources.iter().map(|source| source.name.as_str().into()).collect();
    let sinks: Vec<Arc<str>> =
        pipeline.sinks.iter().map(|sink| sink.name.as_str().into()).collect();
    let shape = Shape { sources: &sources, sinks: &sinks };
    let checkpoint = Checkpoint::load(&store, shape)?;
    let supervision = Supervision::open(file, checkpoint.as_ref(), pipeline, wish)?;
    // A map of texts: nothing in it can fail to be written.
    let host = serde_json::to_vec(&settings).unwrap_or_default();
    let (interval, bounds, memory) = (config.interval, config.bounds, config.memory);
    let store = Box::new(store);
    let part = StatePart { store, interval, bounds, memory, host, checkpoint };
    Ok(State { part, supervision: Arc::new(supervision) })
}

/// The settings that have a part in what is computed.
fn settings(pipeline: &Pipeline) -> Settings {
    // How a cluster is reached says nothing of what is read.
    let is_access = |path: &str| path.starts_with("source.") && path.contains(".options.");
    let is_free = |path: &str| is_access(path) || FREE.iter().any(|free| path.starts_with(free));
    let fixed = pipeline.settings.iter().filter(|setting| !is_free(&setting.path));
    fixed.map(|setting| (setting.path.clone(), setting.value.clone())).collect()
}

fn compare(
    path: &Path,
    (stored, epoch): (&[u8], Epoch),
    settings: &Settings,
    pipeline: &Pipeline,
) -> Result<(), StateError> {
    let stored: Settings = serde_json::from_slice(stored)
        .map_err(|_| CheckpointError::Part { epoch, part: "pipeline".into() })?;
    // A setting that the version which wrote the state did not know had its default.
    let is_default = |path: &str| {
        let mut known = pipeline.settings.iter();
        known.any(|setting| setting.path == path && setting.origin == Origin::Default)
    };
    let mut paths: Vec<_> = stored.keys().chain(settings.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut differences = String::new();
    for name in paths {
        let (was, is) = (stored.get(name), settings.get(name));
        if was == is || (was.is_none() && is_default(name)) {
            continue;
        }
        let text = |value: Option<&Json>| value.map_or("nothing".into(), Json::to_string);
        differences += &format!("  {name} was {}, and is {}\n", text(was), text(is));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(StateError::OtherPlan { path: path.to_string_lossy().into(), differences })
}

/// Lets readers go on where the checkpoint has them, and says which cannot do so exactly.
///
/// # Errors
/// An input is not what it was.
pub fn resume(
    sources: &mut [SourcePart],
    checkpoint: Option<&Checkpoint>,
    bar: &Bar,
) -> Result<(), RunFailure> {
    if let Some(checkpoint) = checkpoint {
        bar.say(&format!("goes on behind epoch {}", checkpoint.epoch));
    }
    for (number, source) in sources.iter_mut().enumerate() {
        let name = &*source.name;
        if let Some(cut) = checkpoint.and_then(|checkpoint| checkpoint.sources.get(number)) {
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
    let missing = cut.missing();
    for number in missing.clone() {
        let block = outbox_block(&*state.part.store, name, number).map_err(StateError::from)?;
        let is_last = number.saturating_add(1) == missing.end;
        let published = writer.publish(&block, is_last);
        published.map_err(|error| RunFailure::Sink { name: name.into(), error })?;
    }
    Ok(())
}
