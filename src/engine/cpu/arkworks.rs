//! The oracle: arkworks on its own pool. Its MSM shares no arithmetic with [`super::CpuEngine`],
//! which uses blst.

use std::{mem, sync::Arc};

use ark_ec::VariableBaseMSM;
use ark_ff::{BigInt, BigInteger, PrimeField, Zero};
use rayon::{ThreadPool, prelude::*};
use zeroize::Zeroizing;

use super::{describe, executor, ntt, piece_len, pool};
use crate::{
    curve::{
        Fr, Group,
        points::{Bases, CurvePoint, MsmSums, PointSlice},
        scalars::Scalars,
    },
    engine::{
        EncodedScalars, Engine, EngineDescription, ExecutedBy, JobControl, MsmRun, NttPlan, NttRows,
    },
    error::{Error, Result},
};

const ENGINE: &str = "arkworks";

/// MSM and NTT by arkworks on its own pool, to check other engines against.
pub struct ArkworksEngine {
    pool: Arc<ThreadPool>,
}

impl ArkworksEngine {
    /// An engine of `threads` threads; 0 means one per core.
    ///
    /// Errors: `Internal` if the threads cannot be created.
    pub fn new(threads: usize) -> Result<Self> {
        Ok(Self { pool: pool("capstan-check", threads)? })
    }
}

impl Engine for ArkworksEngine {
    fn description(&self) -> EngineDescription {
        describe(ENGINE, &self.pool)
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let pool = self.pool.clone();
        Ok(match bases {
            Bases::G1(bases) => Box::new(ArkworksMsmRun::new(pool, bases, batch)),
            Bases::G2(bases) => Box::new(ArkworksMsmRun::new(pool, bases, batch)),
        })
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        n.min(piece_len(group))
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        let transform = |rows: &mut [Vec<Fr>]| ntt::transform(plan, rows, control);
        self.pool.install(|| rows.transform_decoded(plan.lg_n, transform))?;
        Ok(executor(ENGINE, &self.pool, "arkworks"))
    }

    fn ntt_in_place(
        &self,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.pool.install(|| ntt::transform(plan, rows, control))?;
        Ok(executor(ENGINE, &self.pool, "arkworks"))
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        // Scalars as integers, and arkworks' own copies: indices, points, integers, digits.
        (self.msm_piece_len(group, n) * (32 + 8 + group.affine_bytes() + 32 + 64 * 8)) as u64
    }

    fn ntt_scratch_bytes(&self, plan: &NttPlan) -> u64 {
        ntt::scratch_bytes(plan, self.pool.current_num_threads())
    }
}

struct ArkworksMsmRun<A: CurvePoint> {
    pool: Arc<ThreadPool>,
    bases: PointSlice<A>,
    sums: Vec<A::Group>,
    /// Reused from piece to piece.
    buffer: Zeroizing<Vec<u8>>,
}

impl<A: CurvePoint> ArkworksMsmRun<A> {
    fn new(pool: Arc<ThreadPool>, bases: PointSlice<A>, batch: usize) -> Self {
        let (sums, buffer) = (vec![A::Group::zero(); batch], Zeroizing::default());
        Self { pool, bases, sums, buffer }
    }
}

impl<A: CurvePoint> MsmRun for ArkworksMsmRun<A> {
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()> {
        control.check()?;
        let bases = &self.bases[first..first + scalars.count];
        let buffer = mem::take(&mut self.buffer);
        let (part, scalars) = self.pool.install(|| {
            let scalars = scalars.decode_scalars(buffer)?;
            let integers = integers(&scalars);
            Ok::<_, Error>((A::Group::msm_bigint(bases, &integers), scalars))
        })?;
        self.sums[vector] += part;
        self.buffer = scalars.into_bytes();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(MsmSums, ExecutedBy)> {
        let executor = executor(ENGINE, &self.pool, "arkworks");
        Ok((A::into_sums(self.sums), executor))
    }
}

/// Scalars as integers modulo r.
fn integers(scalars: &Scalars) -> Zeroizing<Vec<BigInt<4>>> {
    let magnitudes = scalars.magnitudes().par_chunks(scalars.width());
    let integers = magnitudes.with_min_len(1024).enumerate().map(|(i, magnitude)| {
        let mut bytes = [0; 32];
        bytes[..magnitude.len()].copy_from_slice(magnitude);
        let mut integer = BigInt([0; 4]);
        for (limb, bytes) in integer.0.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        let negative = scalars.signs().is_some_and(|negative| negative[i]);
        if negative && !integer.is_zero() {
            let mut opposite = Fr::MODULUS;
            opposite.sub_with_borrow(&integer);
            integer = opposite;
        }
        integer
    });
    Zeroizing::new(integers.collect())
}
