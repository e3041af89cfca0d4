//! Raw types of `[state]`.

use super::quantity::Period;
use super::reader::Presence::{Default, Required};
use super::table::raw_table;

raw_table! {
    /// Where state is stored, epoch by epoch, so that a run goes on where the one before it was stopped or killed.
    pub(crate) struct RawState {
        /// Directory for the state of this pipeline alone; relative to the working directory, made if it is not there.
        dir: String = Required,
        /// How often state is stored; results come out as often, once they are stored.
        epoch: Period = Default("\"1s\""),
    }
}
