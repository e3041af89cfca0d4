//! `nilometer state get`: what a state holds of some keys of a stage.

use super::opened::Opened;
use super::{Format, GetArgs, ToolError, json};
use jiff::Timestamp;
use nilometer_model::image::{EntryView, Named, SessionView, WindowView};
use nilometer_model::time::EventTime;
use nilometer_model::trigger::{Remembered, TriggerState};
use nilometer_model::value::Value;
use std::collections::BTreeMap;
use std::io::Write as _;

/// Prints what is held of the keys that are asked for.
pub(super) fn execute(args: &GetArgs) -> Result<(), ToolError> {
    let opened = Opened::new(&args.dir)?;
    let wanted = wanted(&opened, args)?;
    // By key, in order: windows of one may be kept one by one.
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left_out = 0_u64;
    opened.each(|entry| {
        if *entry.stage != *args.stage {
            return Ok(());
        }
        let view = opened.layouts.view(&entry).map_err(|source| opened.image(source))?;
        let is_wanted = |(name, value): &(&str, &str)| {
            view.key.iter().any(|(known, is)| **known == **name && plain(is) == *value)
        };
        if !wanted.iter().all(is_wanted) {
            return Ok(());
        }
        let key = listed(&view.key, " ");
        if found.len() >= args.limit && !found.contains_key(&key) {
            left_out += 1;
            return Ok(());
        }
        let text = match args.format {
            Format::Text => text(&view),
            Format::Json => json::entry(&entry, &view).to_string() + "\n",
        };
        found.entry(key).or_default().push(text);
        Ok(())
    })?;
    if found.is_empty() && left_out == 0 {
        return Err(ToolError::NoKey { stage: args.stage.as_str().into() });
    }
    let mut out = std::io::stdout().lock();
    for (key, mut texts) in found {
        texts.sort_unstable();
        if args.format == Format::Text {
            writeln!(out, "{}", if key.is_empty() { "(no key)" } else { &key })?;
        }
        for text in texts {
            out.write_all(text.as_bytes())?;
        }
    }
    if left_out > 0 && args.format == Format::Text {
        writeln!(out, "and {left_out} more; ask for less, or for more with --limit")?;
    }
    Ok(())
}

/// The fields of the key that are asked for, and their values.
fn wanted<'a>(opened: &Opened, args: &'a GetArgs) -> Result<Vec<(&'a str, &'a str)>, ToolError> {
    let Some(fields) = opened.layouts.key(&args.stage) else {
        let stages = opened.manifest.stages.iter();
        return Err(ToolError::NoStage {
            stage: args.stage.as_str().into(),
            known: stages.map(|stage| stage.print.name.clone()).collect(),
        });
    };
    let fields: Vec<Box<str>> = fields.map(Into::into).collect();
    let part = |given: &'a String| {
        let part = given.split_once('=');
        let part = part.filter(|(name, _)| fields.iter().any(|known| **known == **name));
        part.ok_or_else(|| ToolError::KeyField {
            given: given.as_str().into(),
            stage: args.stage.as_str().into(),
            fields: fields.clone(),
        })
    };
    args.key.iter().map(part).collect()
}

/// A value as it is asked for: texts without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Object(_) => {
            let mut text = String::new();
            value.write_json(&mut text);
            text
        }
        Value::Ip(address) => address.to_string(),
    }
}

/// Values with their names.
fn listed(values: &Named, between: &str) -> String {
    let one = |(name, value): &(Box<str>, Value)| format!("{name}={}", plain(value));
    values.iter().map(one).collect::<Vec<_>>().join(between)
}

fn time(time: EventTime) -> String {
    let instant = Timestamp::from_millisecond(time.as_millis());
    instant.map_or_else(|_| format!("{time} ms"), |instant| instant.to_string())
}

fn text(view: &EntryView) -> String {
    let windows = view.windows.iter().map(window);
    windows.chain(view.sessions.iter().map(session)).collect()
}

fn window(window: &WindowView) -> String {
    let (start, end) = (window.window.start(), window.window.end());
    let mut text = if window.is_slice {
        format!("  slice from {}\n", time(start))
    } else {
        format!("  window {} to {}\n", time(start), time(end))
    };
    let mut line = |name: &str, said: &str| text.push_str(&format!("    {name:<9}{said}\n"));
    if let Some(sent) = window.sent {
        line("panes", &format!("{}, the last one {}", window.index, sent.name()));
    }
    if let Some(total) = &window.total {
        line("told", &listed(total, ", "));
    }
    if let Some(news) = &window.news {
        line("news", &listed(news, ", "));
    }
    if let Some(trigger) = &window.trigger {
        let said = remembered(trigger);
        if !said.is_empty() {
            line("trigger", &said.join(", "));
        }
    }
    let mut in_order: Vec<_> = window.listed.iter().collect();
    in_order.sort_by_key(|listed| listed.place.unwrap_or(u32::MAX));
    for listed_view in in_order {
        let place = listed_view.place.map_or_else(|| "-".to_owned(), |place| format!("#{place}"));
        let (key, total) = (listed(&listed_view.key, " "), listed(&listed_view.total, ", "));
        line(&place, &format!("{key}: {total}"));
    }
    text
}

/// What a trigger remembers, but for what it has not begun with.
fn remembered(trigger: &TriggerState) -> Vec<String> {
    trigger
        .remembered()
        .into_iter()
        .map(|fact| match fact {
            Remembered::Count(count) => format!("has counted {count}"),
            Remembered::Deadline(deadline) => {
                format!("due by the clock at {}", time(deadline.as_event_time()))
            }
            Remembered::Finished => "has finished".to_owned(),
        })
        .collect()
}

fn session(session: &SessionView) -> String {
    let mut text = match session.closed {
        Some((cause, at)) => format!("  session, closed at {} ({cause})", time(at)),
        None => "  open".to_owned(),
    };
    if let Some((id, revision)) = session.told {
        text.push_str(&format!(", told as {id:016x} revision {revision}"));
    }
    text.push('\n');
    for record in &session.records {
        let values = [&record.status, &record.reason].into_iter().chain(&record.carried);
        let known = values.filter(|value| **value != Value::Null).map(plain);
        let said = known.collect::<Vec<_>>().join(" ");
        let late = if record.is_late { ", late" } else { "" };
        text.push_str(&format!("    {}  {} {said}{late}\n", time(record.time), record.step));
    }
    text
}
