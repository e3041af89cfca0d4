//! Writes a transcript anew, with what came as its expectations.
//!
//! Inputs, comments and blank lines stay as they are; so do expectations that were met. Where an
//! input caused something else than was expected, its expectations are written in the order in
//! which they came. Invariant: a blessed transcript has no mismatch but those that no expectation
//! can express (refused records, state left after the end).

use super::check::{Matched, is_overtaken};
use super::{Dropped, Emitted, Expectation, Input, Scene, Step, Transcript};

/// The text of the transcript with what came as its expectations.
pub fn bless(transcript: &Transcript, steps: &[Step]) -> String {
    let mut writer = Writer { transcript, next: 0, out: String::new() };
    for (scene, step) in transcript.steps.iter().zip(steps) {
        writer.scene(scene, step);
    }
    writer.copy_upto(transcript.text.len());
    writer.out
}

struct Writer<'a> {
    transcript: &'a Transcript,
    /// Lines that are done.
    next: usize,
    out: String,
}

impl Writer<'_> {
    fn push(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn line(&self, number: usize) -> &str {
        let index = number.checked_sub(1);
        index.and_then(|index| self.transcript.text.get(index)).map_or("", |line| line)
    }

    fn copy_upto(&mut self, line: usize) {
        while self.next < line {
            self.next += 1;
            let text = self.line(self.next).to_owned();
            self.push(&text);
        }
    }

    fn scene(&mut self, scene: &Scene, step: &Step) {
        self.copy_upto(scene.last_line);
        let matched = Matched::of(scene, step);
        if is_met(scene, step, &matched) {
            let last = scene.expected.last().map_or(scene.last_line, |expected| expected.line);
            self.copy_upto(last);
            return;
        }
        let is_implied = scene.input == Input::End && scene.line > self.transcript.text.len();
        if is_implied {
            self.push("end");
        }
        self.rewrite(scene, step, &matched);
    }

    /// Writes the expectations of a scene in the order in which they came. A line that was met
    /// takes along the comment lines above it; the comments of lines that are dropped stay, as
    /// lines of their own.
    fn rewrite(&mut self, scene: &Scene, step: &Step, matched: &Matched) {
        let mut above = scene.last_line;
        let mut comments: Vec<Vec<String>> = Vec::new();
        for expected in &scene.expected {
            comments.push((above + 1..expected.line).map(|n| self.line(n).to_owned()).collect());
            above = expected.line;
        }
        let came = step.panes.iter().map(Emitted::to_string);
        let came: Vec<_> = came.chain(step.dropped.iter().map(Dropped::to_string)).collect();
        for (text, expectation) in came.iter().zip(&matched.by_outcome) {
            match expectation {
                Some(number) => self.keep(scene, *number, &mut comments),
                None => self.push(&format!("  {text}")),
            }
        }
        for (number, expected) in scene.expected.iter().enumerate() {
            let is_kept = matched.by_expectation.get(number).is_some_and(Option::is_some);
            let holds = matches!(expected.what, Expectation::Gone { .. })
                && !step.not_gone.contains(&number)
                && !step.unknown.contains_key(&number);
            if holds {
                self.keep(scene, number, &mut comments);
            } else if !is_kept {
                self.keep_comments(scene, number, &mut comments);
            }
        }
        self.next = self.next.max(above);
    }

    fn keep(&mut self, scene: &Scene, number: usize, comments: &mut [Vec<String>]) {
        for comment in comments.get_mut(number).map(std::mem::take).unwrap_or_default() {
            self.push(&comment);
        }
        if let Some(expected) = scene.expected.get(number) {
            let text = self.line(expected.line).to_owned();
            self.push(&text);
        }
    }

    fn keep_comments(&mut self, scene: &Scene, number: usize, comments: &mut [Vec<String>]) {
        for comment in comments.get_mut(number).map(std::mem::take).unwrap_or_default() {
            self.push(&comment);
        }
        let Some(expected) = scene.expected.get(number) else { return };
        if !expected.comment.is_empty() {
            self.push(&format!("  {}", expected.comment));
        }
    }
}

fn is_met(scene: &Scene, step: &Step, matched: &Matched) -> bool {
    step.not_gone.is_empty()
        && step.unknown.is_empty()
        && matched.by_outcome.iter().all(Option::is_some)
        && scene.expected.iter().enumerate().all(|(number, expected)| {
            matches!(expected.what, Expectation::Gone { .. })
                || matched.by_expectation.get(number).is_some_and(Option::is_some)
                    && !is_overtaken(scene, matched, number)
        })
}
