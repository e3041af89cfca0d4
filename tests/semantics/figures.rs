//! The pictures of `docs/triggers.md`, drawn from the transcripts of the figures: event time to the
//! right, processing time upwards, as in the paper. `BLESS=1` draws them anew; else they have to be
//! those that are there. The plots in text on the same page are held against the transcripts, too.

use crate::drawing::{Curve, paper};
use crate::golden::golden;
use crate::shipped::{Told, ToldPane, read};
use nilometer_model::pane::Timing;
use nilometer_model::time::{EventTime, Window};
use std::fmt::Write as _;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/");

/// Minutes on the axes: event time from 12:00, the clock from 12:05.
const EVENT_MINUTES: f64 = 9.0;
const CLOCK_MINUTES: f64 = 4.6;
/// Pixels: a minute of event time, a minute of the clock, and the margins.
const EVENT_SCALE: f64 = 70.0;
const CLOCK_SCALE: f64 = 80.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 44.0;
const WIDTH: f64 = LEFT + EVENT_MINUTES * EVENT_SCALE + 30.0;
const HEIGHT: f64 = TOP + CLOCK_MINUTES * CLOCK_SCALE + 46.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#333}\
.axis{fill:#777}\
.grid{stroke:#e4e4e4}\
.early{fill:#3b76b0}\
.on_time{fill:#2f8f6b}\
.late{fill:#c9622f}\
.box{fill-opacity:.13;stroke-opacity:.75}\
.box.early{stroke:#3b76b0}\
.box.on_time{stroke:#2f8f6b}\
.box.late{stroke:#c9622f}\
.value{font-weight:700;font-size:15px;paint-order:stroke;stroke:#fff;stroke-width:3px}\
.back{fill:#b3261e}\
.curve{fill:none;stroke:#8a5fbf;stroke-width:2}\
.ideal{fill:none;stroke:#aaa;stroke-dasharray:3 4}\
.note{fill:#8a5fbf}\
.record{fill:#fff;stroke:#333;stroke-width:1.3}";

/// Where an event time, in minutes, lies.
fn x(minutes: f64) -> f64 {
    LEFT + minutes.clamp(0.0, EVENT_MINUTES) * EVENT_SCALE
}

/// Where an instant of the clock, in minutes, lies.
fn y(minutes: f64) -> f64 {
    TOP + (CLOCK_MINUTES - minutes.clamp(0.0, CLOCK_MINUTES)) * CLOCK_SCALE
}

fn minutes(millis: i64) -> f64 {
    millis as f64 / 60_000.0
}

/// The bounds of a window in minutes; a bound that there is none of is that of the picture.
fn bounds(window: Window) -> (f64, f64) {
    let start = if window.start() == EventTime::MIN { 0 } else { window.start().as_millis() };
    let end = if window.end() == EventTime::MAX {
        EVENT_MINUTES
    } else {
        minutes(window.end().as_millis())
    };
    (minutes(start), end)
}

/// One picture, as SVG.
struct Picture(String);

impl Picture {
    fn new() -> Self {
        let mut picture = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\">\n<style>{STYLE}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\" fill=\"#fff\"/>\n"
        ));
        for minute in 0..=EVENT_MINUTES as i64 {
            let at = x(minute as f64);
            picture.line(("grid", at, at), (y(0.0), y(CLOCK_MINUTES)));
            picture.text(("axis", "middle"), (at, y(0.0) + 18.0), &format!("12:{minute:02}"));
        }
        for minute in 0..=CLOCK_MINUTES as i64 {
            let at = y(minute as f64);
            picture.line(("grid", x(0.0), x(EVENT_MINUTES)), (at, at));
            let label = format!("12:{:02}", minute + 5);
            picture.text(("axis", "end"), (LEFT - 8.0, at + 4.0), &label);
        }
        let middle = x(EVENT_MINUTES / 2.0);
        picture.text(("axis", "middle"), (middle, y(0.0) + 36.0), "event time →");
        picture.text(("axis", "start"), (12.0, 24.0), "↑ processing time");
        picture
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        self.0.write_fmt(element).unwrap();
        self.0.push('\n');
    }

    fn line(&mut self, (class, x1, x2): (&str, f64, f64), (y1, y2): (f64, f64)) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    fn text(&mut self, (class, anchor): (&str, &str), (x, y): (f64, f64), text: &str) {
        self.put(format_args!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        ));
    }

    fn curve(&mut self, curve: &Curve) {
        let mut path = String::new();
        for [from, one, two, to] in curve.pieces() {
            let point = |point: &(f64, f64)| format!("{:.1} {:.1}", x(point.0), y(point.1));
            if path.is_empty() {
                write!(path, "M{}", point(from)).unwrap();
            }
            write!(path, "C{} {} {}", point(one), point(two), point(to)).unwrap();
        }
        self.put(format_args!("<path class=\"curve\" d=\"{path}\"/>"));
        let [.., end] = curve.pieces().last().unwrap();
        self.text(("note", "start"), (x(end.0) + 5.0, y(end.1) - 5.0), "watermark");
    }

    fn ideal(&mut self) {
        // Event time is processing time: behind 12:05 as far as the picture goes.
        let (from, to) = ((x(5.0), y(0.0)), (x(EVENT_MINUTES), y(EVENT_MINUTES - 5.0)));
        self.put(format_args!(
            "<path class=\"ideal\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// The box of a pane, from `since` up to its instant.
    fn pane(&mut self, pane: &ToldPane, since: f64) {
        let ((start, end), at) = (bounds(pane.window), minutes(pane.at));
        let (left, right, top) = (x(start), x(end), y(at));
        self.put(format_args!(
            "<rect class=\"box {}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\"/>",
            pane.timing.name(),
            right - left,
            y(since) - top
        ));
    }

    /// What a pane says, in a corner of its box where no record is: what it takes back first.
    fn value(&mut self, pane: &ToldPane, back: &[i64], told: &Told) {
        let ((start, end), top) = (bounds(pane.window), y(minutes(pane.at)));
        let is_near = |(at, time, _): &(i64, i64, i64)| {
            let (across, down) = (x(end) - x(minutes(*time)), y(minutes(*at)) - top);
            (-10.0..45.0).contains(&across) && (-10.0..28.0).contains(&down)
        };
        let (anchor, at) = if told.records.iter().any(is_near) {
            ("start", x(start) + 5.0)
        } else {
            ("end", x(end) - 5.0)
        };
        let back = back.iter().map(|value| format!("<tspan class=\"back\">−{}</tspan> ", -value));
        let label = format!("{}{}", back.collect::<String>(), pane.value);
        let class = format!("value {}", pane.timing.name());
        self.text((&class, anchor), (at, top + 16.0), &label);
    }

    fn record(&mut self, at: i64, time: i64, value: i64) {
        let (x, y) = (x(minutes(time)), y(minutes(at)));
        self.put(format_args!("<circle class=\"record\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"10\"/>"));
        self.text(("record-value", "middle"), (x, y + 4.5), &value.to_string());
    }

    /// What the colours of the panes mean.
    fn legend(&mut self, told: &Told) {
        let mut at = x(EVENT_MINUTES);
        for timing in [Timing::Late, Timing::OnTime, Timing::Early] {
            let is_shown = told.panes.iter().any(|pane| pane.timing == timing);
            if !is_shown {
                continue;
            }
            let name = timing.name();
            self.text((name, "end"), (at, 24.0), &name.replace('_', " "));
            at -= 9.0 * name.len() as f64 + 14.0;
            self.put(format_args!(
                "<rect class=\"box {name}\" x=\"{:.1}\" y=\"13\" width=\"14\" height=\"14\"/>",
                at + 8.0
            ));
            at -= 8.0;
        }
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Since when a pane's box reaches up: the pane before of what it covers, else its first record.
fn since(told: &Told, number: usize) -> f64 {
    let pane = &told.panes[number];
    let overlaps =
        |other: &Window| pane.window.start() < other.end() && other.start() < pane.window.end();
    let before = told.panes[..number].iter().filter(|other| other.at < pane.at);
    let before = before.filter(|other| overlaps(&other.window)).map(|other| other.at).max();
    let holds = |time: i64| pane.window.contains(EventTime::from_millis(time));
    let first = told.records.iter().filter(|(_, time, _)| holds(*time)).map(|(at, ..)| *at).min();
    minutes(before.or(first).unwrap_or(0))
}

fn draw(told: &Told, curve: Option<&Curve>) -> String {
    let mut picture = Picture::new();
    picture.legend(told);
    for (number, pane) in told.panes.iter().enumerate().filter(|(_, pane)| pane.value >= 0) {
        picture.pane(pane, since(told, number));
    }
    if let Some(curve) = curve {
        picture.ideal();
        picture.curve(curve);
    }
    for (at, time, value) in &told.records {
        picture.record(*at, *time, *value);
    }
    let mut back = Vec::new();
    for pane in &told.panes {
        if pane.value < 0 {
            back.push(pane.value);
        } else {
            picture.value(pane, &std::mem::take(&mut back), told);
        }
    }
    picture.finish()
}

#[test]
fn the_pictures_are_those_of_the_transcripts() {
    let actual = Curve::actual(&paper());
    let batch = Curve::lines(&[(0.0, 4.25), (8.0, 4.375)]);
    let mut figures = Vec::new();
    for number in 6..=14 {
        let name = format!("figure_{number:02}");
        let curve = match number {
            6 | 10 => Some(&batch),
            7..=9 => None,
            _ => Some(&actual),
        };
        let drawn = draw(&read(&name), curve);
        figures.push((format!("docs/figures/{name}.svg"), drawn));
    }
    let figures: Vec<_> = figures.iter().map(|(path, drawn)| (&**path, &**drawn)).collect();
    golden(&figures);
}

/// The columns of a plot in text: where 12:05 stands, and how far a minute goes.
const PLOT_START: f64 = 18.0;
const PLOT_MINUTE: f64 = 13.0;

/// The words of a line behind its label, each with the instant of its column.
fn words(line: &str) -> Vec<(f64, &str)> {
    let mut words = Vec::new();
    let mut rest = PLOT_START as usize;
    while let Some(word) = line.get(rest..).and_then(|text| text.split_whitespace().next()) {
        let at = rest + line[rest..].find(word).unwrap();
        words.push(((at as f64 - PLOT_START) / PLOT_MINUTE, word));
        rest = at + word.len();
    }
    words
}

/// The window that a line of a plot is labelled with; `None` for what is no window.
fn window(line: &str) -> Option<Window> {
    if line.starts_with("all of time") {
        return Some(Window::GLOBAL);
    }
    let (start, end) = line.strip_prefix('[')?.split_once(')')?.0.split_once(", ")?;
    let bound = |text: &str| {
        let (first, second) = text.split_once(':').unwrap();
        let (first, second): (i64, i64) = (first.parse().unwrap(), second.parse().unwrap());
        // Hours and minutes, or minutes and seconds after 12:00.
        let seconds = if first == 12 { second * 60 } else { first * 60 + second };
        EventTime::from_millis(seconds * 1_000)
    };
    Some(Window::new(bound(start), bound(end)))
}

#[test]
fn the_plots_in_text_are_those_of_the_transcripts() {
    let page = std::fs::read_to_string(format!("{DOCS}triggers.md")).unwrap();
    for number in 6..=14 {
        let told = read(&format!("figure_{number:02}"));
        let section =
            page.split("\n### Figure ").find(|part| part.starts_with(&format!("{number}:")));
        let plot = section.unwrap().split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        let mut panes = Vec::new();
        for line in plot.lines() {
            if let Some(label) = window(line) {
                panes.extend(words(line).into_iter().map(|(at, word)| (label, at, word)));
            }
        }
        assert_eq!(panes.len(), told.panes.len(), "figure {number}");
        for pane in &told.panes {
            let seconds = |time: EventTime| time.as_millis().div_euclid(1_000);
            let is_it = |(window, at, word): &(Window, f64, &str)| {
                let bounds = |window: &Window| (seconds(window.start()), seconds(window.end()));
                // Half a column to either side, where it had room.
                bounds(window) == bounds(&pane.window)
                    && (at - minutes(pane.at)).abs() <= 1.0 / PLOT_MINUTE
                    && word.parse() == Ok(pane.value)
            };
            let found = panes.iter().position(is_it);
            assert!(found.is_some(), "figure {number} has no {pane:?}: {panes:?}");
            panes.remove(found.unwrap());
        }
        let records = plot.lines().find(|line| line.starts_with("records")).unwrap();
        let records: Vec<i64> =
            words(records).iter().map(|(_, word)| word.parse().unwrap()).collect();
        let came: Vec<_> = told.records.iter().map(|(_, _, value)| *value).collect();
        assert_eq!(records, came, "figure {number}");
    }
}
