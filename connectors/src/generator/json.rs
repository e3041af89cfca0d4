//! A flow as a line of JSON with OpenNMS' field names: what the preset `opennms` reads.
//!
//! What a record does not say is left out, as the original leaves it out.

use nilometer_model::flow::Flow;
use nilometer_model::value::write_json_text;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;

/// Appends `flow` to `out` as one JSON object and a line feed.
pub fn write_opennms(flow: &Flow, out: &mut String) {
    let mut object = Object::open(out);
    object.number("timestamp", flow.header_ms.or(flow.last_ms));
    object.number("num_bytes", flow.bytes);
    object.number("num_packets", flow.packets);
    object.text("direction", flow.direction.map(|direction| direction.name()));
    object.address("src_address", flow.src_address);
    object.text("src_hostname", flow.src_hostname.as_deref());
    object.number("src_port", flow.src_port);
    object.number("src_as", flow.src_as);
    object.address("dst_address", flow.dst_address);
    object.text("dst_hostname", flow.dst_hostname.as_deref());
    object.number("dst_port", flow.dst_port);
    object.number("dst_as", flow.dst_as);
    object.address("next_hop_address", flow.next_hop);
    object.number("protocol", flow.protocol);
    object.number("tcp_flags", flow.tcp_flags);
    object.number("tos", flow.tos);
    object.number("dscp", flow.dscp.or(flow.tos.map(|tos| tos >> 2)));
    object.number("ecn", flow.ecn.or(flow.tos.map(|tos| tos & 3)));
    object.number("input_snmp_ifindex", flow.input);
    object.number("output_snmp_ifindex", flow.output);
    object.number("first_switched", flow.first_ms);
    object.number("delta_switched", flow.delta_ms.or(flow.first_ms));
    object.number("last_switched", flow.last_ms);
    let interval = flow.sampling_interval.or(flow.options_sampling);
    object.number("sampling_interval", interval.filter(|interval| interval.is_finite()));
    object.text("application", flow.application.as_deref());
    object.text("location", flow.location.as_deref());
    object.text("netflow_version", flow.version.map(|version| version.name()));
    if let Some(node) = &flow.node {
        let mut inner = object.object("exporter_node");
        if let Some((source, id)) = &node.foreign {
            inner.text("foreign_source", Some(source));
            // So it is spelt in the original, and on the wire.
            inner.text("foregin_id", Some(id));
        }
        inner.number("node_id", Some(node.node_id));
        inner.close();
    }
    object.close();
    out.push('\n');
}

/// A JSON object under construction.
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    pub(super) fn close(self) {
        self.out.push('}');
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    /// A member that is an object; to be closed before the next member.
    pub(super) fn object(&mut self, name: &str) -> Object<'_> {
        self.name(name);
        Object::open(self.out)
    }

    /// `Display` of every number in use is JSON.
    pub(super) fn number(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.name(name);
            write!(self.out, "{value}").unwrap_or_default();
        }
    }

    pub(super) fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.name(name);
            write_json_text(value, self.out);
        }
    }

    fn address(&mut self, name: &str, value: Option<IpAddr>) {
        if let Some(value) = value {
            self.name(name);
            write!(self.out, "\"{value}\"").unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{FlowGenerator, GeneratorSettings};
    use nilometer_model::flow::{Direction, Node};
    use nilometer_model::time::EventTime;

    #[test]
    fn absent_facts_are_left_out_and_texts_are_escaped() {
        let flow = Flow {
            node: Some(Node::new(7, Some("F\"S"), Some("R1"))),
            direction: Some(Direction::Egress),
            src_address: Some("2001:db8::1".parse().unwrap()),
            tos: Some(185),
            bytes: Some(u64::MAX),
            last_ms: Some(-5),
            sampling_interval: Some(f64::NAN),
            ..Flow::default()
        };
        let mut line = String::new();
        write_opennms(&flow, &mut line);
        let expected = concat!(
            r#"{"timestamp":-5,"num_bytes":18446744073709551615,"direction":"EGRESS","#,
            r#""src_address":"2001:db8::1","tos":185,"dscp":46,"ecn":1,"last_switched":-5,"#,
            r#""exporter_node":{"foreign_source":"F\"S","foregin_id":"R1","node_id":7}}"#,
            "\n",
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn every_generated_line_is_json() {
        let settings = GeneratorSettings { records: Some(200), ..GeneratorSettings::default() };
        for flow in FlowGenerator::new(settings, EventTime::from_millis(0)) {
            let mut line = String::new();
            write_opennms(&flow, &mut line);
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["num_bytes"].as_u64(), flow.bytes);
            assert_eq!(
                value["src_address"].as_str(),
                Some(&*flow.src_address.unwrap().to_string())
            );
        }
    }
}
