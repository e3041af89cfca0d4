//! Where something was typed: the texts that make up a configuration, and places in them.
//!
//! Text 0 is the file; each `--set` argument is a text of its own. Line and column count from 1,
//! columns in characters. What is kept is for showing: values of secrets are blotted out in it.

use std::ops::Range;

/// A stretch of one of the texts of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the text.
    pub text: usize,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

impl Place {
    /// Bytes `range` of text number `text`.
    pub fn new(text: usize, range: Range<usize>) -> Self {
        Self { text, start: range.start, end: range.end }
    }

    /// Where the bytes `range` of a text of `length` bytes lie that was typed at this place; the
    /// whole place if it was typed with escapes or variables.
    pub fn inside(self, length: usize, range: Range<usize>) -> Self {
        let quotes = match self.end.saturating_sub(self.start).checked_sub(length) {
            // Bare, in quotes, in triple quotes, in triple quotes below a line end.
            Some(0) => 0,
            Some(2) => 1,
            Some(6) => 3,
            Some(7) => 4,
            Some(_) | None => return self,
        };
        self.part(quotes + range.start..quotes + range.end)
    }

    /// The part `range` of this place, cut to its end.
    pub fn part(self, range: Range<usize>) -> Self {
        let end = self.start.saturating_add(range.end).min(self.end);
        let start = self.start.saturating_add(range.start).min(end);
        Self { text: self.text, start, end }
    }
}

/// One text of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// Name for people: the path of the file, or `--set`.
    pub name: String,
    /// What it says, secrets blotted out, every byte where it was.
    pub content: String,
}

/// The texts of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Texts(Vec<Text>);

impl Texts {
    /// Adds a text and returns its number.
    pub(crate) fn add(&mut self, name: &str, content: &str) -> usize {
        self.0.push(Text { name: name.into(), content: content.into() });
        self.0.len() - 1
    }

    /// Blots out what stands at `place`, so that nothing shows it.
    pub(crate) fn hide(&mut self, place: Place) {
        let Some(text) = self.0.get_mut(place.text) else { return };
        let Some(secret) = text.content.get(place.start..place.end) else { return };
        // Line ends stay, so that lines stay where they are; every other byte becomes a star.
        let stars: String = secret
            .chars()
            .flat_map(|letter| {
                let shown = if letter == '\n' { '\n' } else { '*' };
                std::iter::repeat_n(shown, letter.len_utf8())
            })
            .collect();
        text.content.replace_range(place.start..place.end, &stars);
    }

    /// The text that `place` is in.
    pub(crate) fn text(&self, place: Place) -> Option<&Text> {
        self.0.get(place.text)
    }

    /// What stands at `place`.
    pub(crate) fn quote(&self, place: Place) -> &str {
        self.text(place).and_then(|text| text.content.get(place.start..place.end)).unwrap_or("")
    }

    /// Line and column of the beginning of `place`, both from 1.
    pub(crate) fn line_and_column(&self, place: Place) -> (usize, usize) {
        let before = self.text(place).and_then(|text| text.content.get(..place.start));
        let before = before.unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before.get(line_start..).unwrap_or("").chars().count() + 1;
        (line, column)
    }
}

/// Whether `text` holds a URL with the name and password of somebody.
pub(crate) fn has_credentials(text: &str) -> bool {
    let rest = text.split_once("://").map(|(_, rest)| rest.split(['"', '\'']).next());
    // A password may hold what ends a name of a host.
    rest.flatten().is_some_and(|rest| rest.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let mut texts = Texts::default();
        let file = texts.add("a.toml", "é = 1\nü = \"x\"\n");
        for (start, expected) in [(0, (1, 1)), (3, (1, 3)), (7, (2, 1)), (12, (2, 5))] {
            let place = Place::new(file, start..start);
            assert_eq!(texts.line_and_column(place), expected, "byte {start}");
        }
    }

    #[test]
    fn what_is_hidden_keeps_its_length_and_lines() {
        let mut texts = Texts::default();
        let file = texts.add("a.toml", "password = \"ä\nb\"\nx = 1\n");
        texts.hide(Place::new(file, 11..17));
        assert_eq!(
            texts.quote(Place::new(file, 0..23)),
            "password = ***\n**\nx = 1\n".get(..23).unwrap()
        );
    }

    #[test]
    fn credentials_are_known_by_where_they_stand() {
        for (text, holds) in [
            ("http://user:hunter2@127.0.0.1:4317", true),
            ("endpoint = 'https://user:a/b@c', protocol = \"grpc\"", true),
            ("http://127.0.0.1:4317", false),
            ("x = \"http://c\" # ask me@example.org", false),
            ("me@example.org", false),
        ] {
            assert_eq!(has_credentials(text), holds, "{text}");
        }
    }
}
