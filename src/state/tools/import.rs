//! `nilometer state import`: a state made of what `nilometer state export` has written.
//!
//! Invariant: a state is made of all of it, or none is. Nothing is durable before the last line has
//! said that all have come, and what is there before is marked as not whole.

use super::lines::{EXPORT_VERSION, End, Entry, Head, Line, Part, from_hex};
use super::opened::layouts;
use super::{ImportArgs, ToolError};
use crate::failure::tell;
use crate::state::manifest::Manifest;
use nilometer_connectors::store::database::Database;
use nilometer_connectors::store::{AbortFile, Directory, Store};
use nilometer_model::epoch::{Aborts, Epoch};
use nilometer_model::image::{
    IMAGE_VERSION, ImageError, Layouts, Rewriter, StoredEntry, TableKind,
};
use nilometer_model::key::KeyGroup;
use serde::Deserialize;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use twox_hash::XxHash64;

/// Makes the state.
pub(super) fn execute(args: &ImportArgs) -> Result<(), ToolError> {
    let shown: Box<str> =
        args.file.as_ref().map_or("stdin".into(), |file| file.to_string_lossy().into());
    let failed = |source| ToolError::Input { path: shown.clone(), source };
    let input: Box<dyn BufRead> = match &args.file {
        Some(path) => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
        None => Box::new(io::stdin().lock()),
    };
    let mut lines = Lines { input, shown, number: 0, hasher: XxHash64::with_seed(0) };
    let head = head(&mut lines)?;
    let was_there = args.dir.exists();
    let directory = Directory::new(&args.dir, &head.pipeline)?;
    let (aborts, mark) = (directory.abort_file(), directory.mark_import()?);
    let imported = Database::open(directory, &head.pipeline)
        .map_err(ToolError::from)
        .and_then(|store| import(store, &mut lines, (&head, &aborts)))
        .and_then(|entries| mark.remove().map(|()| entries).map_err(ToolError::from));
    match imported {
        Ok(entries) => {
            let Head { epoch, pipeline, .. } = &head;
            tell(&format!("imported epoch {epoch} of pipeline `{pipeline}`: {entries} entries\n"));
            Ok(())
        }
        Err(error) => {
            clear(&args.dir, was_there);
            Err(error)
        }
    }
}

/// Leaves the directory as it was. What cannot be cleared is named by the next import.
fn clear(dir: &Path, was_there: bool) {
    let _cleared = fs::remove_dir_all(dir);
    if was_there {
        let _made = fs::create_dir(dir);
    }
}

/// The lines of an export.
struct Lines {
    input: Box<dyn BufRead>,
    shown: Box<str>,
    number: u64,
    /// Of the lines that have been read.
    hasher: XxHash64,
}

impl Lines {
    /// The next line, and the checksum of those before it.
    fn next(&mut self) -> Result<(String, u64), ToolError> {
        let mut line = String::new();
        let read = self.input.read_line(&mut line);
        let read = read.map_err(|source| ToolError::Input { path: self.shown.clone(), source })?;
        self.number += 1;
        if read == 0 {
            return Err(self.wrong("the export ends here, and its last line is missing"));
        }
        let before = self.hasher.finish();
        self.hasher.write(line.as_bytes());
        Ok((line, before))
    }

    fn wrong(&self, what: impl Into<Box<str>>) -> ToolError {
        ToolError::Export { path: self.shown.clone(), line: self.number, what: what.into() }
    }

    fn image(&self, error: &ImageError) -> ToolError {
        self.wrong(error.to_string())
    }
}

/// The first line, if this program can read what follows.
fn head(lines: &mut Lines) -> Result<Head, ToolError> {
    #[derive(Deserialize)]
    struct First {
        head: Version,
    }
    #[derive(Deserialize)]
    struct Version {
        version: u32,
        nilometer: Box<str>,
        image: u16,
    }
    let (line, _) = lines.next()?;
    let first: First = serde_json::from_str(&line)
        .map_err(|_| lines.wrong("this is no export of a state of nilometer"))?;
    let Version { version, nilometer, image } = first.head;
    if version != EXPORT_VERSION || image != IMAGE_VERSION {
        return Err(lines.wrong(format!(
            "the export has version {version} and holds state of format version {image}, this \
             program reads {EXPORT_VERSION} and {IMAGE_VERSION}: use nilometer {nilometer}"
        )));
    }
    match serde_json::from_str(&line) {
        Ok(Line::Head(head)) if head.epoch > 0 => Ok(head),
        Ok(_) | Err(_) => Err(lines.wrong("the first line makes no sense")),
    }
}

/// Takes all lines behind the first into `store`; returns how many entries there were.
fn import(
    mut store: Database,
    lines: &mut Lines,
    (head, file): (&Head, &AbortFile),
) -> Result<u64, ToolError> {
    let epoch = Epoch::from_number(head.epoch);
    let mut aborts = Aborts::default();
    let mut known = None;
    // Parts come first: one of them says how entries are read.
    let first = loop {
        let (line, before) = lines.next()?;
        match parsed(lines, &line)? {
            Line::Part(part) => {
                let content = content(lines, &part)?;
                if &*part.name == "pipeline" {
                    known = Some(manifest(lines, &content)?);
                }
                store.put(epoch, &part.name, &content)?;
            }
            Line::Note(note) => store.note(&note.name, Epoch::from_number(note.epoch))?,
            Line::FailedRuns(found) => aborts = found,
            Line::Head(_) => return Err(lines.wrong("this line has come before")),
            line @ (Line::Entry(_) | Line::End(_)) => break (line, before),
        }
    };
    let known = known.ok_or_else(|| lines.wrong("the part `pipeline` is missing"))?;
    let entries = entries(&mut store, lines, (&known, epoch), first)?;
    if aborts != Aborts::default() {
        file.write(&aborts)?;
    }
    store.commit(epoch, epoch)?;
    Ok(entries)
}

/// Takes the lines of entries, and the last one.
fn entries(
    store: &mut Database,
    lines: &mut Lines,
    (known, epoch): (&Layouts, Epoch),
    (mut line, mut before): (Line, u64),
) -> Result<u64, ToolError> {
    let mut rewriter = Rewriter::new(known);
    let mut entries = 0;
    loop {
        match line {
            Line::Entry(entry) => {
                entries += 1;
                if let Some(piece) = put(lines, &mut rewriter, &entry)? {
                    store.append(epoch, &piece)?;
                }
            }
            Line::End(end) => {
                check_end(lines, &end, before)?;
                break;
            }
            Line::Head(_) | Line::Part(_) | Line::Note(_) | Line::FailedRuns(_) => {
                return Err(lines.wrong("this line comes too late"));
            }
        }
        let (text, sum) = lines.next()?;
        (line, before) = (parsed(lines, &text)?, sum);
    }
    if let Some(piece) = rewriter.finish().map_err(|error| lines.image(&error))? {
        store.append(epoch, &piece)?;
    }
    Ok(entries)
}

fn parsed(lines: &Lines, line: &str) -> Result<Line, ToolError> {
    serde_json::from_str(line).map_err(|error| lines.wrong(format!("this is no line: {error}")))
}

fn content(lines: &Lines, part: &Part) -> Result<Vec<u8>, ToolError> {
    let text = part.text.as_ref().map(|text| text.as_bytes().to_vec());
    let json = || part.json.as_ref().map(|json| json.get().as_bytes().to_vec());
    let hex = || part.hex.as_ref().and_then(|hex| from_hex(hex));
    let found = text.or_else(json).or_else(hex);
    found.ok_or_else(|| lines.wrong(format!("part `{}` has no content", part.name)))
}

/// How entries are read, from what is stored of the pipeline.
fn manifest(lines: &Lines, content: &[u8]) -> Result<Layouts, ToolError> {
    let manifest = Manifest::from_bytes(content);
    let manifest =
        manifest.map_err(|_| lines.wrong("what is said of the pipeline is of no known version"))?;
    layouts(&manifest).map_err(|error| lines.wrong(error.to_string()))
}

fn put(
    lines: &Lines,
    rewriter: &mut Rewriter<'_>,
    entry: &Entry,
) -> Result<Option<Vec<u8>>, ToolError> {
    let kind = TableKind::of_name(&entry.table);
    let (name, content) = (from_hex(&entry.name), from_hex(&entry.content));
    let (Some(kind), Some(name), Some(content)) = (kind, name, content) else {
        return Err(lines.wrong("an entry makes no sense"));
    };
    let stored = StoredEntry {
        stage: &entry.stage,
        kind,
        group: KeyGroup(entry.group),
        is_cold: false,
        name: &name,
        content: &content,
    };
    rewriter.put(&stored).map_err(|error| lines.image(&error))
}

/// Whether all lines have come as they were written.
fn check_end(lines: &mut Lines, end: &End, sum: u64) -> Result<(), ToolError> {
    let count = lines.number.saturating_sub(1);
    if end.lines != count || end.xxh64 != format!("{sum:016x}") {
        return Err(lines.wrong(format!(
            "the export has {} lines before this one with checksum {}, and here are {count} with \
             {sum:016x}",
            end.lines, end.xxh64
        )));
    }
    let mut more = String::new();
    match lines.input.read_line(&mut more) {
        Ok(0) => Ok(()),
        Ok(_) => Err(lines.wrong("something follows the last line")),
        Err(source) => Err(ToolError::Input { path: lines.shown.clone(), source }),
    }
}
