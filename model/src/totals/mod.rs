//! Whether groupings sum to each other, seen from outside: from the panes that sinks were given.
//!
//! Panes of one key and window are put together as the mode of their stage says. Then, wherever
//! the key of one grouping (of a top-K: its parent key) holds that of another with the same
//! windows, the sums of both must agree per coarser key and window: applications, ToS and interface
//! exactly, hosts twice, since a record counts for both. A top-K is complete only with its `other`.

use crate::pane::PaneBatch;
use crate::plan::{Job, Plan, Stage};
use crate::symbol::Symbols;
use crate::time::{EventTime, Window};
use crate::value::Value;
use std::sync::Arc;
use told::{Level, Told};

mod told;

#[cfg(test)]
mod tests;

/// Two groupings of which one does not sum to the other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{aggregate}` of {coarse} is {expected} for {key} in {window}, but {fine} sums to {found}"
)]
pub struct Difference {
    /// Name of the aggregate.
    pub aggregate: Box<str>,
    /// The grouping with the coarser key.
    pub coarse: Box<str>,
    /// The other.
    pub fine: Box<str>,
    /// The key, as JSON values.
    pub key: String,
    /// The window.
    pub window: Window,
    /// What the coarser grouping says, times the copies of a record that the finer one makes.
    pub expected: i128,
    /// What the finer one sums to, times the copies that the coarser one makes.
    pub found: i128,
}

/// Groupings do not sum to each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TotalsError {
    /// Two groupings differ.
    #[error("totals differ: {0}; this is a fault of nilometer, please report it")]
    Differ(Box<Difference>),
    /// A grouping does not count all records.
    #[error(
        "totals differ: {grouping} counts {found} records of {expected}; this is a fault of nilometer, please report it"
    )]
    Records {
        /// The grouping.
        grouping: Box<str>,
        /// How many there are, times the copies that the grouping makes.
        expected: u128,
        /// How many it counts.
        found: i128,
    },
    /// No two groupings can be compared.
    #[error(
        "there are no totals to compare: no two groupings have the same windows, one key within the other, and a sum or count in common (a top_k needs `other = true`)"
    )]
    Nothing,
}

/// Follows what is sent to sinks. Holds the results of all windows.
#[derive(Debug)]
pub struct Totals {
    plan: Arc<Plan>,
    phase_is_shared: bool,
    /// By stage.
    told: Vec<Option<Told>>,
}

impl Totals {
    /// Follows all groupings of `job`, which `plan` was made of.
    pub fn new(job: &Job, plan: Arc<Plan>) -> Self {
        let told = plan.stages.iter().map(|stage| {
            let grouping = job.groupings.iter().find(|grouping| grouping.name == stage.name)?;
            Some(Told::new(grouping, stage))
        });
        Self { told: told.collect(), phase_is_shared: job.phase.is_some(), plan: plan.clone() }
    }

    /// Takes panes as a sink gets them.
    pub fn take(&mut self, panes: &PaneBatch) {
        let index = panes.stage.index();
        let (Some(stage), Some(Some(told))) =
            (self.plan.stages.get(index), self.told.get_mut(index))
        else {
            return;
        };
        told.take(stage, panes);
    }

    /// Compares all groupings with each other, and the counts of those that count records with
    /// `records`, if it is known that none was left out. Returns the number of sums compared.
    ///
    /// # Errors
    /// Sums differ, or there is nothing to compare.
    pub fn check(&self, records: Option<u64>, symbols: &Symbols) -> Result<u64, TotalsError> {
        let told: Vec<_> = self.told.iter().zip(&self.plan.stages).collect();
        let mut compared = 0_u64;
        for (coarse, coarse_stage) in &told {
            for (fine, fine_stage) in &told {
                let (Some(coarse), Some(fine)) = (coarse, fine) else { continue };
                if !self.are_comparable(coarse, fine) {
                    continue;
                }
                let common: Vec<_> = coarse.common(fine).collect();
                let fields = coarse.level_names(coarse_stage);
                let is_within =
                    fields.iter().all(|field| fine.level_names(fine_stage).contains(field));
                if common.is_empty() || !is_within {
                    continue;
                }
                let pair = ((coarse, *coarse_stage), (fine, *fine_stage));
                compared += compare(pair, &fields, &common, symbols)?;
            }
            if let (Some(told), Some(records)) = (coarse, records) {
                compared += told.check_records(records)?;
            }
        }
        if compared == 0 { Err(TotalsError::Nothing) } else { Ok(compared) }
    }

    /// Whether both have all their entries, and one key's windows are those of another.
    fn are_comparable(&self, coarse: &Told, fine: &Told) -> bool {
        let window = coarse.grouping.window;
        coarse.grouping.name != fine.grouping.name
            && window == fine.grouping.window
            && !window.is_merging()
            && (!window.is_by_key() || self.phase_is_shared)
            && coarse.is_complete()
            && fine.is_complete()
    }
}

/// Compares the sums of two groupings by the level of the coarser one.
fn compare(
    ((coarse, coarse_stage), (fine, fine_stage)): ((&Told, &Stage), (&Told, &Stage)),
    fields: &[&str],
    common: &[(usize, usize)],
    symbols: &Symbols,
) -> Result<u64, TotalsError> {
    let totals = coarse.by(coarse_stage, fields, symbols);
    let parts = fine.by(fine_stage, fields, symbols);
    let mut compared = 0;
    let keys = totals.keys().chain(parts.keys().filter(|key| !totals.contains_key(*key)));
    for at in keys {
        let of = |level: &Level, place: usize| {
            level.get(at).and_then(|(_, sums)| sums.get(place).copied()).unwrap_or(0)
        };
        for (mine, theirs) in common {
            let expected = of(&totals, *mine).saturating_mul(fine.copies);
            let found = of(&parts, *theirs).saturating_mul(coarse.copies);
            if expected != found {
                let values = totals.get(at).or(parts.get(at)).map(|(values, _)| &values[..]);
                let (aggregate, (_, (start, end))) = (coarse.name_of(*mine), at);
                let difference = Difference {
                    aggregate,
                    coarse: coarse.grouping.name.clone(),
                    fine: fine.grouping.name.clone(),
                    key: key_text(values.unwrap_or_default()),
                    window: Window::new(
                        EventTime::from_millis(*start),
                        EventTime::from_millis(*end),
                    ),
                    expected,
                    found,
                };
                return Err(TotalsError::Differ(Box::new(difference)));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

fn key_text(values: &[Value]) -> String {
    let mut text = String::from("[");
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        value.write_json(&mut text);
    }
    text.push(']');
    text
}
