//! A whole node on a virtual clock: one shard, the coordinator, one watermark estimate per source
//! partition; the machines are those of the service.
//!
//! What a mark of a transcript means is written down here, one function each. Invariant: after
//! every input the watermark has been delivered before anything is looked at.

use super::json::value;
use super::outcome::{Dropped, Step, emitted, json, key_text};
use super::pacing::Pacing;
use super::places::is_open;
use super::problem::{RunError, RunProblem};
use super::{Expectation, Input, RecordLine, Scene, Transcript};
use crate::engine::{Begin, Cycle};
use crate::expr::{BindError, Refinement, TypedExpr};
use crate::image::Log;
use crate::pane::PaneBatch;
use crate::plan::{Plan, Stage};
use crate::planner::nearest;
use crate::row::{Field, Position, RowBatch};
use crate::shard::{Output, Shard};
use crate::symbol::Symbols;
use crate::tick::Tick;
use crate::time::{EventTime, ProcessingTime, Watermark};
use crate::trigger::signals;
use crate::value::Datum;
use crate::watermark::{
    Coordinator, Estimation, Estimator, Generator, Marks, Percentile, Progress, ProgressRules,
    Punctuation, Reader, Surroundings, WatermarkSettings,
};
use std::sync::Arc;

/// What a transcript is run against.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Arc<Plan>,
    /// Fields that a record may give, derived ones left out.
    pub fields: &'a [Field],
    /// Field that holds the event time, in ms; given by `@` where a record does not name it.
    pub time_field: Option<&'a str>,
    /// How watermarks are estimated where the transcript has no `watermark` line.
    pub watermark: WatermarkSettings,
    /// What records promise by themselves, where it is theirs to say.
    pub mark: Option<&'a TypedExpr>,
    /// What holds for the watermark over all partitions.
    pub progress: ProgressRules,
    /// Derived fields, in order.
    pub derived: &'a [(Box<str>, TypedExpr)],
    /// The filter.
    pub filter: Option<&'a TypedExpr>,
}

/// Plays a transcript; `see` gets every batch of panes with the line that caused it.
///
/// # Errors
/// A line that cannot be carried out; what came of those before is lost.
pub fn run(
    setup: Setup<'_>,
    transcript: &Transcript,
    see: &mut dyn FnMut(usize, &PaneBatch, &Symbols),
) -> Result<Vec<Step>, RunError> {
    let at = |line: usize| move |problem| RunError { line, problem };
    let mut node = Node::new(setup, transcript).map_err(at(1))?;
    let mut steps = Vec::with_capacity(transcript.steps.len());
    for scene in &transcript.steps {
        node.play(&scene.input)
            .map_err(|(line, problem)| RunError { line: line.unwrap_or(scene.line), problem })?;
        for batch in &node.out.panes {
            see(scene.line, batch, &node.symbols);
        }
        steps.push(node.step(scene));
    }
    Ok(steps)
}

/// A problem, and the line where it is if not the input's first.
type Fault = (Option<usize>, RunProblem);

fn here<E: Into<RunProblem>>(error: E) -> Fault {
    (None, error.into())
}

struct Node<'a> {
    setup: Setup<'a>,
    is_manual: bool,
    symbols: Arc<Symbols>,
    refinement: Refinement,
    shard: Shard,
    /// What it was at its restarts.
    log: Log,
    coordinator: Coordinator,
    /// One per partition.
    estimators: Vec<Estimator>,
    /// `None` unless the engine has cycles.
    pacing: Option<Pacing>,
    /// The virtual clock; it stands nowhere before the first `clock` line.
    now: Option<ProcessingTime>,
    /// The last tick of this process.
    tick: Option<Tick>,
    has_ended: bool,
    /// What came of the input that is played. Cleared with each.
    out: Output,
    refused: Vec<(usize, Box<str>)>,
}

impl<'a> Node<'a> {
    fn new(setup: Setup<'a>, transcript: &Transcript) -> Result<Self, RunProblem> {
        let symbols = Arc::new(Symbols::default());
        let mut shard = Shard::new(setup.plan.clone(), symbols.clone(), 0, 1);
        shard.trace_drops(true);
        Ok(Self {
            refinement: bind(setup, &symbols)?,
            shard,
            log: Log::default(),
            coordinator: Coordinator::new(
                setup.plan.engine.heeds(setup.progress),
                &vec![setup.watermark.idle_after; transcript.partitions as usize],
                setup.plan.shares.len(),
            ),
            estimators: (0..transcript.partitions)
                .map(|_| Ok(Estimator::new(estimation(setup, &symbols)?, &setup.plan.shares)))
                .collect::<Result<_, BindError>>()?,
            pacing: Pacing::new(setup.plan.engine, transcript.partitions as usize),
            is_manual: transcript.is_manual,
            symbols,
            setup,
            now: None,
            tick: None,
            has_ended: false,
            out: Output::default(),
            refused: Vec::new(),
        })
    }

    fn play(&mut self, input: &Input) -> Result<(), Fault> {
        self.out.clear();
        self.refused.clear();
        match input {
            Input::Records(lines) => self.records(lines),
            Input::Watermark { partition, time } => self.promise(*partition, *time),
            Input::Share { partition, percentile, time } => {
                self.promise_share(*partition, *percentile, *time)
            }
            Input::Clock(now) => self.clock(*now),
            Input::Idle(partition) => {
                let rose = self.coordinator.rest(*partition);
                self.deliver(rose)?;
                self.turn(|pacing| pacing.rest(*partition))
            }
            Input::Signal(name) => self.signal(name),
            Input::Restart => self.restart().map_err(here),
            Input::End => self.end(),
        }
    }

    /// One message: the records, then the watermark that covers them. A reader does not say that
    /// it has reached its end: more may wait behind.
    fn records(&mut self, lines: &[RecordLine]) -> Result<(), Fault> {
        let mut batch = RowBatch::new(self.setup.plan.row.clone());
        for line in lines {
            self.fill(&mut batch, line).map_err(|problem| (Some(line.line), problem))?;
        }
        let mut partitions = Vec::new();
        for line in lines {
            if !partitions.contains(&line.partition) {
                partitions.push(line.partition);
            }
        }
        self.watch(&mut batch);
        for failed in self.refinement.apply(&mut batch, &self.symbols).failed {
            // The position of a record is its line.
            let line = usize::try_from(failed.position.offset).unwrap_or(0);
            self.refused.push((line, failed.to_string().into()));
        }
        self.shard.records(&batch, &mut self.out).map_err(here)?;
        for partition in &partitions {
            let report = self.report(*partition, Reader::Behind, true);
            self.progress(report)?;
        }
        for partition in partitions {
            let records = lines.iter().filter(|line| line.partition == partition).count();
            self.turn(|pacing| pacing.read(partition, records))?;
        }
        Ok(())
    }

    /// Lets every record tell its partition the time; one that is to be rejected goes.
    fn watch(&mut self, batch: &mut RowBatch) {
        let mut rejected = Vec::new();
        for index in 0..batch.len() {
            let position = batch.position(index);
            let others = (0_u32..).zip(&self.estimators);
            let others = others.filter(|(other, _)| *other != position.partition);
            let others = others.map(|(_, estimator)| estimator.generator.head()).max();
            let others = others.filter(|head| *head > EventTime::MIN);
            let around = Surroundings { now: self.now, others };
            let Some(estimator) = self.estimators.get_mut(position.partition as usize) else {
                continue;
            };
            let watched =
                estimator.watch((batch, index), around, &self.symbols, &mut Marks::default());
            if let Err(too_far) = watched {
                // The position of a record is its line.
                let line = usize::try_from(position.offset).unwrap_or(0);
                self.refused.push((line, too_far.to_string().into()));
                rejected.push(index);
            }
        }
        batch.retain(|index| !rejected.contains(&index));
    }

    fn fill(&self, batch: &mut RowBatch, line: &RecordLine) -> Result<(), RunProblem> {
        let position = Position { partition: line.partition, offset: line.line as u64 };
        let layout = batch.layout().clone();
        let mut row = batch.push(line.time, position);
        for (name, json) in &line.fields {
            let Some(field) = self.setup.fields.iter().find(|field| *field.name == **name) else {
                let known = self.setup.fields.iter().map(|field| &*field.name);
                let suggestion = nearest(name, known);
                return Err(RunProblem::UnknownField { field: name.as_str().into(), suggestion });
            };
            let value = value(name, field.ty, json)?;
            // A field that the plan does not read has no slot.
            if let Some(slot) = layout.slot(name) {
                row.set(slot, value.intern(&self.symbols)?);
            }
        }
        let time_field = self.setup.time_field.filter(|name| !line.fields.contains_key(*name));
        if let Some(slot) = time_field.and_then(|name| layout.slot(name)) {
            row.set(slot, Datum::Int(line.time.as_millis().into()));
        }
        Ok(())
    }

    fn report(&self, partition: u32, reader: Reader, has_records: bool) -> Progress {
        let estimate = self.estimators.get(partition as usize);
        let estimate = estimate.map(|estimator| &estimator.generator);
        let told = estimate.filter(|_| !self.is_manual);
        let (watermark, shares) = (told.map(Generator::watermark), told.map(Generator::shares));
        Progress {
            partition,
            watermark: watermark.unwrap_or(Watermark::MIN),
            shares: shares.map_or_else(Vec::new, <[_]>::to_vec),
            head: estimate.map_or(EventTime::MIN, Generator::head),
            reader,
            has_records,
        }
    }

    fn progress(&mut self, report: Progress) -> Result<(), Fault> {
        let rose = self.coordinator.progress(&report);
        self.deliver(rose)
    }

    /// A `watermark` line: what the partition's reader promises from now on.
    fn promise(&mut self, partition: u32, time: EventTime) -> Result<(), Fault> {
        let report = self.report(partition, Reader::Behind, false);
        self.progress(Progress { watermark: Watermark(time), ..report })
    }

    /// A `watermark` line with a percentile: what it promises of that share of its records. One that
    /// no trigger waits for could change nothing: it is refused.
    fn promise_share(
        &mut self,
        partition: u32,
        percentile: Percentile,
        time: EventTime,
    ) -> Result<(), Fault> {
        let known = &self.setup.plan.shares;
        if !known.contains(&percentile) {
            let known = known.iter().map(|known| format!("{known}%")).collect::<Vec<_>>();
            return Err(here(RunProblem::UnknownShare {
                percentile,
                known: known.join(", ").into(),
            }));
        }
        let share = |known: &Percentile| if *known == percentile { time } else { EventTime::MIN };
        let shares = known.iter().map(share).map(Watermark).collect();
        let report = self.report(partition, Reader::Behind, false);
        self.progress(Progress { shares, ..report })
    }

    /// A `clock` line: every reader has found nothing since its last record, then it is that late.
    /// Watermarks come before what waits for the clock.
    fn clock(&mut self, now: ProcessingTime) -> Result<(), Fault> {
        let now = self.now.map_or(now, |before| before.max(now));
        self.now = Some(now);
        // Where records take the time of their arrival, the time itself is progress.
        for estimator in &mut self.estimators {
            estimator.generator.tick(now);
        }
        if !self.has_ended {
            for partition in 0..self.estimators.len() as u32 {
                let report = self.report(partition, Reader::AtEnd, false);
                self.progress(report)?;
            }
        }
        let rose = self.coordinator.tick_watched(now);
        self.deliver(rose)?;
        if let Some(cycle) = self.coordinator.closes() {
            self.shard.cycle(cycle, &mut self.out).map_err(here)?;
        }
        self.turn(|pacing| pacing.tick(now))?;
        let idle: Vec<_> = self.coordinator.idle().collect();
        for partition in idle {
            self.turn(|pacing| pacing.rest(partition))?;
        }
        let tick = Tick::watched(self.tick, now);
        self.tick = Some(tick);
        self.shard.tick(tick, &mut self.out).map_err(here)
    }

    /// A `signal` line. One that no trigger waits for could change nothing: it is refused.
    fn signal(&mut self, name: &str) -> Result<(), Fault> {
        let known = signals(self.setup.plan);
        if !known.contains(&name) {
            let suggestion = nearest(name, known);
            return Err(here(RunProblem::UnknownSignal { signal: name.into(), suggestion }));
        }
        self.shard.signal(name, &mut self.out).map_err(here)
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.has_ended = true;
        for partition in 0..self.estimators.len() as u32 {
            let report = self.report(partition, Reader::Finished, false);
            self.progress(report)?;
            self.turn(|pacing| pacing.ended(partition))?;
        }
        Ok(())
    }

    fn deliver(&mut self, rose: Option<Watermark>) -> Result<(), Fault> {
        let engine = self.setup.plan.engine;
        if let Some(watermark) = rose.filter(|rose| engine.passes_on(*rose)) {
            self.shard.watermark(watermark, &mut self.out).map_err(here)?;
        }
        match self.coordinator.take_shares() {
            Some(shares) => self.shard.shares(shares, &mut self.out).map_err(here),
            None => Ok(()),
        }
    }

    /// A fact about the cycles: those that it makes due begin and end.
    fn turn(&mut self, fact: impl FnOnce(&mut Pacing) -> Option<Begin>) -> Result<(), Fault> {
        let mut begun = self.pacing.as_mut().and_then(fact);
        while let Some(Begin { number, .. }) = begun {
            let cycle = Cycle { number, watermark: self.coordinator.watermark() };
            self.shard.cycle(cycle, &mut self.out).map_err(here)?;
            begun = self.pacing.as_mut().and_then(|pacing| pacing.finished(number));
        }
        Ok(())
    }

    /// The whole node becomes bytes and comes back in a process that has never seen a text.
    fn restart(&mut self) -> Result<(), RunProblem> {
        self.log.cut(self.setup.plan, std::slice::from_mut(&mut self.shard))?;
        let generators: Vec<_> = self.estimators.iter().map(|known| &known.generator).collect();
        let marks = postcard::to_stdvec(&(&self.coordinator, generators, self.now, &self.pacing))?;
        self.symbols = Arc::new(Symbols::default());
        for shard in self.log.restore(self.setup.plan, &self.symbols, 1)? {
            self.shard = shard;
        }
        self.shard.trace_drops(true);
        let generators: Vec<Generator>;
        (self.coordinator, generators, self.now, self.pacing) = postcard::from_bytes(&marks)?;
        // A process begins with a tick.
        self.tick = self.now.map(|now| Tick::after(None, now));
        for (estimator, generator) in self.estimators.iter_mut().zip(generators) {
            let punctuation = estimation(self.setup, &self.symbols)?.punctuation;
            *estimator = Estimator { generator, punctuation };
        }
        self.refinement = bind(self.setup, &self.symbols)?;
        Ok(())
    }

    /// What came of the input that was played.
    fn step(&mut self, scene: &Scene) -> Step {
        let mut step = Step { refused: std::mem::take(&mut self.refused), ..Step::default() };
        for batch in &self.out.panes {
            if let Some(stage) = self.setup.plan.stages.get(batch.stage.index()) {
                step.panes.extend(emitted(batch, stage, &self.symbols));
            }
        }
        for dropped in &self.out.dropped {
            if let Some(stage) = self.setup.plan.stages.get(dropped.stage.index()) {
                let key_text = key_text(&stage.key, &dropped.key, None, &self.symbols);
                step.dropped.push(Dropped {
                    reason: dropped.reason,
                    stage: stage.name.clone(),
                    key: json(&key_text),
                    key_text: key_text.into(),
                });
            }
        }
        for (number, expected) in scene.expected.iter().enumerate() {
            if let Expectation::Gone { stage, key, window } = &expected.what {
                match is_open(&self.shard, (stage, key, *window)) {
                    Ok(false) => {}
                    Ok(true) => {
                        step.not_gone.insert(number);
                    }
                    Err(what) => {
                        step.unknown.insert(number, what);
                    }
                }
            }
        }
        if self.has_ended && !self.shard.is_empty() {
            let held = self.shard.windows();
            let holds =
                |stage: &&Stage| held.is_empty() || held.iter().any(|(id, ..)| *id == stage.id);
            step.left =
                self.setup.plan.stages.iter().filter(holds).map(|s| s.name.clone()).collect();
        }
        step
    }
}

fn bind(setup: Setup<'_>, symbols: &Symbols) -> Result<Refinement, BindError> {
    Refinement::bind(setup.derived, setup.filter, &setup.plan.row, symbols)
}

fn estimation(setup: Setup<'_>, symbols: &Symbols) -> Result<Estimation, BindError> {
    let bind = |mark| Punctuation::bind(mark, &setup.plan.row, symbols);
    let punctuation = setup.mark.map(bind).transpose()?;
    Ok(Estimation { settings: setup.watermark, punctuation })
}
