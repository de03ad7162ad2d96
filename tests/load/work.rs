//! A client of the load test: calls whose results are known in advance.

use std::time::Duration;

use ark_bls12_381::{G1Projective, G2Projective};
use ark_ec::{AdditiveGroup, CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::client::{
    BasesHandle, BasesId, Client, ClientError, Code, CurvePoint, Fr, G1Affine, G2Affine, Group,
    MsmOptions, NttOptions, PointEncoding, ProgramBuilder, ProgramRun, PutOptions, ScalarEncoding,
    ScalarInput, UploadKey, Verification,
};
use rand::{Rng, rngs::StdRng};

use crate::{
    common::{points, scalars},
    product::{ProductCase, RunChoice},
};

/// A batch of MSMs and its sums.
struct MsmCase<A: CurvePoint> {
    n: usize,
    /// Number of scalar vectors.
    batch: usize,
    scalars: Vec<Fr>,
    sums: Vec<A::Group>,
}

/// A forward transform.
struct NttCase {
    values: Vec<Fr>,
    transformed: Vec<Fr>,
}

/// Everything that clients send, with the expected results.
pub struct Expected {
    g1: Vec<G1Affine>,
    g2: Vec<G2Affine>,
    g1_cases: Vec<MsmCase<G1Affine>>,
    g2_cases: Vec<MsmCase<G2Affine>>,
    ntt_cases: Vec<NttCase>,
    products: Vec<ProductCase>,
    pub vectors: Vec<Vec<Fr>>,
}

/// Sizes of the calls. Each list begins with the smallest.
pub struct Sizes {
    pub g1_points: usize,
    pub g2_points: usize,
    /// Points and vectors of scalars.
    pub g1_msms: &'static [(usize, usize)],
    pub g2_msms: &'static [(usize, usize)],
    /// log2 of the sizes of transforms.
    pub ntts_lg: &'static [u32],
    /// Coefficients of the factors of products.
    pub products: &'static [usize],
    /// log2 of the sizes of vectors that are stored.
    pub vectors_lg: &'static [u32],
}

fn msm_case<A: CurvePoint>(
    points: &[A],
    (n, batch): (usize, usize),
    oracle: fn(&[A], &[Fr]) -> A::Group,
) -> MsmCase<A> {
    let scalars = scalars(n * batch);
    let sums = scalars.chunks(n).map(|row| oracle(&points[..n], row)).collect();
    MsmCase { n, batch, scalars, sums }
}

impl Expected {
    /// Computes the results with arkworks.
    pub fn new(sizes: &Sizes) -> Self {
        let (g1, g2) = (points::<G1Affine>(sizes.g1_points), points::<G2Affine>(sizes.g2_points));
        let ntt_case = |&lg_n: &u32| {
            let values = scalars(1 << lg_n);
            let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).unwrap();
            NttCase { transformed: domain.fft(&values), values }
        };
        Self {
            g1_cases: sizes
                .g1_msms
                .iter()
                .map(|size| msm_case(&g1, *size, G1Projective::msm_unchecked))
                .collect(),
            g2_cases: sizes
                .g2_msms
                .iter()
                .map(|size| msm_case(&g2, *size, G2Projective::msm_unchecked))
                .collect(),
            ntt_cases: sizes.ntts_lg.iter().map(ntt_case).collect(),
            products: sizes.products.iter().map(|n| ProductCase::new(*n, &g1)).collect(),
            vectors: sizes.vectors_lg.iter().map(|lg_n| scalars(1 << lg_n)).collect(),
            g1,
            g2,
        }
    }
}

/// Releases the bases that clients have put and left behind: each object holds a descriptor.
pub async fn release_left_behind(client: &Client) {
    // Those that all clients use have more points.
    for bases in client.list(None).await.unwrap().iter().filter(|bases| bases.count == 3) {
        client.release(bases.id).await.unwrap();
    }
}

/// One of the clients.
pub struct Worker<'a> {
    pub known: &'a Expected,
    pub client: Client,
    pub g1: BasesHandle<G1Affine>,
    pub g2: BasesHandle<G2Affine>,
    pub rng: StdRng,
    /// Makes its bases differ from those of other clients.
    pub number: u64,
    /// How many percent of its calls are cancelled, and how many must be refused.
    pub unusual_percent: u32,
    /// Whether it has half of its own bases written to disk.
    pub persists: bool,
    /// A vector that is uploaded and not yet released.
    vector: Option<UploadKey>,
    /// Whether bases that no other client has are uploaded and not yet released.
    has_own_bases: bool,
    /// The number of cancelled calls that may still release its own bases.
    cancelled: u64,
    /// The latest call, for messages.
    pub call: &'static str,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Msm,
    Ntt,
    Run,
    Put,
    Refused,
    Cancelled,
}

impl Outcome {
    /// The number of variants.
    pub const KINDS: usize = Self::Cancelled as usize + 1;
}

impl<'a> Worker<'a> {
    /// Uploads the common bases and uses every connection once.
    pub async fn new(known: &'a Expected, client: Client, rng: StdRng, number: u64) -> Self {
        let g1 = client.put_bases(&known.g1).await.unwrap();
        let g2 = client.put_bases(&known.g2).await.unwrap();
        let mut worker = Self {
            known,
            client,
            g1,
            g2,
            rng,
            number,
            unusual_percent: 1,
            persists: false,
            vector: None,
            has_own_bases: false,
            cancelled: 0,
            call: "",
        };
        worker.put(known.vectors.len() - 1).await.unwrap();
        worker
    }

    /// One call, chosen at random and checked.
    pub async fn step(&mut self) -> Result<Outcome, ClientError> {
        let (unusual, chosen) = (self.unusual_percent, self.rng.random_range(0..100));
        match chosen {
            _ if chosen < unusual => {
                let patience = Duration::from_micros(self.rng.random_range(0..20_000));
                match tokio::time::timeout(patience, self.valid_call()).await {
                    Ok(done) => done,
                    Err(_) => {
                        self.release_vector_left_behind().await;
                        self.release_bases_left_behind().await?;
                        Ok(Outcome::Cancelled)
                    }
                }
            }
            _ if chosen < 2 * unusual => {
                self.invalid_call().await;
                Ok(Outcome::Refused)
            }
            _ => self.valid_call().await,
        }
    }

    pub async fn valid_call(&mut self) -> Result<Outcome, ClientError> {
        let chosen = self.rng.random_range(0..24);
        self.call = match chosen {
            0..8 => "MSM",
            8..15 => "NTT",
            15..18 => "vector",
            18..20 => "bases",
            _ => "program",
        };
        match chosen {
            0..5 => self.msm_g1().await,
            5..8 => self.msm_g2().await,
            8..15 => self.ntt().await,
            15..18 => {
                let vector = self.rng.random_range(0..self.known.vectors.len());
                self.put(vector).await
            }
            18..20 => self.bases().await,
            _ => self.run().await,
        }
    }

    async fn msm_g1(&mut self) -> Result<Outcome, ClientError> {
        // Small MSMs are more frequent than large ones.
        let cases = &self.known.g1_cases;
        let which =
            self.rng.random_range(0..cases.len()).min(self.rng.random_range(0..cases.len()));
        let case = &cases[which];
        let points = &self.known.g1[..case.n];
        let sums = if case.n <= 1024 && self.rng.random() {
            let options = MsmOptions { batch: case.batch as u32, ..MsmOptions::default() };
            self.client.msm_inline_with(points, &case.scalars, options).await?.points
        } else {
            let bases = self.g1.slice(0, case.n as u64).unwrap();
            let options = MsmOptions { batch: case.batch as u32, ..MsmOptions::default() };
            self.client.msm_with(&bases, &case.scalars, options).await?.points
        };
        assert_eq!(sums, case.sums, "G1, {} points", case.n);
        Ok(Outcome::Msm)
    }

    async fn msm_g2(&mut self) -> Result<Outcome, ClientError> {
        let case = &self.known.g2_cases[self.rng.random_range(0..self.known.g2_cases.len())];
        let sum: G2Projective = if self.rng.random() {
            self.client.msm_inline(&self.known.g2[..case.n], &case.scalars).await?
        } else {
            let bases = self.g2.slice(0, case.n as u64).unwrap();
            self.client.msm(&bases, &case.scalars).await?
        };
        assert_eq!([sum], case.sums[..], "G2, {} points", case.n);
        Ok(Outcome::Msm)
    }

    async fn ntt(&mut self) -> Result<Outcome, ClientError> {
        let case = &self.known.ntt_cases[self.rng.random_range(0..self.known.ntt_cases.len())];
        let (from, to, options) = match self.rng.random() {
            true => (&case.values, &case.transformed, NttOptions::forward()),
            false => (&case.transformed, &case.values, NttOptions::inverse()),
        };
        let mut values = from.clone();
        self.client.ntt(&mut values, options).await?;
        assert!(values == *to, "a transform of {} elements", values.len());
        Ok(Outcome::Ntt)
    }

    async fn run(&mut self) -> Result<Outcome, ClientError> {
        let case = &self.known.products[self.rng.random_range(0..self.known.products.len())];
        let verify = match self.rng.random_range(0..8) {
            0 => Verification::Full,
            1 => Verification::Probabilistic,
            _ => Verification::None,
        };
        let choice = RunChoice { verify, stored: self.rng.random(), keep: self.rng.random() };
        case.run(&self.client, &self.g1, choice).await?;
        Ok(Outcome::Run)
    }

    /// Uploads, downloads and releases a vector.
    async fn put(&mut self, vector: usize) -> Result<Outcome, ClientError> {
        let values = &self.known.vectors[vector];
        self.vector = Some(UploadKey::random()?);
        let vector = self.client.put_vector_as(self.vector.unwrap(), values, None).await?;
        let back = self.client.get_vector(&vector).await?;
        assert!(
            *back == *capstan::curve::layout::fr_as_bytes(values),
            "a vector of {} elements",
            values.len()
        );
        self.client.release_vector(vector.id).await?;
        self.vector = None;
        Ok(Outcome::Put)
    }

    /// Releases the vector that a call left on the server if it was cancelled after its `Put`.
    async fn release_vector_left_behind(&mut self) {
        if let Some(id) = self.vector.take() {
            match self.client.release_vector(id).await {
                Ok(()) => {}
                Err(error) => assert!(error.is_not_found(), "{error}"),
            }
        }
    }

    /// A point that no other client has, and no cancelled call of this one.
    fn own_point(&self) -> G1Projective {
        G1Projective::generator() * Fr::from(self.number + 2 + (self.cancelled << 32))
    }

    /// Uploads bases that no other client has.
    async fn put_own_bases(&mut self) -> Result<BasesHandle<G1Affine>, ClientError> {
        let own = self.own_point();
        let points = G1Projective::normalize_batch(&[own, own.double(), own.double().double()]);
        self.has_own_bases = true;
        let persist = self.persists && self.rng.random();
        self.client.put_bases_with(PutOptions { persist, ..PutOptions::default() }, &points).await
    }

    async fn release_own_bases(&mut self, id: BasesId) -> Result<(), ClientError> {
        self.client.release(id).await?;
        self.has_own_bases = false;
        Ok(())
    }

    /// Uploads bases, uses them once and releases them.
    async fn bases(&mut self) -> Result<Outcome, ClientError> {
        let bases = self.put_own_bases().await?;
        let scalars = [Fr::from(3), Fr::from(5), Fr::from(7)];
        let sum = self.client.msm(&bases, &scalars).await?;
        assert_eq!(sum, self.own_point() * Fr::from(3 + 2 * 5 + 4 * 7));
        self.release_own_bases(bases.id()).await?;
        Ok(Outcome::Put)
    }

    /// Releases the bases that a cancelled call left on the server, where each set takes a
    /// descriptor. Uploads them again, since the first upload may still be in progress.
    async fn release_bases_left_behind(&mut self) -> Result<(), ClientError> {
        if self.has_own_bases {
            let bases = self.put_own_bases().await?;
            match self.release_own_bases(bases.id()).await {
                // The cancelled call has released them meanwhile.
                Err(error) if error.is_not_found() => self.has_own_bases = false,
                released => released?,
            }
            self.cancelled += 1;
        }
        Ok(())
    }

    /// Sends an invalid request, which must be refused with the promised code.
    async fn invalid_call(&mut self) {
        let (code, refused) = match self.rng.random_range(0..4) {
            0 => (Code::NotFound, self.client.stat(BasesId([self.number as u8; 32])).await.err()),
            1 => {
                let bytes = [[1; 32], [0xff; 32]].concat();
                let scalars =
                    ScalarInput::Bytes { encoding: ScalarEncoding::Canonical, bytes: &bytes };
                let bases = self.g1.slice(0, 2).unwrap();
                (Code::InvalidArgument, self.client.msm(&bases, scalars).await.err())
            }
            2 => {
                let mut program = ProgramBuilder::new();
                let input = program.input(1).unwrap();
                let program = program.build().unwrap();
                let encoding = ScalarEncoding::Canonical;
                let elements = ScalarInput::Bytes { encoding, bytes: &[0xff; 32] };
                let run = ProgramRun::new(&program).input(input, elements).send(input);
                (Code::InvalidArgument, self.client.run(run).await.err())
            }
            _ => {
                // Not on the curve: y is 0.
                let mut bytes = [0; 96];
                bytes[0] = self.number as u8 | 1;
                let (encoding, options) = (PointEncoding::Montgomery, PutOptions::default());
                let put = self.client.put_encoded(Group::G1, encoding, &bytes, options);
                (Code::InvalidArgument, put.await.err())
            }
        };
        let refused = refused.expect("a bad request is refused");
        assert!(
            matches!(&refused, ClientError::Refused(refusal) if refusal.code == code),
            "{refused}"
        );
    }
}
