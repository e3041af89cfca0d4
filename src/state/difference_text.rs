//! The difference between a state and a pipeline for people: a table, and the sentences of a refusal.

use super::difference::{AtStart, Because, Difference, Entry, What};
use crate::text_table::text_table;

/// Every entry in a table, and below it what to do if a run would not start.
pub(crate) fn table(difference: &Difference) -> String {
    let rows = difference.entries.iter().map(|entry| {
        let because = entry.because.iter().map(because).collect::<Vec<_>>().join("; ");
        [entry.what.name().to_owned(), entry.name.to_string(), fate(entry).to_owned(), because]
    });
    let mut text = text_table(&["", "name", "at the next start", "because"], &[], rows);
    text.push_str("\n\n");
    text.push_str(&if difference.starts {
        "a run would start\n".to_owned()
    } else {
        format!("a run would not start: {}\n", way_out(difference))
    });
    text
}

/// What stops the start, a line each, and what to do.
pub(crate) fn refusal(difference: &Difference) -> String {
    let mut text = String::new();
    for entry in difference.stops() {
        for reason in &entry.because {
            let (what, name) = (entry.what.name(), &entry.name);
            text.push_str(&format!("  {what} `{name}`: {}\n", because(reason)));
        }
    }
    text + &way_out(difference)
}

/// What begins and what goes, a sentence each.
pub(crate) fn notices(difference: &Difference) -> Vec<String> {
    let notice = |entry: &Entry| {
        let (what, name) = (entry.what.name(), &entry.name);
        Some(match (entry.at_start, entry.what) {
            (AtStart::GoesOn | AtStart::StopsTheStart, _) => return None,
            (AtStart::IsForgotten, _) => format!("{what} `{name}`: is forgotten"),
            (AtStart::Begins, What::Stage) => format!(
                "{what} `{name}`: is new and begins here; windows that began before are not whole"
            ),
            (AtStart::BeginsAnew, What::Stage) => format!(
                "{what} `{name}`: begins anew here; windows that began before are not whole"
            ),
            (AtStart::Begins | AtStart::BeginsAnew, What::Source) => format!(
                "{what} `{name}`: is new and is read from its beginning; what is older than the \
                 watermark is late"
            ),
            (AtStart::Begins | AtStart::BeginsAnew, What::Sink) => {
                format!("{what} `{name}`: begins here; what came before is not written to it")
            }
        })
    };
    let mut notices: Vec<_> = difference.entries.iter().filter_map(notice).collect();
    if difference.counts_begin() {
        notices.push("the counts of the summary begin here, too".to_owned());
    }
    notices
}

/// What to do where the run does not start.
fn way_out(difference: &Difference) -> String {
    let stops: Vec<_> = difference.stops().collect();
    let mut ways = Vec::new();
    let is_setting = |because: &Because| match because {
        Because::Setting { .. } | Because::IsGone => true,
        Because::InputBegins { .. }
        | Because::ReaderBegins { .. }
        | Because::IsNew
        | Because::HasResults
        | Because::WritesOver { .. } => false,
    };
    let mut reasons = stops.iter().flat_map(|entry| &entry.because);
    if reasons.any(is_setting) {
        ways.push("put the settings back".to_owned());
    }
    let named = |what: What| {
        let entries = stops.iter().filter(move |entry| entry.what == what && entry.drop.is_none());
        entries.map(|entry| format!("`{}`", entry.name)).collect::<Vec<_>>().join(", ")
    };
    let sources = named(What::Source);
    if !sources.is_empty() {
        ways.push(format!(
            "give what {sources} reads now a source of another name, which reads it from its \
             beginning"
        ));
    }
    let sinks = named(What::Sink);
    if !sinks.is_empty() {
        ways.push(format!("give {sinks} another path"));
    }
    let unwritten = |entry: &&Entry| entry.because.contains(&Because::HasResults);
    if stops.iter().copied().any(|entry| unwritten(&entry)) {
        ways.push("start once with the sinks as they were, which writes what is missing".into());
    }
    let drops: Vec<_> = stops.iter().filter_map(|entry| entry.drop.as_ref()).collect();
    if !drops.is_empty() {
        let arguments: Vec<_> = drops.iter().map(|name| format!("--drop-state {name}")).collect();
        ways.push(format!("go on without what the state holds of them: {}", arguments.join(" ")));
    }
    ways.push("set another `state.dir` to begin everything anew".to_owned());
    ways.join("; or ")
}

const fn fate(entry: &Entry) -> &'static str {
    match entry.at_start {
        AtStart::GoesOn => "goes on",
        AtStart::Begins => "begins",
        AtStart::BeginsAnew => "begins anew",
        AtStart::IsForgotten => "is forgotten",
        AtStart::StopsTheStart => "stops the start",
    }
}

fn because(because: &Because) -> String {
    let text = |value: &Option<Box<str>>| value.as_deref().unwrap_or("nothing").to_owned();
    match because {
        Because::Setting { name, was, is } => {
            format!("{name} was {}, and is {}", text(was), text(is))
        }
        Because::InputBegins { stage } => format!("it reads `{stage}`, which begins anew"),
        Because::ReaderBegins { stage } => {
            format!("`{stage}` begins anew and would be told to take back what it has not seen")
        }
        Because::IsNew => "it is new".to_owned(),
        Because::IsGone => "it is not in the pipeline any more".to_owned(),
        Because::HasResults => "its last results may not have been written".to_owned(),
        Because::WritesOver { sink, path } => {
            format!("`{path}` holds what sink `{sink}` has written")
        }
    }
}
