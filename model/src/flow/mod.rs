//! Network flows: what a record of any export format says ([`Flow`]), and what the jobs read of
//! it ([`NormalFlow`]).
//!
//! Decoders and field maps fill a [`Flow`] with facts and judge nothing; [`normalise`] is the one
//! place that decides who exported it, on which interface it counts, how much it stands for and
//! when it happened. Everything is a function of its arguments.
//!
//! Read on: [`record`], [`normal`], [`fields`] (names and types), [`share()`] (splitting over
//! windows).

pub mod applications;
pub mod conversation;
pub mod exporters;
pub mod fields;
pub mod normal;
pub mod phase;
pub mod record;
pub mod sampling;
pub mod share;
pub mod times;

#[cfg(test)]
mod tests;

pub use applications::{ApplicationRule, Applications, ApplicationsError, UNKNOWN_APPLICATION};
pub use conversation::conversation_text;
pub use exporters::{ExporterEntry, ExporterId, Exporters, ExportersError, Node};
pub use fields::{FLOW_FIELDS, FlowField, FlowFieldInfo, FlowRows};
pub use normal::{Biflow, FlowNotes, FlowSettings, MalformedFlow, NormalFlow, normalise, reverse};
pub use phase::phase_shift;
pub use record::{Direction, Flow, FlowVersion};
pub use share::{Extent, share};
