//! What the planner finds wrong, at the places where it was typed.
//!
//! Names and types have been checked before; what is left are limits of the plan as a whole.

use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::group::RawGroup;
use crate::config::raw::reader::Given;
use nilometer_model::engine::Engine;
use nilometer_model::plan::{Job, Plan};
use nilometer_model::planner::{self, PlanError};

/// Plans `job` for an engine; `None` if that, or anything before, went wrong.
pub(crate) fn plan(
    (job, engine): (&Job, Engine),
    raw: &RawConfig,
    problems: &mut Problems,
) -> Option<Plan> {
    let is_whole = problems.is_empty();
    match planner::plan_for(job, engine) {
        Ok(plan) => is_whole.then_some(plan),
        Err(errors) => {
            // Groups that were left out make the planner miss what was there.
            for error in errors.iter().filter(|_| is_whole) {
                problems.add(place(error, raw), error.to_string());
            }
            None
        }
    }
}

fn place(error: &PlanError, raw: &RawConfig) -> Place {
    let grouping = match error {
        PlanError::DuplicateGrouping { grouping }
        | PlanError::UnknownField { grouping, .. }
        | PlanError::UnknownName { grouping, .. }
        | PlanError::DuplicateName { grouping, .. }
        | PlanError::WrongType { grouping, .. }
        | PlanError::UnevenCopies { grouping, .. }
        | PlanError::TooSmall { grouping, .. }
        | PlanError::NotRankable { grouping, .. }
        | PlanError::TopKOfSide { grouping, .. }
        | PlanError::UnknownResult { grouping, .. }
        | PlanError::Expression { grouping, .. }
        | PlanError::Sequence { grouping, .. }
        | PlanError::LosesData { grouping, .. } => grouping,
        PlanError::TopKOfSessions { grouping }
        | PlanError::TooManyCopies { grouping, .. }
        | PlanError::TooManyWindows { grouping, .. }
        | PlanError::MergingResults { grouping, .. }
        | PlanError::EndlessResults { grouping, .. } => {
            return setting(grouping, raw, |group| &group.window);
        }
        PlanError::UnknownParent { grouping, .. }
        | PlanError::Circle { grouping, .. }
        | PlanError::ReservedName { grouping, .. }
        | PlanError::OfList { grouping, .. } => return setting(grouping, raw, |group| &group.of),
        PlanError::ShorterLateness { grouping, .. } => {
            return setting(grouping, raw, |group| &group.allowed_lateness);
        }
        PlanError::ClosesResults { grouping, .. } => {
            return setting(grouping, raw, |group| &group.trigger);
        }
        PlanError::DiscardedResults { grouping, .. } => {
            return setting(grouping, raw, |group| &group.mode);
        }
        PlanError::ListedResults { grouping, .. } | PlanError::UncountedResults { grouping } => {
            return setting(grouping, raw, |group| &group.aggregates);
        }
        PlanError::NotSharded { field } => return shard_by(field, raw),
        PlanError::NoGroupings
        | PlanError::NotAnInstant { .. }
        | PlanError::TooManyFields { .. } => {
            return raw.place;
        }
    };
    group(grouping, raw).map_or(raw.place, |group| group.place)
}

fn group<'a>(name: &str, raw: &'a RawConfig) -> Option<&'a RawGroup> {
    let groups = raw.group.value().map_or(&[][..], |groups| &groups.tables);
    groups.iter().find(|group| group.name.value().is_some_and(|known| known == name))
}

/// Where a setting of a group was typed.
fn setting<T>(grouping: &str, raw: &RawConfig, setting: impl Fn(&RawGroup) -> &Given<T>) -> Place {
    let Some(group) = group(grouping, raw) else { return raw.place };
    setting(group).get().map_or(group.place, |setting| setting.place)
}

fn shard_by(field: &str, raw: &RawConfig) -> Place {
    let Some(pipeline) = raw.pipeline.value() else { return raw.place };
    let Given::Value(list) = &pipeline.shard_by else { return pipeline.place };
    list.value.iter().find(|name| name.value == field).map_or(list.place, |name| name.place)
}
