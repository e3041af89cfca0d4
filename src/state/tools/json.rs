//! What a state holds of a key as JSON. Times are milliseconds since the Unix epoch; names of fields
//! do not change.

use nilometer_model::image::{
    EntryView, ListedView, Named, RecordView, SessionView, StoredEntry, TableKind, WindowView,
};
use nilometer_model::value::Value;
use serde_json::{Map, Value as Json, json};

/// An entry of a stage.
pub(super) fn entry(stored: &StoredEntry<'_>, view: &EntryView) -> Json {
    of_table((stored.stage, stored.kind), stored.is_cold, view)
}

/// An entry of a table of a stage.
pub(crate) fn of_table(
    (stage, kind): (&str, TableKind),
    is_in_page: bool,
    view: &EntryView,
) -> Json {
    json!({
        "stage": stage,
        "table": kind.name(),
        "is_in_page": is_in_page,
        "key": named(&view.key),
        "windows": view.windows.iter().map(window).collect::<Vec<_>>(),
        "sessions": view.sessions.iter().map(session).collect::<Vec<_>>(),
    })
}

/// Values by their names.
fn named(values: &Named) -> Json {
    let members = values.iter().map(|(name, value)| (name.to_string(), plain(value)));
    Json::Object(members.collect::<Map<_, _>>())
}

fn plain(value: &Value) -> Json {
    let mut text = String::new();
    value.write_json(&mut text);
    // An object that no JSON is comes from a record, and is shown as a text.
    serde_json::from_str(&text).unwrap_or(Json::String(text))
}

fn window(window: &WindowView) -> Json {
    let (start, end) = (window.window.start().as_millis(), window.window.end().as_millis());
    json!({
        "start_ms": start,
        "end_ms": (!window.is_slice).then_some(end),
        "panes": window.index,
        "last_pane": window.sent.map(|timing| timing.name()),
        "told": window.total.as_ref().map(named),
        "news": window.news.as_ref().map(named),
        "trigger": window.trigger,
        "listed": window.listed.iter().map(listed).collect::<Vec<_>>(),
    })
}

fn listed(listed: &ListedView) -> Json {
    json!({ "place": listed.place, "key": named(&listed.key), "total": named(&listed.total) })
}

fn session(session: &SessionView) -> Json {
    json!({
        "session_id": session.told.map(|(id, _)| format!("{id:016x}")),
        "revision": session.told.map(|(_, revision)| revision),
        "close_cause": session.closed.map(|(cause, _)| cause),
        "closed_ms": session.closed.map(|(_, at)| at.as_millis()),
        "timing": session.timing.map(|timing| timing.name()),
        "records": session.records.iter().map(record).collect::<Vec<_>>(),
    })
}

fn record(record: &RecordView) -> Json {
    let (partition, offset) = record.place;
    json!({
        "time_ms": record.time.as_millis(),
        "step": record.step,
        "status": plain(&record.status),
        "reason": plain(&record.reason),
        "carried": record.carried.iter().map(plain).collect::<Vec<_>>(),
        "partition": partition,
        "offset": offset,
        "is_late": record.is_late,
        "is_told": record.is_told,
        "copies": record.copies,
    })
}
