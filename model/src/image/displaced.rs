//! Keys that lie in other groups than they did when they were stored.
//!
//! A page is of one key group, so it cannot go on: its entries are put where their keys lie now, one
//! page after the other, and leave again what is too much in memory. The page itself stays until no
//! epoch is kept that knows of it.

use super::bytes::Input;
use super::segment::TableKind;
use super::{ImageError, form, other_plan, table_mut};
use crate::cold::{PageError, live_images};
use crate::key::Placing;
use crate::memory::Displaced;
use crate::plan::{Plan, Stage};
use crate::shard::Shard;
use crate::symbol::Symbols;
use std::sync::Arc;

/// Bytes of entries that come into memory before some leave it, about.
const BATCH_BYTES: usize = 4 << 20;

/// Installs an entry where its key lies now.
pub(super) fn place(
    shards: &mut [Shard],
    (plan, stage, symbols): (&Plan, &Stage, &Symbols),
    (placing, kind): (&mut Placing, TableKind),
    (name, content): (Input<'_>, Input<'_>),
) -> Result<(), ImageError> {
    let (index, count) = (stage.id.index(), shards.len());
    let Some(machine) = shards.first().and_then(|shard| shard.machines.get(index)) else {
        return Ok(());
    };
    let (key, _) = form(machine, kind, stage, symbols).name(&mut Input(name.0))?;
    let id = placing.group(&key, symbols).shard(plan.key_groups, count);
    let machine = shards.get_mut(id).and_then(|shard| shard.machines.get_mut(index));
    let Some(machine) = machine else { return Ok(()) };
    let form = form(machine, kind, stage, symbols);
    let Some(table) = table_mut(machine, kind) else {
        return Err(other_plan(&format!("the window or trigger of `{}`", stage.name)));
    };
    table.install(name, content, &form)?;
    Ok(())
}

/// Puts the keys of pages that cannot go on where they lie now. To be called once all shards keep
/// their state within a budget, and before anything is taken.
///
/// # Errors
/// A page cannot be read, or none can be written.
pub fn place_displaced(shards: &mut [Shard]) -> Result<(), PageError> {
    let Some(first) = shards.first_mut() else { return Ok(()) };
    let (plan, symbols) = (Arc::clone(&first.plan), Arc::clone(&first.symbols));
    let Some(Displaced { at, pages }) = first.take_displaced() else { return Ok(()) };
    let mut bytes = 0;
    for page in pages {
        let Some(stage) = plan.stages.get(page.stage) else { continue };
        let mut placing = Placing::of_stage(&plan, stage);
        let damaged = || PageError::Damaged { page: page.known.number };
        for image in live_images(&page.known, at.read(page.known.number)?)? {
            let mut content = Input(&image);
            let name = Input(content.bytes().map_err(|_| damaged())?);
            let (of, table) = ((&*plan, stage, &*symbols), (&mut placing, page.kind));
            place(shards, of, table, (name, content)).map_err(|_| damaged())?;
            bytes += image.len();
        }
        if bytes > BATCH_BYTES {
            bytes = 0;
            shards.iter_mut().try_for_each(Shard::reweigh)?;
        }
    }
    shards.iter_mut().try_for_each(Shard::reweigh)
}
