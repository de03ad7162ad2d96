//! An MSM in progress on a pool: each piece is decoded and summed.

use std::mem;

use ark_ff::Zero;
use zeroize::Zeroizing;

use super::pool::EnginePool;
use crate::{
    curve::{
        points::{CurvePoint, PointSlice},
        scalars::Scalars,
    },
    engines::{ComputedMsm, EncodedScalars, JobControl, MsmRun},
    error::{Error, Result},
};

/// Computes `sum of scalars[i] * bases[i]` on the current pool. Shape: equal lengths.
pub(super) type SumPiece<A> =
    fn(&[A], &Scalars, &JobControl) -> Result<<A as ark_ec::AffineRepr>::Group>;

pub(super) struct CpuMsmRun<A: CurvePoint> {
    pool: EnginePool,
    library: &'static str,
    sum_piece: SumPiece<A>,
    bases: PointSlice<A>,
    sums: Vec<A::Group>,
    /// Reused from piece to piece.
    buffer: Zeroizing<Vec<u8>>,
}

impl<A: CurvePoint> CpuMsmRun<A> {
    pub fn start(
        pool: &EnginePool,
        library: &'static str,
        sum_piece: SumPiece<A>,
        bases: PointSlice<A>,
        batch: usize,
    ) -> Box<dyn MsmRun> {
        let sums = vec![A::Group::zero(); batch];
        let buffer = Zeroizing::default();
        Box::new(Self { pool: pool.clone(), library, sum_piece, bases, sums, buffer })
    }
}

impl<A: CurvePoint> MsmRun for CpuMsmRun<A> {
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()> {
        control.check()?;
        let bases = &self.bases[first..first + scalars.count()];
        let buffer = mem::take(&mut self.buffer);
        let (sum, scalars) = self.pool.threads.install(|| {
            let scalars = scalars.decode_scalars(buffer)?;
            Ok::<_, Error>(((self.sum_piece)(bases, &scalars, control)?, scalars))
        })?;
        self.sums[vector] += sum;
        self.buffer = scalars.into_bytes();
        Ok(())
    }

    fn finish(&mut self) -> Result<ComputedMsm> {
        let executor = self.pool.executor(self.library);
        Ok(ComputedMsm { sums: A::into_sums(mem::take(&mut self.sums)), executor })
    }
}
