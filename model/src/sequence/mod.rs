//! Sequences: the records of a key in the order of event time, cut into sessions, each judged as a
//! chain of declared steps, and told as one record that late records correct.
//!
//! The watermark says how far the order is certain; the buffer sorts. Read [`spec`] (what the user
//! declares), then `entry` (a record in its place), `cut` (where a session ends), `machine` (what
//! its records say: a `verdict`), `closed` (a session that may still be corrected), `sessions` (one key), `table` (all keys of a stage in a shard).

pub mod check;
mod closed;
mod cut;
mod entry;
mod machine;
mod outlet;
mod record;
mod rules;
mod sessions;
pub mod spec;
mod table;
mod verdict;

pub(crate) use closed::Closed;
pub(crate) use entry::{Class, Entry, Marks};
pub(crate) use outlet::Telling;
pub(crate) use record::{Issued, typed};
pub use record::{RecordField, StepField, record_fields, record_layout};
pub(crate) use rules::{Rules, small};
pub(crate) use sessions::Sessions;
pub(crate) use table::SequenceTable;
pub use table::SequenceUse;
pub(crate) use verdict::{Cause, Closing};

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod identity_tests;
#[cfg(test)]
pub(crate) mod machine_tests;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod tests;
