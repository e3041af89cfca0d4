//! Calendar windows: days, weeks, months and years in a time zone, 23- and 25-hour days included.
//!
//! Arithmetic on civil dates is the `jiff` crate's. Times beyond its years (-9999 to 9999) fall in
//! one window before and one after.

use crate::time::{EventTime, Span, Window};
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

/// A length of calendar time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// Seven days that start on a given day.
    Week(Weekday),
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

/// A time zone, by its name in the IANA database.
#[derive(Clone, Copy)]
pub struct Zone(&'static (Box<str>, TimeZone));

/// No time zone is called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no time zone: names are those of the IANA database, as in `Europe/Athens`")]
pub struct UnknownZone {
    /// The name that was asked for.
    pub name: Box<str>,
}

impl Zone {
    /// The zone called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        // Few names are ever asked for, and each is kept for the life of the process, so that a
        // window function stays a plain value.
        static KNOWN: Mutex<BTreeMap<Box<str>, Zone>> = Mutex::new(BTreeMap::new());
        let mut known = match KNOWN.lock() {
            Ok(known) => known,
            // Nothing is left half-done below.
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(zone) = known.get(name) {
            return Ok(*zone);
        }
        let zone = TimeZone::get(name).map_err(|_| UnknownZone { name: name.into() })?;
        let zone = Self(Box::leak(Box::new((name.into(), zone))));
        known.insert(name.into(), zone);
        Ok(zone)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        &self.0.0
    }

    /// By how many milliseconds it has been off UTC since 1972, and will be up to 2100: later years
    /// follow the rules of those before.
    fn offsets_since_1972(self) -> Vec<i64> {
        const SINCE: i64 = 63_072_000;
        const UNTIL: i64 = 4_102_444_800;
        let zone = &self.0.1;
        let Ok(since) = Timestamp::from_second(SINCE) else { return Vec::new() };
        let later = zone.following(since);
        let later = later.take_while(|transition| transition.timestamp().as_second() < UNTIL);
        let mut offsets: Vec<_> = later.map(|transition| transition.offset()).collect();
        offsets.push(zone.to_offset(since));
        offsets.into_iter().map(|offset| i64::from(offset.seconds()) * 1_000).collect()
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Windows of calendar time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    /// How long they are.
    pub unit: CalendarUnit,
    /// Where midnight is.
    pub zone: Zone,
}

impl Calendar {
    /// The window that holds `time`.
    pub fn assign(self, time: EventTime) -> Window {
        let bounds = Timestamp::from_millisecond(time.as_millis()).ok().and_then(|timestamp| {
            let date = timestamp.to_zoned_datetime(self.zone.0.1.clone()).date();
            let first = self.first_day(date)?;
            Some((self.midnight(first)?, self.midnight(self.next_first_day(first)?)?))
        });
        match bounds {
            Some((start, end)) => Window::new(start, end),
            None if time.as_millis() < 0 => Window::new(EventTime::MIN, Self::beginning()),
            None => Window::new(Self::ending(), EventTime::MAX),
        }
    }

    /// Where the calendar begins: before it is one window.
    fn beginning() -> EventTime {
        EventTime::from_millis(Timestamp::MIN.as_millisecond())
    }

    /// Where the calendar ends: from there on is one window.
    fn ending() -> EventTime {
        EventTime::from_millis(Timestamp::MAX.as_millisecond())
    }

    fn first_day(self, date: Date) -> Option<Date> {
        match self.unit {
            CalendarUnit::Day => Some(date),
            CalendarUnit::Week(start) => {
                let back = date.weekday().since(start);
                date.checked_sub(i64::from(back).days()).ok()
            }
            CalendarUnit::Month => Some(date.first_of_month()),
            CalendarUnit::Year => Some(date.first_of_year()),
        }
    }

    fn next_first_day(self, first: Date) -> Option<Date> {
        let next = match self.unit {
            CalendarUnit::Day => first.tomorrow(),
            CalendarUnit::Week(_) => first.checked_add(1.week()),
            CalendarUnit::Month => first.checked_add(1.month()),
            CalendarUnit::Year => first.checked_add(1.year()),
        };
        next.ok()
    }

    /// The first instant of a day: where midnight does not exist, the first that does.
    fn midnight(self, date: Date) -> Option<EventTime> {
        let zoned = date.to_zoned_datetime(self.zone.0.1.clone()).ok()?.start_of_day().ok()?;
        Some(EventTime::from_millis(zoned.timestamp().as_millisecond()))
    }

    /// Whether fixed windows of `size` from `offset` have a boundary wherever these have one since
    /// 1972: they must divide a day, and whatever the zone is off UTC. (Before that zones went by
    /// the sun, to the second; an old record counts in the day in which its fixed window begins.)
    pub fn is_cut_by(self, size: Span, offset: i64) -> bool {
        const DAY: i64 = 86_400_000;
        let size = size.as_millis().max(1);
        let divides = |span: i64| span.rem_euclid(size) == 0;
        divides(DAY) && divides(offset) && self.zone.offsets_since_1972().into_iter().all(divides)
    }

    /// How long they are, more or less: to compare, not to count with.
    pub const fn nominal(self) -> Span {
        const DAY: i64 = 86_400_000;
        Span::from_millis(match self.unit {
            CalendarUnit::Day => DAY,
            CalendarUnit::Week(_) => 7 * DAY,
            CalendarUnit::Month => 30 * DAY,
            CalendarUnit::Year => 365 * DAY,
        })
    }

    /// Whether each of these windows lies in one of `coarse`.
    pub fn nests_in(self, coarse: Self) -> bool {
        let fits = match (self.unit, coarse.unit) {
            (CalendarUnit::Day, _) => true,
            (CalendarUnit::Week(mine), CalendarUnit::Week(theirs)) => mine == theirs,
            (CalendarUnit::Month, CalendarUnit::Month | CalendarUnit::Year) => true,
            (CalendarUnit::Year, CalendarUnit::Year) => true,
            (
                CalendarUnit::Week(_),
                CalendarUnit::Day | CalendarUnit::Month | CalendarUnit::Year,
            )
            | (CalendarUnit::Month, CalendarUnit::Day | CalendarUnit::Week(_))
            | (
                CalendarUnit::Year,
                CalendarUnit::Day | CalendarUnit::Week(_) | CalendarUnit::Month,
            ) => false,
        };
        fits && self.zone == coarse.zone
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            CalendarUnit::Day => "day".to_owned(),
            CalendarUnit::Week(start) => format!("week from {start:?}"),
            CalendarUnit::Month => "month".to_owned(),
            CalendarUnit::Year => "year".to_owned(),
        };
        write!(f, "{unit} in {}", self.zone.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> EventTime {
        EventTime::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn windows_follow_the_calendar_and_its_clock_changes() {
        use CalendarUnit::{Day, Month, Week, Year};
        for (unit, zone, time, start, end) in [
            // 23 hours: clocks go forward on 2026-03-29 in Athens.
            (
                Day,
                "Europe/Athens",
                "2026-03-29T12:00:00Z",
                "2026-03-28T22:00:00Z",
                "2026-03-29T21:00:00Z",
            ),
            // 25 hours: and back on 2026-10-25.
            (
                Day,
                "Europe/Athens",
                "2026-10-25T12:00:00Z",
                "2026-10-24T21:00:00Z",
                "2026-10-25T22:00:00Z",
            ),
            (Day, "UTC", "1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"),
            (
                Week(Weekday::Monday),
                "UTC",
                "2026-11-29T10:00:00Z",
                "2026-11-23T00:00:00Z",
                "2026-11-30T00:00:00Z",
            ),
            (
                Week(Weekday::Sunday),
                "UTC",
                "2026-11-29T10:00:00Z",
                "2026-11-29T00:00:00Z",
                "2026-12-06T00:00:00Z",
            ),
            (Month, "UTC", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
            (
                Year,
                "Asia/Kolkata",
                "2025-12-31T18:30:00Z",
                "2025-12-31T18:30:00Z",
                "2026-12-31T18:30:00Z",
            ),
        ] {
            let calendar = Calendar { unit, zone: Zone::named(zone).unwrap() };
            assert_eq!(
                calendar.assign(at(time)),
                Window::new(at(start), at(end)),
                "{calendar} {time}"
            );
        }
    }

    #[test]
    fn fixed_windows_nest_in_days_where_they_divide_what_the_zone_is_off_utc() {
        const MINUTE: i64 = 60_000;
        for (zone, minutes, offset, nests) in [
            ("Europe/Athens", 60, 0, true),
            ("Europe/Athens", 120, 0, false),
            ("Europe/Athens", 60, 30, false),
            ("Europe/Athens", 60, -60, true),
            ("Europe/Athens", 7, 0, false),
            ("America/New_York", 60, 0, true),
            ("UTC", 24 * 60, 0, true),
            ("UTC", 48 * 60, 0, false),
            ("Asia/Kolkata", 60, 0, false),
            ("Asia/Kolkata", 30, 0, true),
            // Half an hour of summer time.
            ("Australia/Lord_Howe", 60, 0, false),
            ("Australia/Lord_Howe", 30, 0, true),
            ("Asia/Kathmandu", 15, 0, true),
            ("Asia/Kathmandu", 30, 0, false),
        ] {
            let calendar = Calendar { unit: CalendarUnit::Day, zone: Zone::named(zone).unwrap() };
            let size = Span::from_millis(minutes * MINUTE);
            let said = calendar.is_cut_by(size, offset * MINUTE);
            assert_eq!(said, nests, "{minutes} minutes in days of {zone}");
            // What is said holds of every day of thirty years.
            let mut day = calendar.assign(at("2000-01-01T12:00:00Z"));
            while nests && day.start() < at("2030-01-01T00:00:00Z") {
                let start = Window::fixed(day.start(), size, offset * MINUTE).start();
                assert_eq!(start, day.start(), "{minutes} minutes in days of {zone}");
                day = calendar.assign(day.end());
            }
        }
    }

    #[test]
    fn times_beyond_the_calendar_fall_in_its_outer_windows() {
        let calendar = Calendar { unit: CalendarUnit::Day, zone: Zone::named("UTC").unwrap() };
        for time in [i64::MIN, -1 << 60, 1 << 60, i64::MAX] {
            let time = EventTime::from_millis(time);
            assert!(calendar.assign(time).contains(time), "{time}");
        }
        assert!(Zone::named("Europe/Atlantis").is_err());
    }
}
