//! Nilometer's semantics, pure: time, windows, triggers, panes, aggregates, cascades, watermarks.
//!
//! Read in this order: [`time`], [`value`], [`row`], [`key`].
//!
//! What is absent: a clock, files, sockets, threads, async, actors, hash order in any output.

pub mod key;
pub mod row;
pub mod symbol;
pub mod time;
pub mod value;
