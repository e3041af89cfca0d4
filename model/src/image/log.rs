//! The cuts of a node as a store keeps them, in memory: for whoever restarts a node within one
//! process.

use super::{Begins, Cut, ImageError, Restoration, pack};
use crate::epoch::Epoch;
use crate::plan::Plan;
use crate::shard::Shard;
use crate::symbol::Symbols;
use std::cmp::Reverse;
use std::sync::Arc;

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 1 << 20;

/// The epochs of a node that are needed to make it anew.
#[derive(Debug, Clone, Default)]
pub struct Log {
    last: Epoch,
    /// Of the last epoch, by shard.
    parts: Vec<Vec<u8>>,
    /// By epoch, the oldest first.
    pieces: Vec<(Epoch, Vec<u8>)>,
}

impl Log {
    /// Cuts all `shards` of a node, between two rounds in which nothing is on its way between them.
    ///
    /// # Errors
    /// The state does not serialise: never, as far as known.
    pub fn cut(&mut self, plan: &Plan, shards: &mut [Shard]) -> Result<(), ImageError> {
        let epoch = self.last.next();
        let cuts = shards.iter_mut().map(|shard| shard.cut(epoch));
        let cuts = cuts.collect::<Result<Vec<Cut>, _>>()?;
        let oldest = cuts.iter().map(|cut| cut.oldest).min().unwrap_or(epoch);
        self.pieces.retain(|(epoch, _)| *epoch >= oldest);
        self.parts.clear();
        for cut in cuts {
            self.parts.push(cut.part);
            let pieces = pack(plan, cut.segments, PIECE_BYTES);
            self.pieces.extend(pieces.map(|piece| (epoch, piece)));
        }
        self.last = epoch;
        Ok(())
    }

    /// The node as it was at the last cut, of `shards` shards now.
    ///
    /// # Errors
    /// The cuts are damaged, of another version, or of another plan.
    pub fn restore(
        &self,
        plan: &Arc<Plan>,
        symbols: &Arc<Symbols>,
        shards: usize,
    ) -> Result<Vec<Shard>, ImageError> {
        self.restore_but(plan, symbols, shards, None)
    }

    /// The same, but for what begins anew.
    ///
    /// # Errors
    /// The cuts are damaged, of another version, or do not hold what is to go on.
    pub fn restore_but(
        &self,
        plan: &Arc<Plan>,
        symbols: &Arc<Symbols>,
        shards: usize,
        begins: Option<Begins>,
    ) -> Result<Vec<Shard>, ImageError> {
        let (plan, symbols) = (Arc::clone(plan), Arc::clone(symbols));
        let mut restoration = Restoration::but(plan, symbols, shards, &self.parts, begins)?;
        let mut pieces: Vec<_> = self.pieces.iter().collect();
        // Those of one epoch stay in their order.
        pieces.sort_by_key(|(epoch, _)| Reverse(*epoch));
        for (epoch, piece) in pieces {
            restoration.take(*epoch, piece)?;
        }
        Ok(restoration.finish())
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let pieces = self.pieces.iter().map(|(_, piece)| piece.len());
        pieces.chain(self.parts.iter().map(Vec::len)).sum()
    }
}
