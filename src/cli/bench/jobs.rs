//! Random jobs with known results.

use std::{mem, ops::AddAssign, sync::Arc, time::Instant};

use ark_ec::{CurveGroup, PrimeGroup};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};

use super::{
    measurement::Measurement,
    shared::{self, WorkerVector},
};
use crate::{
    client::{
        BasesHandle, BasesId, Client, CurvePoint, Fr, G1Affine, G2Affine, MsmOptions, MsmResult,
        NttOptions, NttReport, PutOptions,
    },
    curve::points::content_hash,
    exit::{CliFailure, Exit, Result},
    output::Ui,
    progress::TerminalProgress,
    random::{blocking, random},
};

/// Vectors that are filled at a time take at most this much memory, unless one takes more.
const FILLED_BYTES: usize = 512 << 20;
/// The maximum number of vectors that a worker fills at a time.
const FILLED_MAX: usize = 16;

/// State shared by jobs of all sizes.
pub enum BenchData {
    MsmG1(KnownBases<G1Affine>),
    MsmG2(KnownBases<G2Affine>),
    Ntt,
}

/// Points of [`PointProgression`] on the server.
pub struct KnownBases<A> {
    handle: BasesHandle<A>,
    /// Whether this run put the bases and must release them.
    is_new: bool,
}

/// A job that can be repeated.
pub enum BenchJob {
    MsmG1(BenchMsm<G1Affine>),
    MsmG2(BenchMsm<G2Affine>),
    Ntt { row: Vec<Fr>, expected: Vec<Fr> },
}

pub struct BenchMsm<A: CurvePoint> {
    bases: BasesHandle<A>,
    scalars: Arc<[Fr]>,
    expected: A::Group,
}

/// Generates 2^lg_n bases and puts them on the server; smaller sizes use the first of them.
pub async fn put_bases<A: CurvePoint>(ui: Ui, client: &Client, lg_n: u32) -> Result<KnownBases<A>> {
    let bar = TerminalProgress::spinner(ui, format!("generating 2^{lg_n} bases"));
    let points = blocking(move || PointProgression::new().points::<A>(1 << lg_n)).await;
    let is_new = client.stat(BasesId(content_hash(&points))).await.is_err();
    drop(bar);
    let bar = TerminalProgress::bytes(ui, "sending bases", 0);
    let label = "capstan bench".to_owned();
    let options = PutOptions { label, progress: bar.callback(), ..PutOptions::default() };
    let handle = client.put_bases_with(options, &points).await?;
    Ok(KnownBases { handle, is_new })
}

impl BenchData {
    pub fn operation(&self) -> &'static str {
        match self {
            Self::MsmG1(_) => "MSM over G1",
            Self::MsmG2(_) => "MSM over G2",
            Self::Ntt => "NTT over Fr",
        }
    }

    /// A random job of 2^lg_n elements.
    pub async fn job(&self, lg_n: u32) -> BenchJob {
        match self {
            Self::MsmG1(bases) => BenchJob::MsmG1(bases.msm(lg_n).await),
            Self::MsmG2(bases) => BenchJob::MsmG2(bases.msm(lg_n).await),
            Self::Ntt => blocking(move || BenchJob::ntt(lg_n)).await,
        }
    }

    /// Releases the bases unless they were on the server before.
    pub async fn release(&self, client: &Client) -> Result<()> {
        match self {
            Self::MsmG1(bases) if bases.is_new => client.release(bases.handle.id()).await?,
            Self::MsmG2(bases) if bases.is_new => client.release(bases.handle.id()).await?,
            _ => {}
        }
        Ok(())
    }
}

impl<A: CurvePoint> KnownBases<A> {
    async fn msm(&self, lg_n: u32) -> BenchMsm<A> {
        let bases = self.handle.slice(0, 1 << lg_n).expect("the bases have the largest size");
        blocking(move || {
            let scalars = random(&format!("scalars {lg_n}"), 1 << lg_n);
            let expected =
                A::Group::generator() * PointProgression::new().logarithm_of_sum(&scalars);
            BenchMsm { bases, scalars: scalars.into(), expected }
        })
        .await
    }
}

impl BenchJob {
    fn ntt(lg_n: u32) -> Self {
        let row = random(&format!("row {lg_n}"), 1 << lg_n);
        let domain = Radix2EvaluationDomain::<Fr>::new(row.len()).expect("sizes are below 2^32");
        let expected = domain.fft(&row);
        Self::Ntt { row, expected }
    }

    /// Runs the job once with a filled vector.
    ///
    /// Errors: those of the call; `Exit::Failed` if a sum is wrong.
    pub async fn run(&self, client: &Client, vector: &mut WorkerVector) -> Result<Measurement> {
        match self {
            Self::MsmG1(msm) => msm.run(client, vector).await,
            Self::MsmG2(msm) => msm.run(client, vector).await,
            Self::Ntt { .. } => match vector {
                WorkerVector::Sent(values) => {
                    let begin = Instant::now();
                    let row = mem::take(values);
                    let result = client.ntt_owned(row, NttOptions::default()).await?;
                    let latency = begin.elapsed();
                    *values = result.values;
                    let NttReport { timing, execution } = result.report;
                    Ok(Measurement { latency, timing, execution })
                }
                WorkerVector::Shared(values) => {
                    let input = values.take().ok_or_else(not_filled)?;
                    let (output, measurement) = shared::ntt(client, input).await?;
                    *values = Some(output);
                    Ok(measurement)
                }
            },
        }
    }

    /// Checks the transform in a vector. Not measured.
    ///
    /// Errors: `Exit::Failed` if it is wrong.
    pub fn check(&self, vector: &WorkerVector) -> Result<()> {
        let Self::Ntt { expected, .. } = self else { return Ok(()) };
        let is_right = match vector {
            WorkerVector::Sent(values) => values == expected,
            WorkerVector::Shared(values) => {
                values.as_ref().is_some_and(|values| *values.to_vec() == *expected)
            }
        };
        if is_right { Ok(()) } else { Err(wrong("transform", expected.len())) }
    }

    /// The number of vectors that a worker fills before it runs the job on one after the other: the
    /// pause to fill a large one would put the server's processors to sleep.
    pub fn vectors(&self, concurrency: u16) -> usize {
        match self {
            // Their runs leave the scalars as they are.
            Self::MsmG1(_) | Self::MsmG2(_) => 1,
            Self::Ntt { row, .. } => {
                let bytes = size_of_val(&row[..]) * usize::from(concurrency);
                (FILLED_BYTES / bytes).clamp(1, FILLED_MAX)
            }
        }
    }

    /// Fills the vector with the input. Not measured.
    pub async fn fill(&self, client: &Client, vector: &mut WorkerVector) -> Result<()> {
        let input = match self {
            Self::MsmG1(BenchMsm { scalars, .. }) | Self::MsmG2(BenchMsm { scalars, .. }) => {
                &scalars[..]
            }
            Self::Ntt { row, .. } => row,
        };
        match (vector, self) {
            (WorkerVector::Sent(values), Self::Ntt { .. }) => {
                values.clear();
                values.extend_from_slice(input);
            }
            // MSMs send the scalars of the job, and leave shared ones as they are.
            (WorkerVector::Sent(_), _)
            | (WorkerVector::Shared(Some(_)), Self::MsmG1(_) | Self::MsmG2(_)) => {}
            (WorkerVector::Shared(values), _) => {
                let values = match values {
                    Some(values) => values,
                    None => values.insert(shared::allocate(client, input.len()).await?),
                };
                values.copy_from_slice(input);
            }
        }
        Ok(())
    }
}

impl<A: CurvePoint> BenchMsm<A> {
    async fn run(&self, client: &Client, vector: &WorkerVector) -> Result<Measurement> {
        let (points, measurement) = match vector {
            WorkerVector::Sent(_) => {
                let begin = Instant::now();
                let options = MsmOptions::default();
                let sums = client.msm_with(&self.bases, self.scalars.clone(), options).await?;
                let latency = begin.elapsed();
                let MsmResult { points, timing, execution } = sums;
                (points, Measurement { latency, timing, execution })
            }
            WorkerVector::Shared(scalars) => {
                let scalars = scalars.as_ref().ok_or_else(not_filled)?;
                shared::msm(client, &self.bases, scalars).await?
            }
        };
        if points != [self.expected] {
            return Err(wrong("sum", self.scalars.len()));
        }
        Ok(measurement)
    }
}

/// The error if there is no vector, because an earlier run failed and dropped it.
fn not_filled() -> CliFailure {
    CliFailure::new(Exit::Failed, "a vector was not filled")
}

fn wrong(what: &str, length: usize) -> CliFailure {
    let message = format!("the server returned a wrong {what} of {length} elements: do not use it");
    CliFailure::new(Exit::Failed, message)
}

/// Points with known discrete logarithms: point i is `(first + i * step) * generator`.
struct PointProgression {
    first: Fr,
    step: Fr,
}

impl PointProgression {
    fn new() -> Self {
        let elements = random("walk", 2);
        Self { first: elements[0], step: elements[1] }
    }

    fn points<A: CurvePoint>(&self, n: usize) -> Vec<A> {
        /// Bounds the memory of projective points.
        const CHUNK: usize = 1 << 16;
        let mut point = A::generator() * self.first;
        let step = (A::generator() * self.step).into_affine();
        let mut points = Vec::with_capacity(n);
        let mut chunk = Vec::with_capacity(n.min(CHUNK));
        while points.len() < n {
            chunk.clear();
            for _ in 0..(n - points.len()).min(CHUNK) {
                chunk.push(point);
                point.add_assign(&step);
            }
            points.extend(A::Group::normalize_batch(&chunk));
        }
        points
    }

    /// The discrete logarithm of the sum of the scalars times the first points.
    fn logarithm_of_sum(&self, scalars: &[Fr]) -> Fr {
        let mut logarithm = self.first;
        let mut sum = Fr::from(0);
        for scalar in scalars {
            sum += *scalar * logarithm;
            logarithm += self.step;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use ark_ec::AffineRepr;

    use super::*;

    #[test]
    fn points_have_the_expected_logarithms() {
        let progression = PointProgression::new();
        let points = progression.points::<G1Affine>(5);
        for (index, point) in points.iter().enumerate() {
            let logarithm = progression.first + progression.step * Fr::from(index as u64);
            assert_eq!(*point, (G1Affine::generator() * logarithm).into_affine());
        }
    }
}
