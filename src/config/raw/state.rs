//! Raw types of `[state]`.

use super::quantity::{Period, Size};
use super::reader::Presence::{Default, Optional, Required};
use super::table::raw_table;

raw_table! {
    /// Where state is stored, epoch by epoch, so that a run goes on where the one before it was stopped or killed.
    pub(crate) struct RawState {
        /// Directory for the state of this pipeline alone; relative to the working directory, made if it is not there.
        dir: String = Required,
        /// How often state is stored; results come out as often, once they are stored.
        epoch: Period = Default("\"1s\""),
        /// Bytes of records that a source hands on between the beginnings of two epochs, exceeded by one batch; then it waits for the next one, which begins as soon as it can.
        max_epoch_bytes: Size = Default("\"256MiB\""),
        /// Bytes of results of each sink that wait to be published, in the state directory. Beyond it the next epoch begins as soon as it can, and while one waits to be published, nothing more is taken.
        max_unpublished_bytes: Size = Default("\"256MiB\""),
        /// How much memory the state of windows may take, over all shards; beyond it, keys that nobody asks for lie on disk until they are needed. Without it all state is in memory.
        memory: Size = Optional,
        /// Whether a start reads all that is stored in a copy first, in the same directory, so that a state that is damaged is refused as it was. For the time of the start it takes as much room again.
        check: bool = Default("true"),
    }
}
