//! Configuration: from a TOML file to a [`Pipeline`] that cannot be wrong.
//!
//! In order: the text is parsed into a tree (`node`); `--set` arguments (`overrides`) and
//! variables of the environment (`variables`) change the tree; groups take over defaults
//! (`inherit`); the tree is read into raw types, which are what the user typed (`raw`); and
//! `validate` makes a pipeline of them. Every mistake is reported, with its place.

mod inherit;
mod node;
mod overrides;
mod pipeline;
mod place;
mod problem;
mod raw;
mod seen;
mod settings;
#[cfg(test)]
mod tests;
mod validate;
mod variables;

pub use node::Origin;
pub use pipeline::{
    DeadLetterConfig, FileFormat, FlowConfig, KafkaConfig, KafkaSinkConfig, KafkaSinkFormat,
    Pipeline, Records, SinkConfig, SinkFormat, SinkKind, SourceConfig, SourceKind, StateConfig,
    TopicConfig, ValueFormat,
};
pub use place::Place;
pub(crate) use problem::help_on_names;
pub use problem::{ConfigErrors, Look, Problem};
pub use seen::{AdminConfig, OtlpConfig, OtlpProtocol, TelemetryConfig};
pub use settings::Setting;
pub(crate) use settings::join as setting_path;
pub use variables::Lookup;

use nilometer_connectors::secret::{is_secret, secret_in};
use node::{Node, NodeValue};
use place::{Texts, has_credentials};
use problem::Problems;
use raw::RawConfig;
use raw::reader::{FromNode, Reader};
use std::path::Path;
use toml_edit::Document;

/// Reads the pipeline in the file at `path`, with the `--set` arguments `sets`.
///
/// # Errors
/// Everything that is wrong with it, the file itself included.
pub fn load(path: &Path, sets: &[String]) -> Result<Pipeline, ConfigErrors> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let mut texts = Texts::default();
        let text = texts.add(&name, "");
        ConfigErrors::single(
            texts,
            Problem {
                place: Place::new(text, 0..0),
                message: format!("cannot read `{name}`: {error}"),
                help: Some("give the path of a pipeline, a TOML file in UTF-8".into()),
            },
        )
    })?;
    load_text((&name, &text), sets, &|name| std::env::var(name).ok())
}

/// Reads the pipeline that `text` says, with the `--set` arguments `sets`; `lookup` gives the
/// variables of the environment.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_text(
    (name, text): (&str, &str),
    sets: &[String],
    lookup: &Lookup<'_>,
) -> Result<Pipeline, ConfigErrors> {
    let (mut texts, mut problems) = (Texts::default(), Problems::default());
    let file = texts.add(name, text);
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let place = Place::new(file, error.span().unwrap_or(0..0));
            hide_lines(text, file, &mut texts);
            problems.add_with_help(place, format!("not TOML: {}", error.message()), SYNTAX_HELP);
            return Err(problems.into_errors(texts));
        }
    };
    let place = |span: Option<std::ops::Range<usize>>| span.map(|span| Place::new(file, span));
    let start = (Place::new(file, 0..0), Origin::File);
    let mut root = node::from_table(document.as_table(), start, &place);
    // Also before a secret is replaced: it stands in its text all the same.
    hide_secrets(&root, "", &mut texts);
    for set in sets {
        overrides::apply(&mut root, set, &mut texts, &mut problems);
        hide_secrets(&root, "", &mut texts);
    }
    variables::interpolate(&mut root, lookup, &mut problems);
    inherit::inherit(&mut root);
    let mut reader = Reader::new(&mut problems);
    let raw = RawConfig::from_node(&root, &mut reader);
    let settings = reader.settings;
    let pipeline = raw.and_then(|raw| validate::validate(&raw, settings, &mut problems));
    match pipeline {
        Some(pipeline) if problems.is_empty() => Ok(pipeline),
        Some(_) | None => Err(problems.into_errors(texts)),
    }
}

const SYNTAX_HELP: &str = "see https://toml.io for the language";

/// The JSON Schema of configuration files.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(RawConfig);
    schema.insert("title".into(), "nilometer pipeline".into());
    schema.to_value()
}

/// Blots out the values of secrets in `node`, whose name is `path`.
fn hide_secrets(node: &Node, path: &str, texts: &mut Texts) {
    match &node.value {
        NodeValue::Table(entries) => {
            for entry in entries {
                hide_secrets(&entry.node, &format!("{path}.{}", entry.name), texts);
            }
        }
        _ if is_secret(path) => texts.hide(node.place),
        NodeValue::Array(nodes) => nodes.iter().for_each(|node| hide_secrets(node, path, texts)),
        NodeValue::Text(text) if has_credentials(text) => texts.hide(node.place),
        NodeValue::Text(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::Bool(_)
        | NodeValue::Date(_)
        | NodeValue::Wrong => {}
    }
}

/// Blots out lines that may hold secrets in a text that could not be parsed, and all lines of a text of
/// several.
fn hide_lines(text: &str, file: usize, texts: &mut Texts) {
    let mut start = 0;
    let mut open: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end_matches('\n').len();
        let sign = line.find('=').filter(|_| secret_in(line).is_some() || has_credentials(line));
        match (open, sign) {
            (Some(quotes), _) => {
                texts.hide(Place::new(file, start..end));
                open = open.filter(|_| !line.contains(quotes));
            }
            (None, Some(sign)) => {
                texts.hide(Place::new(file, start + sign + 1..end));
                let quotes = ["\"\"\"", "'''"].into_iter();
                open = quotes.into_iter().find(|quotes| line.matches(quotes).count() == 1);
            }
            (None, None) => {}
        }
        start += line.len();
    }
}
