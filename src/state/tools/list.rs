//! `nilometer state ls`: what a state holds, and how much of it.

use super::opened::Opened;
use super::{Format, ListArgs, ToolError};
use crate::standing::{Names, describe, instant};
use crate::summary_table::{counted, grouped};
use crate::text_table::text_table;
use nilometer_actors::checkpoint::{Checkpoint, sink_name};
use nilometer_connectors::store::Store;
use nilometer_model::image::{EntryView, StoredEntry};
use nilometer_model::key::stable_hash;
use nilometer_model::time::{EventTime, Watermark};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;

/// What a state holds.
#[derive(Debug, Serialize)]
struct Listing {
    dir: Box<str>,
    pipeline: Box<str>,
    epoch: u64,
    /// Version of the program that stored it.
    stored_by: Box<str>,
    shards: usize,
    #[serde(rename = "watermark_ms", serialize_with = "millis")]
    watermark: Watermark,
    /// Bytes of the database.
    disk_bytes: u64,
    /// Runs that have failed in a row since.
    failed_runs: usize,
    stages: Vec<StageRow>,
    sources: Vec<SourceRow>,
    sinks: Vec<SinkRow>,
    #[serde(skip)]
    standing: String,
}

#[derive(Debug, Serialize)]
struct StageRow {
    name: Box<str>,
    keys: u64,
    /// Keys, or windows of keys, that lie in pages and not in memory.
    in_pages: u64,
    windows: u64,
    slices: u64,
    sessions: u64,
    /// Bytes of all these, before packing.
    bytes: u64,
    #[serde(rename = "watermark_ms", serialize_with = "millis")]
    watermark: Watermark,
    #[serde(skip)]
    known: HashSet<u64>,
}

#[derive(Debug, Serialize)]
struct SourceRow {
    name: Box<str>,
    records_read: u64,
    /// Whether its input gives the same records again.
    is_exact: bool,
}

#[derive(Debug, Serialize)]
struct SinkRow {
    name: Box<str>,
    panes: u64,
    retractions: u64,
    late_copies: u64,
    /// Length of its file before the results of the last epoch, if it has one.
    written_bytes: Option<u64>,
    /// Results of the last epoch that may not have been written, bytes.
    unwritten_bytes: u64,
}

/// Milliseconds; none where the watermark is not within time.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn millis<S: Serializer>(watermark: &Watermark, serializer: S) -> Result<S::Ok, S::Error> {
    let is_finite = ![EventTime::MIN, EventTime::MAX].contains(&watermark.0);
    is_finite.then(|| watermark.0.as_millis()).serialize(serializer)
}

/// Prints the list.
pub(super) fn execute(args: &ListArgs) -> Result<(), ToolError> {
    let listing = Listing::new(&Opened::new(&args.dir)?)?;
    let text = match args.format {
        Format::Text => listing.text(),
        // Names and numbers: there is nothing that JSON could not say.
        Format::Json => serde_json::to_string_pretty(&listing).unwrap_or_default() + "\n",
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

impl Listing {
    fn new(opened: &Opened) -> Result<Self, ToolError> {
        let checkpoint = opened.checkpoint()?;
        let manifest = &opened.manifest;
        let sources = manifest.sources.iter().zip(&checkpoint.sources).map(|(source, cut)| {
            let read = cut.as_ref().map_or(0, |cut| cut.account.read);
            let is_exact = cut.as_ref().is_some_and(|cut| cut.is_exact);
            SourceRow { name: source.name.clone(), records_read: read, is_exact }
        });
        let named = manifest.sources.iter().map(|source| Arc::from(&*source.name));
        let named: Vec<Arc<str>> = named.collect();
        let names = Names { sources: &named, holder: None };
        Ok(Self {
            dir: opened.path.clone(),
            pipeline: opened.look.pipeline().into(),
            epoch: checkpoint.epoch.number(),
            stored_by: manifest.nilometer.clone(),
            shards: checkpoint.shards.len(),
            watermark: checkpoint.coordinator.watermark(),
            disk_bytes: opened.look.bytes()?,
            failed_runs: opened.look.abort_file().read()?.count(),
            stages: stages(opened, &checkpoint)?,
            sources: sources.collect(),
            sinks: sinks(opened, &checkpoint)?,
            standing: describe(&checkpoint.coordinator.standing(), names),
        })
    }

    fn text(&self) -> String {
        let Self { dir, pipeline, epoch, stored_by, shards, .. } = self;
        let shards = counted(*shards as u64, "shard", "shards");
        let mut text = format!(
            "state `{dir}` of pipeline `{pipeline}`: epoch {epoch}, {shards}, stored \
             by nilometer {stored_by}; {} bytes on disk\n{}\n",
            grouped(self.disk_bytes),
            self.standing
        );
        if self.failed_runs > 0 {
            let runs = self.failed_runs as u64;
            let runs = counted(runs, "run has failed, and comes", "runs have failed, and come");
            text.push_str(&format!("its last {runs} no further\n"));
        }
        text.push_str(&format!("\n{}\n", self.stage_table()));
        let rows = self.sources.iter().map(|source| {
            let again = if source.is_exact { "exactly" } else { "what comes from then on" };
            [source.name.to_string(), grouped(source.records_read), again.to_owned()]
        });
        let header = ["source", "records read", "is read again"];
        text.push_str(&format!("\n{}\n", text_table(&header, &[1], rows)));
        let rows = self.sinks.iter().map(|sink| {
            let SinkRow { panes, retractions, late_copies, unwritten_bytes, .. } = sink;
            let numbers = [*panes, *retractions, *late_copies, *unwritten_bytes];
            std::iter::once(sink.name.to_string()).chain(numbers.map(grouped)).collect::<Vec<_>>()
        });
        let header = ["sink", "panes", "retractions", "late copies", "bytes to be written"];
        text.push_str(&format!("\n{}\n", text_table(&header, &[1, 2, 3, 4], rows)));
        text
    }

    /// Columns that hold nothing are left out.
    fn stage_table(&self) -> String {
        type Column = (&'static str, bool, fn(&StageRow) -> u64);
        let columns: [Column; 6] = [
            ("keys", true, |stage| stage.keys),
            ("in pages", false, |stage| stage.in_pages),
            ("windows", true, |stage| stage.windows),
            ("slices", false, |stage| stage.slices),
            ("sessions", false, |stage| stage.sessions),
            ("bytes", true, |stage| stage.bytes),
        ];
        let is_shown = |(_, always, number): &Column| {
            *always || self.stages.iter().any(|stage| number(stage) > 0)
        };
        let columns: Vec<_> = columns.into_iter().filter(is_shown).collect();
        let names = columns.iter().map(|(name, _, _)| *name);
        let header: Vec<_> = std::iter::once("stage").chain(names).chain(["watermark"]).collect();
        let rows = self.stages.iter().map(|stage| {
            let numbers = columns.iter().map(|(_, _, number)| grouped(number(stage)));
            let name = std::iter::once(stage.name.to_string());
            name.chain(numbers).chain([instant(stage.watermark.0)]).collect::<Vec<_>>()
        });
        let numbers: Vec<_> = (1..=columns.len()).collect();
        text_table(&header, &numbers, rows)
    }
}

fn stages(opened: &Opened, checkpoint: &Checkpoint) -> Result<Vec<StageRow>, ToolError> {
    let standings = opened.stages(checkpoint)?;
    let mut rows: BTreeMap<Box<str>, StageRow> = BTreeMap::new();
    for standing in standings.into_iter().flatten() {
        let row = rows.entry(standing.name.clone());
        let row = row.or_insert_with(|| StageRow::new(standing.name, standing.watermark));
        row.watermark = row.watermark.min(standing.watermark);
    }
    opened.each(|entry| {
        let view = opened.layouts.view(&entry).map_err(|source| opened.image(source))?;
        if let Some(row) = rows.get_mut(entry.stage) {
            row.add(&entry, &view);
        }
        Ok(())
    })?;
    let order = opened.manifest.stages.iter();
    Ok(order.filter_map(|stage| rows.remove(&stage.print.name)).collect())
}

impl StageRow {
    fn new(name: Box<str>, watermark: Watermark) -> Self {
        Self {
            name,
            keys: 0,
            in_pages: 0,
            windows: 0,
            slices: 0,
            sessions: 0,
            bytes: 0,
            watermark,
            known: HashSet::new(),
        }
    }

    fn add(&mut self, entry: &StoredEntry<'_>, view: &EntryView) {
        let mut key = String::new();
        for (_, value) in &view.key {
            value.write_json(&mut key);
            key.push(',');
        }
        // Windows of a key may be kept one by one, and its slices beside them.
        if self.known.insert(stable_hash(key.as_bytes())) {
            self.keys += 1;
        }
        let slices = view.windows.iter().filter(|window| window.is_slice).count();
        self.in_pages += u64::from(entry.is_cold);
        self.slices += slices as u64;
        self.windows += (view.windows.len() - slices) as u64;
        self.sessions += view.sessions.len() as u64;
        self.bytes += (entry.name.len() + entry.content.len()) as u64;
    }
}

fn sinks(opened: &Opened, checkpoint: &Checkpoint) -> Result<Vec<SinkRow>, ToolError> {
    let mut rows = Vec::new();
    for (sink, cut) in opened.manifest.sinks.iter().zip(&checkpoint.sinks) {
        let (panes, retractions, late_copies) = cut.as_ref().map_or((0, 0, 0), |cut| cut.counts);
        let is_written = opened.store().noted(&sink_name(&sink.name))? >= checkpoint.epoch;
        let blocks = format!("outbox/{}/", sink.name);
        let of_sink = opened.store().parts().filter(|(part, _)| part.starts_with(&blocks));
        let bytes: u64 = of_sink.map(|(_, bytes)| bytes).sum();
        let unwritten_bytes = if is_written { 0 } else { bytes };
        let (name, written_bytes) = (sink.name.clone(), cut.as_ref().and_then(|cut| cut.begins));
        rows.push(SinkRow {
            name,
            panes,
            retractions,
            late_copies,
            written_bytes,
            unwritten_bytes,
        });
    }
    Ok(rows)
}
