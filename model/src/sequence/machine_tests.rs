//! What records in their order say of a session, and where sessions end: tables.

use super::cut::{cut, next_end};
use super::entry::{Class, Entry, join, place};
use super::machine::judge;
use super::rules::{Rules, tests::rules};
use super::spec::{
    Begins, Bounds, OutputTime, OverflowPolicy, Regress, Release, SequenceSpec, StepSpec,
};
use super::verdict::{Cause, Closing, Verdict};
use crate::symbol::{Symbol, Symbols};
use crate::time::{EventTime, Span};

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

fn span(millis: i64) -> Span {
    Span::from_millis(millis)
}

fn texts(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| (*text).into()).collect()
}

/// A step that begins with `ask`, and ends with `ok` or `bad`.
fn step(name: &str) -> StepSpec {
    StepSpec {
        name: name.into(),
        start: texts(&["ask"]),
        success: texts(&["ok"]),
        failure: texts(&["bad"]),
        ..StepSpec::default()
    }
}

/// assoc, auth, dhcp (optional, 40 ms), dns (repeatable, slow after 10 ms); idle after 100 ms, at
/// most 1000 ms and 8 records, ended by `bye`.
pub(crate) fn wifi() -> SequenceSpec {
    SequenceSpec {
        step: "step".into(),
        status: Some("status".into()),
        reason: None,
        id: None,
        steps: vec![
            step("assoc"),
            StepSpec { start: Vec::new(), ..step("auth") },
            StepSpec { optional: true, step_timeout: Some(span(40)), ..step("dhcp") },
            StepSpec { repeatable: true, slow_after: Some(span(10)), ..step("dns") },
        ],
        ends: texts(&["bye"]),
        carried: Vec::new(),
        release: Release::Watermark,
        idle_timeout: span(100),
        idle_timeout_processing: Some(span(200)),
        max_session_duration: span(1000),
        max_events_per_session: 8,
        close_on_success: false,
        regress: Regress::Roam,
        output_time: OutputTime::First,
        bounds: Bounds { sessions: None, bytes: None, policy: OverflowPolicy::EmitEarlyOldest },
    }
}

/// Records as `time step status`, by `;`.
fn entries(text: &str) -> Vec<Entry> {
    let names = ["assoc", "auth", "dhcp", "dns", "bye"];
    let mut entries = Vec::new();
    for (number, part) in text.split(';').map(str::trim).filter(|part| !part.is_empty()).enumerate()
    {
        let mut words = part.split(' ');
        let time = words.next().unwrap().parse().unwrap();
        let name = words.next().unwrap();
        let step = names.iter().position(|known| *known == name).unwrap();
        let class = match words.next() {
            _ if name == "bye" => Class::End,
            Some("ask") if step != 1 => Class::Start,
            Some("ok") => Class::Success,
            Some("bad") => Class::Failure,
            _ => Class::Other,
        };
        let mut entry = Entry::new(at(time), (0, number as u64), (step as u8, class));
        // Each status is one of its own here: none of them are copies.
        entry.set_status(Some(number as u32));
        assert!(!join(&mut entries, &entry));
        place(&mut entries, entry);
    }
    entries
}

fn shown(verdict: &Verdict, rules: &Rules, symbols: &Symbols) -> String {
    let name = |step: usize| symbols.text(Symbol::from_number(rules.name(step).unwrap()));
    let mut text = verdict.outcome.name().to_owned();
    if let Some(step) = verdict.step {
        text.push_str(&format!(" {}", name(step)));
    }
    if let (Some(connected), Some(begun)) = (verdict.connected, verdict.begun) {
        text.push_str(&format!(" ttc {}", connected.since(begun).as_millis()));
    }
    for (what, number) in [
        ("restarts", verdict.restarts),
        ("roams", verdict.roams),
        ("roam failures", verdict.roam_failures),
    ] {
        if number > 0 {
            text.push_str(&format!(" {what} {number}"));
        }
    }
    text.push_str(" |");
    for (number, step) in verdict.steps.iter().enumerate() {
        let Some(standing) = step.standing.name() else { continue };
        text.push_str(&format!(" {} {standing} {}x", name(number), step.attempts));
        if let Some(duration) = step.duration() {
            text.push_str(&format!(" {}ms", duration.as_millis()));
        }
        if step.is_slow(&rules.steps()[number]) == Some(true) {
            text.push_str(" slow");
        }
    }
    text
}

fn idle(at_millis: i64) -> Option<Closing> {
    Some(Closing { cause: Cause::Idle, at: at(at_millis) })
}

/// Judges the records of each case; `closing` is how the session ends.
fn check(cases: &[(&str, &str, Option<Closing>, &str)]) {
    let symbols = Symbols::default();
    for (what, records, closing, expected) in cases {
        let rules = rules(wifi(), &symbols);
        let entries = entries(records);
        let verdict = judge(entries.iter(), &rules, *closing).unwrap();
        assert_eq!(shown(&verdict, &rules, &symbols), *expected, "{what}");
    }
}

#[test]
fn records_in_their_order_make_a_verdict() {
    check(&[
        (
            "a chain without its optional step",
            "0 assoc ask; 5 assoc ok; 9 auth ok; 10 dns ask; 14 dns ok",
            idle(114),
            "connected ttc 14 | assoc success 1x 5ms auth success 1x 4ms dns success 1x 4ms",
        ),
        (
            "with it, and slow",
            "0 assoc ask; 5 assoc ok; 9 auth ok; 9 dhcp ask; 12 dhcp ok; 12 dns ask; 30 dns ok",
            idle(130),
            "connected ttc 30 | assoc success 1x 5ms auth success 1x 4ms dhcp success 1x 3ms \
             dns success 1x 18ms slow",
        ),
        (
            "a step fails",
            "0 assoc ok; 3 auth bad",
            idle(103),
            "failed auth | assoc success 1x 0ms auth failure 1x 3ms",
        ),
        (
            "a step fails, and what comes behind cannot make that good",
            "0 assoc ok; 3 auth bad; 9 dhcp ok; 12 dns ok",
            idle(112),
            "failed auth | assoc success 1x 0ms auth failure 1x 3ms dhcp success 1x 6ms \
             dns success 1x 3ms",
        ),
        (
            "it succeeds with another attempt",
            "0 assoc ok; 3 auth bad; 5 auth go; 8 auth ok; 9 dns ok",
            idle(109),
            "connected ttc 9 | assoc success 1x 0ms auth success 2x 8ms dns success 1x 1ms",
        ),
        (
            "a step that says when attempts begin counts them",
            "0 assoc ask; 2 assoc ask; 4 assoc ask; 5 assoc ok; 6 auth go; 7 auth go",
            idle(107),
            "stuck auth | assoc success 3x 5ms auth open 1x",
        ),
        (
            "the client leaves before the step has run out of time",
            "0 assoc ok; 3 auth ok; 5 dhcp ask; 20 bye",
            Some(Closing { cause: Cause::Terminal, at: at(20) }),
            "abandoned dhcp | assoc success 1x 0ms auth success 1x 3ms dhcp open 1x",
        ),
        (
            "or stays until it has",
            "0 assoc ok; 3 auth ok; 5 dhcp ask",
            idle(105),
            "stuck dhcp | assoc success 1x 0ms auth success 1x 3ms dhcp open 1x",
        ),
        (
            "the client leaves between two steps",
            "0 assoc ok; 3 auth ok",
            idle(103),
            "abandoned auth | assoc success 1x 0ms auth success 1x 3ms",
        ),
        (
            "a step in the middle is missing: later ones went on without it",
            "0 assoc ok; 12 dns ok",
            idle(112),
            "stuck auth | assoc success 1x 0ms dns success 1x 12ms slow",
        ),
        (
            "the first step is missing",
            "3 auth ok; 12 dns ok",
            idle(112),
            "incomplete_start | auth success 1x 0ms dns success 1x 9ms",
        ),
    ]);
}

#[test]
fn going_back_begins_anew_or_roams() {
    check(&[
        (
            "back to the first step before the end: the chain begins anew",
            "0 assoc ok; 3 auth bad; 10 assoc ask; 11 assoc ok; 14 auth ok; 15 dns ok",
            idle(115),
            "connected ttc 15 restarts 1 | assoc success 2x 1ms auth success 2x 3ms \
             dns success 1x 1ms",
        ),
        (
            "back after the end: a roam, which takes nothing back",
            "0 assoc ok; 3 auth ok; 4 dns ok; 50 assoc ask; 51 assoc ok; 53 auth bad",
            idle(153),
            "connected ttc 4 roams 1 roam failures 1 | assoc success 1x 0ms auth success 1x 3ms \
             dns success 1x 1ms",
        ),
        (
            "what may come again does not go back",
            "0 assoc ok; 3 auth ok; 4 dns ok; 9 dns ask; 12 dns ok; 20 dns ask",
            idle(120),
            "connected ttc 4 | assoc success 1x 0ms auth success 1x 3ms dns success 3x 1ms",
        ),
        (
            "what trails behind a success is no attempt, where these say that they begin",
            "0 assoc ask; 1 assoc ok; 2 assoc x; 3 auth ok; 4 assoc x; 5 dns ok",
            idle(105),
            "connected ttc 5 | assoc success 1x 1ms auth success 1x 2ms dns success 1x 2ms",
        ),
        (
            "no room",
            "0 assoc ok; 3 auth ok; 4 dns ok",
            Some(Closing { cause: Cause::Memory, at: at(4) }),
            "overflow ttc 4 | assoc success 1x 0ms auth success 1x 3ms dns success 1x 1ms",
        ),
        (
            "it goes on",
            "0 assoc ok; 3 auth go",
            None,
            "in_progress auth | assoc success 1x 0ms auth open 1x",
        ),
    ]);
}

#[test]
fn going_back_after_the_end_may_begin_the_chain_anew() {
    let symbols = Symbols::default();
    let rules = rules(SequenceSpec { regress: Regress::Restart, ..wifi() }, &symbols);
    let first = "0 assoc ok; 3 auth ok; 4 dns ok; 50 assoc ask; 51 assoc ok; 53 auth bad";
    let again = format!("{first}; 60 auth ok; 61 dns ok");
    for (records, expected) in [
        (first, "failed auth restarts 1 | assoc success 2x 1ms auth failure 2x 2ms"),
        (
            &again,
            "connected ttc 11 restarts 1 | assoc success 2x 1ms auth success 3x 9ms \
             dns success 2x 1ms",
        ),
    ] {
        let entries = entries(records);
        let verdict = judge(entries.iter(), &rules, idle(500)).unwrap();
        assert_eq!(shown(&verdict, &rules, &symbols), expected);
    }
}

#[test]
fn what_steps_may_begin_decides_what_they_say_and_whether_the_chain_begins_anew() {
    let symbols = Symbols::default();
    for (auth, records, expected) in [
        (
            Begins::Anew,
            "0 auth ok; 5 assoc ok",
            "abandoned assoc restarts 1 | assoc success 1x 0ms",
        ),
        (Begins::First, "0 auth ok; 5 assoc ok; 9 dns ok", {
            "stuck auth restarts 1 | assoc success 1x 0ms dns success 1x 4ms"
        }),
        (Begins::Never, "0 auth ok; 5 assoc ok", "abandoned assoc | assoc success 1x 0ms"),
        (Begins::Never, "0 auth ok; 5 auth bad", "incomplete_start |"),
        (Begins::Anew, "0 assoc ok; 5 dns ok; 7 auth ok", {
            "stuck assoc restarts 1 | auth success 1x 0ms"
        }),
        (Begins::First, "0 assoc ok; 5 dns ok; 7 auth ok", {
            "connected ttc 7 | assoc success 1x 0ms auth success 1x 2ms dns success 1x 5ms"
        }),
        (Begins::Never, "0 auth bad; 1 assoc ok; 5 dhcp ok; 7 auth bad; 8 auth ok; 9 dns ok", {
            "connected ttc 8 | assoc success 1x 0ms auth success 2x 3ms dhcp success 1x 4ms \
             dns success 1x 1ms"
        }),
    ] {
        let mut spec = wifi();
        spec.steps[1].begins = auth;
        let rules = rules(spec, &symbols);
        let verdict = judge(entries(records).iter(), &rules, idle(200)).unwrap();
        assert_eq!(shown(&verdict, &rules, &symbols), expected, "{auth:?}: {records}");
    }
}

#[test]
fn sessions_end_at_the_first_of_what_ends_them() {
    let symbols = Symbols::default();
    let success = SequenceSpec { close_on_success: true, ..wifi() };
    let many =
        "0 assoc x; 1 assoc y; 2 assoc z; 3 auth x; 4 auth y; 5 auth z; 6 dns x; 7 dns y; 8 dns z";
    let long = "0 dns a; 90 dns b; 180 dns c; 270 dns d; 360 dns e";
    for (what, spec, records, now, expected) in [
        (
            "nothing came for too long",
            wifi(),
            "0 assoc ok; 50 auth ok",
            150,
            Some((2, Cause::Idle, 150)),
        ),
        ("one instant earlier it goes on", wifi(), "0 assoc ok; 50 auth ok", 149, None),
        (
            "a record at that instant is of the next",
            wifi(),
            "0 assoc ok; 100 auth ok",
            101,
            Some((1, Cause::Idle, 100)),
        ),
        ("one before is not", wifi(), "0 assoc ok; 99 auth ok", 101, None),
        (
            "a record that ends it",
            wifi(),
            "0 assoc ok; 5 bye; 6 auth ok",
            7,
            Some((2, Cause::Terminal, 5)),
        ),
        (
            "records of that instant come before",
            wifi(),
            "0 assoc ok; 5 bye; 5 auth ok",
            7,
            Some((3, Cause::Terminal, 5)),
        ),
        ("too many records", wifi(), many, 9, Some((8, Cause::MaxEvents, 7))),
        (
            "too long",
            SequenceSpec { max_session_duration: span(200), ..wifi() },
            long,
            361,
            Some((3, Cause::MaxAge, 200)),
        ),
        (
            "success, where that ends it",
            success.clone(),
            "0 assoc ok; 1 auth ok; 2 dns ok; 3 dns ok",
            4,
            Some((3, Cause::Terminal, 2)),
        ),
        ("success of a step is not", success, "0 assoc ok; 1 auth ok", 4, None),
        ("nothing", wifi(), "", 1000, None),
    ] {
        let rules = rules(spec, &symbols);
        let entries = entries(records);
        let found = cut(&entries, &rules, at(now));
        let found = found.map(|cut| (cut.records, cut.closing.cause, cut.closing.at.as_millis()));
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_session_is_asked_again_when_it_can_be_over() {
    let symbols = Symbols::default();
    for (records, now, expected) in [
        ("0 assoc ok; 50 auth ok", 20, Some(150)),
        // Behind a gap there is another session.
        ("0 assoc ok; 500 auth ok", 20, Some(100)),
        ("0 assoc ok; 50 bye; 60 assoc ok", 20, Some(51)),
        ("0 assoc ok; 500 bye", 20, Some(100)),
        ("", 20, None),
    ] {
        let rules = rules(wifi(), &symbols);
        let entries = entries(records);
        let due = next_end(&entries, &rules, at(now)).map(EventTime::as_millis);
        assert_eq!(due, expected, "{records}");
    }
}
