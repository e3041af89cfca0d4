//! The semantics against public truth: Beam's transcripts, the figures of the Dataflow paper, the
//! examples of the book, and Beam's conformance tests, on the pure model.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]

mod beam;
mod book;
mod conformance;
mod custom;
mod drawing;
mod edges;
mod engines;
mod figures;
#[path = "../../src/golden.rs"]
mod golden;
mod grammar;
mod kit;
mod merging;
mod paper;
mod shipped;
mod spec;
mod table;
mod variants;
