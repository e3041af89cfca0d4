//! A handle on a running node: its figures, and what may be told it, from any thread.
//!
//! Whatever it tells goes the way of all messages; a node that has ended hears nothing of it.

use crate::coordinator::CoordinatorActor;
use crate::deliver;
use crate::meter::Meters;
use actix::Addr;
use std::sync::Arc;

/// A handle on a node.
#[derive(Clone)]
pub struct Handle {
    pub(crate) meters: Arc<Meters>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) sources: Vec<Arc<str>>,
    pub(crate) sinks: Vec<Arc<str>>,
}

impl Handle {
    /// Numbers to look at while the node runs, and the last ones when it has ended.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Names of the sources, by partition.
    pub fn sources(&self) -> &[Arc<str>] {
        &self.sources
    }

    /// Names of the sinks, in their order.
    pub fn sinks(&self) -> &[Arc<str>] {
        &self.sinks
    }

    /// Gives a signal: triggers that wait for it fire, behind everything that shards were told
    /// before.
    pub fn signal(&self, name: Arc<str>) {
        deliver::signalled(&self.coordinator, name);
    }

    /// Lets the next epoch begin as soon as none is in flight; nothing where no state is stored.
    pub fn begin_epoch(&self) {
        deliver::demanded(&self.coordinator);
    }
}
