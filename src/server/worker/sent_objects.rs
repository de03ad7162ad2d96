//! The stored objects that a worker has mapped.

use super::{
    link::{WorkerLink, WorkerLost},
    message::{ControlRequest, NamedObjects, SuspectObjects},
    sent_bases::{BasesScope, SentBases},
    sent_matrices::SentMatrices,
};
use crate::{error::Result, exec::RunOperands};

#[derive(Default)]
pub struct SentObjects {
    pub bases: SentBases,
    pub matrices: SentMatrices,
}

impl SentObjects {
    /// The names of a run's objects in the worker, which maps those that it has not.
    pub fn name(
        &self,
        link: &WorkerLink,
        operands: &RunOperands<'_>,
        scope: BasesScope,
    ) -> Result<Result<NamedObjects>, WorkerLost> {
        let mut named = NamedObjects::default();
        for bases in operands.bases {
            match self.bases.name(link, bases, scope)? {
                Ok(name) => named.bases.push(name),
                Err(error) => return Ok(Err(error)),
            }
        }
        for matrix in operands.matrices {
            match self.matrices.number(link, matrix)? {
                Ok(number) => named.matrices.push(number),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(named))
    }

    /// Makes the worker's device forget the objects of a call whose result was wrong.
    pub fn evict_suspects(
        &self,
        link: &WorkerLink,
        operands: &RunOperands<'_>,
    ) -> Result<(), WorkerLost> {
        let bases = operands.bases.iter().flat_map(|bases| self.bases.numbers_of(bases));
        let matrices = operands.matrices.iter().filter_map(|one| self.matrices.number_of(one));
        let (bases, matrices) = (bases.collect(), matrices.collect());
        let request = ControlRequest::EvictSuspects(SuspectObjects { bases, matrices });
        link.control(&request, None).map(drop)
    }

    /// Lets the worker unmap the objects that have been dropped.
    pub fn unmap_dropped(&self, link: &WorkerLink) -> Result<(), WorkerLost> {
        self.bases.unmap_dropped(link)?;
        self.matrices.unmap_dropped(link)
    }
}
