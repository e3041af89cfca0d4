//! How the pipeline is run, where the sources allow it.

use super::inputs::Input;
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use nilometer_model::engine::Engine;

/// The engine; `None` if it is wrong, which has then been reported.
pub(crate) fn engine(
    config: &RawConfig,
    inputs: &[Input<'_>],
    problems: &mut Problems,
) -> Option<Engine> {
    let raw = config.pipeline.value()?.engine.get()?;
    let engine = raw.value.engine()?;
    let live = inputs.iter().find(|input| input.kind.is_live());
    if let Some(live) = live.filter(|_| engine == Engine::Batch) {
        problems.add_with_help(
            raw.place,
            format!(
                "a batch gives results when its input has ended, but source `{}` is endless",
                live.name
            ),
            "take \"streaming\" or { micro_batch = \"10s\" }; a generator ends if it is told how \
             many `records` to make",
        );
        return None;
    }
    let close_after = raw_close_after(config);
    if let Some(place) = close_after.filter(|_| engine != Engine::Streaming) {
        problems.add_with_help(
            place,
            format!(
                "`close_after` means nothing to engine `{}`: nothing of it waits for the watermark",
                engine.name()
            ),
            "leave it out",
        );
        return None;
    }
    Some(engine)
}

/// Where it was typed that windows close by the clock, if they do.
fn raw_close_after(raw: &RawConfig) -> Option<Place> {
    let close_after = raw.watermark.value()?.close_after.get()?;
    close_after.value.0.map(|_| close_after.place)
}
