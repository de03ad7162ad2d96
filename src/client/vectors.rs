//! Vectors on the server: secret, in memory only, named by an id that the client chooses.

use std::time::Duration;

use tokio::{runtime::Handle, time::sleep};
use zeroize::Zeroizing;

use super::{
    Client, Progress, ScalarInput, UploadKey, VectorInfo,
    call::{CallBudget, CallFuture},
    convert,
    download::{DownloadProgress, ObjectRange},
    error::{ClientError, Result},
    striped_upload::PutHeader,
};
use crate::{
    error::FieldProblem,
    wire::v1::{self, get_request, release_request},
};

/// Time limit of a release.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which the messages of a dropped call have arrived at the server.
const STRAGGLER_WAIT: Duration = Duration::from_millis(500);

impl Client {
    /// Puts a vector for use by several jobs. The server keeps it until it is released or unused
    /// for longer than `upload_ttl_s`.
    ///
    /// Errors: `Refused` with code `RESOURCE_EXHAUSTED` if a limit of the server is reached.
    pub async fn put_vector(&self, input: impl Into<ScalarInput<'_>>) -> Result<VectorInfo> {
        self.put_vector_as(UploadKey::random()?, input, None).await
    }

    /// Like [`Self::put_vector`], under an id that the caller chose, so that jobs on the vector can
    /// start during the upload.
    pub async fn put_vector_as(
        &self,
        id: UploadKey,
        input: impl Into<ScalarInput<'_>>,
        progress: Option<Progress>,
    ) -> Result<VectorInfo> {
        let (encoding, payload) = input
            .into()
            .into_payload()
            .map_err(|_| ClientError::input("input", FieldProblem::OutOfRange))?;
        let count = convert::element_count("input", payload.len(), encoding.width())?;
        let header = PutHeader::Vector(v1::VectorUpload {
            encoding: convert::scalar_encoding(encoding)?.into(),
            count,
            ..Default::default()
        });
        let upload = self.chunk_queue(payload, progress);
        let put = self.put_payload(header, id, &upload, &mut self.begin_call(None)).await?;
        convert::object_vector(put.object)
    }

    /// Downloads a vector in its own encoding.
    ///
    /// Errors: `Refused` with code `NOT_FOUND` if the vector does not exist or is incomplete.
    pub async fn get_vector(&self, vector: &VectorInfo) -> Result<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new(vec![0; vector.count as usize * vector.encoding.width()]);
        let received = DownloadProgress::new(None, 0, out.len() as u64);
        self.read_vector(vector, &mut out, &received, &self.begin_call(None)).await?;
        Ok(out)
    }

    pub(crate) fn read_vector<'a>(
        &'a self,
        vector: &'a VectorInfo,
        out: &'a mut [u8],
        received: &'a DownloadProgress,
        call: &'a CallBudget,
    ) -> CallFuture<'a, ()> {
        Box::pin(async move {
            let id = get_request::Id::UploadId(vector.id.0.to_vec().into());
            let span =
                ObjectRange { id, encoding: None, offset: 0, width: vector.encoding.width() };
            self.download(&span, out, received, call).await
        })
    }

    /// Removes a vector, or aborts its upload. The memory is wiped when the last job that uses it
    /// has ended.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn release_vector(&self, id: UploadKey) -> Result<()> {
        self.release_by(release_request::Id::UploadId(id.0.to_vec().into())).await
    }
}

/// Releases an upload or vector when dropped, however the call ends.
pub(crate) struct ReleaseOnDrop {
    client: Client,
    id: Option<UploadKey>,
}

impl ReleaseOnDrop {
    pub fn new(client: &Client, id: UploadKey) -> Self {
        Self { client: client.clone(), id: Some(id) }
    }

    /// Leaves the object on the server.
    pub fn disarm(&mut self) {
        self.id = None;
    }

    /// Releases `id` instead, because the server does not have the first object.
    pub fn set_id(&mut self, id: UploadKey) {
        self.id = Some(id);
    }

    /// Releases the object now. Failures are ignored: the server drops unused objects itself.
    pub async fn release(mut self) {
        if let Some(id) = self.id.take() {
            release(&self.client, id).await;
        }
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let client = self.client.clone();
        // Outside a runtime there is no connection, either.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                release(&client, id).await;
                // A stripe in flight on another connection may have reopened the upload.
                sleep(STRAGGLER_WAIT).await;
                release(&client, id).await;
            });
        }
    }
}

/// Tries once; a failure is only logged.
async fn release(client: &Client, id: UploadKey) {
    let call = client.begin_call(Some(RELEASE_TIMEOUT));
    let id = release_request::Id::UploadId(id.0.to_vec().into());
    let request = call.request(v1::ReleaseRequest { id: Some(id) });
    let mut store = client.store();
    if let Err(error) = call.response(store.release(request)).await {
        tracing::debug!(%error, "upload not released");
    }
}
