//! How a transcript came out, for people: the inputs whose expectations were not met, as a diff.

use crate::summary_table::counted;
use nilometer_model::transcript::{Input, Mismatch, Step, Transcript};
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::Path;

/// Whether a report is in colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Red for what is missing, green for what is new.
    On,
    /// Text only.
    Off,
}

impl Colours {
    /// As stderr wants it.
    pub fn of_stderr() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stderr().is_terminal() && !is_unwanted && !is_dumb { Self::On } else { Self::Off }
    }

    fn paint(self, colour: u8, text: &str) -> String {
        match self {
            Self::On => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
            Self::Off => text.to_owned(),
        }
    }
}

const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;

/// The report of one transcript: a line if it matches, else every difference below the input that
/// caused it.
pub fn report(
    path: &Path,
    (transcript, steps): (&Transcript, &[Step]),
    mismatches: &[Mismatch],
    colours: Colours,
) -> String {
    let path = path.display();
    if mismatches.is_empty() {
        let panes: usize = steps.iter().map(|step| step.panes.len()).sum();
        let panes = counted(panes as u64, "pane", "panes");
        let inputs = counted(transcript.steps.len() as u64, "input", "inputs");
        return format!("{path}: ok, {inputs}, {panes}\n");
    }
    let mut text = String::new();
    let mut shown = None;
    for mismatch in mismatches {
        let scene = transcript.steps.iter().rfind(|scene| scene.line <= mismatch.line());
        let line = scene.map_or(1, |scene| scene.line);
        if shown != Some(line) {
            let input = match scene.map(|scene| &scene.input) {
                Some(Input::End) if line > transcript.text.len() => "end (implied)",
                Some(_) | None => {
                    transcript.text.get(line - 1).map_or("", |input| input.trim_end())
                }
            };
            // Writing to a String cannot fail.
            let _written = writeln!(text, "{path}:{line}: {input}");
            shown = Some(line);
        }
        let difference = difference(mismatch, colours);
        let _written = writeln!(text, "{difference}");
    }
    let differences = counted(mismatches.len() as u64, "difference", "differences");
    let _written = writeln!(
        text,
        "{path}: {differences}: {} expected, {} came",
        colours.paint(RED, "-"),
        colours.paint(GREEN, "+")
    );
    text
}

fn difference(mismatch: &Mismatch, colours: Colours) -> String {
    let line = mismatch.line();
    match mismatch {
        Mismatch::Missing { text, .. } => {
            colours.paint(RED, &format!("  - {text}")) + &format!("   (line {line})")
        }
        Mismatch::Unexpected { text, .. } => colours.paint(GREEN, &format!("  + {text}")),
        Mismatch::Order { .. }
        | Mismatch::NotGone { .. }
        | Mismatch::NoSuchPlace { .. }
        | Mismatch::Refused { .. }
        | Mismatch::Left { .. } => colours.paint(YELLOW, &format!("  ! {mismatch}")),
    }
}
