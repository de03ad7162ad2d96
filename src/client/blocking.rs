//! A client whose calls block. Do not use it on the threads of an async runtime.

use std::{ops::RangeBounds, sync::Arc, time::Duration};

use capstan_math::sparse::SparseMatrix;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

use super::{
    BasesHandle, BasesId, BasesInfo, BasesResidency, BigUint, BitMatrix, Client, ClientBuilder,
    ClientError, ClientProgram, CurvePoint, EncodedMsmResult, EncodedNttResult, Fr,
    GetInfoResponse, Gf2Result, Group, IntMulResult, MatrixHandle, MatrixId, MatrixInfo,
    MsmOptions, MsmResult, Ntt31Result, NttOptions, NttReport, NttResult, PointEncoding,
    PolyMulOptions, PolyMulResult, Prime31, ProgramRun, PutOptions, ResidencyAction, Result,
    RunEstimate, RunOptions, RunResult, ScalarEncoding, ScalarInput, SharedVector, UploadKey,
    VectorInfo, Verification,
};

/// Threads that serve the connections; the caller's thread prepares the chunks.
const THREADS: usize = 2;

/// A connected client whose calls block. Cheap to clone; clones share connections and threads.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    client: Client,
    runtime: Arc<Runtime>,
}

impl BlockingClient {
    /// Blocking version of [`super::Client::connect`].
    pub fn connect(target: impl Into<String>) -> Result<Self> {
        Self::from_builder(Client::builder(target))
    }

    /// Connects with the settings of `builder`.
    pub fn from_builder(builder: ClientBuilder) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("capstan-client")
            .enable_all()
            .build()
            .map_err(|error| ClientError::setting("connection threads", error.to_string()))?;
        let client = runtime.block_on(builder.connect())?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// The underlying async client.
    pub fn inner(&self) -> &Client {
        &self.client
    }
}

/// Declares methods that block on those of the async client.
macro_rules! blocking {
    ($($name:ident[$($generics:tt)*]($($arg:ident: $input:ty),*) -> $output:ty;)+) => {
        impl BlockingClient { $(
            #[doc = concat!("Blocking version of [`super::Client::", stringify!($name), "`].")]
            pub fn $name<$($generics)*>(&self, $($arg: $input),*) -> Result<$output> {
                self.runtime.block_on(self.client.$name($($arg),*))
            }
        )+ }
    };
}

blocking! {
    info[]() -> GetInfoResponse;
    drain[](grace: Duration) -> u32;
    put_bases[A: CurvePoint](points: &[A]) -> BasesHandle<A>;
    put_bases_with[A: CurvePoint](options: PutOptions, points: &[A]) -> BasesHandle<A>;
    put_encoded[](
        group: Group, encoding: PointEncoding, bytes: &[u8], options: PutOptions
    ) -> BasesInfo;
    bases[A: CurvePoint](id: BasesId) -> BasesHandle<A>;
    stat[](id: BasesId) -> BasesInfo;
    list[](group: Option<Group>) -> Vec<BasesInfo>;
    release[](id: BasesId) -> ();
    set_residency[](id: BasesId, action: ResidencyAction, devices: &[u32]) -> Vec<BasesResidency>;
    get_bases[A: CurvePoint](id: BasesId, range: impl RangeBounds<u64>) -> Vec<A>;
    get_encoded[](id: BasesId, encoding: PointEncoding, range: impl RangeBounds<u64>) -> Vec<u8>;
    put_matrix[](matrix: &SparseMatrix) -> MatrixHandle;
    put_matrix_with[](options: PutOptions, matrix: &SparseMatrix) -> MatrixHandle;
    matrix[](id: MatrixId) -> MatrixHandle;
    stat_matrix[](id: MatrixId) -> MatrixInfo;
    list_matrices[]() -> Vec<MatrixInfo>;
    release_matrix[](id: MatrixId) -> ();
    get_matrix[](id: MatrixId) -> SparseMatrix;
    put_vector['a](input: impl Into<ScalarInput<'a>>) -> VectorInfo;
    get_vector[](vector: &VectorInfo) -> Zeroizing<Vec<u8>>;
    release_vector[](id: UploadKey) -> ();
    msm['a, A: CurvePoint](bases: &BasesHandle<A>, scalars: impl Into<ScalarInput<'a>>) -> A::Group;
    msm_with['a, A: CurvePoint](
        bases: &BasesHandle<A>, scalars: impl Into<ScalarInput<'a>>, options: MsmOptions
    ) -> MsmResult<A>;
    msm_inline['a, A: CurvePoint](bases: &[A], scalars: impl Into<ScalarInput<'a>>) -> A::Group;
    msm_inline_with['a, A: CurvePoint](
        bases: &[A], scalars: impl Into<ScalarInput<'a>>, options: MsmOptions
    ) -> MsmResult<A>;
    msm_id['a](
        group: Group, id: BasesId, offset: u64, len: u64,
        scalars: impl Into<ScalarInput<'a>>, options: MsmOptions
    ) -> EncodedMsmResult;
    ntt[](values: &mut [Fr], options: NttOptions) -> NttReport;
    ntt_owned[](values: Vec<Fr>, options: NttOptions) -> NttResult;
    ntt_padded[](values: &[Fr], lg_n: u32, options: NttOptions) -> NttResult;
    ntt_bytes[](encoding: ScalarEncoding, bytes: &[u8], options: NttOptions) -> EncodedNttResult;
    ntt31[](field: Prime31, values: &[u32], options: NttOptions<u32>) -> Ntt31Result;
    ntt31_bytes[](
        field: Prime31, encoding: ScalarEncoding, bytes: &[u8], options: NttOptions<u32>
    ) -> EncodedNttResult;
    poly_mul[](a: &[Fr], b: &[Fr], options: PolyMulOptions) -> PolyMulResult<Fr>;
    poly_mul31[](
        field: Prime31, a: &[u32], b: &[u32], options: PolyMulOptions
    ) -> PolyMulResult<u32>;
    alloc_vector[](len: usize) -> SharedVector;
    alloc_vector31[](len: usize) -> SharedVector<u32>;
    get_bit_matrix[](vector: &VectorInfo, columns: u64) -> BitMatrix;
    gf2_reduce[](pivots: &BitMatrix, rows: &BitMatrix, options: RunOptions) -> Gf2Result;
    gf2_echelon[](matrix: &BitMatrix, options: RunOptions) -> Gf2Result;
    int_mul[](a: &BigUint, b: &BigUint, options: RunOptions) -> IntMulResult;
    put_program[](program: &ClientProgram) -> ClientProgram;
    run[](run: ProgramRun<'_>) -> RunResult;
    run_with[](run: ProgramRun<'_>, options: RunOptions) -> RunResult;
    estimate[](run: &ProgramRun<'_>, verify: Verification) -> RunEstimate;
}
