//! A client whose calls block. Do not use it on the threads of an async runtime.

use std::{ops::RangeBounds, sync::Arc, time::Duration};

use tokio::runtime::Runtime;
use zeroize::Zeroizing;

use super::{
    BasesHandle, BasesId, BasesInfo, ClientBuilder, ClientError, CurvePoint, EncodedMsmResult,
    EncodedNttResult, Fr, GetInfoResponse, Group, MsmOptions, MsmResult, NttOptions, NttReport,
    PointEncoding, PutOptions, Result, ScalarEncoding, ScalarInput, UploadKey, VectorInfo,
};

/// Threads that serve the connections; the caller's thread prepares the chunks.
const THREADS: usize = 2;

/// A connected client whose calls block. Cheap to clone; clones share connections and threads.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    client: super::Client,
    runtime: Arc<Runtime>,
}

impl BlockingClient {
    /// Blocking version of [`super::Client::connect`].
    pub fn connect(target: impl Into<String>) -> Result<Self> {
        Self::from_builder(super::Client::builder(target))
    }

    /// Connects with the settings of `builder`.
    pub fn from_builder(builder: ClientBuilder) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("capstan-client")
            .enable_all()
            .build()
            .map_err(|error| ClientError::InvalidSetting {
                what: "connection threads".into(),
                problem: error.to_string(),
            })?;
        let client = runtime.block_on(builder.connect())?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// The underlying async client.
    pub fn inner(&self) -> &super::Client {
        &self.client
    }

    /// Blocking version of [`super::Client::info`].
    pub fn info(&self) -> Result<GetInfoResponse> {
        self.runtime.block_on(self.client.info())
    }

    /// Blocking version of [`super::Client::drain`].
    pub fn drain(&self, grace: Duration) -> Result<u32> {
        self.runtime.block_on(self.client.drain(grace))
    }

    /// Blocking version of [`super::Client::put_bases`].
    pub fn put_bases<A: CurvePoint>(&self, points: &[A]) -> Result<BasesHandle<A>> {
        self.runtime.block_on(self.client.put_bases(points))
    }

    /// Blocking version of [`super::Client::put_bases_with`].
    pub fn put_bases_with<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: &[A],
    ) -> Result<BasesHandle<A>> {
        self.runtime.block_on(self.client.put_bases_with(options, points))
    }

    /// Blocking version of [`super::Client::put_encoded`].
    pub fn put_encoded(
        &self,
        group: Group,
        encoding: PointEncoding,
        bytes: &[u8],
        options: PutOptions,
    ) -> Result<BasesInfo> {
        self.runtime.block_on(self.client.put_encoded(group, encoding, bytes, options))
    }

    /// Blocking version of [`super::Client::bases`].
    pub fn bases<A: CurvePoint>(&self, id: BasesId) -> Result<BasesHandle<A>> {
        self.runtime.block_on(self.client.bases(id))
    }

    /// Blocking version of [`super::Client::stat`].
    pub fn stat(&self, id: BasesId) -> Result<BasesInfo> {
        self.runtime.block_on(self.client.stat(id))
    }

    /// Blocking version of [`super::Client::list`].
    pub fn list(&self, group: Option<Group>) -> Result<Vec<BasesInfo>> {
        self.runtime.block_on(self.client.list(group))
    }

    /// Blocking version of [`super::Client::release`].
    pub fn release(&self, id: BasesId) -> Result<()> {
        self.runtime.block_on(self.client.release(id))
    }

    /// Blocking version of [`super::Client::get_bases`].
    pub fn get_bases<A: CurvePoint>(
        &self,
        id: BasesId,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<A>> {
        self.runtime.block_on(self.client.get_bases(id, range))
    }

    /// Blocking version of [`super::Client::get_encoded`].
    pub fn get_encoded(
        &self,
        id: BasesId,
        encoding: PointEncoding,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        self.runtime.block_on(self.client.get_encoded(id, encoding, range))
    }

    /// Blocking version of [`super::Client::put_vector`].
    pub fn put_vector<'a>(&self, input: impl Into<ScalarInput<'a>>) -> Result<VectorInfo> {
        self.runtime.block_on(self.client.put_vector(input))
    }

    /// Blocking version of [`super::Client::get_vector`].
    pub fn get_vector(&self, vector: &VectorInfo) -> Result<Zeroizing<Vec<u8>>> {
        self.runtime.block_on(self.client.get_vector(vector))
    }

    /// Blocking version of [`super::Client::release_vector`].
    pub fn release_vector(&self, id: UploadKey) -> Result<()> {
        self.runtime.block_on(self.client.release_vector(id))
    }

    /// Blocking version of [`super::Client::msm`].
    pub fn msm<'a, A: CurvePoint>(
        &self,
        bases: &BasesHandle<A>,
        scalars: impl Into<ScalarInput<'a>>,
    ) -> Result<A::Group> {
        self.runtime.block_on(self.client.msm(bases, scalars))
    }

    /// Blocking version of [`super::Client::msm_with`].
    pub fn msm_with<'a, A: CurvePoint>(
        &self,
        bases: &BasesHandle<A>,
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<MsmResult<A>> {
        self.runtime.block_on(self.client.msm_with(bases, scalars, options))
    }

    /// Blocking version of [`super::Client::msm_inline`].
    pub fn msm_inline<'a, A: CurvePoint>(
        &self,
        bases: &[A],
        scalars: impl Into<ScalarInput<'a>>,
    ) -> Result<A::Group> {
        self.runtime.block_on(self.client.msm_inline(bases, scalars))
    }

    /// Blocking version of [`super::Client::msm_inline_with`].
    pub fn msm_inline_with<'a, A: CurvePoint>(
        &self,
        bases: &[A],
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<MsmResult<A>> {
        self.runtime.block_on(self.client.msm_inline_with(bases, scalars, options))
    }

    /// Blocking version of [`super::Client::msm_id`].
    pub fn msm_id<'a>(
        &self,
        group: Group,
        id: BasesId,
        offset: u64,
        len: u64,
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<EncodedMsmResult> {
        self.runtime.block_on(self.client.msm_id(group, id, offset, len, scalars, options))
    }

    /// Blocking version of [`super::Client::ntt`].
    pub fn ntt(&self, values: &mut [Fr], options: NttOptions) -> Result<NttReport> {
        self.runtime.block_on(self.client.ntt(values, options))
    }

    /// Blocking version of [`super::Client::ntt_padded`].
    pub fn ntt_padded(
        &self,
        values: &[Fr],
        lg_n: u32,
        options: NttOptions,
    ) -> Result<(Vec<Fr>, NttReport)> {
        self.runtime.block_on(self.client.ntt_padded(values, lg_n, options))
    }

    /// Blocking version of [`super::Client::ntt_bytes`].
    pub fn ntt_bytes(
        &self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        options: NttOptions,
    ) -> Result<EncodedNttResult> {
        self.runtime.block_on(self.client.ntt_bytes(encoding, bytes, options))
    }
}
