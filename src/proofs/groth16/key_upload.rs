//! Puts the parts of a key on a server, with progress over all of them.

use std::{collections::HashSet, sync::Arc};

use super::Groth16Error;
use crate::{
    client::{
        BasesHandle, BasesId, Client, ClientError, CurvePoint, MatrixHandle, MatrixId, Progress,
        PutOptions,
    },
    sparse::SparseMatrix,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PartId {
    Points(BasesId),
    Matrix(MatrixId),
}

/// The parts of a key that a server did not have before.
#[derive(Debug, Clone, Default)]
pub struct NewParts(Vec<PartId>);

/// The parts of a key that are put, one after another.
pub struct KeyUpload<'a> {
    client: &'a Client,
    options: PutOptions,
    /// Bytes of the parts that the server has, and of all parts.
    done: u64,
    total: u64,
    /// Ids of the objects that the server has.
    known: HashSet<PartId>,
    /// Ids of those that this upload has put.
    pub new: NewParts,
    /// Bytes that the server stores at most.
    store_bytes: u64,
}

impl NewParts {
    /// Releases the parts: the key is of no use.
    pub async fn release(self, client: &Client) {
        for id in self.0 {
            let released = match id {
                PartId::Points(id) => client.release(id).await,
                PartId::Matrix(id) => client.release_matrix(id).await,
            };
            if let Err(error) = released {
                tracing::debug!(%error, "parts of a refused key stay on the server");
                break;
            }
        }
    }
}

impl<'a> KeyUpload<'a> {
    /// Errors: those of a call.
    pub async fn begin(client: &'a Client, options: PutOptions) -> Result<Self, ClientError> {
        let points = client.list(None).await?.into_iter().map(|info| PartId::Points(info.id));
        let matrices = client.list_matrices().await?;
        let matrices = matrices.into_iter().map(|info| PartId::Matrix(info.id));
        let known = points.chain(matrices).collect();
        let limits = client.info().await?.limits;
        let store_bytes = limits.map_or(u64::MAX, |limits| limits.store_bytes);
        Ok(Self {
            client,
            options,
            done: 0,
            total: 0,
            known,
            new: NewParts::default(),
            store_bytes,
        })
    }

    /// Sets the number of bytes of all parts.
    ///
    /// Errors: `StoreTooSmall`.
    pub fn expect(&mut self, total: u64) -> Result<(), Groth16Error> {
        self.total = total;
        match self.store_bytes {
            max if total > max => Err(Groth16Error::StoreTooSmall { needed: total, max }),
            _ => Ok(()),
        }
    }

    /// Errors: `Part`.
    pub async fn put_points<A: CurvePoint>(
        &mut self,
        part: &'static str,
        points: &[A],
    ) -> Result<BasesHandle<A>, Groth16Error> {
        let put = self.client.put_bases_with(self.options_of(part), points).await;
        let handle = put.map_err(of_part(part))?;
        self.end_part(PartId::Points(handle.info().id), size_of_val(points));
        Ok(handle)
    }

    /// Errors: `Part`.
    pub async fn put_matrix(
        &mut self,
        part: &'static str,
        matrix: &SparseMatrix,
    ) -> Result<MatrixHandle, Groth16Error> {
        let put = self.client.put_matrix_with(self.options_of(part), matrix).await;
        let handle = put.map_err(of_part(part))?;
        self.end_part(PartId::Matrix(handle.info().id), matrix.as_bytes().len());
        Ok(handle)
    }

    /// Errors: `Part`.
    pub async fn put_selection(
        &mut self,
        part: &'static str,
        selection: Option<SparseMatrix>,
    ) -> Result<Option<MatrixHandle>, Groth16Error> {
        let Some(selection) = selection else { return Ok(None) };
        self.put_matrix(part, &selection).await.map(Some)
    }

    fn options_of(&self, part: &str) -> PutOptions {
        let PutOptions { label, persist, hold, progress, deadline } = &self.options;
        let label = if label.is_empty() { "groth16" } else { label.as_str() };
        let (done, total) = (self.done, self.total);
        let of_all = |progress: Progress| -> Progress {
            Arc::new(move |of_part, _| progress(done + of_part, total))
        };
        PutOptions {
            label: format!("{label}: {part}"),
            persist: *persist,
            hold: *hold,
            progress: progress.clone().map(of_all),
            deadline: *deadline,
        }
    }

    /// Parts that the server had are not sent, so they are counted when they end.
    fn end_part(&mut self, id: PartId, bytes: usize) {
        if self.known.insert(id) {
            self.new.0.push(id);
        }
        self.done += bytes as u64;
        if let Some(progress) = &self.options.progress {
            progress(self.done, self.total);
        }
    }
}

fn of_part(part: &'static str) -> impl Fn(ClientError) -> Groth16Error {
    move |error| Groth16Error::Part { part, error }
}
