//! Windows of a grouping.

use super::groups::Scope;
use super::names;
use crate::config::node::Origin;
use crate::config::problem::Problems;
use crate::config::raw::group::RawGroup;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::window::{
    RawCalendar, RawFixed, RawPhase, RawSession, RawSliding, RawTouching, RawUnit, RawWeekday,
    RawWindow,
};
use jiff::civil::Weekday;
use jiff::tz;
use nilometer_model::calendar::{Calendar, CalendarUnit, Zone};
use nilometer_model::plan::KeyColumn;
use nilometer_model::planner::nearest;
use nilometer_model::window::{Phase, Touching, WindowFn};

/// The windows of a grouping.
#[derive(Debug)]
pub(crate) struct Windows {
    /// The window function.
    pub(crate) function: WindowFn,
    /// Field with the gap of each record.
    pub(crate) gap_field: Option<Box<str>>,
}

/// The windows of a group; `None` if they are wrong.
pub(crate) fn windows(
    raw: &RawGroup,
    key: Option<&[KeyColumn]>,
    scope: &Scope,
    problems: &mut Problems,
) -> Option<Windows> {
    let function = match raw.window.value()? {
        RawWindow::Global => WindowFn::Global,
        RawWindow::Fixed(raw) => fixed(raw, key, scope, problems)?,
        RawWindow::Sliding(raw) => sliding(raw)?,
        RawWindow::Session(raw) => {
            let gap_field = gap_field(raw, scope, problems);
            return Some(Windows { function: session(raw)?, gap_field: gap_field? });
        }
        RawWindow::Calendar(raw) => calendar(raw, problems)?,
    };
    Some(Windows { function, gap_field: None })
}

fn fixed(
    raw: &RawFixed,
    key: Option<&[KeyColumn]>,
    scope: &Scope,
    problems: &mut Problems,
) -> Option<WindowFn> {
    let phase = raw.phase.get()?;
    let has_exporter =
        key.is_none_or(|key| key.iter().any(|column| &*column.name == names::EXPORTER));
    if phase.value == RawPhase::ByKey && scope.is_flow && !has_exporter {
        problems.add_with_help(
            phase.place,
            "windows of flows are shifted by exporter, which is not in the key",
            "add `exporter` to the key, or write phase = \"aligned\"",
        );
        return None;
    }
    Some(WindowFn::Fixed {
        size: raw.fixed.value()?.0,
        offset: raw.offset.value()?.0,
        phase: match phase.value {
            RawPhase::Aligned => Phase::Aligned,
            RawPhase::ByKey => Phase::ByKey,
        },
    })
}

fn sliding(raw: &RawSliding) -> Option<WindowFn> {
    Some(WindowFn::Sliding {
        size: raw.sliding.value()?.0,
        period: raw.every.value()?.0,
        offset: raw.offset.value()?.0,
    })
}

fn session(raw: &RawSession) -> Option<WindowFn> {
    Some(WindowFn::Session {
        gap: raw.session.value()?.0,
        max_duration: raw.max_duration.value()?.0,
        touching: match raw.touching.value()? {
            RawTouching::Merge => Touching::Merge,
            RawTouching::Separate => Touching::Separate,
        },
    })
}

/// The field with the gap, which must hold whole numbers; `Some(None)` if there is none.
fn gap_field(raw: &RawSession, scope: &Scope, problems: &mut Problems) -> Option<Option<Box<str>>> {
    let field = match &raw.gap_field {
        Given::Absent => return Some(None),
        Given::Wrong => return None,
        Given::Value(field) => field,
    };
    let fields = scope.look_up(&field.value, field.place, problems)?;
    let ty = fields.first().and_then(|name| scope.ty(name))?;
    let [name] = fields.as_slice() else {
        let message = format!("`{}` stands for several fields", field.value);
        problems.add_with_help(field.place, message, "a session has one gap: name one field");
        return None;
    };
    if !ty.is_integer() {
        problems.add_with_help(
            field.place,
            format!("a gap is a whole number of milliseconds, but `{name}` is of type {ty}"),
            "derive one: gap_ms = \"int(seconds * 1000.0)\"",
        );
        return None;
    }
    Some(Some(name.clone()))
}

fn calendar(raw: &RawCalendar, problems: &mut Problems) -> Option<WindowFn> {
    let zone = raw.time_zone.get().and_then(|name| zone(name, problems));
    let (unit, first_day) = (raw.calendar.value(), raw.week_start.get());
    if let (Some(unit), Some(first_day)) = (unit, first_day)
        && *unit != RawUnit::Week
        && first_day.origin != Origin::Default
    {
        problems.add_with_help(
            first_day.place,
            "`week_start` means something to weeks only",
            "leave it out, or write calendar = \"week\"",
        );
        return None;
    }
    let unit = match unit? {
        RawUnit::Day => CalendarUnit::Day,
        RawUnit::Week => CalendarUnit::Week(weekday(first_day?.value)),
        RawUnit::Month => CalendarUnit::Month,
        RawUnit::Year => CalendarUnit::Year,
    };
    Some(WindowFn::Calendar(Calendar { unit, zone: zone? }))
}

fn zone(name: &Spanned<String>, problems: &mut Problems) -> Option<Zone> {
    match Zone::named(&name.value) {
        Ok(zone) => Some(zone),
        Err(_) => {
            let known: Vec<_> = tz::db().available().map(|zone| zone.to_string()).collect();
            let near = nearest(&name.value, known.iter().map(String::as_str));
            let help = near.map_or_else(
                || "names are those of the IANA database: \"Europe/Athens\"".into(),
                |near| format!("did you mean `{near}`?"),
            );
            let message = format!("there is no time zone `{}`", name.value);
            problems.add_with_help(name.place, message, help);
            None
        }
    }
}

const fn weekday(raw: RawWeekday) -> Weekday {
    match raw {
        RawWeekday::Monday => Weekday::Monday,
        RawWeekday::Tuesday => Weekday::Tuesday,
        RawWeekday::Wednesday => Weekday::Wednesday,
        RawWeekday::Thursday => Weekday::Thursday,
        RawWeekday::Friday => Weekday::Friday,
        RawWeekday::Saturday => Weekday::Saturday,
        RawWeekday::Sunday => Weekday::Sunday,
    }
}
