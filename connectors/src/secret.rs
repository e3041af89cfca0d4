//! A text that nobody may see: it stands in the configuration, or in a file of its own.
//!
//! Invariant: nothing that is printed of it is it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Whether what is called `name` is never shown; dots stand between the parts of a name. So is what lies
/// in something that is never shown, and whatever is set of SASL but how and as whom: a password under a
/// name with a slip in it is one. A name of a file is no secret.
pub fn is_secret(name: &str) -> bool {
    const SECRETS: [&str; 6] = ["password", "passphrase", "secret", "token", "pem", "headers"];
    const SHOWN_OF_SASL: [&str; 3] = ["mechanism", "username", "kerberos."];
    let name = name.to_ascii_lowercase();
    if name.ends_with(".file") {
        return false;
    }
    let sasl = name.strip_prefix("sasl.").or_else(|| name.split_once(".sasl.").map(|(_, of)| of));
    if sasl.is_some_and(|sasl| !SHOWN_OF_SASL.iter().any(|shown| sasl.starts_with(shown))) {
        return true;
    }
    let mut ends = name.match_indices('.').map(|(end, _)| end).chain([name.len()]);
    ends.any(|end| {
        let outer = name.get(..end).unwrap_or("");
        SECRETS.iter().any(|secret| {
            outer
                .strip_suffix(secret)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-', '.']))
        })
    })
}

/// The first name of a secret among the words of `text`.
pub fn secret_in(text: &str) -> Option<&str> {
    let is_of_name =
        |letter: char| letter.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&letter);
    let words = text.split(|letter| !is_of_name(letter)).map(|word| word.trim_matches('.'));
    words.into_iter().find(|word| is_secret(word))
}

/// A text that may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// As it stands.
    Text(Box<str>),
    /// The content of a file, without a line end behind it.
    File(PathBuf),
}

/// The file of a secret cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}`: {source}; check that you may read it", path.display())]
pub struct SecretError {
    /// Path as the user wrote it.
    pub path: PathBuf,
    /// What the operating system says.
    pub source: io::Error,
}

impl Secret {
    /// What it says.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn read(&self) -> Result<String, SecretError> {
        match self {
            Self::Text(text) => Ok(text.to_string()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(source) => Err(SecretError { path: path.clone(), source }),
            },
        }
    }

    /// What `name` is set to: with `.file` behind it, the text of the file at `text`. Returns the name
    /// that is meant.
    pub fn of<'a>(name: &'a str, text: &str) -> (&'a str, Self) {
        match name.strip_suffix(".file") {
            Some(name) => (name, Self::File(text.into())),
            None => (name, Self::Text(text.into())),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        for (name, expected) in [
            ("password", true),
            ("Token", true),
            ("client_secret", true),
            ("tokens", false),
            ("secretary", false),
            ("headers", true),
            ("otlp.headers.authorization", true),
            ("path", false),
            ("source.in.options.ssl.key.pem", true),
            ("sasl.oauthbearer.assertion.private.key.passphrase", true),
            ("sasl.oauthbearer.config", true),
            ("config", false),
            ("sasl.password.file", false),
            ("source.in.options.sasl.password", true),
            ("source.in.options.sasl.password.x", true),
            ("sasl.username", false),
            ("source.in.options.sasl.mechanisms", false),
            ("sasl.kerberos.principal", false),
            ("sink.out.options.sasl.pasword", true),
        ] {
            assert_eq!(is_secret(name), expected, "{name}");
        }
    }

    #[test]
    fn secrets_are_found_among_words() {
        for (text, expected) in [
            (r#"options = { "sasl.password" = "X""#, Some("sasl.password")),
            ("Invalid sasl.oauthbearer.config: Unrecognized", Some("sasl.oauthbearer.config")),
            ("the password.", Some("password")),
            ("ssl.ca.location failed: No such file", None),
        ] {
            assert_eq!(secret_in(text), expected, "{text}");
        }
    }
}
