//! The jobs of the load, and arkworks' results.

use std::sync::Arc;

use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::client::{
    Client, ClientError, CurvePoint, Fleet, Fr, G1Affine, G2Affine, MsmOptions, NttOptions,
    NttTransform, ProgramBuilder, ProgramRun, PutOptions,
};

use crate::proxies::{
    msm_inputs::{points, scalars, sum},
    sparse_inputs::sparse_scalars,
};

/// Bases of the load: enough for every daemon to have some.
const BASES: usize = 8;
const SMALL: usize = 200;
/// Vectors over `LARGE` bases, together more than a message holds: streamed over two lanes.
const BATCH: usize = 32;
const LARGE: usize = 1 << 12;
const LG_N: u32 = 11;

/// How calls reach the daemons.
#[derive(Clone)]
pub enum Caller {
    /// Through a proxy.
    One(Client),
    Many(Fleet),
}

/// An MSM of one or several vectors, and its results.
struct KnownMsm<A: CurvePoint> {
    points: Arc<[A]>,
    scalars: Vec<Fr>,
    sums: Vec<A::Group>,
}

impl<A: CurvePoint> KnownMsm<A> {
    fn new(seed: u64, count: usize) -> Self {
        Self::of(points(seed, count), scalars(seed, count))
    }

    fn of(points: Vec<A>, scalars: Vec<Fr>) -> Self {
        let sums = scalars.chunks(points.len()).map(|row| sum(&points, row)).collect();
        Self { points: points.into(), scalars, sums }
    }
}

/// Inputs and results, computed once.
pub struct Work {
    g1: Vec<KnownMsm<G1Affine>>,
    g2: Vec<KnownMsm<G2Affine>>,
    large: KnownMsm<G1Affine>,
    input: Vec<Fr>,
    transformed: Vec<Fr>,
}

impl Work {
    pub fn new() -> Self {
        let input = scalars(99, 1 << LG_N);
        let domain = Radix2EvaluationDomain::<Fr>::new(input.len()).unwrap();
        let transformed = domain.fft(&input);
        let many = sparse_scalars(BATCH * LARGE, |count| scalars(77, count));
        Self {
            g1: (0..BASES as u64).map(|seed| KnownMsm::new(seed, SMALL)).collect(),
            g2: (0..BASES as u64).map(|seed| KnownMsm::new(seed, SMALL / 4)).collect(),
            large: KnownMsm::of(points(77, LARGE), many),
            input,
            transformed,
        }
    }

    /// Runs job number `number`, and panics if its result is wrong.
    pub async fn run(&self, caller: &Caller, number: usize) -> Result<(), ClientError> {
        let which = number / 8 % BASES;
        match number % 8 {
            // Rarely: it takes as long as a hundred others.
            0 if which == 0 => msm(caller, &self.large).await,
            1 => msm(caller, &self.g2[which]).await,
            2 => self.ntt(caller).await,
            3 => self.program(caller, which).await,
            _ => msm(caller, &self.g1[(number + which) % BASES]).await,
        }
    }

    async fn ntt(&self, caller: &Caller) -> Result<(), ClientError> {
        let values = match caller {
            Caller::One(client) => {
                client.ntt_padded(&self.input, LG_N, NttOptions::forward()).await?.values
            }
            Caller::Many(fleet) => fleet.ntt(&self.input, NttOptions::forward()).await?.values,
        };
        assert!(values == self.transformed, "a wrong transform");
        Ok(())
    }

    /// An MSM of a transform, in one call.
    async fn program(&self, caller: &Caller, which: usize) -> Result<(), ClientError> {
        let known = &self.g1[which];
        let work = |client: Client| async move {
            let bases = client.put_shared_bases(hold(), known.points.clone()).await?;
            let mut program = ProgramBuilder::new();
            let input = program.input(1 << LG_N)?;
            let values = program.ntt(input, NttTransform::forward())?;
            let first = program.slice(values, 0, SMALL as u64)?;
            let point = program.msm(&bases, first)?;
            let program = program.build()?;
            let run = ProgramRun::new(&program).input(input, &self.input).send_points(point);
            Ok(client.run(run).await?.points(point)?[0])
        };
        let found = match caller {
            Caller::One(client) => work(client.clone()).await?,
            Caller::Many(fleet) => fleet.call(&which.to_string(), work).await?,
        };
        assert_eq!(found, sum(&known.points, &self.transformed[..SMALL]), "a wrong sum");
        Ok(())
    }
}

async fn msm<A: CurvePoint>(caller: &Caller, known: &KnownMsm<A>) -> Result<(), ClientError> {
    let (points, scalars) = (known.points.clone(), &known.scalars);
    let options = MsmOptions { batch: known.sums.len() as u32, ..MsmOptions::default() };
    let found = match caller {
        Caller::One(client) => {
            let bases = client.put_shared_bases(hold(), points).await?;
            client.msm_with(&bases, scalars, options).await?
        }
        Caller::Many(fleet) => {
            let bases = fleet.put_bases(points).await?;
            fleet.msm_with(&bases, scalars, options).await?
        }
    };
    assert_eq!(found.points, known.sums, "a wrong sum");
    Ok(())
}

fn hold() -> PutOptions {
    PutOptions { hold: true, ..PutOptions::default() }
}
