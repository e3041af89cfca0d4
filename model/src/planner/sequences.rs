//! What a job may ask of its sequences.

use super::{PlanError, check_fields, fields_of};
use crate::plan::{Grouping, Job};
use crate::sequence::check::check as check_sequence;

/// Everything that is wrong with a grouping as a sequence, if it is one.
pub(super) fn check(job: &Job, grouping: &Grouping, errors: &mut Vec<PlanError>) {
    let Some(spec) = &grouping.sequence else { return };
    let names: Vec<Box<str>> = spec.fields().into_iter().map(Into::into).collect();
    check_fields(job, grouping, &names, errors);
    let found = check_sequence(spec, &grouping.key, &fields_of(job, grouping));
    errors.extend(found.into_iter().map(|error| {
        let grouping = grouping.name.clone();
        PlanError::Sequence { grouping, error }
    }));
}
