//! `nilometer run --check-totals`: do the groupings of a run sum to each other and to its records?
//!
//! A sink beside those of the pipeline follows the panes of every stage that others see; at the end
//! [`Totals`] decides.

use crate::config::Pipeline;
use crate::summary::Summary;
use crate::summary_table::counted;
use nilometer_actors::node::{Parts, SinkPart};
use nilometer_connectors::memory::MemorySink;
use nilometer_connectors::sink::Writer;
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use nilometer_model::totals::{Totals, TotalsError};
use std::sync::{Arc, Mutex, PoisonError};

/// No sink of a pipeline can be called so.
const NAME: &str = "--check-totals";

/// Follows a run.
pub struct TotalsCheck {
    pipeline: Box<str>,
    totals: Arc<Mutex<Totals>>,
    symbols: Arc<Symbols>,
}

impl TotalsCheck {
    /// Follows what `parts`, made of `pipeline`, will send.
    pub fn attach(pipeline: &Pipeline, parts: &mut Parts) -> Self {
        let totals = Arc::new(Mutex::new(Totals::new(&pipeline.job, pipeline.plan.clone())));
        let followed = totals.clone();
        let follow = move |panes: &PaneBatch| {
            followed.lock().unwrap_or_else(PoisonError::into_inner).take(panes);
            Ok(())
        };
        let writer = Writer::Panes(Box::new(MemorySink::new(follow)));
        parts.sinks.push(SinkPart { name: NAME.into(), writer });
        let mut plan = Plan::clone(&parts.plan);
        for stage in plan.stages.iter_mut().filter(|stage| stage.is_observed()) {
            stage.sinks.push(NAME.into());
        }
        parts.plan = Arc::new(plan);
        let symbols = parts.symbols.clone();
        Self { pipeline: pipeline.job.name.clone(), totals, symbols }
    }

    /// Says that the totals of the run agree. `is_finished` says whether the input was read to its
    /// end: else open windows were not emitted, and nothing counts all records.
    ///
    /// # Errors
    /// They do not, or there is nothing to compare.
    pub fn finish(&self, summary: &Summary, is_finished: bool) -> Result<String, TotalsError> {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let records = summary.records.accepted;
        let is_whole = is_finished
            && summary.stages.0.iter().all(|stage| {
                let account = &stage.account;
                account.expired + account.closed + account.refused + account.no_window == 0
            });
        totals.check(is_whole.then_some(records), &self.symbols)?;
        Ok(format!("{}: {}, totals agree\n", self.pipeline, counted(records, "record", "records")))
    }
}
