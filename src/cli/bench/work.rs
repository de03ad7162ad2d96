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
        data::{blocking, random},
        exit::{Exit, Failure, Result},
        output::Ui,
        progress::Bar,
    },
    client::{
        BasesHandle, BasesId, Client, CurvePoint, Execution, Fr, G1Affine, G2Affine, MsmOptions,
        NttOptions, PutOptions, Timing,
    },
    curve::points::content_hash,
};

/// State shared by jobs of all sizes.
pub enum Work {
    /// Bases on the server.
    MsmG1(Walk<G1Affine>),
    /// Bases on the server.
    MsmG2(Walk<G2Affine>),
    /// NTTs share nothing.
    Ntt,
}

/// Bases on the server with known discrete logarithms: base i is `(first + i * step) * generator`.
pub struct Walk<A> {
    handle: BasesHandle<A>,
    first: Fr,
    step: Fr,
    /// Whether this run put the bases and must release them.
    is_new: bool,
}

/// Latency of the whole call, its phases, engine and device.
pub struct Done {
    pub latency: Duration,
    pub timing: Timing,
    pub execution: Execution,
}

/// A job that can be repeated.
#[derive(Clone)]
pub enum Job {
    MsmG1(Arc<Sum<G1Affine>>),
    MsmG2(Arc<Sum<G2Affine>>),
    Ntt(Arc<Transform>),
}

/// Scalars and the expected sum.
pub struct Sum<A: CurvePoint> {
    bases: BasesHandle<A>,
    scalars: Vec<Fr>,
    expected: A::Group,
}

/// A row and its expected transform.
pub struct Transform {
    row: Vec<Fr>,
    expected: Vec<Fr>,
}

impl Work {
    /// Generates 2^lg_n bases and puts them on the server; smaller sizes use the first of them.
    /// `wrap` selects the variant of the group.
    pub async fn msm<A: CurvePoint>(
        ui: Ui,
        client: &Client,
        lg_n: u32,
        wrap: fn(Walk<A>) -> Self,
    ) -> Result<Self> {
        let bar = Bar::spinner(ui, format!("generating 2^{lg_n} bases"));
        let walk = blocking(move || walk::<A>(1 << lg_n)).await;
        let ours = client.stat(BasesId(content_hash(&walk))).await.is_err();
        drop(bar);
        let bar = Bar::bytes(ui, "sending bases", 0);
        let options = PutOptions {
            label: "capstan bench".to_owned(),
            progress: bar.callback(),
            ..PutOptions::default()
        };
        let handle = client.put_bases_with(options, &walk).await?;
        let [first, step] = ends();
        Ok(wrap(Walk { handle, first, step, is_new: ours }))
    }

    /// Name of the group or field, for people.
    pub fn what(&self) -> &'static str {
        match self {
            Self::MsmG1(_) => "G1",
            Self::MsmG2(_) => "G2",
            Self::Ntt => "Fr",
        }
    }

    /// A random job of 2^lg_n elements.
    pub async fn job(&self, lg_n: u32) -> Job {
        match self {
            Self::MsmG1(walk) => Job::MsmG1(Arc::new(walk.sum(lg_n).await)),
            Self::MsmG2(walk) => Job::MsmG2(Arc::new(walk.sum(lg_n).await)),
            Self::Ntt => Job::Ntt(Arc::new(blocking(move || transform(lg_n)).await)),
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

impl<A: CurvePoint> Walk<A> {
    async fn sum(&self, lg_n: u32) -> Sum<A> {
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
            Sum { bases, scalars, expected: A::Group::generator() * sum }
        })
        .await
    }
}

impl Job {
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
    pub async fn run(&self, client: &Client, buffer: &mut Vec<Fr>) -> Result<Done> {
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
                Ok(Done { latency, timing: report.timing, execution: report.execution })
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

impl<A: CurvePoint> Sum<A> {
    async fn run(&self, client: &Client) -> Result<Done> {
        let begin = Instant::now();
        let sums = client.msm_with(&self.bases, &self.scalars, MsmOptions::default()).await?;
        let latency = begin.elapsed();
        if sums.points != [self.expected] {
            return Err(wrong("sum", self.scalars.len()));
        }
        Ok(Done { latency, timing: sums.timing, execution: sums.execution })
    }
}

fn wrong(what: &str, length: usize) -> Failure {
    let message = format!("the server returned a wrong {what} of {length} elements: do not use it");
    Failure::new(Exit::Failed, message)
}

fn transform(lg_n: u32) -> Transform {
    let row = random(&format!("row {lg_n}"), 1 << lg_n);
    let domain = Radix2EvaluationDomain::<Fr>::new(row.len()).expect("sizes are below 2^32");
    let expected = domain.fft(&row);
    Transform { row, expected }
}

/// Discrete logarithms of the walk's first point and of its step.
fn ends() -> [Fr; 2] {
    random("walk", 2).try_into().expect("two elements were requested")
}

fn walk<A: CurvePoint>(n: usize) -> Vec<A> {
    /// Bounds the memory of projective points.
    const PIECE: usize = 1 << 16;
    let [first, step] = ends().map(|logarithm| A::generator() * logarithm);
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
        let [first, step] = ends();
        let points = walk::<G1Affine>(5);
        for (index, point) in points.iter().enumerate() {
            let logarithm = first + step * Fr::from(index as u64);
            assert_eq!(*point, (G1Affine::generator() * logarithm).into_affine());
        }
    }
}
