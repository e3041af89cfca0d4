//! Why a transcript could not be played to its end.

use super::json::WrongField;
use crate::expr::BindError;
use crate::image::ImageError;
use crate::shard::StageError;
use crate::symbol::SymbolsFull;
use crate::watermark::Percentile;

/// A run that could not go on.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RunError {
    /// Line of the input.
    pub line: usize,
    /// What is wrong.
    pub problem: RunProblem,
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunProblem {
    /// The record gives a field that there is not.
    #[error("the records have no field `{field}`{}", suggest(.suggestion))]
    UnknownField {
        /// The name.
        field: Box<str>,
        /// The nearest field name, if one is near.
        suggestion: Option<Box<str>>,
    },
    /// The signal would change nothing.
    #[error(
        "no trigger of the pipeline waits for signal `{signal}`{}", suggest(.suggestion)
    )]
    UnknownSignal {
        /// Its name.
        signal: Box<str>,
        /// The nearest signal, if one is near.
        suggestion: Option<Box<str>>,
    },
    /// The watermark would change nothing.
    #[error(
        "no trigger of the pipeline waits for the watermark of {percentile}%{}",
        known_shares(.known)
    )]
    UnknownShare {
        /// The share of the records.
        percentile: Percentile,
        /// Those that triggers wait for; empty if there are none.
        known: Box<str>,
    },
    /// A field is of another type.
    #[error(transparent)]
    WrongField(#[from] WrongField),
    /// Too many texts.
    #[error(transparent)]
    Texts(#[from] SymbolsFull),
    /// The filter or a derived field does not fit the plan.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A stage cannot go on.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// State did not survive a restart.
    #[error("restart: {0}")]
    Image(#[from] ImageError),
    /// The watermarks did not survive a restart.
    #[error("restart: {0}")]
    Marks(#[from] postcard::Error),
}

impl RunProblem {
    /// Whether the transcript itself is at fault, not what came of it.
    pub const fn is_unusable(&self) -> bool {
        match self {
            Self::UnknownField { .. }
            | Self::UnknownSignal { .. }
            | Self::UnknownShare { .. }
            | Self::WrongField(_)
            | Self::Bind(_) => true,
            Self::Texts(_) | Self::Stage(_) | Self::Image(_) | Self::Marks(_) => false,
        }
    }
}

fn known_shares(known: &str) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {known}") }
}

pub(super) fn suggest(suggestion: &Option<Box<str>>) -> String {
    suggestion.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
