//! What a state remembers of runs that have failed: read before anything else is opened, written by a
//! run that fails, also by one that panics.
//!
//! Whether a run may start is decided in [`nilometer_model::epoch::Aborts`]. Invariant: a failure that
//! reading the same input again will bring about again is counted; one of an input, an output or the
//! disk is not, nor is a kill.

use crate::config::Pipeline;
use crate::failure::tell;
use crate::state::StateError;
use nilometer_actors::at;
use nilometer_actors::checkpoint::Checkpoint;
use nilometer_actors::meter::Meters;
use nilometer_actors::node::SourcePart;
use nilometer_actors::report::Failure;
use nilometer_connectors::store::AbortFile;
use nilometer_model::epoch::{Abort, Aborts, BatchPlace, Epoch, Stored, Verdict, Wish};
use nilometer_model::image::ImageError;
use nilometer_model::shard::StageError;
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
    /// By partition, whether its input gives the same records again.
    is_exact: OnceLock<Vec<bool>>,
    /// By source, whether it is one partition, so that the place of a batch says what it was.
    is_one: OnceLock<Vec<bool>>,
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
        let records: Vec<_> = checkpoint.map(Checkpoint::records_read).unwrap_or_default();
        let behind = checkpoint.map_or(Epoch::NONE, |checkpoint| checkpoint.epoch);
        let failed = aborts.last().cloned();
        let verdict = aborts.start(Stored { epoch: behind, records: &records }, wish);
        let words = Words { pipeline };
        match verdict {
            Verdict::Held | Verdict::HeldWithNothingToSkip => return Err(words.held(&aborts)),
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
        let (meters, is_exact, is_one) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Self { file, aborts: Mutex::new(aborts), behind, meters, is_exact, is_one })
    }

    /// Lets the sources leave out what is to be left out of them, and takes notice of which can be
    /// read again.
    pub fn prepare(&self, sources: &mut [SourcePart]) {
        let aborts = self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        for (partition, source) in (0_u32..).zip(&mut *sources) {
            let of_source = aborts.skipped().iter().filter(|place| place.partition == partition);
            source.skipped = of_source.copied().collect();
        }
        let is_exact = sources.iter().map(|source| source.reader.position().is_exact);
        let is_one = sources.iter().map(|source| !source.reader.is_partitioned());
        // Set once: a run has one set of sources.
        self.is_exact.set(is_exact.collect()).ok();
        self.is_one.set(is_one.collect()).ok();
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
            Failure::Stage { place, .. } => *place,
            Failure::Order { .. } | Failure::State { .. } => None,
            Failure::Source { .. }
            | Failure::Sink { .. }
            | Failure::DeadLetters(_)
            | Failure::Store(_)
            | Failure::Outbox(_) => return,
        };
        self.note(place, failure.to_string());
    }

    fn note(&self, place: Option<BatchPlace>, error: String) {
        let of = |known: &OnceLock<Vec<bool>>, partition: u32| {
            let known = known.get().and_then(|known| known.get(partition as usize));
            known.copied().unwrap_or(false)
        };
        let is_exact = |partition| of(&self.is_exact, partition);
        if place.is_some_and(|place| !is_exact(place.partition)) {
            // What was read is gone: the next run cannot fail at the same place.
            return;
        }
        // A batch of several partitions has no place that could be left out.
        let place = place.filter(|place| of(&self.is_one, place.partition));
        let stored = self.meters.get().map_or(Epoch::NONE, |meters| meters.durable());
        let abort = Abort { epoch: stored.max(self.behind), place, error: error.into() };
        let mut aborts = self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        aborts.failed(abort);
        if let Err(error) = self.file.write(&aborts) {
            tell(&format!("cannot note that the run has failed: {error}\n"));
        }
    }
}

/// Lets a panic end the process at once, whatever the build: there is no half-dead run. It is noted
/// where there is a state.
pub fn abort_on_panic(supervision: Option<Arc<Supervision>>) {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        say(panic);
        if let Some(supervision) = &supervision {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let payload = panic.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let what = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let what = what.unwrap_or("no reason was given");
            supervision.note(at::at(), format!("panicked at {place}: {what}"));
        }
        std::process::abort();
    }));
}

/// Makes sentences of what is remembered.
struct Words<'a> {
    pipeline: &'a Pipeline,
}

impl Words<'_> {
    /// Records by number, counted from 1, as dead letters do.
    fn place(&self, place: &BatchPlace) -> String {
        let source = self.pipeline.sources.get(place.partition as usize);
        let name = source.map_or("", |source| source.name.as_str());
        format!("records {} to {} of source `{name}`", place.from.saturating_add(1), place.to)
    }

    fn failure(&self, abort: &Abort) -> String {
        let place = abort.place.map(|place| format!(" at {}", self.place(&place)));
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
                "start with --skip-batch to leave these records out (counted, and lost: there is no `dead_letters` file), or with --retry to read them again"
            }
            (false, _) => {
                "start with --retry to try again; or change what failed so that it can take its input, such as by a `filter`, and begin it anew with --drop-state; there are no records that --skip-batch could leave out: none were being taken in, or they were of several partitions of a topic"
            }
        };
        StateError::Held {
            count: aborts.count(),
            last: last.map(|last| self.failure(last)).unwrap_or_default().into(),
            ways,
        }
    }
}
