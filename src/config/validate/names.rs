//! Names that stand for several fields of a flow, and the form of names that users make up.

use crate::config::place::Place;
use crate::config::problem::Problems;

/// The column that says who exported a flow.
pub(crate) const EXPORTER: &str = "exporter";

/// Columns of a flow that take each of several fields.
pub(crate) const FLOW_EACH: [(&str, [&str; 2]); 2] = [
    ("host", ["address_lower", "address_upper"]),
    ("host_name", ["hostname_lower", "hostname_upper"]),
];

/// What `conversation` stands for in a list of columns.
pub(crate) const CONVERSATION: [&str; 5] =
    ["location", "protocol", "address_lower", "address_upper", "application"];

/// The name that stands for the columns of [`CONVERSATION`].
pub(crate) const CONVERSATION_NAME: &str = "conversation";

/// The columns that `name` stands for.
pub(crate) fn expand(name: &str, is_flow: bool) -> Vec<&str> {
    if is_flow && name == CONVERSATION_NAME { CONVERSATION.to_vec() } else { vec![name] }
}

/// Reports a name that cannot be a word of a transcript, a metric or an expression.
pub(crate) fn check_word(word: &str, what: &str, place: Place, problems: &mut Problems) {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_word = match what {
        // Fields stand in expressions.
        "field" => {
            word.chars().all(is_letter) && !word.starts_with(|first: char| first.is_ascii_digit())
        }
        _ => word.chars().all(|letter| is_letter(letter) || matches!(letter, '-' | '.')),
    };
    if !is_word {
        let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let message = format!("`{word}` cannot be the name of {article} {what}");
        let help = match what {
            "field" => "use letters, digits and `_`, a letter first",
            _ => "use letters, digits, `_`, `-` and `.`",
        };
        problems.add_with_help(place, message, help);
    }
}

/// Reports names that are given twice, at the second place.
pub(crate) fn check_unique<'a>(
    what: &str,
    names: impl IntoIterator<Item = (&'a str, Place)>,
    problems: &mut Problems,
) {
    let mut seen = Vec::new();
    for (name, place) in names {
        if seen.contains(&name) {
            problems.add_with_help(
                place,
                format!("the {what} `{name}` is given twice"),
                "every name stands for one thing: rename one of them",
            );
        }
        seen.push(name);
    }
}
