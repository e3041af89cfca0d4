//! When a grouping emits: its trigger, and which panes come without news.

use super::expressions::report;
use super::groups::Scope;
use crate::cel;
use crate::config::problem::Problems;
use crate::config::raw::group::RawGroup;
use crate::config::raw::reader::Spanned;
use crate::config::raw::trigger::{
    RawEmit, RawTimestamp, RawTrigger, RawTriggerName, RawWhen, Triggers,
};
use nilometer_model::pane::{Emission, TimestampCombiner};
use nilometer_model::plan::AggregateSpec;
use nilometer_model::planner::aggregate_layout;
use nilometer_model::row::Field;
use nilometer_model::trigger::{Closing, Condition, Earliest, Trigger};
use nilometer_model::window::WindowFn;
use std::sync::Arc;

/// The trigger of a group; `None` if it is wrong.
pub(crate) fn trigger(
    raw: &RawGroup,
    aggregates: Option<&[AggregateSpec]>,
    scope: &Scope,
    problems: &mut Problems,
) -> Option<Trigger> {
    let given = raw.trigger.get()?;
    let fields =
        aggregates.map(|specs| Condition::fields(&aggregate_layout(specs, scope.fields())));
    let mut reader = Reader { results: fields, scope, problems };
    let (trigger, is_simple) = reader.read(&given.value)?;
    // A simple trigger as the whole would finish with its first pane, and lose the rest.
    let trigger = if is_simple { Trigger::Repeat(Box::new(trigger)) } else { trigger };
    let closing = trigger.closing(raw.allowed_lateness.value()?.0);
    if let (Some(closing), false) = (closing, raw.allow_closing.value()?) {
        let help = match &closing {
            Closing::Early { .. } => {
                "repeat it, { repeat = ... }, or accept the loss: allow_closing = true"
            }
            Closing::AtEnd { .. } => {
                "say what late records do, late = { count = 1 }, or accept the loss: \
                 allow_closing = true"
            }
        };
        problems.add_with_help(given.place, closing.to_string(), help);
        return None;
    }
    Some(trigger)
}

/// Reports a global window that would never emit.
pub(crate) fn check_global(
    raw: &RawGroup,
    (window, trigger): (WindowFn, &Trigger),
    scope: &Scope,
    problems: &mut Problems,
) {
    let never_ends = scope.is_live && window == WindowFn::Global;
    if let (true, Some(given)) = (never_ends, raw.window.get())
        && trigger.first_in_endless() != Earliest::Early
    {
        problems.add_with_help(
            given.place,
            "a global window never ends on live input, so nothing would come out",
            "say when it emits, trigger = { every = \"1m\" }, or use windows that end: \
             { fixed = \"60s\" }",
        );
    }
}

/// Which panes come, and what time they carry.
pub(crate) fn emission(raw: &RawGroup, problems: &mut Problems) -> Option<Emission> {
    let given = raw.emit.get()?;
    let RawEmit { on_time, closing, timestamp, .. } = &given.value;
    let emission = Emission {
        on_time_always: *on_time.value()? == RawWhen::Always,
        closing_always: *closing.value()? == RawWhen::Always,
        timestamp: match timestamp.value()? {
            RawTimestamp::EndOfWindow => TimestampCombiner::EndOfWindow,
            RawTimestamp::Earliest => TimestampCombiner::Earliest,
            RawTimestamp::Latest => TimestampCombiner::Latest,
        },
    };
    if emission != Emission::default() && !raw.top_k.is_absent() {
        problems.add_with_help(
            given.place,
            "a top_k emits entries when they change, at the end of their window",
            "leave `emit` out, or `top_k`",
        );
        return None;
    }
    Some(emission)
}

/// Makes triggers of raw ones; what is wrong is reported.
struct Reader<'a> {
    /// The results that conditions may name; `None` if some are wrong, which has been reported.
    results: Option<Vec<Field>>,
    scope: &'a Scope,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    /// The trigger, and whether it is a simple one; `None` if it is wrong.
    fn read(&mut self, raw: &RawTrigger) -> Option<(Trigger, bool)> {
        let simple = match raw {
            RawTrigger::Named(RawTriggerName::AfterWatermark) => {
                Trigger::AfterWatermark { early: None, late: None }
            }
            RawTrigger::Every(period) => Trigger::Every(period.0),
            RawTrigger::ProcessingTime(delay) => Trigger::AfterProcessingTime(delay.0),
            RawTrigger::Percentile(percentile) => Trigger::AfterWatermarkPercentile(percentile.0),
            RawTrigger::Count(count) => Trigger::AfterCount(*count),
            RawTrigger::Bytes(size) => Trigger::AfterBytes(size.0 as u64),
            RawTrigger::When(condition) => self.when(condition)?,
            RawTrigger::Signal(name) => Trigger::OnSignal(name.as_str().into()),
            RawTrigger::Named(RawTriggerName::Never)
            | RawTrigger::Parts(..)
            | RawTrigger::All(_)
            | RawTrigger::Any(_)
            | RawTrigger::Sequence(_)
            | RawTrigger::Repeat(_)
            | RawTrigger::RepeatUntil(_)
            | RawTrigger::OrFinally(_)
            | RawTrigger::Once(_) => return Some((self.composed(raw)?, false)),
        };
        Some((simple, true))
    }

    /// A trigger that repeats only where it says so.
    fn composed(&mut self, raw: &RawTrigger) -> Option<Trigger> {
        Some(match raw {
            RawTrigger::Named(RawTriggerName::Never) => Trigger::Never,
            RawTrigger::Parts(early, late) => {
                let (early, late) = (self.part(early.as_deref()), self.part(late.as_deref()));
                Trigger::AfterWatermark { early: early?, late: late? }
            }
            RawTrigger::All(list) => Trigger::All(self.list(list)?),
            RawTrigger::Any(list) => Trigger::Any(self.list(list)?),
            RawTrigger::Sequence(list) => Trigger::Sequence(self.list(list)?),
            RawTrigger::Repeat(inner) => Trigger::Repeat(Box::new(self.read(inner)?.0)),
            RawTrigger::RepeatUntil(list) => {
                let (first, until) = self.pair(list)?;
                Trigger::RepeatUntil(first, until)
            }
            RawTrigger::OrFinally(list) => {
                let (first, last) = self.pair(list)?;
                Trigger::OrFinally(first, last)
            }
            RawTrigger::Once(inner) => return self.once(inner),
            RawTrigger::Named(RawTriggerName::AfterWatermark)
            | RawTrigger::Every(_)
            | RawTrigger::ProcessingTime(_)
            | RawTrigger::Percentile(_)
            | RawTrigger::Count(_)
            | RawTrigger::Bytes(_)
            | RawTrigger::When(_)
            | RawTrigger::Signal(_) => self.read(raw)?.0,
        })
    }

    /// The part before or after the end of a window; `Some(None)` if there is none.
    fn part(&mut self, raw: Option<&RawTrigger>) -> Option<Option<Box<Trigger>>> {
        match raw {
            None => Some(None),
            Some(inner) => Some(Some(Box::new(self.read(inner)?.0))),
        }
    }

    fn list(&mut self, list: &Triggers) -> Option<Vec<Trigger>> {
        if list.value.is_empty() {
            let message = "there is no trigger in this list";
            self.problems.add_with_help(list.place, message, "name at least one");
            return None;
        }
        // Every one is read, so that each mistake is reported.
        let read = list.value.iter().map(|inner| self.read(&inner.value)).collect::<Vec<_>>();
        read.into_iter().map(|inner| inner.map(|(trigger, _)| trigger)).collect()
    }

    fn pair(&mut self, list: &Triggers) -> Option<(Box<Trigger>, Box<Trigger>)> {
        let triggers = self.list(list)?;
        let count = triggers.len();
        let Ok([first, second]) = <[Trigger; 2]>::try_from(triggers) else {
            let message = format!("two triggers are needed here, not {count}");
            let help = "the first goes on until the second has fired: \
                        [{ every = \"1m\" }, \"after_watermark\"]";
            self.problems.add_with_help(list.place, message, help);
            return None;
        };
        Some((Box::new(first), Box::new(second)))
    }

    fn once(&mut self, inner: &Spanned<RawTrigger>) -> Option<Trigger> {
        let (trigger, is_simple) = self.read(&inner.value)?;
        if !is_simple {
            self.problems.add_with_help(
                inner.place,
                "`once` takes a simple trigger: what is composed repeats only where it says so",
                "leave `once` out",
            );
            return None;
        }
        Some(trigger)
    }

    fn when(&mut self, condition: &Spanned<String>) -> Option<Trigger> {
        match cel::compile_when(&condition.value, self.results.as_deref()?) {
            Ok(typed) => Some(Trigger::When(Arc::new(Condition::new(&condition.value, typed)))),
            Err(errors) => {
                report(condition, errors, (self.scope, self.problems));
                None
            }
        }
    }
}
