//! What is wrong with a configuration: every mistake at once, each with its place and a way out.
//!
//! Validation never stops at the first mistake. A mistake is reported once, however many settings
//! inherit it.

use super::place::{Place, Texts};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};
use nilometer_model::planner::nearest;
use std::fmt;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was made.
    pub place: Place,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// Reports a mistake.
    pub(crate) fn add(&mut self, place: Place, message: impl Into<String>) {
        self.push(Problem { place, message: message.into(), help: None });
    }

    /// Reports a mistake with what to do about it.
    pub(crate) fn add_with_help(
        &mut self,
        place: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Problem { place, message: message.into(), help: Some(help.into()) });
    }

    /// Reports that `name` is not one of `known`; suggests the nearest.
    pub(crate) fn add_unknown<'a>(
        &mut self,
        place: Place,
        (what, name): (&str, &str),
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let known: Vec<_> = known.into_iter().collect();
        let message = format!("there is no {what} `{name}`");
        self.add_with_help(place, message, help_on_names(name, &known));
    }

    /// Keeps a mistake unless it is known: what is inherited is read once for each heir.
    fn push(&mut self, problem: Problem) {
        let is_known = |known: &Problem| {
            known.place == problem.place
                && known.help == problem.help
                && without_path(&known.message) == without_path(&problem.message)
        };
        if !self.0.iter().any(is_known) {
            self.0.push(problem);
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All mistakes in the order of their places.
    pub(crate) fn into_errors(mut self, texts: Texts) -> ConfigErrors {
        self.0.sort_by_key(|problem| problem.place);
        ConfigErrors { problems: self.0, texts }
    }
}

/// The message without the path of a setting that it begins with.
fn without_path(message: &str) -> &str {
    let after = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    after.map_or(message, |(_, after)| after)
}

/// Most names that a help lists.
const LISTED_MAX: usize = 16;

/// What to say to somebody who typed `name` where one of `known` was due.
pub(crate) fn help_on_names(name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "none is defined".into();
    }
    // A name is also near if only its case is wrong.
    let cases = [name.to_owned(), name.to_lowercase(), name.to_uppercase()];
    let near = cases.iter().find_map(|name| nearest(name, known.iter().copied()));
    if let Some(near) = near {
        return format!("did you mean `{near}`?");
    }
    let listed: Vec<_> = known.iter().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
    let more = match known.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("known are {}{more}", listed.join(", "))
}

/// Everything that is wrong with a configuration. Never empty.
///
/// `Display` gives one line per mistake (`file:line:column: what; help`); [`Self::render`] shows
/// the places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    problems: Vec<Problem>,
    texts: Texts,
}

/// How errors are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// With colours and box drawing characters.
    Fancy,
    /// With box drawing characters.
    Colourless,
    /// Letters only.
    Plain,
}

impl ConfigErrors {
    /// A single mistake in a text that is shown in full.
    pub(crate) fn single(texts: Texts, problem: Problem) -> Self {
        Self { problems: vec![problem], texts }
    }

    /// The mistakes, in the order of their places.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Line and column of a mistake, both from 1.
    pub fn line_and_column(&self, problem: &Problem) -> (usize, usize) {
        self.texts.line_and_column(problem.place)
    }

    /// What was typed at the place of a mistake, secrets blotted out.
    pub fn quote(&self, problem: &Problem) -> &str {
        self.texts.quote(problem.place)
    }

    /// The mistakes with the lines they stand in, for people; ends with a line that counts them.
    pub fn render(&self, look: Look) -> String {
        let theme = match look {
            Look::Fancy => GraphicalTheme::unicode(),
            Look::Colourless => GraphicalTheme::unicode_nocolor(),
            Look::Plain => GraphicalTheme::none(),
        };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false);
        let handler = handler.with_context_lines(1).with_break_words(false);
        let mut out = String::new();
        for problem in &self.problems {
            let shown = Shown::new(problem, &self.texts);
            // Writing to a String fails only if a place lies outside of its text.
            if handler.render_report(&mut out, &shown).is_err() {
                out.push_str(&self.line(problem));
            }
            out.push('\n');
        }
        let plural = if self.problems.len() == 1 { "" } else { "s" };
        out.push_str(&format!("{} error{plural} in the configuration\n", self.problems.len()));
        out
    }

    fn line(&self, problem: &Problem) -> String {
        let name = self.texts.text(problem.place).map_or("", |text| &text.name);
        let (line, column) = self.line_and_column(problem);
        let mut out = format!("{name}:{line}:{column}: {}", problem.message);
        if let Some(help) = &problem.help {
            out.push_str("; ");
            out.push_str(help);
        }
        out
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.problems.iter().map(|problem| self.line(problem)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// A problem in the form that miette draws.
#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    source: NamedSource<String>,
}

impl<'a> Shown<'a> {
    fn new(problem: &'a Problem, texts: &Texts) -> Self {
        let (name, content) = texts
            .text(problem.place)
            .map_or_else(Default::default, |text| (text.name.clone(), text.content.clone()));
        Self { problem, source: NamedSource::new(name, content) }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Place { text: _, start, end } = self.problem.place;
        let label = LabeledSpan::new(Some("here".into()), start, end.saturating_sub(start));
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_others_are_listed() {
        for (name, expected) in [
            ("windw", "did you mean `window`?"),
            ("WINDOW", "did you mean `window`?"),
            ("paths_", "did you mean `path`?"),
            ("colour", "known are `window`, `path`"),
        ] {
            assert_eq!(help_on_names(name, &["window", "path"]), expected, "{name}");
        }
        assert_eq!(help_on_names("x", &[]), "none is defined");
    }
}
