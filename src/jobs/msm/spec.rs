//! What an MSM job computes, and the memory that it takes.

use bytes::Bytes;

use crate::{
    curve::{
        Group,
        points::{Bases, PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    engine::Engine,
    error::{Error, FieldProblem, Result},
    jobs::ComputeHost,
    verify::Verification,
};

/// What a request specifies of an MSM, apart from the bases.
#[derive(Debug, Clone, PartialEq)]
pub struct MsmSpec {
    pub group: Group,
    /// Number of scalar vectors, each as long as the bases, concatenated in the payload.
    pub batch: usize,
    /// Reduce scalars modulo r.
    pub reduce: bool,
    pub result_encoding: SumEncoding,
    pub verify: Verification,
}

/// Points of a request, which the job must check.
#[derive(Debug, Clone, PartialEq)]
pub struct UncheckedBases {
    pub encoding: PointEncoding,
    pub data: Bytes,
    pub count: usize,
}

pub enum JobBases {
    Checked(Bases),
    Unchecked(UncheckedBases),
}

impl JobBases {
    pub fn count(&self) -> usize {
        match self {
            Self::Checked(bases) => bases.len(),
            Self::Unchecked(bases) => bases.count,
        }
    }
}

pub struct MsmJob {
    pub spec: MsmSpec,
    pub bases: JobBases,
    pub scalar_encoding: ScalarEncoding,
}

impl MsmJob {
    /// Bytes of working memory in addition to the payload.
    pub fn scratch_bytes(&self, host: &ComputeHost) -> u64 {
        let (group, n) = (self.spec.group, self.bases.count());
        let inline = match &self.bases {
            JobBases::Checked(_) => 0,
            JobBases::Unchecked(_) => (n * group.affine_bytes()) as u64,
        };
        let result = (self.spec.batch * (3 * group.coordinate_bytes())) as u64;
        let (engine, oracle) = (host.engine.as_ref(), host.oracle.as_ref());
        let run = match self.spec.verify {
            Verification::None => self.run_bytes(engine, 33),
            // The oracle runs after the engine.
            Verification::Full => self.run_bytes(engine, 33).max(self.run_bytes(oracle, 33)),
            // 64 more bytes per scalar, for the combination.
            Verification::Probabilistic => self.run_bytes(engine, 33 + 64),
        };
        run + inline + result
    }

    /// Bytes that a run of `engine` uses, with `scalar_bytes` per scalar of a piece.
    fn run_bytes(&self, engine: &dyn Engine, scalar_bytes: u64) -> u64 {
        let (group, n) = (self.spec.group, self.bases.count());
        let piece = engine.msm_piece_len(group, n).clamp(1, n.max(1)) as u64;
        piece * scalar_bytes + engine.msm_scratch_bytes(group, n)
    }
}

/// Checks that a payload of `count` elements holds `batch` vectors of `n`.
///
/// Errors: `Invalid` if it does not, or if the product overflows.
pub fn check_count(field: &'static str, count: u64, batch: usize, n: u64) -> Result<()> {
    let expected = (batch as u64)
        .checked_mul(n)
        .ok_or(Error::field(field, FieldProblem::TooLarge { max: u64::MAX }))?;
    if count != expected {
        return Err(Error::field(field, FieldProblem::Length { expected, got: count }));
    }
    Ok(())
}
