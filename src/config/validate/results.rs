//! Groups of results: which group reads which, in what order they are made, and what names mean in
//! them.

use super::expressions::Expressions;
use super::groups::Scope;
use crate::config::problem::Problems;
use crate::config::raw::group::RawGroup;
use crate::config::raw::reader::Given;
use crate::config::raw::sequence::RawSequence;
use nilometer_model::plan::{Grouping, OfSpec};
use nilometer_model::planner::{chain, result_fields};
use nilometer_model::row::Field;

/// The groups, each after the one whose results it reads; those that read results which cannot be
/// made are reported and left out.
pub(super) fn in_order<'a>(
    (groups, sequences): (&'a [RawGroup], &[RawSequence]),
    problems: &mut Problems,
) -> Vec<&'a RawGroup> {
    let mut depths = Vec::new();
    for group in groups {
        let Some(name) = group.name.value() else {
            // It has been reported; what is wrong beside is still told.
            depths.push((0, group));
            continue;
        };
        match chain(name, |name| named(groups, name)?.of.value().map(String::as_str)) {
            Ok(names) => {
                report_unknown((groups, sequences), group, problems);
                depths.push((names.len(), group));
            }
            Err(cycle) => report_circle(group, &cycle, problems),
        }
    }
    depths.sort_by_key(|(depth, _)| *depth);
    depths.into_iter().map(|(_, group)| group).collect()
}

fn named<'a>(groups: &'a [RawGroup], name: &str) -> Option<&'a RawGroup> {
    groups.iter().find(|group| group.name.value().is_some_and(|known| known == name))
}

fn report_unknown(
    (groups, sequences): (&[RawGroup], &[RawSequence]),
    group: &RawGroup,
    problems: &mut Problems,
) {
    let Given::Value(of) = &group.of else { return };
    let of_sequences = sequences.iter().filter_map(|sequence| sequence.name.value());
    let is_sequence = of_sequences.clone().any(|name| *name == of.value);
    if !is_sequence && named(groups, &of.value).is_none() {
        let names = groups.iter().filter_map(|group| group.name.value());
        let others = names.filter(|name| Some(*name) != group.name.value());
        let known = others.chain(of_sequences).map(String::as_str);
        problems.add_unknown(of.place, ("group", &of.value), known);
    }
}

fn report_circle(group: &RawGroup, cycle: &[&str], problems: &mut Problems) {
    let Given::Value(of) = &group.of else { return };
    let round = cycle.iter().chain(cycle.first()).map(|name| format!("`{name}`"));
    let round = round.collect::<Vec<_>>().join(" of ");
    problems.add_with_help(
        of.place,
        format!("these results are made of each other: {round}"),
        "let one of them read records: leave `of` out",
    );
}

/// What a group reads in place of records, and what names mean in it; the scope of records where
/// it reads these. `None` if that is wrong.
pub(super) fn reads<'a>(
    group: &RawGroup,
    made: &[(Grouping, Vec<Field>)],
    records: &'a Scope,
    problems: &mut Problems,
) -> Option<(std::borrow::Cow<'a, Scope>, Option<OfSpec>)> {
    let of = match &group.of {
        Given::Value(of) => of,
        Given::Wrong => return None,
        Given::Absent => {
            refuse_expressions(group, problems);
            return Some((std::borrow::Cow::Borrowed(records), None));
        }
    };
    let parent = made.iter().find(|(parent, _)| *parent.name == *of.value);
    let fields = parent.map(|(parent, fields)| result_fields(parent, fields));
    let mut scope = records.of_results(fields);
    let taken = "the results already have a field";
    let expressions =
        Expressions::over((&group.derive, &group.filter), taken, &mut scope, problems);
    let spec = OfSpec {
        grouping: of.value.as_str().into(),
        derived: expressions.derived,
        filter: expressions.filter,
    };
    Some((std::borrow::Cow::Owned(scope), Some(spec)))
}

/// Records are refined before any group sees them.
fn refuse_expressions(group: &RawGroup, problems: &mut Problems) {
    let derive = group.derive.get().map(|derive| (derive.place, "derive"));
    let filter = group.filter.get().map(|filter| (filter.place, "filter"));
    for (place, name) in derive.into_iter().chain(filter) {
        problems.add_with_help(
            place,
            format!("`{name}` of a group is about results that it reads, but it reads records"),
            format!("write `{name}` at the top, for all groups, or say whose results: `of`"),
        );
    }
}
