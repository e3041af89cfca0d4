//! Who exported a flow: the table of known exporters, and the identity that keys are made of.
//!
//! Two addresses of one node are one exporter. An address that the table does not name is an
//! exporter of its own, node 0.

use crate::flow::sampling::is_valid_interval;
use crate::key::{encode, stable_hash};
use crate::value::{Value, write_json_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

/// A node of the inventory. Foreign source and foreign id come both or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Node {
    /// Number of the node; 0 is no node.
    pub node_id: u32,
    /// Foreign source and foreign id.
    pub foreign: Option<(Arc<str>, Arc<str>)>,
}

impl Node {
    /// A node; its foreign source and id are kept if both are there and not empty.
    pub fn new(node_id: u32, foreign_source: Option<&str>, foreign_id: Option<&str>) -> Self {
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(Arc::from);
        Self { node_id, foreign: given(foreign_source).zip(given(foreign_id)) }
    }
}

/// One line of the table of exporters.
#[derive(Debug, Clone, PartialEq)]
pub struct ExporterEntry {
    /// An address that the exporter sends from.
    pub address: IpAddr,
    /// The node that it is.
    pub node: Node,
    /// One in how many packets it samples, where its records do not say.
    pub sampling: Option<f64>,
}

/// A table of exporters that contradicts itself.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExportersError {
    /// Two lines for one address.
    #[error("address {address} stands in the table of exporters twice: remove one of the lines")]
    DuplicateAddress {
        /// The address.
        address: IpAddr,
    },
    /// One node with two identities.
    #[error(
        "node {node_id} has two different foreign sources or foreign ids in the table of exporters: make its lines agree"
    )]
    NodeDiffers {
        /// The node.
        node_id: u32,
    },
    /// A sampling that is no interval.
    #[error("sampling {sampling} of exporter {address} is not a finite number above zero")]
    Sampling {
        /// The exporter.
        address: IpAddr,
        /// What the line says.
        sampling: f64,
    },
}

/// The exporters that the user has named, by address.
#[derive(Debug, Clone, Default)]
pub struct Exporters {
    by_address: BTreeMap<IpAddr, ExporterEntry>,
}

impl Exporters {
    /// The table with these lines.
    ///
    /// # Errors
    /// Two lines contradict each other, or a sampling is no interval.
    pub fn new(entries: impl IntoIterator<Item = ExporterEntry>) -> Result<Self, ExportersError> {
        let mut by_address = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for mut entry in entries {
            let address = entry.address.to_canonical();
            entry.address = address;
            if let Some(sampling) = entry.sampling.filter(|sampling| !is_valid_interval(*sampling))
            {
                return Err(ExportersError::Sampling { address, sampling });
            }
            let node = entry.node.clone();
            if node.node_id != 0
                && *nodes.entry(node.node_id).or_insert_with(|| node.clone()) != node
            {
                return Err(ExportersError::NodeDiffers { node_id: node.node_id });
            }
            if by_address.insert(address, entry).is_some() {
                return Err(ExportersError::DuplicateAddress { address });
            }
        }
        Ok(Self { by_address })
    }

    /// What the table says about `address`.
    pub fn get(&self, address: IpAddr) -> Option<&ExporterEntry> {
        self.by_address.get(&address.to_canonical())
    }

    /// How many addresses the table names.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }
}

/// The identity of an exporter: what keys hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExporterId<'a> {
    /// A node of the table, or one that the record named.
    Node(&'a Node),
    /// An exporter that nobody named.
    Address(IpAddr),
}

impl<'a> ExporterId<'a> {
    /// The node's number; 0 for an exporter that nobody named.
    pub const fn node_id(self) -> u32 {
        match self {
            Self::Node(node) => node.node_id,
            Self::Address(_) => 0,
        }
    }

    /// What shifts the windows of this exporter `by_key`: the number of a named node, else the low
    /// half of the stable hash of the key, so that exporters nobody named do not all fire at once.
    pub fn window_phase(self) -> u32 {
        match self {
            Self::Node(node) => node.node_id,
            Self::Address(_) => {
                let (mut text, mut encoded) = (String::new(), Vec::new());
                self.write_json(&mut text);
                encode(&[Value::Object(text.into())], &mut encoded);
                stable_hash(&encoded) as u32
            }
        }
    }

    /// Foreign source and foreign id.
    pub fn foreign(self) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Node(node) => node.foreign.as_ref().map(|(source, id)| (&**source, &**id)),
            Self::Address(_) => None,
        }
    }

    /// Appends the identity as a compact JSON object, its members always in one order.
    pub fn write_json(self, out: &mut String) {
        // Writing to a String cannot fail.
        write!(out, "{{\"node_id\":{}", self.node_id()).unwrap_or_default();
        match self {
            Self::Node(node) => match &node.foreign {
                Some((source, id)) => {
                    out.push_str(",\"foreign_source\":");
                    write_json_text(source, out);
                    out.push_str(",\"foreign_id\":");
                    write_json_text(id, out);
                }
                None => out.push_str(",\"foreign_source\":null,\"foreign_id\":null"),
            },
            Self::Address(address) => {
                write!(out, ",\"address\":\"{address}\"").unwrap_or_default();
            }
        }
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: &str, node: Node, sampling: Option<f64>) -> ExporterEntry {
        ExporterEntry { address: address.parse().unwrap(), node, sampling }
    }

    #[test]
    fn identities_print_as_one_object() {
        let full = Node::new(1, Some("FS"), Some("R\"1"));
        let half = Node::new(7, Some("FS"), Some(""));
        for (id, expected) in [
            (ExporterId::Node(&full), r#"{"node_id":1,"foreign_source":"FS","foreign_id":"R\"1"}"#),
            (ExporterId::Node(&half), r#"{"node_id":7,"foreign_source":null,"foreign_id":null}"#),
            (
                ExporterId::Address("192.0.2.1".parse().unwrap()),
                r#"{"node_id":0,"address":"192.0.2.1"}"#,
            ),
        ] {
            let mut out = String::new();
            id.write_json(&mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn windows_are_shifted_by_the_node_or_by_a_hash_of_the_address() {
        let named = Node::new(99, None, None);
        assert_eq!(ExporterId::Node(&named).window_phase(), 99);
        // Computed by another implementation of XXH64 over the documented form of the key.
        for (address, expected) in [("192.0.2.1", 3_779_761_770), ("2001:db8::1", 310_743_421)] {
            let exporter = ExporterId::Address(address.parse().unwrap());
            assert_eq!(exporter.window_phase(), expected, "{address}");
        }
    }

    #[test]
    fn two_addresses_may_be_one_node() {
        let node = || Node::new(3, Some("FS"), Some("R3"));
        let table = Exporters::new([
            entry("192.0.2.1", node(), None),
            entry("2001:db8::1", node(), Some(10.0)),
        ])
        .unwrap();
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        let six = "2001:db8::1".parse().unwrap();
        assert_eq!(table.get(mapped).unwrap().node, table.get(six).unwrap().node);
        assert!(table.get("192.0.2.2".parse().unwrap()).is_none());
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn tables_that_contradict_themselves_are_refused() {
        let address = "192.0.2.1";
        let other = "192.0.2.2";
        let first = || entry(address, Node::new(3, Some("FS"), Some("R3")), None);
        for (second, message) in [
            (
                entry(address, Node::new(4, None, None), None),
                "address 192.0.2.1 stands in the table of exporters twice: remove one of the lines",
            ),
            (
                entry(other, Node::new(3, None, None), None),
                "node 3 has two different foreign sources or foreign ids in the table of exporters: make its lines agree",
            ),
            (
                entry(other, Node::default(), Some(0.0)),
                "sampling 0 of exporter 192.0.2.2 is not a finite number above zero",
            ),
        ] {
            let error = Exporters::new([first(), second]).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
