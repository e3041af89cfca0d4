//! Nilometer's semantics, pure: time, windows, triggers, panes, aggregates, cascades, watermarks.
//!
//! Read in this order: [`time`], [`value`], [`row`], [`key`], then [`plan`] (what is to be
//! computed), [`planner`] (how it becomes a cascade), [`shard`] (all stages of a shard; the key
//! actors are in `table`, `sliding`, `machine_table`, `topk` and [`sequence`], how they fire in
//! `firing` and `running`), and [`watermark`]. [`flow`] knows network flows, [`expr`] filters and
//! derived fields.
//!
//! What is absent: a clock, files, sockets, threads, async, actors, hash order in any output.

pub mod account;
pub mod aggregate;
pub mod batch;
pub mod calendar;
mod candidates;
mod cells;
pub mod change;
mod changes;
pub mod cold;
pub mod custom;
pub mod engine;
pub mod epoch;
mod exchange;
pub mod expr;
mod firing;
pub mod flow;
mod holds;
pub mod image;
pub mod ingest;
mod intake;
pub mod invariant;
mod kept;
pub mod key;
mod key_machine;
pub mod late;
mod machine_shares;
mod machine_table;
pub mod memory;
mod merging;
pub mod node;
mod open_window;
pub mod pane;
pub mod plan;
pub mod planner;
mod ranking;
mod roster;
mod round;
pub mod row;
mod rows;
mod running;
pub mod sequence;
pub mod shard;
mod sliding;
pub mod symbol;
mod table;
pub mod tick;
pub mod time;
mod topk;
pub mod totals;
pub mod transcript;
pub mod trigger;
pub mod value;
pub mod watermark;
pub mod window;

#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod side_tests;
