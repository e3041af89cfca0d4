//! What is of a shard and not of a key: small, and written with every epoch.

use super::{IMAGE_VERSION, ImageError, other_plan};
use crate::account::StageAccount;
use crate::shard::{Machine, Shard};
use crate::time::{ProcessingTime, Watermark};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct ShardPart {
    version: u32,
    /// Name of the engine: another would wait for what it has done, or do it again.
    engine: Box<str>,
    /// By stage: its watermarks received over an exchange.
    senders: Vec<Option<Vec<Watermark>>>,
    stages: Vec<StagePart>,
}

#[derive(Debug, Serialize, Deserialize)]
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

    /// Becomes what `bytes` say, before any entry is put back.
    pub(super) fn take_part(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        let (found, _) = postcard::take_from_bytes::<u32>(bytes)?;
        if found != u32::from(IMAGE_VERSION) {
            return Err(ImageError::Version { found });
        }
        let part: ShardPart = postcard::from_bytes(bytes)?;
        if *part.engine != *self.plan.engine.name() {
            return Err(other_plan("the engine"));
        }
        let stages = self.plan.stages.len();
        if part.stages.len() != stages || part.senders.len() != stages {
            return Err(other_plan("the number of stages"));
        }
        let machines = self.plan.stages.iter().zip(&mut self.machines);
        for ((stage, machine), part) in machines.zip(part.stages) {
            if stage.name != part.name {
                return Err(other_plan(&format!("stage `{}`", stage.name)));
            }
            take_stage_part(machine, part)?;
        }
        for (ends, senders) in self.exchanges.iter_mut().zip(part.senders) {
            match (ends, senders) {
                (Some(ends), Some(senders)) if ends.senders.len() == senders.len() => {
                    ends.senders = senders;
                }
                (None, None) => {}
                (Some(_) | None, _) => return Err(other_plan("the number of shards")),
            }
        }
        Ok(())
    }
}
