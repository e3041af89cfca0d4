//! The end of a run that is told to end, or has failed: how long it may take, and what is said when
//! that runs out.
//!
//! Invariant: the time runs from the first cause, and no later one prolongs it.

use crate::config::Pipeline;
use crate::logs::{self, Level};
use crate::run_failure::RunFailure;
use nilometer_actors::node::{Node, Waited};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The drain of a run.
pub(crate) struct Drain {
    /// Whether a signal has asked for it.
    pub(crate) is_told: bool,
    /// How long it may take; `None`: as long as it takes.
    limit: Option<Duration>,
    has_state: bool,
    /// When it has to be done. `None` unless it has begun and has a limit.
    deadline: Option<Instant>,
}

impl Drain {
    /// It has not begun.
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let millis = |limit: i64| Duration::from_millis(u64::try_from(limit).unwrap_or(0));
        let limit = pipeline.drain_timeout.map(|limit| millis(limit.as_millis()));
        Self { is_told: false, limit, has_state: pipeline.state.is_some(), deadline: None }
    }

    /// It begins, unless it has.
    pub(crate) fn begin(&mut self) {
        // A limit beyond what can be counted is none.
        let deadline = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        self.deadline = self.deadline.or(deadline);
    }

    /// Waits until it takes too long; for ever if it never does. May be dropped while it waits.
    pub(crate) async fn runs_out(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Why the run ends now: what it waited for, or the failure that it drained for.
    pub(crate) fn failure(&self, node: &mut Node) -> RunFailure {
        let waited = describe(&node.waits_for());
        let after = self.limit.unwrap_or_default();
        let timeout = RunFailure::DrainTimeout { after, waited, has_state: self.has_state };
        match node.take_failure() {
            Some(failure) => {
                logs::say(Level::Error, &timeout.to_string(), None);
                RunFailure::Node(failure)
            }
            None => timeout,
        }
    }
}

/// Whom a drain waits for, in words.
fn describe(waited: &[Waited]) -> Box<str> {
    let name = |waited: &Waited| match waited {
        Waited::Source(name) => format!("source `{name}`, which has not stopped reading"),
        Waited::Sink(name) => format!("sink `{name}`, whose output takes no more"),
        Waited::Store => "the disk that state is stored on".to_owned(),
        Waited::Shards => "results that are being computed".to_owned(),
    };
    waited.iter().map(name).collect::<Vec<_>>().join("; for ").into()
}
