//! Reads the tree of a configuration into raw types.
//!
//! A setting that cannot be read is reported and then counts as [`Given::Wrong`]: the rest is
//! still checked. On the way the pass lists every effective setting.

use crate::config::node::{self, Node, NodeValue, Origin};
use crate::config::place::Place;
use crate::config::problem::{Problems, help_on_names};
use crate::config::settings::{self, Setting};
use schemars::JsonSchema;

/// A value and where it was typed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spanned<T> {
    /// The value.
    pub(crate) value: T,
    /// Its place; that of its table if it is a default.
    pub(crate) place: Place,
    /// Who typed it.
    pub(crate) origin: Origin,
}

/// What was typed for a setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given<T> {
    /// Nothing, and it has no default.
    Absent,
    /// Something that cannot be read, or nothing where something must be; it has been reported.
    Wrong,
    /// A value.
    Value(Spanned<T>),
}

impl<T> Given<T> {
    /// The value, if there is one.
    pub(crate) const fn get(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Wrong => None,
        }
    }

    /// The bare value, if there is one.
    pub(crate) fn value(&self) -> Option<&T> {
        self.get().map(|spanned| &spanned.value)
    }

    /// Whether nothing was typed.
    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// Whether a setting must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It must.
    Required,
    /// It must, here or in `[defaults]`.
    RequiredOrInherited,
    /// It need not.
    Optional,
    /// It need not: this, as TOML, stands in for it.
    Default(&'static str),
}

/// What can be read from a tree.
pub(crate) trait FromNode: Sized + JsonSchema {
    /// What is expected, for messages: "a text".
    const EXPECTED: &'static str;
    /// Whether what lies inside are settings of their own, and not one value.
    const HAS_SETTINGS: bool = false;

    /// Reads a value; `None` if it cannot be read, which has then been reported.
    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;
}

/// One pass over a tree.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    /// Takes what is wrong.
    pub(crate) problems: &'a mut Problems,
    /// Every setting read so far, defaults included.
    pub(crate) settings: Vec<Setting>,
    /// Path of what is being read.
    path: Vec<String>,
    /// Whether what is being read is part of one setting, and so not listed.
    is_inside: bool,
}

impl<'a> Reader<'a> {
    /// A pass that reports to `problems`.
    pub(crate) fn new(problems: &'a mut Problems) -> Self {
        Self { problems, settings: Vec::new(), path: Vec::new(), is_inside: false }
    }

    /// Where in the file we are, for messages.
    pub(crate) fn here(&self) -> String {
        if self.path.is_empty() {
            "the file".into()
        } else {
            format!("`{}`", settings::join(&self.path))
        }
    }

    /// Reads a value; one that is not there is taken from `presence`.
    pub(crate) fn field<T: FromNode>(
        &mut self,
        table: &Node,
        (name, doc): (&str, &str),
        presence: Presence,
    ) -> Given<T> {
        if let Some(node) = table.get(name) {
            return self.inner(node, name);
        }
        match presence {
            Presence::Optional => Given::Absent,
            Presence::Default(literal) => {
                self.inner(&node::from_literal(literal, (table.place, Origin::Default)), name)
            }
            Presence::Required | Presence::RequiredOrInherited => {
                let message = format!("{} lacks `{name}`", self.here());
                self.problems.add_with_help(table.place, message, help(name, doc));
                Given::Wrong
            }
        }
    }

    /// Reads the value called `name` of what is being read.
    pub(crate) fn inner<T: FromNode>(&mut self, node: &Node, name: &str) -> Given<T> {
        self.path.push(name.into());
        let has_settings = T::HAS_SETTINGS || matches!(node.value, NodeValue::Table(_));
        let was_inside = self.is_inside;
        if !was_inside && !has_settings {
            self.settings.push(Setting::new(&self.path, node.to_json(), node.origin()));
            self.is_inside = true;
        }
        let value = self.read(node);
        self.is_inside = was_inside;
        self.path.pop();
        match value {
            Some(value) => {
                Given::Value(Spanned { value, place: node.place, origin: node.origin() })
            }
            None => Given::Wrong,
        }
    }

    /// Reads a value that is not a setting of its own; `None` if it cannot be read, which has then
    /// been reported.
    pub(crate) fn read<T: FromNode>(&mut self, node: &Node) -> Option<T> {
        if node.value == NodeValue::Wrong { None } else { T::from_node(node, self) }
    }

    /// Reads the `kind` of `table`, which decides the rest; its mistakes are reported.
    pub(crate) fn kind<T: FromNode>(&mut self, table: &Node) -> Option<T> {
        const NAME: &str = "kind";
        if table.entries().is_none() {
            let message = format!("{} must be a table, not {}", self.here(), table.kind());
            self.problems.add(table.place, message);
            return None;
        }
        let Some(node) = table.get(NAME) else {
            let message = format!("{} lacks `{NAME}`", self.here());
            self.problems.add_with_help(table.place, message, "it decides what the rest means");
            return None;
        };
        self.path.push(NAME.into());
        let kind = self.read(node);
        self.path.pop();
        kind
    }

    /// Reports settings of `table` that are not among `known`.
    pub(crate) fn refuse_unknown(&mut self, table: &Node, known: &[&str]) {
        for entry in table.entries().unwrap_or_default() {
            if !known.contains(&&*entry.name) {
                let message = format!("{} has no setting `{}`", self.here(), entry.name);
                let help = help_on_names(&entry.name, known);
                self.problems.add_with_help(entry.name_place, message, help);
            }
        }
    }

    /// Reports that `node` is not what it should be.
    pub(crate) fn refuse_kind<T: FromNode>(&mut self, node: &Node) {
        let message = format!("{} must be {}, not {}", self.here(), T::EXPECTED, node.kind());
        self.problems.add(node.place, message);
    }
}

fn help(name: &str, doc: &str) -> String {
    let doc = doc.trim();
    let sentence = doc.split_once(". ").map_or(doc.trim_end_matches('.'), |(first, _)| first);
    let (first, rest) = sentence.split_at_checked(1).unwrap_or((sentence, ""));
    // "IP" keeps its capitals.
    let is_word = rest.starts_with(|second: char| !second.is_uppercase());
    let first = if is_word { first.to_lowercase() } else { first.into() };
    format!("`{name}`: {first}{rest}")
}
