//! Wide jobs: any window, any trigger, any mode and emission; few aggregates, a key or none. What
//! narrow ones (`job`) leave out, and without the lists that those have.

use crate::job::{AGGREGATES, FIELDS, NEAR, Style, aggregate, column, lateness, modes};
use crate::triggers::triggers;
use crate::windows::{only_grows, windows};
use nilometer_model::pane::{AccumulationMode, Emission, TimestampCombiner};
use nilometer_model::plan::{Grouping, Job, LateSpec, Spread};
use nilometer_model::row::Field;
use nilometer_model::time::Span;
use nilometer_model::trigger::Trigger;
use nilometer_model::window::WindowFn;
use proptest::prelude::*;

/// Whether triggers may close windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// They may.
    Allowed,
    /// They are repeated where they would.
    Never,
}

fn emissions() -> impl Strategy<Value = Emission> {
    use TimestampCombiner::{Earliest, EarliestTransformed, EndOfWindow, Latest};
    let timestamp = prop_oneof![
        3 => Just(EndOfWindow),
        1 => Just(Earliest),
        1 => Just(Latest),
        1 => Just(EarliestTransformed),
    ];
    let always = || prop::bool::weighted(0.2);
    (always(), always(), timestamp).prop_map(|(on_time_always, closing_always, timestamp)| {
        Emission { on_time_always, closing_always, timestamp }
    })
}

/// What makes up one grouping.
#[derive(Debug, Clone)]
struct Choices {
    columns: Vec<usize>,
    window: WindowFn,
    trigger: Trigger,
    mode: AccumulationMode,
    emission: Emission,
    lateness: Span,
    aggregates: Vec<usize>,
    has_gaps: bool,
}

fn choices(style: Style) -> impl Strategy<Value = Choices> {
    let columns = prop_oneof![
        3 => prop::sample::subsequence(vec![0_usize, 1, 2], 0..=2),
        1 => Just(vec![0, 4]),
    ];
    let columns = columns.prop_map(move |mut columns| {
        if style == Style::SharedColumn && !columns.contains(&0) {
            columns.insert(0, 0);
        }
        columns
    });
    let numbers: Vec<_> = (1..AGGREGATES.len()).filter(|number| *number != NEAR).collect();
    let aggregates = prop::sample::subsequence(numbers, 0..=3);
    let what = (columns, windows(), triggers(), modes());
    (what, emissions(), lateness(style), aggregates, prop::bool::weighted(0.3)).prop_map(
        |((columns, window, trigger, mode), emission, lateness, mut aggregates, has_gaps)| {
            // Every grouping counts: conditions ask for it.
            aggregates.insert(0, 0);
            Choices { columns, window, trigger, mode, emission, lateness, aggregates, has_gaps }
        },
    )
}

fn grouping(name: &str, choices: Choices, closing: Closing, is_split: bool) -> Grouping {
    let lateness = choices.lateness;
    let mut trigger = choices.trigger;
    if closing == Closing::Never && trigger.closing(lateness).is_some() {
        trigger = Trigger::Repeat(Box::new(trigger));
    }
    // What was sent of a window that shrinks can be set right only where it can be taken back.
    let mode = match choices.mode {
        AccumulationMode::Discarding if !only_grows(choices.window) => AccumulationMode::Retracting,
        mode => mode,
    };
    let is_session = matches!(choices.window, WindowFn::Session { .. });
    Grouping {
        key: choices.columns.iter().map(|number| column(*number)).collect(),
        allow_closing: trigger.closing(lateness).is_some(),
        trigger,
        mode,
        emission: choices.emission,
        allowed_lateness: lateness,
        aggregates: choices.aggregates.iter().map(|number| aggregate(*number, is_split)).collect(),
        gap_field: (is_session && choices.has_gaps).then(|| "v".into()),
        sinks: vec!["out".into()],
        late: Some(LateSpec { sink: "late".into(), include_late: true }),
        ..Grouping::new(name, choices.window)
    }
}

/// Jobs of one to three groupings; those with the same aggregates and triggers can often regroup
/// each other, unless they close windows: records would then be missing of which nobody tells.
pub(crate) fn wide_jobs(style: Style, closing: Closing) -> impl Strategy<Value = Job> {
    let flat = prop::collection::vec(choices(style), 1..=2);
    let alike = prop::collection::vec(choices(style), 2..=3).prop_map(|mut all| {
        let first = all[0].clone();
        for choices in &mut all {
            choices.aggregates.clone_from(&first.aggregates);
            choices.trigger = first.trigger.clone();
            choices.lateness = first.lateness;
        }
        all
    });
    let spread = prop::option::weighted(0.2, prop::option::of(1_i64..40));
    (prop_oneof![2 => flat, 1 => alike], spread).prop_map(move |(all, spread)| {
        let groupings: Vec<_> = all
            .into_iter()
            .zip(["one", "two", "three"])
            .map(|(choices, name)| grouping(name, choices, closing, spread.is_some()))
            .collect();
        let fields = FIELDS.iter().map(|(name, ty)| Field::new(name, *ty)).collect();
        let cascade = groupings.iter().all(|grouping| !grouping.allow_closing);
        let spread = spread.map(|longest| Spread {
            first: "first".into(),
            last: "last".into(),
            max_duration: longest.map(Span::from_millis),
        });
        Job { key_groups: 16, cascade, spread, ..Job::new("wide", fields, groupings) }
    })
}
