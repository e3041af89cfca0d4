//! Declares the tables of a configuration.
//!
//! One declaration (`raw_table!`) says the settings of a table, their types, their defaults and
//! their meaning; reading, unknown settings, missing settings, the list of effective settings and
//! the JSON Schema all follow from it, so that they cannot disagree.

use super::reader::Presence;
use crate::config::node::{self, Origin};
use crate::config::place::Place;
use schemars::{Schema, json_schema};
use serde_json::Value as Json;

/// The schema of one setting of a table.
#[derive(Debug)]
pub(crate) struct FieldSchema {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) doc: &'static str,
    /// Whether it must be there.
    pub(crate) presence: Presence,
    /// Its type.
    pub(crate) schema: Schema,
}

/// The schema of a table with exactly these settings.
pub(crate) fn table_schema(doc: &str, fields: Vec<FieldSchema>) -> Schema {
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for mut field in fields {
        field.schema.insert("description".into(), Json::from(field.doc.trim()));
        match field.presence {
            Presence::Required => required.push(Json::from(field.name)),
            Presence::Optional | Presence::RequiredOrInherited => {}
            Presence::Default(literal) => {
                let place = Place::new(0, 0..0);
                let default = node::from_literal(literal, (place, Origin::Default)).to_json();
                field.schema.insert("default".into(), default);
            }
        }
        properties.insert(field.name.into(), field.schema.to_value());
    }
    json_schema!({
        "type": "object",
        "description": doc.trim(),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Declares a table of the configuration: its settings by name, each with its meaning, its type
/// and a [`Presence`].
macro_rules! raw_table {
    (
        $(#[doc = $doc:literal])*
        pub(crate) struct $table:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident $(as $key:literal)?: $ty:ty = $presence:expr,
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $table {
            /// Where the table was typed.
            pub(crate) place: $crate::config::place::Place,
            $(
                $(#[doc = $field_doc])*
                pub $field: $crate::config::raw::reader::Given<$ty>,
            )*
        }

        impl $crate::config::raw::reader::FromNode for $table {
            const EXPECTED: &'static str = "a table";
            const HAS_SETTINGS: bool = true;

            fn from_node(
                node: &$crate::config::node::Node,
                reader: &mut $crate::config::raw::reader::Reader<'_>,
            ) -> Option<Self> {
                if node.entries().is_none() {
                    reader.refuse_kind::<Self>(node);
                    return None;
                }
                reader.refuse_unknown(node, &[$(raw_table!(@name $field $($key)?)),*]);
                Some(Self {
                    place: node.place,
                    $(
                        $field: reader.field(
                            node,
                            (raw_table!(@name $field $($key)?), concat!($($field_doc),*)),
                            $presence,
                        ),
                    )*
                })
            }
        }

        impl schemars::JsonSchema for $table {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($table).trim_start_matches("Raw").into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let fields = vec![$(
                    $crate::config::raw::table::FieldSchema {
                        name: raw_table!(@name $field $($key)?),
                        doc: concat!($($field_doc),*),
                        presence: $presence,
                        schema: generator.subschema_for::<$ty>(),
                    }
                ),*];
                $crate::config::raw::table::table_schema(concat!($($doc),*), fields)
            }
        }
    };
    (@name $field:ident $key:literal) => { $key };
    (@name $field:ident) => { stringify!($field) };
}

/// Declares a table whose setting `kind` decides which others there are.
macro_rules! raw_kinds {
    (
        $(#[doc = $doc:literal])*
        pub(crate) enum $name:ident ($kinds:ident) {
            $($(#[doc = $variant_doc:literal])* $variant:ident($table:ident) = $text:literal,)*
        }
    ) => {
        $crate::config::raw::scalar::raw_names! {
            #[doc = concat!("Kinds of [`", stringify!($name), "`].")]
            pub(crate) enum $kinds ("kind") {
                $($(#[doc = $variant_doc])* $variant = $text,)*
            }
        }

        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum $name {
            $($(#[doc = $variant_doc])* $variant(Box<$table>),)*
        }

        impl $crate::config::raw::reader::FromNode for $name {
            const EXPECTED: &'static str = "a table";
            const HAS_SETTINGS: bool = true;

            fn from_node(
                node: &$crate::config::node::Node,
                reader: &mut $crate::config::raw::reader::Reader<'_>,
            ) -> Option<Self> {
                match reader.kind::<$kinds>(node)? {
                    $($kinds::$variant => $table::from_node(node, reader).map(Box::new).map(Self::$variant),)*
                }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).trim_start_matches("Raw").into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut kinds = Vec::new();
                $(
                    let schema = generator.subschema_for::<$table>();
                    kinds.push(serde_json::json!({
                        "properties": { "kind": { "const": $text } },
                        "allOf": [schema],
                    }));
                )*
                schemars::json_schema!({ "description": concat!($($doc),*).trim(), "oneOf": kinds })
            }
        }
    };
}

pub(crate) use {raw_kinds, raw_table};
