//! The JSON Schema accepts every shipped pipeline and refuses what is not one.

use super::super::node::{self, Origin};
use super::super::place::Place;
use crate::config::schema;
use regex_lite::Regex;
use serde_json::Value as Json;
use toml_edit::Document;

/// A value being checked against a schema.
struct Check<'a> {
    root: &'a Json,
    value: &'a Json,
    path: &'a str,
}

impl Check<'_> {
    /// What the value does not keep of `schema`. Knows the keywords that are used here; another
    /// one fails the test.
    fn violations(&self, schema: &Json) -> Vec<String> {
        let mut found = Vec::new();
        for (keyword, rule) in schema.as_object().unwrap() {
            match self.inside(keyword, rule, schema) {
                Some(inside) => found.extend(inside),
                None if self.keeps(keyword, rule) => {}
                None => {
                    found.push(format!("{}: {keyword} {rule} refuses {}", self.path, self.value));
                }
            }
        }
        found
    }

    /// Violations by parts, for keywords that look at parts.
    fn inside(&self, keyword: &str, rule: &Json, schema: &Json) -> Option<Vec<String>> {
        let members = || self.value.as_object().into_iter().flatten();
        let at = |schema: &Json, value, name: &str| {
            let path = format!("{}.{name}", self.path);
            Check { root: self.root, value, path: &path }.violations(schema)
        };
        Some(match keyword {
            "$ref" => {
                let target = self.root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap());
                self.violations(target.unwrap())
            }
            "allOf" => self.each(rule).into_iter().flatten().collect(),
            "items" => {
                let items = self.value.as_array().into_iter().flatten();
                items.flat_map(|item| at(rule, item, "*")).collect()
            }
            "properties" => {
                let known =
                    members().filter_map(|(name, value)| Some((name, value, rule.get(name)?)));
                known.flat_map(|(name, value, rule)| at(rule, value, name)).collect()
            }
            "additionalProperties" => {
                let known =
                    |name: &str| schema.get("properties").is_some_and(|p| p.get(name).is_some());
                let others = members().filter(|(name, _)| !known(name));
                others
                    .flat_map(|(name, value)| match rule {
                        Json::Bool(false) => vec![format!("{}.{name}: unknown", self.path)],
                        rule => at(rule, value, name),
                    })
                    .collect()
            }
            _ => return None,
        })
    }

    /// Violations of each of several schemas.
    fn each(&self, schemas: &Json) -> Vec<Vec<String>> {
        schemas.as_array().unwrap().iter().map(|schema| self.violations(schema)).collect()
    }

    /// Whether the value keeps a rule about the whole of it.
    fn keeps(&self, keyword: &str, rule: &Json) -> bool {
        let value = self.value;
        match keyword {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                other => panic!("type {other}"),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "pattern" => {
                let pattern = Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "required" => rule.as_array().unwrap().iter().all(|name| {
                value.as_object().is_none_or(|members| members.contains_key(name.as_str().unwrap()))
            }),
            "anyOf" => self.each(rule).iter().any(Vec::is_empty),
            "oneOf" => self.each(rule).iter().filter(|list| list.is_empty()).count() == 1,
            other => panic!("keyword {other}"),
        }
    }
}

/// What a pipeline does not keep of the schema.
pub(super) fn violations(text: &str) -> Vec<String> {
    let (schema, value) = (schema(), json(text));
    Check { root: &schema, value: &value, path: "" }.violations(&schema)
}

fn json(text: &str) -> Json {
    let document = Document::parse(text).unwrap();
    let place = Place::new(0, 0..0);
    node::from_table(document.as_table(), (place, Origin::File), &|_| Some(place)).to_json()
}

#[test]
fn the_schema_accepts_every_shipped_pipeline() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let found = violations(&std::fs::read_to_string(&path).unwrap());
            assert!(found.is_empty(), "{}: {found:#?}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 3);
}

#[test]
fn the_schema_refuses_what_is_no_pipeline() {
    for text in [
        "",
        "[pipeline]\n",
        "[pipeline]\nname = 3\n",
        "[pipeline]\nname = \"p\"\nnam = \"q\"\n",
        "[pipeline]\nname = \"p\"\nkey_groups = 0\n",
        "[pipeline]\nname = \"p\"\n[watermark]\nidle_after = \"5\"\n",
        "[pipeline]\nname = \"p\"\n[watermark]\nkind = \"bound\"\n",
        "[pipeline]\nname = \"p\"\n[[source]]\nkind = \"udp\"\n",
        "[pipeline]\nname = \"p\"\n[[source]]\nkind = \"udp\"\nlisten = \"x\"\npaths = []\n",
        "[pipeline]\nname = \"p\"\n[[sink]]\nname = \"s\"\nkind = \"file\"\n",
        "[pipeline]\nname = \"p\"\n[derive]\nx = 3\n",
    ] {
        assert!(!violations(text).is_empty(), "{text}");
    }
}
