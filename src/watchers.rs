//! Who watches a run beside its people: supervision of a state, the admin port, a collector.
//!
//! Invariant: none of them holds the run up; when they are dropped, all have been told its end.

use crate::admin::{Admin, AdminError};
use crate::config::Pipeline;
use crate::logs::{self, Level};
use crate::metrics::{Deliveries, Watched};
use crate::progress::Bar;
use crate::supervision::Supervision;
use crate::telemetry::{Pushing, Spans, TelemetryError, resource};
use nilometer_actors::node::Node;
use std::sync::Arc;
use std::time::Instant;

/// Who watches a run.
pub(crate) struct Watchers {
    supervision: Option<Arc<Supervision>>,
    admin: Option<Admin>,
    /// `None` before the run has begun, and where nobody is told.
    pushing: Option<Pushing>,
    /// What became of spans, where some are made.
    spans: Option<Arc<Deliveries>>,
    begun: Instant,
}

impl Watchers {
    /// Opens the admin port, if there is one: it says that the run is not ready.
    pub(crate) fn open(pipeline: &Pipeline, bar: &Bar) -> Result<Self, AdminError> {
        let admin = Admin::open(pipeline, bar.plights())?;
        if let Some(admin) = &admin {
            let line = format!("admin port: http://{}", admin.address());
            logs::say(Level::Info, &line, None);
        }
        Ok(Self { supervision: None, admin, pushing: None, spans: None, begun: Instant::now() })
    }

    /// The run has a state.
    pub(crate) fn supervise(&mut self, supervision: Option<Arc<Supervision>>) {
        self.supervision = supervision;
    }

    /// The run makes spans.
    pub(crate) fn count(&mut self, spans: Option<&Spans>) {
        self.spans = spans.map(Spans::counts);
    }

    /// The run has begun.
    pub(crate) fn watch(&mut self, node: &Node, pipeline: &Pipeline) -> Result<(), TelemetryError> {
        if let Some(supervision) = &self.supervision {
            supervision.watch(node.meters());
        }
        let otlp = pipeline.telemetry.otlp.as_ref();
        if otlp.is_none() && self.admin.is_none() {
            return Ok(());
        }
        let watched = Watched {
            node: node.handle(),
            plan: pipeline.plan.clone(),
            pipeline: pipeline.job.name.as_ref().into(),
            has_state: pipeline.state.is_some(),
            begun: self.begun,
            pushes: Arc::default(),
            spans: self.spans.clone(),
        };
        if let Some(config) = otlp {
            self.pushing = Pushing::start(config, resource(pipeline), watched.clone())?;
        }
        if let Some(admin) = &self.admin {
            admin.watch(watched);
        }
        Ok(())
    }

    /// It drains, since it has failed or was told to.
    pub(crate) fn drains(&self, has_failed: bool) {
        match &self.admin {
            Some(admin) if has_failed => admin.failed(),
            Some(admin) => admin.drains(),
            None => {}
        }
    }

    /// Waits until the admin port is asked for an end. May be dropped while it waits.
    pub(crate) async fn drain_asked(&self) {
        match &self.admin {
            Some(admin) => admin.drain_asked().await,
            None => std::future::pending().await,
        }
    }
}
