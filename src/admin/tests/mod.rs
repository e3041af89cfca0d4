//! The admin port of a run that goes on, asked over real connections.
//!
//! The runs read what is written here and then wait; what they must have counted is worked out by
//! hand beside the records.

mod document;
mod hostile;
pub(crate) mod kit;
mod looking;
pub(crate) mod telling;
