//! Puts the parts of a key, with progress over all of them.

use std::{collections::HashSet, error::Error, sync::Arc};

use super::Groth16Error;
use crate::{
    builder::{ProgramBases, ProgramMatrix},
    curve::points::CurvePoint,
    runner::{ProgramRunner, Progress, PutOptions, StoreState},
    sparse::SparseMatrix,
};

/// The ids of the parts of a key that a store did not have before.
#[derive(Debug, Clone, Default)]
pub struct NewParts(Vec<[u8; 32]>);

/// The parts of a key that are put, one after another.
pub struct KeyUpload<'a, R> {
    runner: &'a R,
    options: PutOptions,
    /// Bytes of the parts that the runner has, and of all parts.
    done: u64,
    total: u64,
    /// Ids of the objects that the runner has.
    known: HashSet<[u8; 32]>,
    /// Ids of those that this upload has put.
    pub new: NewParts,
    /// Bytes that the store of the runner holds at most.
    store_bytes: u64,
}

impl NewParts {
    /// Releases the parts: the key is of no use.
    pub async fn release<R: ProgramRunner>(self, runner: &R) {
        for id in self.0 {
            if let Err(error) = runner.release_object(id).await {
                tracing::debug!(%error, "parts of a refused key stay on the server");
                break;
            }
        }
    }
}

impl<'a, R: ProgramRunner> KeyUpload<'a, R> {
    /// Errors: those of a call.
    pub async fn begin(runner: &'a R, options: PutOptions) -> Result<Self, Groth16Error> {
        let state = runner.store_state().await.map_err(Groth16Error::run)?;
        let StoreState { objects, bytes_max } = state;
        Ok(Self {
            runner,
            options,
            done: 0,
            total: 0,
            known: objects.into_iter().collect(),
            new: NewParts::default(),
            store_bytes: bytes_max.unwrap_or(u64::MAX),
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
    ) -> Result<ProgramBases<A>, Groth16Error> {
        let put = self.runner.put_points(self.options_of(part), points).await;
        let bases = put.map_err(of_part(part))?;
        self.end_part(bases.object.id, size_of_val(points));
        Ok(bases)
    }

    /// Errors: `Part`.
    pub async fn put_matrix(
        &mut self,
        part: &'static str,
        matrix: &SparseMatrix,
    ) -> Result<ProgramMatrix, Groth16Error> {
        let put = self.runner.put_sparse(self.options_of(part), matrix).await;
        let kept = put.map_err(of_part(part))?;
        self.end_part(kept.object.id, matrix.as_bytes().len());
        Ok(kept)
    }

    /// Errors: `Part`.
    pub async fn put_selection(
        &mut self,
        part: &'static str,
        selection: Option<SparseMatrix>,
    ) -> Result<Option<ProgramMatrix>, Groth16Error> {
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

    /// Parts that a server had are not sent, so they are counted when they end.
    fn end_part(&mut self, id: [u8; 32], bytes: usize) {
        if self.known.insert(id) {
            self.new.0.push(id);
        }
        self.done += bytes as u64;
        if let Some(progress) = &self.options.progress {
            progress(self.done, self.total);
        }
    }
}

fn of_part<E: Error + Send + Sync + 'static>(part: &'static str) -> impl Fn(E) -> Groth16Error {
    move |error| Groth16Error::Part { part, error: Box::new(error) }
}
