//! Random jobs with known results.

use std::{
    ops::AddAssign,
    sync::Arc,
    time::{Duration, Instant},
};

use ark_ec::{CurveGroup, PrimeGroup};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};

use crate::{
    cli::{
        exit::{CliFailure, Exit, Result},
        output::Ui,
        progress::TerminalProgress,
        random::{blocking, random},
    },
    client::{
        BasesHandle, BasesId, Client, CurvePoint, Execution, Fr, G1Affine, G2Affine, MsmOptions,
        NttOptions, PutOptions, Timing,
    },
    curve::points::content_hash,
};

/// State shared by jobs of all sizes.
pub enum BenchData {
    /// Bases on the server.
    MsmG1(KnownBases<G1Affine>),
    /// Bases on the server.
    MsmG2(KnownBases<G2Affine>),
    /// NTTs share nothing.
    Ntt,
}

/// Bases on the server with known discrete logarithms: base i is `(first + i * step) * generator`.
pub struct KnownBases<A> {
    handle: BasesHandle<A>,
    first: Fr,
    step: Fr,
    /// Whether this run put the bases and must release them.
    is_new: bool,
}

/// Latency of the whole call, its phases, engine and device.
pub struct Measurement {
    pub latency: Duration,
    pub timing: Timing,
    pub execution: Execution,
}

/// A job that can be repeated.
#[derive(Clone)]
pub enum BenchJob {
    MsmG1(Arc<BenchMsm<G1Affine>>),
    MsmG2(Arc<BenchMsm<G2Affine>>),
    Ntt(Arc<BenchNtt>),
}

/// Scalars and the expected sum.
pub struct BenchMsm<A: CurvePoint> {
    bases: BasesHandle<A>,
    scalars: Vec<Fr>,
    expected: A::Group,
}

/// A row and its expected transform.
pub struct BenchNtt {
    row: Vec<Fr>,
    expected: Vec<Fr>,
}

impl BenchData {
    /// Generates 2^lg_n bases and puts them on the server; smaller sizes use the first of them.
    /// `wrap` selects the variant of the group.
    pub async fn msm<A: CurvePoint>(
        ui: Ui,
        client: &Client,
        lg_n: u32,
        wrap: fn(KnownBases<A>) -> Self,
    ) -> Result<Self> {
        let bar = TerminalProgress::spinner(ui, format!("generating 2^{lg_n} bases"));
        let walk = blocking(move || walk_points::<A>(1 << lg_n)).await;
        let ours = client.stat(BasesId(content_hash(&walk))).await.is_err();
        drop(bar);
        let bar = TerminalProgress::bytes(ui, "sending bases", 0);
        let options = PutOptions {
            label: "capstan bench".to_owned(),
            progress: bar.callback(),
            ..PutOptions::default()
        };
        let handle = client.put_bases_with(options, &walk).await?;
        let [first, step] = walk_logarithms();
        Ok(wrap(KnownBases { handle, first, step, is_new: ours }))
    }

    /// Name of the group or field, for people.
    pub fn domain_name(&self) -> &'static str {
        match self {
            Self::MsmG1(_) => "G1",
            Self::MsmG2(_) => "G2",
            Self::Ntt => "Fr",
        }
    }

    /// A random job of 2^lg_n elements.
    pub async fn job(&self, lg_n: u32) -> BenchJob {
        match self {
            Self::MsmG1(walk) => BenchJob::MsmG1(Arc::new(walk.sum(lg_n).await)),
            Self::MsmG2(walk) => BenchJob::MsmG2(Arc::new(walk.sum(lg_n).await)),
            Self::Ntt => BenchJob::Ntt(Arc::new(blocking(move || transform(lg_n)).await)),
        }
    }

    /// Releases the bases unless they were on the server before.
    pub async fn release(&self, client: &Client) -> Result<()> {
        let (ours, id) = match self {
            Self::MsmG1(walk) => (walk.is_new, walk.handle.id()),
            Self::MsmG2(walk) => (walk.is_new, walk.handle.id()),
            Self::Ntt => return Ok(()),
        };
        if ours {
            client.release(id).await?;
        }
        Ok(())
    }
}

impl<A: CurvePoint> KnownBases<A> {
    async fn sum(&self, lg_n: u32) -> BenchMsm<A> {
        let bases = self.handle.slice(0, 1 << lg_n).expect("the walk has the largest size");
        let (first, step) = (self.first, self.step);
        blocking(move || {
            let scalars = random(&format!("scalars {lg_n}"), 1 << lg_n);
            let mut logarithm = first;
            let mut sum = Fr::from(0);
            for scalar in &scalars {
                sum += *scalar * logarithm;
                logarithm += step;
            }
            BenchMsm { bases, scalars, expected: A::Group::generator() * sum }
        })
        .await
    }
}

impl BenchJob {
    /// A reusable buffer for a job's result.
    pub fn buffer(&self) -> Vec<Fr> {
        match self {
            Self::Ntt(transform) => transform.row.clone(),
            _ => Vec::new(),
        }
    }

    /// Runs the job once. The latency excludes the comparison of the result.
    ///
    /// Errors: those of the call; `Failed` if the result is wrong.
    pub async fn run(&self, client: &Client, buffer: &mut Vec<Fr>) -> Result<Measurement> {
        match self {
            Self::MsmG1(sum) => sum.run(client).await,
            Self::MsmG2(sum) => sum.run(client).await,
            Self::Ntt(transform) => {
                let begin = Instant::now();
                let report = client.ntt(buffer, NttOptions::default()).await?;
                let latency = begin.elapsed();
                if *buffer != transform.expected {
                    return Err(wrong("transform", transform.row.len()));
                }
                Ok(Measurement { latency, timing: report.timing, execution: report.execution })
            }
        }
    }

    /// Overwrites the last result with the input. Not measured.
    pub fn refill(&self, buffer: &mut [Fr]) {
        if let Self::Ntt(transform) = self {
            buffer.copy_from_slice(&transform.row);
        }
    }
}

impl<A: CurvePoint> BenchMsm<A> {
    async fn run(&self, client: &Client) -> Result<Measurement> {
        let begin = Instant::now();
        let sums = client.msm_with(&self.bases, &self.scalars, MsmOptions::default()).await?;
        let latency = begin.elapsed();
        if sums.points != [self.expected] {
            return Err(wrong("sum", self.scalars.len()));
        }
        Ok(Measurement { latency, timing: sums.timing, execution: sums.execution })
    }
}

fn wrong(what: &str, length: usize) -> CliFailure {
    let message = format!("the server returned a wrong {what} of {length} elements: do not use it");
    CliFailure::new(Exit::Failed, message)
}

fn transform(lg_n: u32) -> BenchNtt {
    let row = random(&format!("row {lg_n}"), 1 << lg_n);
    let domain = Radix2EvaluationDomain::<Fr>::new(row.len()).expect("sizes are below 2^32");
    let expected = domain.fft(&row);
    BenchNtt { row, expected }
}

/// Discrete logarithms of the walk's first point and of its step.
fn walk_logarithms() -> [Fr; 2] {
    random("walk", 2).try_into().expect("two elements were requested")
}

fn walk_points<A: CurvePoint>(n: usize) -> Vec<A> {
    /// Bounds the memory of projective points.
    const PIECE: usize = 1 << 16;
    let [first, step] = walk_logarithms().map(|logarithm| A::generator() * logarithm);
    let step = step.into_affine();
    let mut point = first;
    let mut points = Vec::with_capacity(n);
    let mut piece = Vec::with_capacity(n.min(PIECE));
    while points.len() < n {
        piece.clear();
        for _ in 0..(n - points.len()).min(PIECE) {
            piece.push(point);
            point.add_assign(&step);
        }
        points.extend(A::Group::normalize_batch(&piece));
    }
    points
}

#[cfg(test)]
mod tests {
    use ark_ec::AffineRepr;

    use super::*;

    #[test]
    fn walk_has_the_expected_logarithms() {
        let [first, step] = walk_logarithms();
        let points = walk_points::<G1Affine>(5);
        for (index, point) in points.iter().enumerate() {
            let logarithm = first + step * Fr::from(index as u64);
            assert_eq!(*point, (G1Affine::generator() * logarithm).into_affine());
        }
    }
}
