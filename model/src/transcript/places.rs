//! What lines of a transcript name, looked up in the plan: windows. A name that the plan
//! does not have is told, since a line about it would always hold.

use super::json::is_same;
use super::outcome::{json, key_text};
use super::problem::suggest;
use crate::planner::nearest;
use crate::shard::Shard;
use crate::time::Window;

/// Whether a window of a stage and key has state; an error says what there is instead of the place.
pub(super) fn is_open(
    shard: &Shard,
    (name, key, window): (&str, &serde_json::Value, Window),
) -> Result<bool, Box<str>> {
    let Some(stage) = shard.plan.stage(name) else {
        let near = nearest(name, shard.plan.stages.iter().map(|stage| &*stage.name));
        return Err(format!("there is no stage `{name}`{}", suggest(&near)).into());
    };
    // The windows of a list belong to its parent key.
    let layout = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent);
    let wanted: Vec<_> = layout.fields().iter().map(|field| &*field.name).collect();
    let given = key.as_object();
    let is_key = given.is_some_and(|given| {
        given.len() == wanted.len() && wanted.iter().all(|name| given.contains_key(*name))
    });
    if !is_key {
        let wanted = wanted.join(", ");
        return Err(format!("the windows of `{name}` have the key ({wanted})").into());
    }
    let open = shard.windows();
    Ok(open.iter().any(|(id, words, open)| {
        *id == stage.id
            && *open == window
            && is_same(key, &json(&key_text(layout, words, None, &shard.symbols)))
    }))
}
