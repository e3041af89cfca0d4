//! Sources and sinks: how records come in and panes go out. No decision about a window.
//!
//! Read [`source`] and [`sink`] first, the two traits; then [`account`] (every record that is read
//! has one outcome) and [`dead_letter`] (what becomes of input that makes no record).
//!
//! What is absent: actors, async, window semantics, configuration parsing.

pub mod account;
pub mod capture;
pub mod dead_letter;
pub mod flow_collector;
mod flow_feed;
pub mod flow_files;
pub mod flow_intake;
pub mod flow_tables;
pub mod generator;
pub mod input;
pub mod kafka;
pub mod memory;
pub mod netflow;
pub mod panes;
pub mod plight;
pub mod secret;
pub mod sink;
pub mod source;
pub mod store;
pub mod text;
pub mod trace_context;
