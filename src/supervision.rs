//! What a state remembers of runs that have failed: read before anything else is opened, written by a
//! run that fails, also by one that panics.
//!
//! Whether a run may start is decided in [`nilometer_model::epoch::Aborts`]. Invariant: a failure that
//! reading the same input again will bring about again is counted; one of an input, an output or the
//! disk is not, nor is a kill.

use crate::config::{Pipeline, SourceKind};
use crate::failure::tell;
use crate::state::StateError;
use nilometer_actors::at::{self, Batch};
use nilometer_actors::checkpoint::Checkpoint;
use nilometer_actors::meter::Meters;
use nilometer_actors::node::SourcePart;
use nilometer_actors::report::Failure;
use nilometer_connectors::kafka::source::stored_offsets;
use nilometer_connectors::store::{AbortFile, panic_text, takes_panic};
use nilometer_model::epoch::{
    Abort, Aborts, BatchPlace, Epoch, OffsetRange, Stored, Verdict, Wish,
};
use nilometer_model::image::ImageError;
use nilometer_model::shard::StageError;
use std::collections::BTreeMap;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is remembered, in the hands of a run.
#[derive(Debug)]
pub struct Supervision {
    file: AbortFile,
    aborts: Mutex<Aborts>,
    /// The epoch that the run goes on behind.
    behind: Epoch,
    /// What a node tells while it runs.
    meters: OnceLock<Arc<Meters>>,
    /// The sources of the run.
    inputs: OnceLock<Vec<Input>>,
}

/// What has to be known of a source to say where a run has failed.
#[derive(Debug)]
struct Input {
    name: Arc<str>,
    /// Whether it gives the same records again.
    is_exact: bool,
    /// Whether it is of several partitions, which have names of their own.
    is_partitioned: bool,
}

impl Supervision {
    /// What `file` remembers, for a run of `pipeline` that goes on behind `checkpoint`; says what is
    /// worth knowing of it.
    ///
    /// # Errors
    /// It cannot be read or written, or the run is held.
    pub fn open(
        file: AbortFile,
        checkpoint: Option<&Checkpoint>,
        pipeline: &Pipeline,
        wish: Wish,
    ) -> Result<Self, StateError> {
        let mut aborts = file.read()?;
        let before = aborts.clone();
        let read = checkpoint.map(|checkpoint| read(pipeline, checkpoint)).unwrap_or_default();
        let behind = checkpoint.map_or(Epoch::NONE, |checkpoint| checkpoint.epoch);
        let failed = aborts.last().cloned();
        let verdict = aborts.start(Stored { epoch: behind, read: &read }, wish);
        let words = Words { pipeline };
        match verdict {
            Verdict::Held => return Err(words.held(&aborts)),
            Verdict::StartsWithNothingToSkip => {
                tell("--skip-batch: there is no batch that the run before failed in\n");
            }
            Verdict::Starts => {}
        }
        if let (Some(last), true) = (aborts.last().or(failed.as_ref()), before.count() > 0) {
            tell(&format!("the run before this one failed{}\n", words.failure(last)));
        }
        for place in aborts.skipped() {
            tell(&format!("leaves out {}: they count as `skipped`\n", words.place(place)));
        }
        if aborts != before {
            file.write(&aborts)?;
        }
        let (meters, inputs) = (OnceLock::new(), OnceLock::new());
        Ok(Self { file, aborts: Mutex::new(aborts), behind, meters, inputs })
    }

    /// Lets the sources leave out what is to be left out of them, and takes notice of which can be
    /// read again.
    pub fn prepare(&self, sources: &mut [SourcePart]) {
        let aborts = self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, source) in (0_u32..).zip(&mut *sources) {
            let of_source = aborts.skipped().iter().filter(|place| place.source == number);
            source.skipped = of_source.flat_map(|place| place.ranges.iter().cloned()).collect();
        }
        let inputs = sources.iter().map(|source| Input {
            name: source.name.clone(),
            is_exact: source.reader.position().is_exact,
            is_partitioned: source.reader.is_partitioned(),
        });
        // Set once: a run has one set of sources.
        self.inputs.set(inputs.collect()).ok();
    }

    /// The node of the run has started.
    pub fn watch(&self, meters: &Arc<Meters>) {
        self.meters.set(meters.clone()).ok();
    }

    /// The node has failed. Counted if it would fail again.
    pub fn failed(&self, failure: &Failure) {
        let place = match failure {
            Failure::Stage { error: StageError::Page { .. }, .. }
            | Failure::State { error: ImageError::Page(_), .. } => return,
            Failure::Stage { place, .. } => place.as_ref(),
            Failure::Order { .. } | Failure::State { .. } => None,
            Failure::Source { .. }
            | Failure::Sink { .. }
            | Failure::DeadLetters(_)
            | Failure::Store(_)
            | Failure::Outbox(_) => return,
        };
        self.note(place, failure.to_string());
    }

    fn note(&self, batch: Option<&Batch>, error: String) {
        let input = batch.map(|batch| self.inputs.get()?.get(batch.source as usize));
        if input.is_some_and(|input| input.is_none_or(|input| !input.is_exact)) {
            // What was read is gone: the next run cannot fail at the same place.
            return;
        }
        let place = batch.zip(input.flatten()).and_then(|(batch, input)| self.place(batch, input));
        let stored = self.meters.get().map_or(Epoch::NONE, |meters| meters.durable());
        let abort = Abort { epoch: stored.max(self.behind), place, error: error.into() };
        let mut aborts = self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        aborts.failed(abort);
        if let Err(error) = self.file.write(&aborts) {
            tell(&format!("cannot note that the run has failed: {error}\n"));
        }
    }

    /// Where `batch` of `input` lies, by the names of partitions: their numbers are of this run.
    fn place(&self, batch: &Batch, input: &Input) -> Option<BatchPlace> {
        let meter = self.meters.get()?.sources().get(batch.source as usize)?;
        let range = |&(number, from, to): &(u32, u64, u64)| {
            let name = if input.is_partitioned { meter.name(number)? } else { input.name.clone() };
            Some(OffsetRange { partition: (*name).into(), from, to })
        };
        let ranges = batch.ranges.iter().map(range).collect::<Option<_>>()?;
        Some(BatchPlace { source: batch.source, ranges })
    }
}

/// By source, and by name of a partition of it, the offset behind what `checkpoint` has of it.
fn read(pipeline: &Pipeline, checkpoint: &Checkpoint) -> Vec<BTreeMap<Box<str>, u64>> {
    let sources = pipeline.sources.iter().zip(checkpoint.read());
    let read = sources.map(|(source, (records, position))| match source.kind {
        SourceKind::Kafka(_) => stored_offsets(position).collect(),
        SourceKind::Files { .. } | SourceKind::Udp { .. } | SourceKind::Generator(_) => {
            BTreeMap::from([(source.name.as_str().into(), records)])
        }
    });
    read.collect()
}

/// Lets a panic end the process at once, whatever the build: there is no half-dead run. It is noted
/// where there is a state. Only those of a database that is [on trial](takes_panic) are errors.
pub fn abort_on_panic(supervision: Option<Arc<Supervision>>) {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        if takes_panic(panic) {
            return;
        }
        if let Some(supervision) = &supervision {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let what = panic_text(panic.payload());
            supervision.note(at::at().as_ref(), format!("panicked at {place}: {what}"));
        }
        say(panic);
        std::process::abort();
    }));
}

/// Makes sentences of what is remembered.
struct Words<'a> {
    pipeline: &'a Pipeline,
}

impl Words<'_> {
    /// Records by number, counted from 1, or by their offsets in a topic: as dead letters do.
    fn place(&self, place: &BatchPlace) -> String {
        let source = self.pipeline.sources.get(place.source as usize);
        let is_topic = source.is_some_and(|source| matches!(source.kind, SourceKind::Kafka(_)));
        let text = |OffsetRange { partition, from, to }: &OffsetRange| {
            let last = to.saturating_sub(1);
            match is_topic {
                true if *from == last => format!("offset {from} of `{partition}`"),
                true => format!("offsets {from} to {last} of `{partition}`"),
                false => {
                    format!("records {} to {to} of source `{partition}`", from.saturating_add(1))
                }
            }
        };
        place.ranges.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    fn failure(&self, abort: &Abort) -> String {
        let place = abort.place.as_ref().map(|place| format!(" at {}", self.place(place)));
        format!("{}, behind epoch {}: {}", place.unwrap_or_default(), abort.epoch, abort.error)
    }

    fn held(&self, aborts: &Aborts) -> StateError {
        let last = aborts.last();
        let is_batch = last.is_some_and(|last| last.place.is_some());
        let ways = match (is_batch, self.pipeline.dead_letters.is_set()) {
            (true, true) => {
                "start with --skip-batch to put these records among the dead letters, or with --retry to read them again"
            }
            (true, false) => {
                "start with --skip-batch to leave these records out (counted, and lost: there is no `dead_letters`), or with --retry to read them again"
            }
            (false, _) => {
                "start with --retry to try again; or change what failed so that it can take its input, such as by a `filter`, and begin it anew with --drop-state; there are no records that --skip-batch could leave out: none were being taken in"
            }
        };
        StateError::Held {
            count: aborts.count(),
            last: last.map(|last| self.failure(last)).unwrap_or_default().into(),
            ways,
        }
    }
}
