//! A handle on a running node: its figures, and what may be told it, from any thread.
//!
//! Whatever it tells goes the way of all messages; a node that has ended hears nothing of it.

use crate::coordinator::CoordinatorActor;
use crate::deliver;
use crate::message::Asked;
use crate::meter::Meters;
use crate::shard::ShardActor;
use actix::Addr;
use nilometer_model::image::{Look, LookError, WrittenKey};
use nilometer_model::pane::StageId;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A handle on a node.
#[derive(Clone)]
pub struct Handle {
    pub(crate) meters: Arc<Meters>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) shards: Vec<Addr<ShardActor>>,
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

    /// What the shards hold of a key of a stage, as they stand when they are asked: one that waits for
    /// its sinks answers as well. What has ended answers nothing. May be dropped while it
    /// waits.
    ///
    /// # Errors
    /// See [`LookError`].
    pub async fn look(&self, stage: StageId, key: WrittenKey) -> Result<Look, LookError> {
        let key = Arc::new(key);
        let ask = |shard: &Addr<ShardActor>| {
            let (reply, answer) = oneshot::channel();
            deliver::asked(shard, Asked { stage, key: key.clone(), reply });
            answer
        };
        let answers: Vec<_> = self.shards.iter().map(ask).collect();
        let mut all = Look::default();
        for answer in answers {
            let Ok(look) = answer.await else { continue };
            let Look { entries, unseen } = look?;
            all.entries.extend(entries);
            all.unseen = all.unseen.saturating_add(unseen);
        }
        Ok(all)
    }

    /// Lets the next epoch begin as soon as none is in flight; nothing where no state is stored.
    pub fn begin_epoch(&self) {
        deliver::demanded(&self.coordinator);
    }
}
