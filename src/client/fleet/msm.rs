//! MSMs on one server, or on several: bases that are cut, and batches.

use ark_ff::Zero;
use futures_util::future::try_join_all;
use tokio::time::Instant;

use super::{
    Fleet, FleetBases,
    bases::BasesPart,
    members::Candidates,
    slices::{RowsPart, ScalarRows, divide},
};
use crate::{
    Client, CurvePoint, MsmOptions, MsmResult, ScalarInput, Timing,
    compute::msm::single_sum,
    error::{ClientError, Result},
};

/// What one server computes.
struct MsmShare<'a, A> {
    part: &'a BasesPart<A>,
    rows: RowsPart,
    candidates: Candidates<'a>,
}

impl Fleet {
    /// Computes the sum of `scalars[i] * bases[i]`.
    ///
    /// Shape: one scalar per base. Errors: `InvalidInput` for any other number of scalars, or for a
    /// vector on a server; those of [`Client::msm`] that another server cannot repair.
    pub async fn msm<'a, A: CurvePoint>(
        &self,
        bases: &FleetBases<A>,
        scalars: impl Into<ScalarInput<'a>>,
    ) -> Result<A::Group> {
        single_sum(self.msm_with(bases, scalars, MsmOptions::default()).await?)
    }

    /// Like [`Self::msm`], with options such as a batch of scalar vectors. Servers that compute a
    /// part of the MSM do it at the same time, and the client adds their sums, exactly. A batch
    /// over bases that are not cut is divided among the replicas. Timings are the longest of all
    /// parts; the execution is that of the first part.
    ///
    /// Shape: `batch` vectors of one scalar per base, one after another. Errors: those of
    /// [`Self::msm`]; `DeadlineExceeded`.
    pub async fn msm_with<'a, A: CurvePoint>(
        &self,
        bases: &FleetBases<A>,
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<MsmResult<A>> {
        let started = Instant::now();
        let vectors = options.batch.max(1) as usize;
        let rows = ScalarRows::new(scalars.into(), vectors, bases.len)?;
        let parts = self.msm_parts(bases, vectors);
        let sums = parts.iter().map(|part| self.msm_part(part, &rows, &options));
        let results = try_join_all(sums).await?;
        let mut sum: Option<MsmResult<A>> = None;
        for (part, result) in parts.iter().zip(results) {
            if result.points.len() != part.rows.vectors.len() {
                return Err(ClientError::invalid_response("wrong number of sums"));
            }
            let MsmResult { points, timing, .. } = sum.get_or_insert_with(|| MsmResult {
                points: vec![A::Group::zero(); vectors],
                timing: Timing::default(),
                execution: result.execution.clone(),
            });
            for (total, point) in points[part.rows.vectors.clone()].iter_mut().zip(result.points) {
                *total += point;
            }
            *timing = timing.longest(&result.timing);
        }
        let mut sum = sum.ok_or(ClientError::invalid_response("no part"))?;
        sum.timing.total = started.elapsed();
        Ok(sum)
    }

    /// Divides an MSM by the points of cut bases, or else by vectors.
    fn msm_parts<'a, A>(&self, bases: &'a FleetBases<A>, vectors: usize) -> Vec<MsmShare<'a, A>> {
        let candidates = |place| self.candidates(Some(&bases.key), place);
        if let [part] = &*bases.parts {
            let groups = divide(vectors, self.inner.replicas.min(self.inner.members.count()));
            let parts = groups.into_iter().enumerate().map(|(place, vectors)| MsmShare {
                part,
                rows: RowsPart { vectors, elements: part.range.clone() },
                candidates: candidates(place),
            });
            return parts.collect();
        }
        let parts = bases.parts.iter().enumerate().map(|(place, part)| MsmShare {
            part,
            rows: RowsPart { vectors: 0..vectors, elements: part.range.clone() },
            candidates: candidates(place),
        });
        parts.collect()
    }

    async fn msm_part<A: CurvePoint>(
        &self,
        part: &MsmShare<'_, A>,
        rows: &ScalarRows<'_>,
        options: &MsmOptions,
    ) -> Result<MsmResult<A>> {
        let handle = &part.part.handle;
        let batch = part.rows.vectors.len() as u32;
        let options = MsmOptions { batch, ..options.clone() };
        let limit = options.deadline.or(self.inner.deadline);
        let scalars = rows.part(&part.rows);
        let msm = |client: Client, left| {
            let options = MsmOptions { deadline: left, ..options.clone() };
            let scalars = scalars.clone();
            async move { client.msm_with(handle, scalars, options).await }
        };
        self.call_within(part.candidates, limit, msm).await
    }
}
