//! Vectors on the server: secret, in memory only, named by an id that the client chooses.

use capstan_math::error::FieldProblem;
use zeroize::Zeroizing;

use crate::wire::v1::{self, get_request, release_request};
use crate::{
    Client, Progress, ScalarInput, UploadKey, VectorInfo,
    call::{CallDeadline, CallFuture},
    connection::affinity::CallRoute,
    convert,
    error::{ClientError, Result},
    options::ScalarPayload,
    transfer::{
        download::{DownloadProgress, DownloadSource},
        striped_upload::PutHeader,
    },
};

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
        let ScalarPayload { encoding, bytes } = input
            .into()
            .into_payload()
            .map_err(|_| ClientError::input("input", FieldProblem::OutOfRange))?;
        let header = PutHeader::Vector(v1::VectorUpload {
            encoding: convert::scalar_encoding(encoding)?,
            count: convert::element_count("input", bytes.len(), encoding.width())?,
            ..Default::default()
        });
        let upload = self.chunk_queue(bytes, progress);
        let route = self.vector_route(id);
        let call = &mut self.begin_call(None)?;
        let put = self.put_payload(header, id, &upload, call, route).await?;
        let vector = convert::object_vector(put.object)?;
        if vector.id != id {
            // The upload began again under another id, with the key of the first one.
            self.inner.vector_keys.insert(vector.id, self.inner.vector_keys.get(id));
        }
        Ok(vector)
    }

    /// Downloads a vector in its own encoding.
    ///
    /// Errors: `Refused` with code `NOT_FOUND` if the vector does not exist or is incomplete;
    /// `InvalidInput` if there is no memory for it.
    pub async fn get_vector(&self, vector: &VectorInfo) -> Result<Zeroizing<Vec<u8>>> {
        let mut out = convert::zeros::<u8>("vector", vector.count, vector.encoding.width())?;
        let received = DownloadProgress::new(None, 0, out.len() as u64);
        let route = self.vector_route(vector.id);
        let deadline = self.begin_call(None)?.deadline;
        self.read_vector(vector, route, &mut out, &received, deadline).await?;
        Ok(out)
    }

    pub(crate) fn read_vector<'a>(
        &'a self,
        vector: &'a VectorInfo,
        route: CallRoute,
        out: &'a mut [u8],
        received: &'a DownloadProgress,
        deadline: CallDeadline,
    ) -> CallFuture<'a, ()> {
        Box::pin(async move {
            let id = Some(get_request::Id::UploadId(vector.id.to_bytes()));
            let request = v1::GetRequest { id, ..Default::default() };
            let source = DownloadSource { request, width: vector.encoding.width(), route };
            self.download(&source, out, received, deadline).await
        })
    }

    /// Removes a vector, or aborts its upload. The memory is wiped when the last job that uses it
    /// has ended.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn release_vector(&self, id: UploadKey) -> Result<()> {
        let route = self.vector_route(id);
        self.release_by(release_request::Id::UploadId(id.to_bytes()), route).await?;
        self.inner.vector_keys.remove(id);
        Ok(())
    }
}
