//! Turns the parser's errors into ones that a person can use.
//!
//! Only the first error is told: the others are mostly the parser trying to go on after it.

use super::{CelError, NESTING_MAX};
use cel::ParseErrors;

/// The one error to show for a text that does not parse.
pub(super) fn explain(source: &str, errors: &ParseErrors) -> CelError {
    let is_nesting = |message: &str| message.contains("Recursion limit");
    if let Some(error) = errors.errors.iter().find(|error| is_nesting(&error.msg)) {
        let message = format!("nested too deeply: at most {NESTING_MAX} levels");
        return CelError { message, offset: offset(source, error.pos), length: 1, help: None };
    }
    let Some(error) = errors.errors.first() else {
        return CelError {
            message: "this is not an expression".into(),
            offset: 0,
            length: source.len(),
            help: None,
        };
    };
    let offset = offset(source, error.pos);
    let rest = source.get(offset..).unwrap_or_default();
    if rest.is_empty() {
        let message = if source.trim().is_empty() {
            "the expression is empty"
        } else {
            "the expression ends too early"
        };
        return CelError { message: message.into(), offset, length: 0, help: None };
    }
    let token = token(rest);
    let is_quote = token.starts_with(['"', '\'']);
    let message = match error.msg.strip_prefix("Syntax error: ") {
        Some(_) if is_quote => "the text in quotes does not end".to_owned(),
        Some(_) => format!("`{token}` cannot stand here"),
        None => error.msg.clone(),
    };
    CelError { message, offset, length: token.len(), help: habit(token).map(Into::into) }
}

/// The byte at a line and column that count from 1, columns in characters.
fn offset(source: &str, (line, column): (isize, isize)) -> usize {
    let before = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
    let start: usize = source.split_inclusive('\n').take(before).map(str::len).sum();
    let column = usize::try_from(column.saturating_sub(1)).unwrap_or(0);
    let in_line: usize =
        source.get(start..).map_or(0, |rest| rest.chars().take(column).map(char::len_utf8).sum());
    start.saturating_add(in_line)
}

/// The word or sign at the start of `text`, which is not empty.
fn token(text: &str) -> &str {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word = text.find(|letter| !is_word(letter)).unwrap_or(text.len());
    let first = text.chars().next().map_or(0, char::len_utf8);
    text.get(..word.max(first)).unwrap_or(text)
}

/// What to write instead of what other languages have.
fn habit(token: &str) -> Option<&'static str> {
    match token {
        "=" => Some("write `==` to compare"),
        "&" | "and" | "AND" => Some("write `&&`"),
        "|" | "or" | "OR" => Some("write `||`"),
        "not" | "NOT" => Some("write `!`"),
        "<>" => Some("write `!=`"),
        "if" => Some("write `condition ? value : other`"),
        _ => None,
    }
}
