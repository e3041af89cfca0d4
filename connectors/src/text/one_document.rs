//! A flow document that comes alone, without a file: its flow, field by field.
//!
//! It goes the way of every flow, through [`FlowIntake`], so that it means what it means in a run.

use super::flow_documents::Documents;
use super::flow_layout::FlowLayout;
use crate::dead_letter::Place;
use crate::flow_intake::{FlowContext, FlowIntake};
use crate::source::{Found, Polled};
use nilometer_model::flow::FLOW_FIELDS;
use nilometer_model::row::{Field, RowLayout, read};
use nilometer_model::symbol::Symbols;
use nilometer_model::value::Value;
use std::sync::Arc;

/// Makes fields of flow documents, one at a time.
#[derive(Debug)]
pub struct OneDocument {
    documents: Documents,
    layout: Arc<RowLayout>,
    symbols: Arc<Symbols>,
    origin: Arc<str>,
}

/// The document is no flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no flow document: {reason}: {detail}")]
pub struct NoFlow {
    /// Why, as in dead letters.
    pub reason: &'static str,
    /// Particulars for people.
    pub detail: Box<str>,
}

impl OneDocument {
    /// A reader that normalises with `context`.
    pub fn new(context: FlowContext) -> Self {
        let fields = FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty));
        let layout = Arc::new(RowLayout::new(fields));
        let symbols = Arc::new(Symbols::default());
        let intake = FlowIntake::new(context, &layout, symbols.clone(), 0);
        Self {
            documents: Documents::new(FlowLayout::Opennms, intake),
            layout,
            symbols,
            origin: "document".into(),
        }
    }

    /// All fields of the flow that `document`, a JSON object, is; in the order of [`FLOW_FIELDS`].
    ///
    /// # Errors
    /// It is no flow document, or its flow cannot be normalised.
    pub fn fields(&mut self, document: &str) -> Result<Vec<(&'static str, Value)>, NoFlow> {
        let mut out = Polled::new(self.layout.clone(), true);
        let found = Found::new(&self.origin, Place::Record(1), document.as_bytes());
        self.documents.decode(document, false, found, &mut out);
        if let Some(letter) = out.letters.first() {
            return Err(NoFlow { reason: letter.reason(), detail: letter.detail().into() });
        }
        let row = out.batch.row(0);
        let values = self.layout.slots().iter().map(|slot| read(row, *slot).value(&self.symbols));
        Ok(FLOW_FIELDS.iter().map(|info| info.name).zip(values).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_normalised_or_refused() {
        let mut reader = OneDocument::new(FlowContext::default());
        let fields = reader
            .fields(
                r#"{"exporter_node":{"node_id":7},"last_switched":5,"first_switched":1,
"num_bytes":10,"sampling_interval":3,"input_snmp_ifindex":4,"src_address":"::1"}"#,
            )
            .unwrap();
        let text = |name: &str| {
            let mut text = String::new();
            let (_, value) = fields.iter().find(|(known, _)| *known == name).unwrap();
            value.write_json(&mut text);
            text
        };
        for (name, expected) in [
            ("bytes_ingress", "30"),
            ("if_index", "4"),
            ("first_switched", "1"),
            ("src_address", "\"::1\""),
            ("application", "\"__unknown\""),
            ("dst_port", "null"),
        ] {
            assert_eq!(text(name), expected, "{name}");
        }
        for (document, reason) in [
            ("{}", "missing_exporter"),
            ("{\"exporter_node\":{}}", "no_times"),
            ("{\"exporter_node\":{},\"last_switched\":\"x\"}", "wrong_type"),
            ("[]", "not_json"),
        ] {
            assert_eq!(reader.fields(document).unwrap_err().reason, reason, "{document}");
        }
    }
}
