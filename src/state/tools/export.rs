//! `nilometer state export`: the last epoch of a state as lines of JSON.

use super::lines::{EXPORT_VERSION, End, Entry, Head, Line, Note, Part, to_hex};
use super::opened::Opened;
use super::{ExportArgs, ToolError, json};
use nilometer_actors::checkpoint::{Checkpoint, sink_name};
use nilometer_connectors::store::Store;
use nilometer_model::epoch::Aborts;
use nilometer_model::image::IMAGE_VERSION;
use serde::Serialize;
use serde_json::Value as Json;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufWriter, Write};
use twox_hash::XxHash64;

/// Writes the export.
pub(super) fn execute(args: &ExportArgs) -> Result<(), ToolError> {
    let opened = Opened::new(&args.dir)?;
    let Some(path) = &args.output else {
        return export(&opened, Lines::new(io::stdout().lock()), ToolError::Stdout);
    };
    let failed = |source| ToolError::Output { path: path.clone(), source };
    let file = File::create(path).map_err(failed)?;
    export(&opened, Lines::new(file), failed)
}

fn export(
    opened: &Opened,
    mut lines: Lines<impl Write>,
    failed: impl Fn(io::Error) -> ToolError,
) -> Result<(), ToolError> {
    let checkpoint = opened.checkpoint()?;
    let head = Line::Head(Head {
        version: EXPORT_VERSION,
        nilometer: env!("CARGO_PKG_VERSION").into(),
        image: IMAGE_VERSION,
        pipeline: opened.look.pipeline().into(),
        epoch: checkpoint.epoch.number(),
    });
    lines.write(&head).map_err(&failed)?;
    for (name, _) in opened.store().parts() {
        let content = opened.store().read(name)?.unwrap_or_default();
        let about = about(opened, &checkpoint, name)?;
        lines.write(&Line::Part(part(name, content, about))).map_err(&failed)?;
    }
    for sink in &opened.manifest.sinks {
        let name = sink_name(&sink.name);
        let epoch = opened.store().noted(&name)?.number();
        lines.write(&Line::Note(Note { name: name.into(), epoch })).map_err(&failed)?;
    }
    let aborts = opened.look.abort_file().read()?;
    if aborts != Aborts::default() {
        lines.write(&Line::FailedRuns(aborts)).map_err(&failed)?;
    }
    opened.each(|stored| {
        let view = opened.layouts.view(&stored).map_err(|source| opened.image(source))?;
        let entry = Entry {
            stage: stored.stage.into(),
            table: stored.kind.name().into(),
            group: stored.group.0,
            name: to_hex(stored.name),
            content: to_hex(stored.content),
            about: json::entry(&stored, &view),
        };
        lines.write(&Line::Entry(entry)).map_err(&failed)
    })?;
    lines.finish().map_err(&failed)
}

/// A part in the form that says most.
fn part(name: &str, content: Vec<u8>, about: Option<Json>) -> Part {
    let mut part = Part { name: name.into(), text: None, json: None, hex: None, about };
    if let Ok(json) = serde_json::from_slice(&content)
        && name == "pipeline"
    {
        part.json = Some(json);
        return part;
    }
    // Results that are to be written are texts.
    match String::from_utf8(content) {
        Ok(text) if name.starts_with("outbox/") => part.text = Some(text),
        Ok(text) => part.hex = Some(to_hex(text.as_bytes())),
        Err(error) => part.hex = Some(to_hex(error.as_bytes())),
    }
    part
}

/// What there is to say of a part that is no text.
fn about(opened: &Opened, checkpoint: &Checkpoint, name: &str) -> Result<Option<Json>, ToolError> {
    // Numbers and texts: there is nothing that JSON could not say.
    fn said(of: &impl Serialize) -> Option<Json> {
        serde_json::to_value(of).ok()
    }
    if name == "coordinator" {
        return Ok(said(&checkpoint.coordinator));
    }
    let sources = opened.manifest.sources.iter().zip(&checkpoint.sources);
    for (source, cut) in sources {
        if name.strip_prefix("source/") == Some(&*source.name) {
            return Ok(cut.as_ref().and_then(|cut| said(&(&cut.account, &cut.estimates))));
        }
    }
    let shards = opened.stages(checkpoint)?.into_iter().enumerate();
    let mut shards = shards.filter(|(number, _)| name == format!("shard/{number}"));
    Ok(shards.next().and_then(|(_, stages)| said(&stages)))
}

/// Lines on their way out.
struct Lines<W: Write> {
    out: BufWriter<W>,
    hasher: XxHash64,
    count: u64,
}

impl<W: Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { out: BufWriter::new(out), hasher: XxHash64::with_seed(0), count: 0 }
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.hasher.write(&bytes);
        self.count += 1;
        self.out.write_all(&bytes)
    }

    fn finish(mut self) -> io::Result<()> {
        let end = End { lines: self.count, xxh64: format!("{:016x}", self.hasher.finish()) };
        self.write(&Line::End(end))?;
        self.out.flush()
    }
}
