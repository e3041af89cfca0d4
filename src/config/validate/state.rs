//! Where state is stored, and what cannot be gone on with.

use crate::config::pipeline::StateConfig;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::reader::Given;
use crate::config::raw::sink::RawSink;
use nilometer_model::epoch::Bounds;
use std::path::PathBuf;

/// Where state is stored, if it is; `None` if that is wrong, which has then been reported.
pub(crate) fn state(raw: &RawConfig, problems: &mut Problems) -> Option<Option<StateConfig>> {
    if raw.state.is_absent() {
        return Some(None);
    }
    let state = raw.state.get()?;
    for sink in raw.sink.value().map_or(&[][..], |sinks| &sinks.tables) {
        if let RawSink::Table(table) = sink
            && let Some(name) = table.name.get()
        {
            problems.add_with_help(
                name.place,
                format!(
                    "sink `{}` shows the results of one run, and with `state` they come from \
                     several",
                    name.value
                ),
                "take a file or stdout: kind = \"file\"",
            );
        }
    }
    let (dir, interval) = (state.value.dir.value()?, state.value.epoch.value()?.0);
    let is_checked = *state.value.check.value()?;
    let bounds = Bounds {
        epoch_bytes_max: state.value.max_epoch_bytes.value()?.0,
        unpublished_bytes_max: state.value.max_unpublished_bytes.value()?.0,
        ..Bounds::default()
    };
    let memory = match &state.value.memory {
        Given::Absent => None,
        Given::Wrong => return None,
        Given::Value(memory) => Some(memory.value.0),
    };
    Some(Some(StateConfig { dir: PathBuf::from(dir), interval, bounds, memory, is_checked }))
}
