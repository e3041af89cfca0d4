//! Picks the members that are wanted out of one JSON object, and skips the rest.
//!
//! Nothing is allocated: names are compared where they stand, values are handed out as the text
//! that they are. All of the line is checked to be JSON, what is skipped too.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;

/// Names as a tree: what is wanted at each, and what inside it. A path of several names is also
/// wanted as one name with dots in it.
#[derive(Debug, Default)]
pub(crate) struct Members {
    children: HashMap<Box<str>, Child, foldhash::fast::RandomState>,
}

#[derive(Debug, Default)]
struct Child {
    /// The number of the value here, if it is wanted.
    wanted: Option<usize>,
    /// What is wanted inside the value, if anything is.
    inside: Option<Members>,
}

impl Members {
    /// So few names are compared one by one, which takes less time than the hash of one.
    const FEW: usize = 8;

    /// The tree of the paths `names`; a value is numbered by its place among them.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut members = Self::default();
        for (number, name) in names.into_iter().enumerate() {
            members.want(name, number);
        }
        members
    }

    /// Wants the value at the path `name` under `number`.
    pub(crate) fn want(&mut self, name: &str, number: usize) {
        self.child(name).wanted = Some(number);
        let mut here = self;
        let mut rest = name;
        while let Some((first, inner)) = rest.split_once('.') {
            here = here.child(first).inside.get_or_insert_default();
            here.child(inner).wanted = Some(number);
            rest = inner;
        }
    }

    fn child(&mut self, name: &str) -> &mut Child {
        self.children.entry(name.into()).or_default()
    }

    fn find(&self, name: &str) -> Option<&Child> {
        if self.children.len() > Self::FEW {
            return self.children.get(name);
        }
        self.children.iter().find(|(known, _)| ***known == *name).map(|(_, child)| child)
    }

    /// Hands each wanted value of the object `line` to `visit` as (number, JSON text), in the order
    /// of the line. A member that stands twice is visited twice.
    ///
    /// # Errors
    /// The line is not one JSON object; values before the fault may have been visited.
    pub(crate) fn read<'a>(
        &self,
        line: &'a str,
        visit: &mut impl FnMut(usize, &'a str),
    ) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(line);
        Object { members: self, visit }.deserialize(&mut json)?;
        json.end()
    }
}

/// Reads one object.
struct Object<'m, F> {
    members: &'m Members,
    visit: &'m mut F,
}

impl<'de, F: FnMut(usize, &'de str)> DeserializeSeed<'de> for Object<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, F: FnMut(usize, &'de str)> Visitor<'de> for Object<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        use serde::de::Error;
        while let Some(child) = map.next_key_seed(Name { members: self.members })? {
            let Some(child) = child else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let raw = map.next_value::<&RawValue>()?.get();
            if let Some(number) = child.wanted {
                (self.visit)(number, raw);
            }
            // What is no object has nothing inside.
            if let Some(inside) = child.inside.as_ref().filter(|_| raw.starts_with('{')) {
                inside.read(raw, self.visit).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Finds a member's name.
struct Name<'m> {
    members: &'m Members,
}

impl<'de, 'm> DeserializeSeed<'de> for Name<'m> {
    type Value = Option<&'m Child>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'m> Visitor<'_> for Name<'m> {
    type Value = Option<&'m Child>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.members.find(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_members_are_found_at_every_depth() {
        let members = Members::new(["ts", "src.host", "src", "a.b.c"]);
        for (line, expected) in [
            ("{}", vec![]),
            (r#" {"ts" : 1.50 , "other": [{"ts": 9}], "x":{"host":1}} "#, vec![(0, "1.50")]),
            (
                r#"{"src":{"host":"h","port":1},"ts":null}"#,
                vec![(2, r#"{"host":"h","port":1}"#), (1, "\"h\""), (0, "null")],
            ),
            (r#"{"src.host":"h"}"#, vec![(1, "\"h\"")]),
            (r#"{"src":7}"#, vec![(2, "7")]),
            (r#"{"a":{"b":{"c":1}},"a.b":{"c":2},"a":{"b.c":3},"a.b.c":4}"#, {
                vec![(3, "1"), (3, "3"), (3, "4")]
            }),
            (r#"{"\u0074s":true,"ts":false}"#, vec![(0, "true"), (0, "false")]),
        ] {
            let mut found = Vec::new();
            members.read(line, &mut |number, raw| found.push((number, raw))).unwrap();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_line_must_be_one_object_to_its_end() {
        let deep = format!("{{\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let members = Members::new(["ts"]);
        let kind = |line: &str| {
            let error = members.read(line, &mut |_, _| {}).unwrap_err();
            (error.is_syntax(), error.is_eof(), error.is_data())
        };
        for line in ["{\"ts\":1}}", "{\"ts\":01}", "{ts:1}", "{\"x\":nul}", "{\"x\":\"\\q\"}"] {
            assert_eq!(kind(line), (true, false, false), "{line}");
        }
        for line in ["", "{", "{\"ts\":", "{\"ts\":1", "{\"x\":[1,"] {
            assert_eq!(kind(line), (false, true, false), "{line}");
        }
        for line in ["[1]", "5", "null"] {
            assert_eq!(kind(line), (false, false, true), "{line}");
        }
        // However deep it nests, what is skipped takes no stack.
        members.read(&deep, &mut |_, _| {}).unwrap();
    }
}
