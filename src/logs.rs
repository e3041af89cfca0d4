//! Logs of the program, on stderr: how much is told can be changed while it runs.
//!
//! Results and what people are told of a run go other ways; here stand the lines of libraries, and what
//! somebody has told a run through its admin port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Nothing.
    Off,
    /// What has gone wrong.
    Error,
    /// And what may.
    Warn,
    /// And what has been told the run.
    Info,
    /// And what it does.
    Debug,
    /// And how.
    Trace,
}

impl Level {
    const fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

const ALL: [Level; 6] =
    [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

/// Set once, when the process begins to log.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Begins to log, unless the process does, or something else logs for it.
pub(crate) fn start() {
    if FILTER.get().is_some() {
        return;
    }
    let (filter, handle) = reload::Layer::new(Level::Info.filter());
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(true);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // Whoever was first has begun.
        FILTER.set(handle).ok();
    }
}

/// How much is told; nothing in a process that does not log.
pub(crate) fn level() -> Level {
    let filter = FILTER.get().and_then(reload::Handle::clone_current);
    let filter = filter.unwrap_or(LevelFilter::OFF);
    ALL.into_iter().find(|level| level.filter() == filter).unwrap_or(Level::Off)
}

/// From now on so much is told; returns whether the process logs at all.
pub(crate) fn set_level(level: Level) -> bool {
    FILTER.get().is_some_and(|handle| handle.reload(level.filter()).is_ok())
}
