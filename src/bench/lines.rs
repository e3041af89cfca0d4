//! The hand-written side of `--format json`: lines of JSON, read by a plain typed parser.

use super::packed::{Place, Record, What};
use hashbrown::HashMap;
use nilometer_model::flow::{ExporterId, Node};
use nilometer_model::symbol::{Symbol, SymbolCache, Symbols, SymbolsFull};
use nilometer_model::value::ip_bits;
use serde::Deserialize;
use std::borrow::Cow;
use std::net::IpAddr;

#[derive(Deserialize)]
struct Line<'a> {
    num_bytes: u64,
    num_packets: u64,
    #[serde(borrow)]
    direction: Cow<'a, str>,
    #[serde(borrow)]
    src_address: Cow<'a, str>,
    #[serde(borrow)]
    dst_address: Cow<'a, str>,
    protocol: u8,
    dscp: u8,
    ecn: Option<u8>,
    input_snmp_ifindex: u32,
    output_snmp_ifindex: u32,
    delta_switched: i64,
    last_switched: i64,
    sampling_interval: Option<f64>,
    #[serde(borrow)]
    application: Cow<'a, str>,
    #[serde(borrow)]
    location: Cow<'a, str>,
    #[serde(borrow)]
    exporter_node: NodeLine<'a>,
}

#[derive(Deserialize)]
struct NodeLine<'a> {
    node_id: u32,
    #[serde(borrow)]
    foreign_source: Cow<'a, str>,
    #[serde(borrow)]
    foregin_id: Cow<'a, str>,
}

/// A line that the hand-written parser cannot use.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// Not of the form that the generator writes.
    #[error("generated line: {0}")]
    Json(#[from] serde_json::Error),
    /// An address that is none.
    #[error("generated line: {0}")]
    Address(#[from] std::net::AddrParseError),
    /// There are too many texts.
    #[error("generated line: {0}")]
    Texts(#[from] SymbolsFull),
}

/// Parses lines, remembering what it has seen.
#[derive(Debug, Default)]
pub(super) struct LineParser {
    texts: SymbolCache,
    exporters: HashMap<u32, Symbol>,
}

impl LineParser {
    /// The record of `line`.
    ///
    /// # Errors
    /// It is not of the form that the generator writes.
    pub(super) fn record(&mut self, line: &str, symbols: &Symbols) -> Result<Record, LineError> {
        let line: Line<'_> = serde_json::from_str(line)?;
        let exporter = self.exporter(&line.exporter_node, symbols)?;
        let application = self.texts.intern(symbols, &line.application)?;
        let location = self.texts.intern(symbols, &line.location)?;
        let is_ingress = line.direction == "INGRESS";
        let if_index = if is_ingress { line.input_snmp_ifindex } else { line.output_snmp_ifindex };
        let mut ends = [&line.src_address, &line.dst_address];
        ends.sort_unstable();
        let [lower, upper] = ends.map(|text| text.parse::<IpAddr>().map(ip_bits));
        // The generator's intervals are whole numbers.
        let interval = line.sampling_interval.map_or(1, |interval| interval as u64);
        Ok(Record {
            place: Place::new(exporter, if_index),
            what: What::new(application, location, line.protocol, line.dscp),
            lower: lower?,
            upper: upper?,
            bytes: line.num_bytes * interval,
            packets: line.num_packets * interval,
            first: line.delta_switched,
            last: line.last_switched,
            is_ingress,
            is_congested: line.ecn == Some(3),
            is_non_ect: matches!(line.ecn, None | Some(0)),
        })
    }

    fn exporter(&mut self, node: &NodeLine<'_>, symbols: &Symbols) -> Result<Symbol, LineError> {
        if let Some(known) = self.exporters.get(&node.node_id) {
            return Ok(*known);
        }
        let (source, id) = (&*node.foreign_source, &*node.foregin_id);
        let mut text = String::new();
        ExporterId::Node(&Node::new(node.node_id, Some(source), Some(id))).write_json(&mut text);
        let symbol = symbols.intern(&text)?;
        self.exporters.insert(node.node_id, symbol);
        Ok(symbol)
    }
}
