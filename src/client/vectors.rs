//! Vectors on the server: secret, in memory only, named by who put them.

use tokio::runtime::Handle;
use zeroize::Zeroizing;

use super::{
    Client, Progress, ScalarInput, UploadId, VectorInfo,
    call::Call,
    convert,
    download::{Received, Span},
    error::{Error, Result},
    upload::{Header, Upload},
};
use crate::{
    error::Problem,
    wire::v1::{self, get_request, release_request},
};

impl Client {
    /// Puts a vector, to be used by several jobs. It stays until it is released, or until nobody
    /// has used it for a while.
    ///
    /// Errors: `Refused` with `RESOURCE_EXHAUSTED` where the server holds too much.
    pub async fn put_vector(&self, input: impl Into<ScalarInput<'_>>) -> Result<VectorInfo> {
        self.put_vector_as(UploadId::random()?, input, None).await
    }

    /// The same under an id that the caller has chosen, so that a job can be started on the vector
    /// while it is still arriving.
    pub async fn put_vector_as(
        &self,
        id: UploadId,
        input: impl Into<ScalarInput<'_>>,
        progress: Option<Progress>,
    ) -> Result<VectorInfo> {
        let (encoding, payload) =
            input.into().into_payload().map_err(|_| Error::input("input", Problem::OutOfRange))?;
        let count = convert::elements("input", payload.len(), encoding.width())?;
        let header = Header::Vector(v1::VectorUpload {
            encoding: convert::scalar_encoding(encoding)?.into(),
            count,
            ..Default::default()
        });
        let upload = Upload::new(payload, self.inner.chunk_bytes, progress);
        let put = self.put_payload(header, id, &upload, &mut self.start(None)).await?;
        convert::object_vector(put.object)
    }

    /// Reads a vector back, as it is encoded.
    ///
    /// Errors: `Refused` with NOT_FOUND where there is none, or it is not complete.
    pub async fn get_vector(&self, vector: &VectorInfo) -> Result<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new(vec![0; vector.count as usize * vector.encoding.width()]);
        let received = Received::new(None, 0, out.len() as u64);
        self.read_vector(vector, &mut out, &received, &self.start(None)).await?;
        Ok(out)
    }

    pub(crate) async fn read_vector(
        &self,
        vector: &VectorInfo,
        out: &mut [u8],
        received: &Received,
        call: &Call,
    ) -> Result<()> {
        let id = get_request::Id::UploadId(vector.id.0.to_vec().into());
        let span = Span { id, encoding: None, offset: 0, width: vector.encoding.width() };
        self.download(&span, out, received, call).await
    }

    /// Removes a vector, or drops an upload in progress. Its memory is wiped when the last job that
    /// uses it has ended.
    ///
    /// Errors: `Refused` with NOT_FOUND.
    pub async fn release_vector(&self, id: UploadId) -> Result<()> {
        self.release_by(release_request::Id::UploadId(id.0.to_vec().into())).await
    }
}

/// A vector of ours on the server: released when this goes, however the call ends.
pub(crate) struct Borrowed {
    client: Client,
    id: UploadId,
}

impl Borrowed {
    pub fn new(client: &Client, id: UploadId) -> Self {
        Self { client: client.clone(), id }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let (client, id) = (self.client.clone(), self.id);
        // Outside a runtime there is no connection either; the server drops what nobody uses.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                // Best effort likewise.
                let _ = client.release_vector(id).await;
            });
        }
    }
}
