//! The configuration as a tree of values that know where they were typed and by whom.
//!
//! Made of a TOML document; `--set` arguments, variables and inherited defaults change it before
//! anything reads it.

use super::place::Place;
use serde_json::{Map, Value as Json};
use std::ops::Range;
use toml_edit::{Document, Item, TableLike};

/// Who gave a value. Ordered by precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Nobody: it is the default.
    Default,
    /// The file.
    File,
    /// A variable of the environment, named in the file.
    Env,
    /// `--set`.
    Flag,
}

impl Origin {
    /// The name in `plan`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Env => "env",
            Self::Flag => "flag",
        }
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// What it is.
    pub(crate) value: NodeValue,
    /// Where it was typed.
    pub(crate) place: Place,
    /// Who typed it.
    pub(crate) origin: Origin,
    /// Whether a variable, or what stands in for one, gave its text: then a number or a truth
    /// value may be meant.
    pub(crate) has_variable: bool,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Something that has been reported already, such as a variable that is not set.
    Wrong,
    /// A date or time; no setting takes one.
    Date(String),
    /// Several values.
    Array(Vec<Node>),
    /// Named values, in the order typed.
    Table(Vec<Entry>),
}

/// A named value of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// Where the name was typed.
    pub(crate) name_place: Place,
    /// The value.
    pub(crate) node: Node,
}

impl Node {
    /// A value that was typed as it is.
    pub(crate) const fn new(value: NodeValue, place: Place, origin: Origin) -> Self {
        Self { value, place, origin, has_variable: false }
    }

    /// The text that a variable had a part in.
    pub(crate) fn variable_text(&self) -> Option<&str> {
        self.text().filter(|_| self.has_variable)
    }

    /// What it is, for a message.
    pub(crate) const fn kind(&self) -> &'static str {
        match &self.value {
            NodeValue::Text(_) => "a text",
            NodeValue::Int(_) => "a whole number",
            NodeValue::Float(_) => "a number with a fraction",
            NodeValue::Bool(_) => "a truth value",
            NodeValue::Date(_) => "a date",
            NodeValue::Wrong => "wrong",
            NodeValue::Array(_) => "an array",
            NodeValue::Table(_) => "a table",
        }
    }

    /// The entries, if it is a table.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            NodeValue::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value called `name`, if it is a table that has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Who gave it; of several, the one of highest precedence.
    pub(crate) fn origin(&self) -> Origin {
        let inner = match &self.value {
            NodeValue::Array(nodes) => nodes.iter().map(Self::origin).max(),
            NodeValue::Table(entries) => entries.iter().map(|entry| entry.node.origin()).max(),
            _ => None,
        };
        inner.map_or(self.origin, |inner| inner.max(self.origin))
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            NodeValue::Text(text) | NodeValue::Date(text) => Json::from(text.as_str()),
            NodeValue::Int(number) => Json::from(*number),
            NodeValue::Float(number) => Json::from(*number),
            NodeValue::Bool(truth) => Json::from(*truth),
            NodeValue::Wrong => Json::Null,
            NodeValue::Array(nodes) => nodes.iter().map(Self::to_json).collect(),
            NodeValue::Table(entries) => {
                let members =
                    entries.iter().map(|entry| (entry.name.clone(), entry.node.to_json()));
                Json::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

/// The tree of a table of a parsed document. `place` maps a byte range of what was parsed, or
/// nothing where the parser knows none, to a place.
pub(crate) fn from_table(
    table: &dyn TableLike,
    (own, origin): (Place, Origin),
    place: &dyn Fn(Option<Range<usize>>) -> Option<Place>,
) -> Node {
    let mut entries = Vec::new();
    for (name, item) in table.iter() {
        let key = table.get_key_value(name).and_then(|(key, _)| place(key.span()));
        let name_place = key.unwrap_or(own);
        let node = from_item(item, (name_place, origin), place);
        entries.push(Entry { name: name.into(), name_place, node });
    }
    Node::new(NodeValue::Table(entries), own, origin)
}

/// The tree of one item; `outer` is its place where the parser knows none.
pub(crate) fn from_item(
    item: &Item,
    (outer, origin): (Place, Origin),
    place: &dyn Fn(Option<Range<usize>>) -> Option<Place>,
) -> Node {
    let own = place(item.span()).unwrap_or(outer);
    let value = match item {
        Item::None => NodeValue::Table(Vec::new()),
        Item::Value(value) => return from_value(value, (own, origin), place),
        Item::Table(table) => return from_table(table, (own, origin), place),
        Item::ArrayOfTables(tables) => {
            let nodes = tables.iter().map(|table| {
                let own = place(table.span()).unwrap_or(own);
                from_table(table, (own, origin), place)
            });
            let nodes: Vec<_> = nodes.collect();
            // The whole would reach from the first to the last, and over all between.
            let own = nodes.first().map_or(own, |node| node.place);
            return Node::new(NodeValue::Array(nodes), own, origin);
        }
    };
    Node::new(value, own, origin)
}

fn from_value(
    value: &toml_edit::Value,
    (outer, origin): (Place, Origin),
    place: &dyn Fn(Option<Range<usize>>) -> Option<Place>,
) -> Node {
    let own = place(value.span()).unwrap_or(outer);
    let value = match value {
        toml_edit::Value::String(text) => NodeValue::Text(text.value().clone()),
        toml_edit::Value::Integer(number) => NodeValue::Int(*number.value()),
        toml_edit::Value::Float(number) => NodeValue::Float(*number.value()),
        toml_edit::Value::Boolean(truth) => NodeValue::Bool(*truth.value()),
        toml_edit::Value::Datetime(date) => NodeValue::Date(date.value().to_string()),
        toml_edit::Value::Array(array) => {
            let nodes = array.iter().map(|value| from_value(value, (own, origin), place));
            NodeValue::Array(nodes.collect())
        }
        toml_edit::Value::InlineTable(table) => return from_table(table, (own, origin), place),
    };
    Node::new(value, own, origin)
}

/// The value that `literal` says: TOML where it is, else a text.
pub(crate) fn from_literal(literal: &str, (place, origin): (Place, Origin)) -> Node {
    const NAME: &str = "v = ";
    let text = Node::new(NodeValue::Text(literal.into()), place, origin);
    let Ok(document) = Document::parse(format!("{NAME}{literal}")) else { return text };
    let Some(item) = document.get("v").filter(|_| document.len() == 1) else { return text };
    let inside = |span: Option<Range<usize>>| {
        let span = span?;
        let start = span.start.checked_sub(NAME.len())?;
        Some(place.part(start..span.end.checked_sub(NAME.len())?))
    };
    let node = from_item(item, (place, origin), &inside);
    match node.value {
        NodeValue::Date(_) => text,
        _ => node,
    }
}
