//! How the pipeline is run, where the sources allow it.

use super::inputs::Input;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use nilometer_model::engine::Engine;

/// The engine; `None` if it is wrong, which has then been reported.
pub(crate) fn engine(
    raw: &RawConfig,
    inputs: &[Input<'_>],
    problems: &mut Problems,
) -> Option<Engine> {
    let raw = raw.pipeline.value()?.engine.get()?;
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
    Some(engine)
}
