//! What is of a shard and not of a key: small, and written with every epoch.

use super::{IMAGE_VERSION, ImageError, other_plan};
use crate::account::StageAccount;
use crate::plan::Plan;
use crate::shard::{Machine, Shard};
use crate::time::{ProcessingTime, Watermark};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ShardPart {
    version: u32,
    /// Name of the engine: another would wait for what it has done, or do it again.
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
    /// The second watermarks that the trigger waits for.
    shares: Vec<Watermark>,
    account: StageAccount,
}

fn stage_part(name: &str, machine: &Machine) -> StagePart {
    let part = StagePart {
        name: name.into(),
        watermark: Watermark::MIN,
        output: Watermark::MIN,
        now: None,
        shares: Vec::new(),
        account: machine.account().clone(),
    };
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
    }
}

fn take_stage_part(machine: &mut Machine, part: StagePart) -> Result<(), ImageError> {
    *machine.account_mut() = part.account;
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

    /// Becomes what `part` says, before any entry is put back.
    pub(super) fn take_part(&mut self, part: ShardPart) -> Result<(), ImageError> {
        for (machine, part) in self.machines.iter_mut().zip(part.stages) {
            take_stage_part(machine, part)?;
        }
        for ((ends, senders), stage) in
            self.exchanges.iter_mut().zip(part.senders).zip(&self.machines)
        {
            let Some(ends) = ends else { continue };
            match senders {
                Some(senders) if senders.len() == ends.senders.len() => ends.senders = senders,
                // Of other shards: what all of them have promised is what the stage knows.
                Some(_) | None => ends.senders.fill(stage.input()),
            }
        }
        Ok(())
    }
}

impl ShardPart {
    /// The part that `bytes` hold, if it is of `plan`.
    pub(super) fn read(bytes: &[u8], plan: &Plan) -> Result<Self, ImageError> {
        let (found, _) = postcard::take_from_bytes::<u32>(bytes)?;
        if found != u32::from(IMAGE_VERSION) {
            return Err(ImageError::Version { found });
        }
        let part: Self = postcard::from_bytes(bytes)?;
        if *part.engine != *plan.engine.name() {
            return Err(other_plan("the engine"));
        }
        let stages = plan.stages.len();
        if part.stages.len() != stages || part.senders.len() != stages {
            return Err(other_plan("the number of stages"));
        }
        let mut pairs = plan.stages.iter().zip(&part.stages);
        match pairs.find(|(stage, part)| stage.name != part.name) {
            Some((stage, _)) => Err(other_plan(&format!("stage `{}`", stage.name))),
            None => Ok(part),
        }
    }
}

/// What `shards` shards begin with where those before them have left `parts`.
///
/// As many as before go on as they were. Otherwise all begin alike, and none knows more than the one
/// that knew least: a lower watermark promises less, and what it makes due again has been emitted
/// and says nothing; what was counted goes to the first.
pub(super) fn merged(parts: Vec<ShardPart>, shards: usize) -> Vec<ShardPart> {
    if parts.len() == shards {
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

impl StagePart {
    fn merge(&mut self, other: Self) {
        self.watermark = self.watermark.min(other.watermark);
        self.output = self.output.min(other.output);
        self.now = self.now.min(other.now);
        for (share, other) in self.shares.iter_mut().zip(other.shares) {
            *share = other.min(*share);
        }
        self.account.merge(&other.account);
    }
}
