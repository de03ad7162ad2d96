//! The oracle: arkworks on its own pool. Its MSM shares no arithmetic with [`super::CpuEngine`],
//! which uses blst.

use ark_ec::VariableBaseMSM;
use ark_ff::{BigInt, BigInteger, PrimeField};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    msm_run::CpuMsmRun,
    pool::{EnginePool, msm_piece_len},
};
use crate::{
    curve::{
        Fr, Group,
        points::{Bases, CurvePoint},
        scalars::Scalars,
    },
    engine::{Engine, EngineDescription, ExecutedBy, JobControl, MsmRun, NttPlan, NttRows},
    error::Result,
};

/// MSM and NTT by arkworks on its own pool, to check other engines against.
pub struct ArkworksEngine(EnginePool);

impl ArkworksEngine {
    /// An engine of `threads` threads; 0 means one per core.
    ///
    /// Errors: `Internal` if the threads cannot be created.
    pub fn new(threads: usize) -> Result<Self> {
        Ok(Self(EnginePool::new("arkworks", "capstan-check", threads)?))
    }
}

impl Engine for ArkworksEngine {
    fn description(&self) -> EngineDescription {
        self.0.description()
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        Ok(match bases {
            Bases::G1(bases) => CpuMsmRun::start(&self.0, "arkworks", sum, bases, batch),
            Bases::G2(bases) => CpuMsmRun::start(&self.0, "arkworks", sum, bases, batch),
        })
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        n.min(msm_piece_len(group))
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        self.0.ntt(plan, rows, control)
    }

    fn ntt_in_place(
        &self,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.0.ntt_in_place(plan, rows, control)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        // Scalars as integers, and arkworks' own copies: indices, points, integers, digits.
        (self.msm_piece_len(group, n) * (32 + 8 + group.affine_bytes() + 32 + 64 * 8)) as u64
    }

    fn ntt_scratch_bytes(&self, plan: &NttPlan) -> u64 {
        self.0.ntt_scratch_bytes(plan)
    }
}

fn sum<A: CurvePoint>(bases: &[A], scalars: &Scalars, _: &JobControl) -> Result<A::Group> {
    Ok(A::Group::msm_bigint(bases, &integers(scalars)))
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
