//! Flow documents in transcripts: a record that names its exporter as OpenNMS does is normalised,
//! as in a run; one under the names of fields is taken as it stands.

use crate::config::Records;
use crate::failure::Failure;
use crate::topology;
use nilometer_connectors::text::{NoFlow, OneDocument};
use nilometer_model::transcript::{Input, RecordLine, Transcript};
use nilometer_model::value::write_json_text;

/// Members that only a flow document has.
const MARKS: [&str; 2] = ["exporter_node", "exporterNode"];

/// Members that give the event time.
const TIMES: [&str; 2] = ["last_switched", "lastSwitched"];

/// Why a line is no flow.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct DocumentError {
    /// Line of the record.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) problem: NoFlow,
}

/// Reads the flow documents of transcripts; `None` where records are no flows.
///
/// # Errors
/// A table that normalisation needs cannot be read.
pub(crate) fn reader(records: &Records) -> Result<Option<OneDocument>, Failure> {
    match records {
        Records::Flows(_) => Ok(Some(OneDocument::new(topology::context(records)?))),
        Records::Declared(_) => Ok(None),
    }
}

/// Puts the fields of flows in the place of the documents in `transcript`.
///
/// # Errors
/// The first document that is no flow.
pub(crate) fn normalise(
    transcript: &mut Transcript,
    reader: &mut OneDocument,
) -> Result<(), DocumentError> {
    for scene in &mut transcript.steps {
        let Input::Records(lines) = &mut scene.input else { continue };
        let is_document =
            |line: &&mut RecordLine| MARKS.iter().any(|mark| line.fields.contains_key(*mark));
        for line in lines.iter_mut().filter(is_document) {
            if !TIMES.iter().any(|time| line.fields.contains_key(*time)) {
                line.fields.insert("last_switched".into(), line.time.as_millis().into());
            }
            let document = serde_json::Value::Object(std::mem::take(&mut line.fields));
            line.fields = fields(&document.to_string(), reader)
                .map_err(|problem| DocumentError { line: line.line, problem })?;
        }
    }
    Ok(())
}

/// The fields of the flow that `document` is, as JSON.
fn fields(
    document: &str,
    reader: &mut OneDocument,
) -> Result<serde_json::Map<String, serde_json::Value>, NoFlow> {
    let mut object = String::from("{");
    for (name, value) in reader.fields(document)? {
        if object.len() > 1 {
            object.push(',');
        }
        write_json_text(name, &mut object);
        object.push(':');
        value.write_json(&mut object);
    }
    object.push('}');
    serde_json::from_str(&object)
        .map_err(|error| NoFlow { reason: "not_json", detail: error.to_string().into() })
}
