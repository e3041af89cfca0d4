//! Logs of the program, on stderr: sentences for people, or JSON for machines. How much is told can be
//! changed while it runs.
//!
//! Everything that people are told of a run comes by here, as do the lines of libraries; results go other
//! ways. Invariant: in JSON, every line is an object, and it has the span that it is of, if that is traced.

mod lines;
mod repeats;

pub(crate) use lines::Form;

use crate::progress::Bar;
use lines::Lines;
use opentelemetry::trace::SpanContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::sync::OnceLock;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// How much is told.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Nothing.
    Off,
    /// What has gone wrong.
    Error,
    /// And what may.
    Warn,
    /// And what has been told the run.
    #[default]
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

/// What makes lines. Set once, when the process begins to log.
static LINES: OnceLock<Lines<fn(&str)>> = OnceLock::new();
/// The bar that lines are written above. Set once, when there is one.
static BAR: OnceLock<Bar> = OnceLock::new();

/// Begins to log to stderr, unless the process logs, or something else logs for it.
pub(crate) fn start(form: Form, level: Level) {
    start_into(write, form, level);
}

/// As [`start`], by `write`.
pub(crate) fn start_into(write: fn(&str), form: Form, level: Level) {
    if FILTER.get().is_some() {
        return;
    }
    let (filter, handle) = reload::Layer::new(level.filter());
    let lines = Lines::new(form, write);
    if tracing_subscriber::registry().with(filter).with(lines.clone()).try_init().is_ok() {
        // Whoever was first has begun.
        FILTER.set(handle).ok();
        LINES.set(lines).ok();
    }
}

/// Writes lines above `bar` from now on.
pub(crate) fn above(bar: &Bar) {
    // A process has one.
    BAR.set(bar.clone()).ok();
}

/// Whether lines are JSON.
pub(crate) fn is_json() -> bool {
    LINES.get().is_some_and(|lines| lines.form == Form::Json)
}

fn write(line: &str) {
    let print = || {
        // If stderr is gone there is nobody left to tell.
        let _told = writeln!(std::io::stderr().lock(), "{line}");
    };
    match BAR.get() {
        Some(bar) => bar.above(print),
        None => print(),
    }
}

/// Tells, from time to time, how often lines came that were not told.
pub(crate) fn sum_up() {
    if let Some(lines) = LINES.get() {
        lines.sum_up();
    }
}

/// Tells it of all lines, since the run ends.
pub(crate) fn finish() {
    if let Some(lines) = LINES.get() {
        lines.finish();
    }
}

/// Tells a sentence, which is of `span`, if that is traced.
pub(crate) fn say(level: Level, line: &str, span: Option<&SpanContext>) {
    macro_rules! say {
        ($level:ident) => {
            match span.filter(|_| is_json()) {
                Some(span) => tracing::$level!(
                    trace_id = %span.trace_id(),
                    span_id = %span.span_id(),
                    "{line}"
                ),
                None => tracing::$level!("{line}"),
            }
        };
    }
    match level {
        Level::Off => {}
        Level::Error => say!(error),
        Level::Warn => say!(warn),
        Level::Info => say!(info),
        Level::Debug => say!(debug),
        Level::Trace => say!(trace),
    }
}

/// Tells what was asked for, or what a run comes to, whatever the level, and however often.
pub(crate) fn answer(line: &str) {
    conclude(tracing::Level::INFO, line);
}

/// Tells in the same way why there is no good end.
pub(crate) fn fail(line: &str) {
    conclude(tracing::Level::ERROR, line);
}

fn conclude(level: tracing::Level, line: &str) {
    match LINES.get() {
        Some(lines) => lines.answer(level, line),
        None => write(line),
    }
}

/// Whether the process logs.
pub(crate) fn is_started() -> bool {
    FILTER.get().is_some()
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
