//! Why a run failed, and the exit code that says so.

use crate::admin::AdminError;
use crate::state::StateError;
use crate::summary::Imbalance;
use crate::telemetry::TelemetryError;
use nilometer_actors::StartError;
use nilometer_actors::report::Failure;
use nilometer_connectors::flow_tables::FlowTableError;
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::SourceError;
use nilometer_connectors::store::StoreError;
use nilometer_model::expr::BindError;
use nilometer_model::image::ImageError;
use nilometer_model::shard::StageError;
use nilometer_model::totals::TotalsError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a pipeline could not be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// A pipeline that only transcripts feed cannot be run.
    #[error(
        "pipeline `{pipeline}` has no `[[source]]`, so there is nothing to run; add one, or feed it with `nilometer test`"
    )]
    NoSource {
        /// Name of the pipeline.
        pipeline: Box<str>,
    },
    /// Totals are those of one run.
    #[error(
        "--check-totals adds up the results of one run, and with a state they come from several; leave one of them out"
    )]
    TotalsOfState,
    /// What is wanted after a failure takes a state that tells of one.
    #[error(
        "--retry and --skip-batch go on behind a run that has failed, which takes a state; give its directory with --state"
    )]
    WishWithoutState,
    /// There is no state of which anything could be dropped.
    #[error(
        "--drop-state names what a stored state holds, and there is no state; say which with --state, or leave it out"
    )]
    DropWithoutState,
    /// A drawing does not show a state.
    #[error("--state is shown as text or in JSON; leave `--format` out, or take `json`")]
    DrawnState,
    /// The stored state is refused.
    #[error(transparent)]
    State(#[from] StateError),
    /// A table that flows are read with cannot be used.
    #[error(transparent)]
    Table(#[from] FlowTableError),
    /// The expressions of the pipeline cannot be bound to its records.
    #[error("filter and derived fields: {0}")]
    Bind(#[from] BindError),
    /// An input cannot be opened.
    #[error("source `{name}`: {error}")]
    Source {
        /// Name of the source.
        name: Box<str>,
        /// What happened.
        #[source]
        error: SourceError,
    },
    /// An output cannot be opened.
    #[error("sink `{name}`: {error}")]
    Sink {
        /// Name of the sink.
        name: Box<str>,
        /// What happened.
        #[source]
        error: SinkError,
    },
    /// The dead-letter file cannot be created.
    #[error("dead letters: {0}")]
    DeadLetters(#[source] SinkError),
    /// The summary cannot be written.
    #[error("cannot write the summary `{}`: {source}; give another `--summary`", path.display())]
    SummaryFile {
        /// Path as the user wrote it.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The admin port cannot be opened.
    #[error("admin: {0}")]
    Admin(#[from] AdminError),
    /// A collector cannot be told of the run.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The actors cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}; run it without limits on system calls")]
    Signals(#[source] io::Error),
    /// What was on its way did not pass in time.
    #[error(
        "the drain was not done within `limits.drain_timeout`, {} s; it waited for {waited}. {}",
        after.as_secs_f64(),
        if *has_state {
            "Nothing is lost: the next start goes on behind the last epoch that was stored"
        } else {
            "What was on its way is lost; allow more with --drain-timeout, or keep a state with --state"
        }
    )]
    DrainTimeout {
        /// The time allowed.
        after: Duration,
        /// Whom it waited for.
        waited: Box<str>,
        /// Whether state is stored.
        has_state: bool,
    },
    /// The run failed.
    #[error(transparent)]
    Node(#[from] Failure),
    /// The numbers of the run do not add up.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// The groupings do not sum to each other.
    #[error(transparent)]
    Totals(#[from] TotalsError),
}

impl RunFailure {
    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::State(StateError::Held { .. }) => 7,
            Self::State(StateError::Store(
                StoreError::Full { .. } | StoreError::Io { .. } | StoreError::NoCopy { .. },
            )) => 4,
            Self::State(_) | Self::Start(StartError::State(_)) => 5,
            Self::Admin(AdminError::Token { .. } | AdminError::TokenFile { .. }) => 2,
            Self::Admin(AdminError::Listen { .. } | AdminError::Thread(_))
            | Self::Telemetry(TelemetryError::Thread(_))
            | Self::Start(
                StartError::Thread(_)
                | StartError::UnknownSink { .. }
                | StartError::WrongSink { .. },
            )
            | Self::Signals(_)
            | Self::Imbalance(_)
            | Self::Totals(_) => 1,
            Self::NoSource { .. }
            | Self::TotalsOfState
            | Self::WishWithoutState
            | Self::DropWithoutState
            | Self::DrawnState
            | Self::Telemetry(_)
            | Self::Table(_)
            | Self::Bind(_) => 2,
            Self::DrainTimeout { .. } => 6,
            Self::Source { .. } => 3,
            Self::Sink { error: SinkError::Kafka(error), .. }
            | Self::Node(Failure::Sink { error: SinkError::Kafka(error), .. })
                if error.is_of_state() =>
            {
                5
            }
            Self::Sink { .. } | Self::DeadLetters(_) | Self::SummaryFile { .. } => 4,
            Self::Node(failure) => match failure {
                // Pages lie where epochs do.
                Failure::Stage { error: StageError::Page { .. }, .. }
                | Failure::State { error: ImageError::Page(_), .. } => 4,
                Failure::Stage { .. } | Failure::Order { .. } | Failure::State { .. } => 1,
                Failure::Source { .. } => 3,
                Failure::Sink { .. }
                | Failure::DeadLetters(_)
                | Failure::Store(_)
                | Failure::Outbox(_) => 4,
            },
        }
    }

    /// Whether the reader of an output has gone away, which is no failure of ours.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Node(Failure::Sink { error, .. }) | Self::Sink { error, .. } => {
                error.is_broken_pipe()
            }
            Self::NoSource { .. }
            | Self::TotalsOfState
            | Self::WishWithoutState
            | Self::DropWithoutState
            | Self::DrawnState
            | Self::State(_)
            | Self::Table(_)
            | Self::Bind(_)
            | Self::Source { .. }
            | Self::DeadLetters(_)
            | Self::SummaryFile { .. }
            | Self::Admin(_)
            | Self::Telemetry(_)
            | Self::Start(_)
            | Self::Signals(_)
            | Self::DrainTimeout { .. }
            | Self::Node(_)
            | Self::Imbalance(_)
            | Self::Totals(_) => false,
        }
    }
}
