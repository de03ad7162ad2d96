//! Jobs over vectors in memory that the server shares: programs of one step.

use std::time::Instant;

use super::measurement::Measurement;
use crate::{
    client::{
        BasesHandle, Client, CurvePoint, Fr, NttTransform, ProgramBuilder, ProgramRun, RunResult,
        SharedVector,
    },
    exit::{CliFailure, Exit, Result},
};

/// The vector that a worker's jobs use.
pub enum WorkerVector {
    /// Sent with each job.
    Sent(Vec<Fr>),
    /// `None` before the first job.
    Shared(Option<SharedVector>),
}

/// Errors: `Exit::Usage` if the server shares no memory.
pub async fn allocate(client: &Client, len: usize) -> Result<SharedVector> {
    let vector = client.alloc_vector(len).await?;
    if vector.is_shared() {
        return Ok(vector);
    }
    let message = "the server shares no memory: connect with --server unix:PATH, raise the \
                   server's region_bytes_max, or omit --shared";
    Err(CliFailure::new(Exit::Usage, message))
}

/// Transforms a vector in place.
pub async fn ntt(client: &Client, vector: SharedVector) -> Result<(SharedVector, Measurement)> {
    let mut program = ProgramBuilder::new();
    let input = program.input(vector.len() as u64)?;
    let output = program.ntt(input, NttTransform::forward())?;
    let run = ProgramRun::new(&program.build()?).in_place(input, output, vector);
    let begin = Instant::now();
    let mut result = client.run(run).await?;
    let vector = result.take_vector(output)?;
    Ok((vector, measurement(begin, result)))
}

/// Returns the sum of the scalars in `vector` times the bases.
pub async fn msm<A: CurvePoint>(
    client: &Client,
    bases: &BasesHandle<A>,
    vector: &SharedVector,
) -> Result<(Vec<A::Group>, Measurement)> {
    let mut program = ProgramBuilder::new();
    let input = program.input(vector.len() as u64)?;
    let sum = program.msm(bases, input)?;
    let run = ProgramRun::new(&program.build()?).input(input, vector).send_points(sum);
    let begin = Instant::now();
    let result = client.run(run).await?;
    let sums = result.points(sum)?;
    Ok((sums, measurement(begin, result)))
}

fn measurement(begin: Instant, result: RunResult) -> Measurement {
    let RunResult { timing, execution, .. } = result;
    Measurement { latency: begin.elapsed(), timing, execution }
}
