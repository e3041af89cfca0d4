//! Who is in a node, and what they send each other: the messages of the actors, without addresses.

use nilometer_actors::checkpoint::{Part, Piece};
use nilometer_model::epoch::Epoch;
use nilometer_model::late::LateBatch;
use nilometer_model::node::Mark;
use nilometer_model::node::credit::{Credit, Taker};
use nilometer_model::pane::PaneBatch;
use nilometer_model::row::RowBatch;
use nilometer_model::shard::{ExchangeDeltas, ExchangeMark};
use nilometer_model::tick::Tick;
use nilometer_model::time::{EventTime, Watermark};
use nilometer_model::watermark::Progress;
use std::sync::Arc;

/// One of those who have a mailbox; the clock and the host have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Coordinator,
    Source(usize),
    Shard(usize),
    Sink(usize),
    Store,
    Clock,
    Host,
}

/// How many records of each partition a mark lies behind.
pub(crate) type Covered = Arc<Vec<u64>>;

/// A message.
#[derive(Debug, Clone)]
pub(crate) enum Letter {
    Tick(Tick),
    // To sources.
    Turn,
    Returned(Credit),
    Granted(Option<EventTime>),
    CycleBegun(u64),
    EpochBegun,
    Drain,
    // To the coordinator.
    Progress { report: Progress, handed_on: u64 },
    Waiting { partition: u32, head: EventTime, watermark: Watermark },
    Cut { partition: u32, after: u64 },
    Ended(u32),
    CycleFinished { shard: usize, number: u64 },
    Concluded(Epoch),
    Demanded,
    GivenUp,
    // To shards.
    Records { batch: RowBatch, credit: Credit, source: usize },
    Marked { mark: Mark, covered: Covered, epoch: Epoch },
    Barrier(u32),
    Aligned { shard: usize, round: usize },
    Exchanged { deltas: ExchangeDeltas, bytes: usize, sender: usize },
    StageMarked(ExchangeMark),
    Closed(usize),
    Handled(Taker, usize),
    // To sinks.
    Panes { panes: Arc<PaneBatch>, bytes: usize, shard: usize },
    Late { late: Arc<LateBatch>, bytes: usize, shard: usize },
    Passed { shard: usize, watermark: Watermark },
    PassedAll(usize),
    PassedBarrier(usize),
    Durable(Epoch),
    Written(usize),
    Given(Vec<u8>),
    // To the store.
    Part(Part),
    Block { epoch: Epoch, piece: Piece, sink: usize },
    Wanted { name: String, sink: usize },
    Published { sink: usize, epoch: Epoch },
    Finished,
}

impl Letter {
    /// In a few words, for the trace.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Tick(tick) => format!("tick {}", tick.now().as_millis()),
            Self::Progress { report, .. } => format!(
                "progress of {}: watermark {} {:?}",
                report.partition, report.watermark, report.reader
            ),
            Self::Records { batch, source, .. } => {
                let times: Vec<_> = batch.times().iter().map(ToString::to_string).collect();
                format!("records of {source} @{}", times.join(" @"))
            }
            Self::Exchanged { deltas, sender, .. } => {
                format!("deltas of shard {sender} for stage {}", deltas.stage.0)
            }
            Self::Panes { panes, shard, .. } => {
                format!("{} panes of shard {shard}, stage {}", panes.panes.len(), panes.stage.0)
            }
            Self::Late { late, shard, .. } => {
                format!("{} late copies of shard {shard}, stage {}", late.len(), late.stage.0)
            }
            Self::Marked { mark, epoch, .. } => format!("{mark:?} behind epoch {epoch}"),
            Self::Part(part) => {
                let names: Vec<_> = part.pieces.iter().map(|(name, _)| &**name).collect();
                format!("part {}", names.join(" "))
            }
            Self::Block { epoch, piece: (name, _), .. } => format!("{name} of epoch {epoch}"),
            Self::Turn
            | Self::Returned(_)
            | Self::Granted(_)
            | Self::CycleBegun(_)
            | Self::Waiting { .. }
            | Self::Cut { .. }
            | Self::Ended(_)
            | Self::CycleFinished { .. }
            | Self::StageMarked(_)
            | Self::Closed(_)
            | Self::Handled(..)
            | Self::Passed { .. }
            | Self::EpochBegun
            | Self::Drain
            | Self::Concluded(_)
            | Self::GivenUp
            | Self::Barrier(_)
            | Self::Aligned { .. }
            | Self::PassedAll(_)
            | Self::PassedBarrier(_)
            | Self::Durable(_)
            | Self::Demanded
            | Self::Written(_)
            | Self::Given(_)
            | Self::Wanted { .. }
            | Self::Published { .. }
            | Self::Finished => format!("{self:?}"),
        }
    }
}
