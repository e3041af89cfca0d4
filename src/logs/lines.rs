//! Makes lines of events: text for people, or JSON for machines, and not the same line again and again.

use super::repeats::{Line, Repeats, Untold};
use serde_json::{Map, Value as Json};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Targets of this program begin so: sentences that need no head.
const OWN: &str = "nilometer";
/// Of the database nothing is told that it does in order: it would show what is stored.
const DATABASE: &str = "sled";

/// What lines look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Form {
    /// Sentences for people.
    #[default]
    Text,
    /// An object in each line.
    Json,
}

/// Writes lines, one at a time.
#[derive(Clone)]
pub(super) struct Lines<W> {
    pub(super) form: Form,
    begun: Instant,
    repeats: Arc<Mutex<Repeats>>,
    write: W,
}

impl<W: Fn(&str)> Lines<W> {
    pub(super) fn new(form: Form, write: W) -> Self {
        Self { form, begun: Instant::now(), repeats: Arc::default(), write }
    }

    fn tell(&self, level: Level, target: &str, said: &Said) {
        let line = match self.form {
            Form::Text if target.starts_with(OWN) => said.text(""),
            Form::Text => said.text(&format!("{level} {target}: ")),
            Form::Json => {
                let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
                let head =
                    [("time", time), ("level", level.to_string()), ("target", target.into())];
                said.json(head)
            }
        };
        (self.write)(&line);
    }

    /// Tells a line that is told whatever the level, and however often.
    pub(super) fn answer(&self, level: Level, line: &str) {
        self.sum_up();
        self.tell(level, OWN, &Said { message: line.to_owned(), ..Said::default() });
    }

    /// Says how often lines came, some time ago, that were not told.
    pub(super) fn sum_up(&self) {
        self.tell_untold(self.repeats().over(self.begun.elapsed()));
    }

    /// Says it of all lines.
    pub(super) fn finish(&self) {
        self.tell_untold(self.repeats().finish());
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_untold(&self, untold: Vec<Untold>) {
        for Untold { count, line: Line { level, target, text } } in untold {
            // How much is told may have changed since.
            if level <= LevelFilter::current() {
                let mut said = Said { message: text, ..Said::default() };
                said.fields.insert("suppressed".into(), count.into());
                self.tell(level, &target, &said);
            }
        }
    }
}

impl<S: Subscriber, W: Fn(&str) + Send + Sync + 'static> Layer<S> for Lines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let metadata = event.metadata();
        let place = std::ptr::from_ref(metadata).addr();
        let level = *metadata.level();
        let target = said.target.as_deref().unwrap_or(metadata.target());
        self.sum_up();
        if level > Level::INFO && target.starts_with(DATABASE) {
            return;
        }
        let line = Line { level, target, text: said.message.as_str() };
        if self.repeats().is_told(place, line, self.begun.elapsed()) {
            self.tell(level, target, &said);
        }
    }
}

/// What an event says.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// What part of the program it comes from, if it came by way of the `log` crate.
    target: Option<String>,
    fields: Map<String, Json>,
}

impl Said {
    fn text(&self, head: &str) -> String {
        let mut line = format!("{head}{}", self.message);
        for (name, value) in &self.fields {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            line.push_str(&format!(" {name}={value}"));
        }
        line
    }

    fn json(&self, head: [(&str, String); 3]) -> String {
        let mut line: Map<_, _> =
            head.into_iter().map(|(name, value)| (name.to_owned(), Json::from(value))).collect();
        line.insert("message".into(), self.message.as_str().into());
        line.extend(self.fields.clone());
        Json::Object(line).to_string()
    }

    fn keep(&mut self, field: &Field, value: impl Into<Json>) {
        let (name, value) = (field.name(), value.into());
        match name.strip_prefix("log.") {
            Some("target") => self.target = value.as_str().map(str::to_owned),
            // Where its source lay when it was built is of no use to anybody.
            Some(_) => {}
            None => drop(self.fields.insert(name.into(), value)),
        }
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.keep(field, text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.keep(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt;

    /// The lines that `say` gives in `form`.
    fn lines(form: Form, say: impl FnOnce()) -> Vec<String> {
        let got = Arc::<Mutex<Vec<String>>>::default();
        let lines = got.clone();
        let lines = Lines::new(form, move |line| lines.lock().unwrap().push(line.to_owned()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), say);
        std::mem::take(&mut *got.lock().unwrap())
    }

    #[test]
    fn lines_are_for_people_or_for_machines() {
        let say = || tracing::warn!(source = "in", trace_id = "ab", count = 3, "two\nlines \"x\"");
        let text = lines(Form::Text, say);
        assert_eq!(text, ["two\nlines \"x\" count=3 source=in trace_id=ab"]);
        let of_another = || tracing::info!(target: "hyper", "plain");
        assert_eq!(lines(Form::Text, of_another), ["INFO hyper: plain"]);
        let json = lines(Form::Json, say);
        assert!(!json[0].contains('\n'));
        let json: Json = serde_json::from_str(&json[0]).unwrap();
        assert_eq!((&json["level"], &json["source"]), (&"WARN".into(), &"in".into()));
        assert_eq!((&json["trace_id"], &json["count"]), (&"ab".into(), &3.into()));
        assert_eq!(json["message"], "two\nlines \"x\"");
    }

    #[test]
    fn lines_that_came_by_way_of_another_crate_have_its_name_and_no_place_of_a_build() {
        let said = lines(Form::Text, || {
            tracing::warn!(target: "log", { "log.target" = "sled::tree", "log.line" = 7 }, "odd");
            tracing::debug!(target: "log", { "log.target" = "sled::tree" }, "[1, 2, 3]");
        });
        assert_eq!(said, ["WARN sled::tree: odd"]);
    }

    #[test]
    fn what_was_suppressed_is_told_at_its_own_level() {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let got = told.clone();
        let lines = Lines::new(Form::Json, move |line| got.lock().unwrap().push(line.to_owned()));
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        tracing::subscriber::with_default(subscriber, || {
            (0..21).for_each(|_| tracing::error!(target: "nilometer::x", "lost"));
            lines.finish();
        });
        let last: Json = serde_json::from_str(told.lock().unwrap().last().unwrap()).unwrap();
        assert_eq!((&last["level"], &last["target"]), (&"ERROR".into(), &"nilometer::x".into()));
        assert_eq!((&last["message"], &last["suppressed"]), (&"lost".into(), &1.into()));
    }

    #[test]
    fn what_repeats_is_not_told_without_end() {
        let told = lines(Form::Text, || {
            (0..1_000).for_each(|number| tracing::info!("lost {number}"));
            tracing::info!("done");
        });
        assert_eq!(told.len(), 21, "{told:?}");
        assert_eq!(told[20], "done");
    }
}
