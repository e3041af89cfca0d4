//! `nilometer state verify`: a state read to its last byte.

use super::opened::Opened;
use super::{ToolError, VerifyArgs};
use crate::summary_table::{counted, grouped};
use nilometer_connectors::store::Examination;
use std::io::Write as _;

/// How many damaged entries are named.
const NAMED_MAX: usize = 20;

/// Says that the state is whole.
pub(super) fn execute(args: &VerifyArgs) -> Result<(), ToolError> {
    let opened = Opened::new(&args.dir)?;
    let found = Examination::of(opened.store())?;
    let mut damage = found.damage;
    // What rests on damaged rows would only say the same again.
    let mut entries = 0_u64;
    if damage.is_empty() {
        match opened.checkpoint().and_then(|checkpoint| opened.stages(&checkpoint)) {
            Ok(_) => entries = check_entries(&opened, &mut damage)?,
            Err(error) => damage.push(error.to_string()),
        }
    }
    if let Err(error) = opened.look.abort_file().read() {
        damage.push(error.to_string());
    }
    if !damage.is_empty() {
        return Err(ToolError::Damaged { path: opened.path, damage });
    }
    let epochs = match found.epochs.as_slice() {
        [first, .., last] => format!("epochs {first} to {last}"),
        [one] => format!("epoch {one}"),
        [] => "no epoch".to_owned(),
    };
    writeln!(
        std::io::stdout().lock(),
        "state `{}` is whole: {epochs}; {}, {} of the log, {}, {}, {} bytes",
        opened.path,
        counted(found.parts, "part", "parts"),
        counted(found.pieces, "piece", "pieces"),
        counted(found.pages, "page", "pages"),
        counted(entries, "entry", "entries"),
        grouped(found.bytes),
    )?;
    Ok(())
}

/// Reads every entry; returns how many are whole.
fn check_entries(opened: &Opened, damage: &mut Vec<String>) -> Result<u64, ToolError> {
    let (mut whole, mut damaged) = (0, 0_usize);
    let read = opened.each(|entry| {
        match opened.layouts.view(&entry) {
            Ok(_) => whole += 1,
            Err(error) => {
                damaged += 1;
                if damaged <= NAMED_MAX {
                    let (stage, group) = (entry.stage, entry.group.0);
                    damage.push(format!("an entry of stage `{stage}`, key group {group}: {error}"));
                }
            }
        }
        Ok(())
    });
    match read {
        Ok(()) => {}
        Err(ToolError::Image { source, .. }) => damage.push(format!("the log: {source}")),
        Err(error) => return Err(error),
    }
    if damaged > NAMED_MAX {
        damage.push(format!("and {} more entries", damaged - NAMED_MAX));
    }
    Ok(whole)
}
