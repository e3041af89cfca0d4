//! Nilometer, the service: configuration, command line, wiring.
//!
//! `main` parses the command line ([`cli`]) and runs one command; each command is a module with
//! one `execute`. Most of them read a [`config::Pipeline`] first.
//!
//! What is absent: window semantics (those are in `nilometer-model`), decoding and encoding
//! (`nilometer-connectors`), handlers of data (`nilometer-actors`).

pub mod admin;
pub mod bench;
pub mod cel;
pub mod check;
pub mod check_totals;
pub mod cli;
pub mod completions;
pub mod config;
mod drain;
pub mod failure;
pub mod generate;
#[cfg(test)]
mod golden;
mod inputs;
mod logs;
mod metrics;
mod outlets;
pub mod plan;
pub mod progress;
pub mod run;
pub mod run_failure;
pub mod schema;
pub mod standing;
pub mod state;
pub mod summary;
pub mod summary_sequences;
pub mod summary_state;
pub mod summary_table;
pub mod supervision;
pub mod telemetry;
pub mod test;
mod test_documents;
pub mod test_report;
mod text_table;
pub mod top;
pub mod topology;
mod watchers;
