//! The format `flow-summary`: documents with the field names that consumers of flow summaries know.
//!
//! Which members a document has follows from the key and the aggregates of its stage, by name. A
//! member whose value is null is left out, at the top level only.

use crate::panes::PaneRef;
use crate::panes::pane_json::write_identity;
use crate::panes::value::{OTHER, bound, is_void, write_int, write_json, write_result};
use nilometer_model::flow::conversation_text;
use nilometer_model::plan::{Plan, Stage, StageKind};
use nilometer_model::symbol::Symbols;
use nilometer_model::value::{Datum, ip_address, write_json_text};
use std::net::IpAddr;

/// The key fields that make up a conversation.
const CONVERSATION: [&str; 5] =
    ["location", "protocol", "address_lower", "address_upper", "application"];

/// The member of the key field `host`.
const HOST: &str = "host_address";

/// Both directions of an amount, and the name of their sum.
const TOTALS: [(&str, &str, &str); 2] = [
    ("bytes_ingress", "bytes_egress", "bytes_total"),
    ("packets_ingress", "packets_egress", "packets_total"),
];

/// Writes documents of the stages of one plan.
#[derive(Debug)]
pub(crate) struct Summaries {
    /// By stage.
    shapes: Vec<Shape>,
}

/// What the documents of one stage have.
#[derive(Debug, Default)]
struct Shape {
    /// Key fields that are members of their own: name of the member, number of the field.
    members: Vec<(Box<str>, usize)>,
    /// Numbers of the key fields that make up a conversation, in its order.
    conversation: Option<[usize; 5]>,
    /// Sums of two aggregates: name of the member, their numbers.
    totals: Vec<(&'static str, usize, usize)>,
}

impl Shape {
    fn of(stage: &Stage) -> Self {
        let mut numbers = [0; 5];
        let mut is_conversation = true;
        for (number, name) in numbers.iter_mut().zip(CONVERSATION) {
            match stage.key.field(name) {
                Some(field) => *number = field,
                None => is_conversation = false,
            }
        }
        let conversation = is_conversation.then_some(numbers);
        let members = stage.key.fields().iter().enumerate();
        let members = members.filter(|(number, _)| {
            !conversation.is_some_and(|conversation| conversation.contains(number))
        });
        let members = members.map(|(number, field)| {
            let name = if &*field.name == "host" { HOST } else { &*field.name };
            (name.into(), number)
        });
        let totals = TOTALS.iter().filter_map(|(ingress, egress, total)| {
            let pair = stage.aggregates.find(ingress).zip(stage.aggregates.find(egress));
            pair.map(|(ingress, egress)| (*total, ingress, egress))
        });
        Self { members: members.collect(), conversation, totals: totals.collect() }
    }
}

impl Summaries {
    /// Documents of the stages of `plan`.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { shapes: plan.stages.iter().map(Shape::of).collect() }
    }

    /// Appends `pane` as a document, without a line end.
    pub(crate) fn write(
        &self,
        stage: &Stage,
        pane: PaneRef<'_>,
        symbols: &Symbols,
        out: &mut String,
    ) {
        let Some(shape) = self.shapes.get(stage.id.index()) else { return };
        write_head(stage, pane, out);
        for (name, field) in &shape.members {
            let datum = stage.key.read(pane.key, *field);
            if is_void(stage, pane, *field) {
                write_name(name, out);
                write_json_text(OTHER, out);
            } else if datum != Datum::Null {
                write_name(name, out);
                write_json(datum, symbols, out);
            } else if &**name == HOST {
                // The host of a flow that names none is one host, the empty one.
                write_name(name, out);
                write_json_text("", out);
            }
        }
        if let Some(fields) = shape.conversation {
            write_name("conversation_key", out);
            write_json_text(&conversation(stage, pane, fields, symbols), out);
        }
        for (number, aggregate) in stage.aggregates.accumulators().iter().enumerate() {
            let is_null = stage.aggregates.finish(pane.values, number) == Datum::Null
                && stage.aggregates.own_result(pane.values, number).is_none();
            if !is_null {
                write_name(&aggregate.name, out);
                write_result(stage, pane, number, symbols, out);
            }
        }
        for (name, ingress, egress) in &shape.totals {
            let [ingress, egress] =
                [*ingress, *egress].map(|number| stage.aggregates.finish(pane.values, number));
            if let (Datum::Int(ingress), Datum::Int(egress)) = (ingress, egress) {
                write_name(name, out);
                write_int(ingress.saturating_add(egress), out);
            }
        }
        write_name("pane", out);
        write_identity(stage, pane, out);
        out.push('}');
    }
}

/// Appends what every document begins with.
fn write_head(stage: &Stage, pane: PaneRef<'_>, out: &mut String) {
    let (start, end) = (bound(pane.meta.window.start()), bound(pane.meta.window.end()));
    out.push_str("{\"grouped_by\":");
    write_json_text(&stage.name, out);
    out.push_str(match stage.kind {
        StageKind::TopK => ",\"aggregation_type\":\"TOPK\"",
        StageKind::Window | StageKind::Rollup | StageKind::Results | StageKind::Sequence => {
            ",\"aggregation_type\":\"TOTAL\""
        }
    });
    let resolution = start.zip(end).map(|(start, end)| end.saturating_sub(start));
    for (name, millis) in [
        ("@timestamp", end),
        ("range_start", start),
        ("range_end", end),
        ("resolution", resolution),
    ] {
        if let Some(millis) = millis {
            write_name(name, out);
            write_int(millis, out);
        }
    }
}

fn write_name(name: &str, out: &mut String) {
    out.push(',');
    write_json_text(name, out);
    out.push(':');
}

/// The text that names the conversation of `pane`.
fn conversation(stage: &Stage, pane: PaneRef<'_>, fields: [usize; 5], symbols: &Symbols) -> String {
    if fields.iter().any(|field| is_void(stage, pane, *field)) {
        return OTHER.to_owned();
    }
    let [location, protocol, lower, upper, application] =
        fields.map(|field| stage.key.read(pane.key, field));
    conversation_text(
        text(location, symbols),
        protocol_number(protocol),
        address(lower),
        address(upper),
        text(application, symbols),
    )
}

fn text(datum: Datum, symbols: &Symbols) -> &str {
    match datum {
        Datum::Text(symbol) => symbols.text(symbol),
        Datum::Null
        | Datum::Bool(_)
        | Datum::Int(_)
        | Datum::Float(_)
        | Datum::Object(_)
        | Datum::Ip(_) => "",
    }
}

fn protocol_number(datum: Datum) -> Option<u8> {
    match datum {
        Datum::Int(number) => u8::try_from(number).ok(),
        Datum::Null
        | Datum::Bool(_)
        | Datum::Float(_)
        | Datum::Text(_)
        | Datum::Object(_)
        | Datum::Ip(_) => None,
    }
}

fn address(datum: Datum) -> Option<IpAddr> {
    match datum {
        Datum::Ip(bits) => Some(ip_address(bits)),
        Datum::Null
        | Datum::Bool(_)
        | Datum::Int(_)
        | Datum::Float(_)
        | Datum::Text(_)
        | Datum::Object(_) => None,
    }
}
