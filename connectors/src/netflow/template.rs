//! Templates: the layout of the records of a set.
//!
//! netflow_parser reads the template records; what is kept is compiled from them, so that a data
//! record is read in one pass over its bytes.
//!
//! The sets' bodies are read here and not by netflow_parser, since its version 1.0.6 loses data
//! that real exporters send: it gives up a whole message when one set's length is off, refuses a
//! template with a field of length zero or (in version 9) of variable length, and stops at a
//! variable field that is empty.

use super::element::Element;
use netflow_parser::variable_versions::{ipfix, v9};
use nom_derive::Parse;
use serde::{Deserialize, Serialize};

/// The length that means: the record says.
const VARIABLE: u16 = u16::MAX;

/// One field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Field {
    element: Option<Element>,
    length: u16,
}

/// The layout of the records of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Template {
    fields: Vec<Field>,
    /// Where the fields lie that have an element, if all fields have a fixed length.
    fixed: Option<Vec<(Element, usize, usize)>>,
    /// The shortest record, in bytes; above zero.
    record_bytes_min: usize,
    /// Whether its records are about the exporter, not flows.
    pub(super) is_options: bool,
}

/// A template record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Definition {
    /// Id `id` means this from now on; nothing usable if `None`, so that its records are refused.
    Set { id: u16, template: Option<Template> },
    /// Id `id` means nothing any more.
    Withdraw { id: u16 },
    /// No id means anything any more.
    WithdrawAll { is_options: bool },
}

impl Template {
    fn new(fields: Vec<Field>, is_options: bool) -> Option<Self> {
        let is_fixed = fields.iter().all(|field| field.length != VARIABLE);
        let shortest = |field: &Field| match field.length {
            // The length of a variable field takes a byte.
            VARIABLE => 1,
            length => usize::from(length),
        };
        let record_bytes_min = fields.iter().map(shortest).sum();
        let fixed = is_fixed.then(|| {
            let mut at = 0;
            let places = fields.iter().filter_map(|field| {
                let (start, length) = (at, usize::from(field.length));
                at += length;
                Some((field.element?, start, length))
            });
            places.collect()
        });
        (record_bytes_min > 0).then_some(Self { fields, fixed, record_bytes_min, is_options })
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let places = self.fixed.as_ref().map_or(0, |fixed| size_of_val(&**fixed));
        size_of::<Self>() + size_of_val(&*self.fields) + places
    }

    /// Reads the first record of `body`: calls `see` with each element and its bytes, in order,
    /// and returns what is behind the record. `None` if `body` holds no whole record: `see` may
    /// have been called then.
    pub(super) fn read<'a>(
        &self,
        body: &'a [u8],
        mut see: impl FnMut(Element, &'a [u8]),
    ) -> Option<&'a [u8]> {
        if body.len() < self.record_bytes_min {
            return None;
        }
        if let Some(fixed) = &self.fixed {
            for (element, start, length) in fixed {
                see(*element, body.get(*start..start + length)?);
            }
            return body.get(self.record_bytes_min..);
        }
        let mut rest = body;
        for field in &self.fields {
            let value = take_field(&mut rest, field.length)?;
            if let Some(element) = field.element {
                see(element, value);
            }
        }
        Some(rest)
    }
}

/// Takes a field of this template length off the beginning of `rest`.
fn take_field<'a>(rest: &mut &'a [u8], length: u16) -> Option<&'a [u8]> {
    let mut length = usize::from(length);
    if length == usize::from(VARIABLE) {
        length = usize::from(*rest.split_off_first()?);
        if length == usize::from(u8::MAX) {
            let long = rest.split_off(..2)?;
            length = usize::from(u16::from_be_bytes(long.try_into().ok()?));
        }
    }
    rest.split_off(..length)
}

/// The template records in the body of a version 9 template set, or options template set.
///
/// Stops at the first record that is cut; `true` if there was one.
pub(super) fn definitions_v9(mut body: &[u8], is_options: bool) -> (Vec<Definition>, bool) {
    let mut found = Vec::new();
    // Sets are padded to four bytes: less than a header of a record is padding.
    while body.len() >= 4 && body.iter().any(|byte| *byte != 0) {
        let parsed = if is_options {
            v9::OptionsTemplate::parse(body).map(|(rest, template)| {
                let scopes = template.scope_fields.iter().map(|field| Field {
                    element: scope_element(field.field_type_number),
                    length: field.field_length,
                });
                let fields = scopes.chain(template.option_fields.iter().map(field_v9));
                (rest, template.template_id, fields.collect())
            })
        } else {
            v9::Template::parse(body).map(|(rest, template)| {
                (rest, template.template_id, template.fields.iter().map(field_v9).collect())
            })
        };
        let Ok((rest, id, fields)) = parsed else { return (found, true) };
        found.push(Definition::Set { id, template: Template::new(fields, is_options) });
        body = rest;
    }
    (found, false)
}

/// The template records in the body of an IPFIX template set, or options template set.
///
/// Stops at the first record that is cut; `true` if there was one.
pub(super) fn definitions_ipfix(mut body: &[u8], is_options: bool) -> (Vec<Definition>, bool) {
    let mut found = Vec::new();
    while body.len() >= 4 && body.iter().any(|byte| *byte != 0) {
        if let [high, low, 0, 0, rest @ ..] = body {
            let id = u16::from_be_bytes([*high, *low]);
            found.push(match id {
                2 | 3 => Definition::WithdrawAll { is_options },
                _ => Definition::Withdraw { id },
            });
            body = rest;
            continue;
        }
        let parsed = if is_options {
            ipfix::OptionsTemplate::parse(body)
                .map(|(rest, template)| (rest, template.template_id, template.fields))
        } else {
            ipfix::Template::parse(body)
                .map(|(rest, template)| (rest, template.template_id, template.fields))
        };
        let Ok((rest, id, fields)) = parsed else { return (found, true) };
        let fields = fields.iter().map(|field| Field {
            element: Element::new(field.enterprise_number, field.field_type_number),
            length: field.field_length,
        });
        found.push(Definition::Set { id, template: Template::new(fields.collect(), is_options) });
        body = rest;
    }
    (found, false)
}

fn field_v9(field: &v9::TemplateField) -> Field {
    Field { element: Element::new(None, field.field_type_number), length: field.field_length }
}

/// What the scope of a version 9 options record says; the others name no element.
fn scope_element(number: u16) -> Option<Element> {
    (number == 2).then_some(Element::Input)
}
