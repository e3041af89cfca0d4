//! What is of a shard and not of a key: small, and written with every epoch.

use super::begin::Begins;
use super::{IMAGE_VERSION, ImageError, other_plan};
use crate::account::StageAccount;
use crate::plan::Plan;
use crate::shard::{Machine, Shard};
use crate::time::{ProcessingTime, Span, Watermark};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ShardPart {
    version: u32,
    /// Name of the engine: another would wait for what it has done, or do it again. What begins anew
    /// may begin on another.
    engine: Box<str>,
    /// By stage: its watermarks received over an exchange.
    senders: Vec<Option<Vec<Watermark>>>,
    stages: Vec<StagePart>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StagePart {
    name: Box<str>,
    watermark: Watermark,
    /// The output watermark, where holds may keep it back.
    output: Watermark,
    /// The last tick, where triggers wait for it.
    now: Option<ProcessingTime>,
    /// For how long the clock has run, where sessions wait for it.
    active: Span,
    /// The second watermarks that the trigger waits for.
    shares: Vec<Watermark>,
    account: StageAccount,
}

fn stage_part(name: &str, machine: &Machine) -> StagePart {
    let part = StagePart { account: machine.account().clone(), ..StagePart::new(name) };
    match machine {
        Machine::Keys(table, _) => StagePart { watermark: table.watermark, ..part },
        Machine::Sliding(table, _) => {
            StagePart { watermark: table.windows.watermark, now: Some(table.now()), ..part }
        }
        Machine::Machines(table, _) => StagePart {
            watermark: table.watermark,
            output: table.output,
            now: Some(table.now()),
            shares: table.shares.known().iter().map(|(_, share)| *share).collect(),
            ..part
        },
        Machine::TopK(table) => StagePart { watermark: table.watermark, ..part },
        Machine::Sequence(table) => StagePart {
            watermark: table.watermark,
            output: table.output,
            active: table.active,
            ..part
        },
    }
}

fn take_stage_part(machine: &mut Machine, part: StagePart) -> Result<(), ImageError> {
    match machine {
        Machine::Keys(table, _) => table.watermark = part.watermark,
        Machine::Sliding(table, _) => {
            table.windows.watermark = part.watermark;
            if let Some(now) = part.now {
                table.start_at(now);
            }
        }
        Machine::Machines(table, _) => {
            (table.watermark, table.output) = (part.watermark, part.output);
            if let Some(now) = part.now {
                table.start_at(now);
            }
            if !table.shares.restore(&part.shares) {
                return Err(other_plan("a trigger"));
            }
        }
        Machine::TopK(table) => table.watermark = part.watermark,
        Machine::Sequence(table) => {
            (table.watermark, table.output) = (part.watermark, part.output);
            table.active = part.active;
        }
    }
    Ok(())
}

impl Shard {
    /// The part of the state that is not kept by key, as bytes.
    pub(super) fn part(&self) -> Result<Vec<u8>, ImageError> {
        let senders = self.exchanges.iter().map(|ends| Some(ends.as_ref()?.senders.clone()));
        let stages = self.plan.stages.iter().zip(&self.machines);
        let part = ShardPart {
            version: u32::from(IMAGE_VERSION),
            engine: self.plan.engine.name().into(),
            senders: senders.collect(),
            stages: stages.map(|(stage, machine)| stage_part(&stage.name, machine)).collect(),
        };
        Ok(postcard::to_stdvec(&part)?)
    }

    /// Becomes what `part` says, before any entry is put back; what begins anew stays as it is.
    pub(super) fn take_part(
        &mut self,
        part: ShardPart,
        begins: Option<&Begins>,
    ) -> Result<(), ImageError> {
        let parts = part.stages.into_iter().zip(part.senders);
        let tables = self.machines.iter_mut().zip(&mut self.exchanges);
        for ((machine, ends), (part, senders)) in tables.zip(parts) {
            if begins.is_some_and(|begins| begins.has(&part.name)) {
                continue;
            }
            if !begins.is_some_and(|begins| begins.counts) {
                *machine.account_mut() = part.account.clone();
            }
            take_stage_part(machine, part)?;
            let Some(ends) = ends else { continue };
            match senders {
                Some(senders) if senders.len() == ends.senders.len() => ends.senders = senders,
                // Of other shards: what all of them have promised is what the stage knows.
                Some(_) | None => ends.senders.fill(machine.input()),
            }
        }
        Ok(())
    }
}

impl ShardPart {
    /// The part that `bytes` hold, of whatever plan it is.
    fn of(bytes: &[u8]) -> Result<Self, ImageError> {
        let (found, _) = postcard::take_from_bytes::<u32>(bytes)?;
        if found != u32::from(IMAGE_VERSION) {
            return Err(ImageError::Version { found });
        }
        Ok(postcard::from_bytes(bytes)?)
    }

    /// The part that `bytes` hold, if it is of `plan`: its stages in plan order. What is not wanted
    /// is left out, and of what begins anew there is nothing in it.
    pub(super) fn read(
        bytes: &[u8],
        plan: &Plan,
        begins: Option<&Begins>,
    ) -> Result<Self, ImageError> {
        let part = Self::of(bytes)?;
        let begins_anew = |name: &str| begins.is_some_and(|begins| begins.has(name));
        let goes_on = plan.stages.iter().any(|stage| !begins_anew(&stage.name));
        if goes_on && *part.engine != *plan.engine.name() {
            return Err(other_plan("the engine"));
        }
        let mut parts: Vec<_> = part.stages.into_iter().zip(part.senders).collect();
        parts.retain(|(part, _)| !begins.is_some_and(|begins| begins.forgets(&part.name, plan)));
        let (mut stages, mut senders) = (Vec::new(), Vec::new());
        for stage in &plan.stages {
            let (part, sender) = if begins_anew(&stage.name) {
                (StagePart::new(&stage.name), None)
            } else {
                let found = parts.iter().position(|(part, _)| part.name == stage.name);
                let found = found.ok_or_else(|| other_plan(&format!("stage `{}`", stage.name)))?;
                parts.swap_remove(found)
            };
            stages.push(part);
            senders.push(sender);
        }
        match parts.first() {
            Some((part, _)) => Err(other_plan(&format!("stage `{}`", part.name))),
            None => Ok(Self { version: part.version, engine: part.engine, senders, stages }),
        }
    }
}

/// How far a stage has come in one shard, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageStanding {
    /// Its name.
    pub name: Box<str>,
    /// Its input watermark.
    pub watermark: Watermark,
    /// What it has counted.
    pub account: StageAccount,
}

impl StageStanding {
    /// How far all stages have come in the shard whose part `bytes` are.
    ///
    /// # Errors
    /// The bytes are damaged, or of another version.
    pub fn all(bytes: &[u8]) -> Result<Vec<Self>, ImageError> {
        let stages = ShardPart::of(bytes)?.stages.into_iter();
        let standing = |part: StagePart| {
            let StagePart { name, watermark, account, .. } = part;
            Self { name, watermark, account }
        };
        Ok(stages.map(standing).collect())
    }
}

/// What `shards` shards begin with where those before them have left `parts`.
///
/// As many as before go on as they were, if keys lie where they did; but for their clocks, which were
/// cut at different ticks. Otherwise all begin alike, and none knows more than the one that knew
/// least: a lower watermark promises less, and what it makes due again has been emitted and says
/// nothing; what was counted goes to the first.
pub(super) fn merged(
    mut parts: Vec<ShardPart>,
    shards: usize,
    is_placed_anew: bool,
) -> Vec<ShardPart> {
    if parts.len() == shards && !is_placed_anew {
        agree_on_active(&mut parts);
        return parts;
    }
    let Some(mut whole) = parts.into_iter().reduce(|mut whole, part| {
        for (stage, other) in whole.stages.iter_mut().zip(part.stages) {
            stage.merge(other);
        }
        whole
    }) else {
        return Vec::new();
    };
    whole.senders.fill(None);
    let mut others = whole.clone();
    for stage in &mut others.stages {
        let nothing =
            StageAccount { cut: vec![0; stage.account.cut.len()], ..StageAccount::default() };
        stage.account = nothing;
    }
    let mut all = vec![others; shards];
    if let Some(first) = all.first_mut() {
        *first = whole;
    }
    all
}

/// For how long the clock has run is what all shards of a stage have lived through (CLOCK-1): who has
/// heard of a later tick waits for that much longer.
fn agree_on_active(parts: &mut [ShardPart]) {
    let stages = parts.first().map_or(0, |part| part.stages.len());
    for at in 0..stages {
        let of_stage = || parts.iter().filter_map(|part| part.stages.get(at));
        let Some(least) = of_stage().map(|stage| stage.active).min() else { continue };
        for stage in parts.iter_mut().filter_map(|part| part.stages.get_mut(at)) {
            stage.active = least;
        }
    }
}

impl StagePart {
    /// Of a stage that has not begun.
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            watermark: Watermark::MIN,
            output: Watermark::MIN,
            now: None,
            active: Span::ZERO,
            shares: Vec::new(),
            account: StageAccount::default(),
        }
    }

    fn merge(&mut self, other: Self) {
        self.watermark = self.watermark.min(other.watermark);
        self.output = self.output.min(other.output);
        self.now = self.now.min(other.now);
        self.active = self.active.min(other.active);
        for (share, other) in self.shares.iter_mut().zip(other.shares) {
            *share = other.min(*share);
        }
        self.account.merge(&other.account);
    }
}
