//! Nilometer's semantics, pure: time, windows, triggers, panes, aggregates, cascades, watermarks.
//!
//! Read in this order: [`time`], [`value`], [`row`], [`key`], then [`plan`] (what is to be
//! computed), [`window`], [`aggregate`], [`pane`], and [`watermark`]; [`flow`] for network flows.
//!
//! What is absent: a clock, files, sockets, threads, async, actors, hash order in any output.

pub mod aggregate;
pub mod batch;
pub mod flow;
pub mod key;
pub mod pane;
pub mod plan;
pub mod planner;
pub mod row;
pub mod symbol;
pub mod time;
pub mod value;
pub mod watermark;
pub mod window;
