//! Sparse matrices in the store: put once, used by id.

use std::sync::Arc;

use capstan_math::sparse::{SparseMatrix, SparseShape, content_hash};

use super::{
    bases::hash,
    held::{HeldContent, HeldObject},
};
use crate::wire::v1::{self, get_request, release_request, stat_request, stat_response::Status};
use crate::{
    Client, MatrixHandle, MatrixId, MatrixInfo, PutOptions,
    call::CallFuture,
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::{ClientError, Result},
    transfer::{
        download::{DownloadProgress, DownloadSource},
        payload::OutgoingBytes,
        striped_upload::PutHeader,
    },
    types::UploadKey,
};

impl Client {
    /// Puts a matrix. If the server already has it, only its id is sent.
    ///
    /// Errors: `Refused` with code `RESOURCE_EXHAUSTED` if the store is full, or with reason
    /// `SIZE_ZERO` for a matrix without rows or columns.
    pub async fn put_matrix(&self, matrix: &SparseMatrix) -> Result<MatrixHandle> {
        self.put_matrix_with(PutOptions::default(), matrix).await
    }

    /// Like [`Self::put_matrix`], with a label, persistence, progress or a deadline.
    pub async fn put_matrix_with(
        &self,
        options: PutOptions,
        matrix: &SparseMatrix,
    ) -> Result<MatrixHandle> {
        self.check_process()?;
        let id = MatrixId(content_hash(matrix));
        let route = self.route(|| AffinityKey::of_object(&id.0));
        let mut handle = MatrixHandle::new(self.put_matrix_as(id, matrix, &options, route).await?);
        if options.hold {
            let PutOptions { label, persist, .. } = options;
            let content = HeldContent::Matrix(matrix.clone());
            handle.held = Some(Arc::new(HeldObject { id: id.0, content, label, persist }));
        }
        Ok(handle)
    }

    /// Puts the matrix with this id, unless the server has it.
    pub(crate) async fn put_matrix_as(
        &self,
        id: MatrixId,
        matrix: &SparseMatrix,
        options: &PutOptions,
        route: CallRoute,
    ) -> Result<MatrixInfo> {
        let hash = match self.stat_matrix_boxed(id, route.clone()).await {
            Ok(info) if info.persisted || !options.persist => return Ok(info),
            // Known but not on disk: with the hash, the server may not need the payload.
            Ok(_) => hash(matrix.as_bytes()).await,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let info = self.send_matrix(matrix, hash, options.clone(), route).await?;
        convert::require_id(&info.id.0, &id.0)?;
        Ok(info)
    }

    fn send_matrix<'a>(
        &'a self,
        matrix: &'a SparseMatrix,
        hash: Vec<u8>,
        options: PutOptions,
        route: CallRoute,
    ) -> CallFuture<'a, MatrixInfo> {
        Box::pin(async move {
            let SparseShape { rows, columns, terms, coefficients } = matrix.shape();
            let header = PutHeader::Matrix(v1::MatrixUpload {
                rows: rows.into(),
                columns: columns.into(),
                terms: terms.into(),
                coefficients: coefficients.into(),
                payload_hash: hash.into(),
                persist: options.persist,
                label: options.label,
                ..Default::default()
            });
            let mut call = self.begin_call(options.deadline)?;
            let bytes = OutgoingBytes::Public(matrix.as_bytes());
            let upload = self.chunk_queue(bytes, options.progress);
            let put =
                self.put_payload(header, UploadKey::random()?, &upload, &mut call, route).await?;
            convert::object_matrix(put.object)
        })
    }

    /// Returns a handle to a matrix on the server.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn matrix(&self, id: MatrixId) -> Result<MatrixHandle> {
        self.stat_matrix(id).await.map(MatrixHandle::new)
    }

    /// Returns the metadata of a matrix.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn stat_matrix(&self, id: MatrixId) -> Result<MatrixInfo> {
        self.stat_matrix_boxed(id, self.route(|| AffinityKey::of_object(&id.0))).await
    }

    fn stat_matrix_boxed(&self, id: MatrixId, route: CallRoute) -> CallFuture<'_, MatrixInfo> {
        Box::pin(async move {
            let route = &route;
            let send = |request| async move { self.store(route).stat(request).await };
            let request = v1::StatRequest { id: Some(stat_request::Id::ObjectId(id.to_bytes())) };
            let info = match self.begin_call(None)?.unary(request, send).await?.status {
                Some(Status::Object(object)) => convert::object_matrix(Some(object)),
                _ => convert::object_matrix(None),
            }?;
            convert::require_id(&info.id.0, &id.0)?;
            Ok(info)
        })
    }

    /// Lists all matrices, oldest first.
    pub async fn list_matrices(&self) -> Result<Vec<MatrixInfo>> {
        let list = self.list_objects(None).await?;
        list.matrices.into_iter().map(convert::matrix).collect()
    }

    /// Removes a matrix from the server and its disk. Running jobs keep the matrices that they use.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn release_matrix(&self, id: MatrixId) -> Result<()> {
        let route = self.route(|| AffinityKey::of_object(&id.0));
        self.release_by(release_request::Id::ObjectId(id.to_bytes()), route).await
    }

    /// Downloads a matrix, and checks it again.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn get_matrix(&self, id: MatrixId) -> Result<SparseMatrix> {
        let info = self.stat_matrix(id).await?;
        let mut limbs = vec![0_u64; info.shape.bytes().div_ceil(8) as usize];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut limbs);
        self.read_matrix(&info, &mut bytes[..info.shape.bytes() as usize]).await?;
        let matrix = SparseMatrix::new(info.shape, Arc::new(limbs));
        let matrix = matrix.map_err(|bad| ClientError::invalid_response(bad.to_string()))?;
        convert::require_id(&content_hash(&matrix), &id.0)?;
        Ok(matrix)
    }

    fn read_matrix<'a>(&'a self, info: &'a MatrixInfo, out: &'a mut [u8]) -> CallFuture<'a, ()> {
        Box::pin(async move {
            let id = Some(get_request::Id::ObjectId(info.id.to_bytes()));
            let request = v1::GetRequest { id, ..Default::default() };
            let received = DownloadProgress::new(None, 0, out.len() as u64);
            let deadline = self.begin_call(None)?.deadline;
            // The unit of a matrix is a byte.
            let route = self.route(|| AffinityKey::of_object(&info.id.0));
            let source = DownloadSource { request, width: 1, route };
            self.download(&source, out, &received, deadline).await
        })
    }
}
