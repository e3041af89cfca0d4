//! What actors report to the host: news while they run, and what they counted once they end.

use crate::at::Batch;
use crate::checkpoint::CheckpointError;
use nilometer_connectors::account::SourceAccount;
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::{PartitionLag, SourceError};
use nilometer_connectors::store::StoreError;
use nilometer_model::account::StageAccount;
use nilometer_model::image::ImageError;
use nilometer_model::memory::MemoryUse;
use nilometer_model::pane::StageId;
use nilometer_model::sequence::SequenceUse;
use nilometer_model::shard::StageError;
use nilometer_model::time::Watermark;
use nilometer_model::watermark::{PartitionStanding, Standing};
use opentelemetry::trace::SpanContext;
use std::sync::Arc;
use std::time::Duration;

/// Why a node cannot do its work. It stops reading, lets pass what can pass, and ends.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An input cannot be read.
    #[error("source `{name}`: {error}")]
    Source {
        /// Name of the source.
        name: Arc<str>,
        /// What happened.
        #[source]
        error: SourceError,
    },
    /// An output cannot be written.
    #[error("sink `{name}`: {error}")]
    Sink {
        /// Name of the sink.
        name: Arc<str>,
        /// What happened.
        #[source]
        error: SinkError,
    },
    /// The dead-letter file cannot be written.
    #[error("dead letters: {0}")]
    DeadLetters(#[source] SinkError),
    /// Epochs cannot be stored.
    #[error(transparent)]
    Store(StoreError),
    /// What is to be published of an epoch cannot be read.
    #[error(transparent)]
    Outbox(CheckpointError),
    /// The state of a shard cannot be stored.
    #[error("shard {shard}: {error}")]
    State {
        /// Number of the shard.
        shard: usize,
        /// What happened.
        #[source]
        error: ImageError,
    },
    /// A stage cannot compute its result.
    #[error("shard {shard}: {error}")]
    Stage {
        /// Number of the shard.
        shard: usize,
        /// What happened.
        #[source]
        error: StageError,
        /// The records that it was taking in; `None` if it was not.
        place: Option<Batch>,
        /// The span of what it was doing, if that is traced.
        span: Option<Box<SpanContext>>,
    },
    /// A pane came behind the watermark that completed its window: a fault of this program.
    #[error(
        "sink `{name}`: a pane of stage {} of shard {shard} came behind the watermark {passed} that completed its window; this is a fault of nilometer, please report it",
        stage.0
    )]
    Order {
        /// Name of the sink.
        name: Arc<str>,
        /// Number of the shard.
        shard: usize,
        /// The stage.
        stage: StageId,
        /// The watermark that the shard had let pass.
        passed: Watermark,
    },
}

impl Failure {
    /// The span of what failed, if that is known and traced.
    pub fn span(&self) -> Option<&SpanContext> {
        match self {
            Self::Stage { span, .. } => span.as_deref(),
            Self::Source { .. }
            | Self::Sink { .. }
            | Self::DeadLetters(_)
            | Self::Store(_)
            | Self::Outbox(_)
            | Self::State { .. }
            | Self::Order { .. } => None,
        }
    }
}

/// What a source has counted, at its end.
#[derive(Debug, Clone)]
pub struct SourceReport {
    /// Name of the source.
    pub name: Arc<str>,
    /// Its account. `accepted` is what it handed on to the shards.
    pub account: SourceAccount,
    /// Whether its input has ended, or it was told to stop before.
    pub is_finished: bool,
    /// How each of its partitions stood; nothing unless it reads several.
    pub partitions: Vec<PartitionReport>,
}

/// How a partition of a source stood at the end.
#[derive(Debug, Clone)]
pub struct PartitionReport {
    /// How far it was read.
    pub lag: PartitionLag,
    /// What it promised, and how far it had come.
    pub standing: PartitionStanding,
}

/// What a shard has counted, at its end.
#[derive(Debug, Clone)]
pub struct ShardReport {
    /// Records that it took.
    pub records: u64,
    /// Accounts of the stages, in plan order.
    pub accounts: Vec<StageAccount>,
    /// Windows that are not complete, by stage in plan order: their results were not emitted.
    pub incomplete_windows: Vec<usize>,
    /// Whether no window, timer or key is left.
    pub is_empty: bool,
    /// The longest time that handing its state over has stopped it for; `None` where nothing is
    /// stored.
    pub pause_max: Option<Duration>,
    /// What its state takes; `None` if it is not kept within a budget.
    pub memory: Option<MemoryUse>,
    /// What its sequences keep, in plan order.
    pub sequences: Vec<(StageId, SequenceUse)>,
}

/// What a sink has counted, at its end.
#[derive(Debug, Clone, Default)]
pub struct SinkReport {
    /// Name of the sink.
    pub name: Arc<str>,
    /// Panes written, retractions not counted.
    pub panes: u64,
    /// Retractions written.
    pub retracts: u64,
    /// Whether it takes late copies, and no panes.
    pub takes_late: bool,
    /// Late copies written.
    pub late: u64,
    /// Whether it broke; what came afterwards was not written.
    pub has_failed: bool,
}

/// What the store has counted, at its end.
#[derive(Debug, Clone, Default)]
pub struct StoreReport {
    /// Epochs made durable.
    pub epochs: u64,
    /// Bytes of all their parts, before packing.
    pub bytes: u64,
    /// Bytes of the parts of the last of them.
    pub last_bytes: u64,
    /// Bytes that all that is stored took on the disk, behind the last of them.
    pub disk_bytes: u64,
    /// How long it took to open what was stored.
    pub opened_in: Duration,
    /// How long the last epoch took, from its beginning until it was durable.
    pub took: Duration,
    /// How long the longest took.
    pub took_max: Duration,
}

/// What an actor tells the host.
#[derive(Debug)]
pub(crate) enum Report {
    /// Something worth knowing, one sentence.
    Notice {
        name: Arc<str>,
        text: String,
        /// The span of the batch that was read last, if it is traced.
        span: Option<SpanContext>,
    },
    /// What must be in memory of a shard's state is more than its budget, in bytes.
    Tight {
        shard: usize,
        bytes: usize,
        budget: usize,
    },
    Failure(Failure),
    Source(SourceReport),
    Shard(ShardReport),
    Sink(SinkReport),
    Store(StoreReport),
    /// The watermark has not risen for long.
    StandsStill(Standing),
    /// All sources have ended: how the watermark stands.
    Coordinator(Standing),
}
