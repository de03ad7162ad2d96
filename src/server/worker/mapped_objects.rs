//! The stored objects that this worker has mapped, under the server's numbers.

use std::{collections::HashMap, os::fd::OwnedFd, sync::Arc};

use parking_lot::RwLock;

use super::{
    message::{MapBasesRequest, MapMatrixRequest, NamedBases, NamedObjects, SuspectObjects},
    running::RunningObjects,
};
use crate::{
    curve::points::Bases,
    error::{Error, Result},
    region::MappedFile,
    sparse::SparseMatrix,
};

#[derive(Default)]
pub struct MappedObjects {
    bases: RwLock<HashMap<u64, Bases>>,
    matrices: RwLock<HashMap<u64, SparseMatrix>>,
}

impl MappedObjects {
    pub fn map_bases(&self, request: &MapBasesRequest, file: OwnedFd) -> Result<(), String> {
        let &MapBasesRequest { object, group, offset, count } = request;
        let bytes = count.saturating_mul(group.affine_bytes() as u64);
        let mapped = MappedFile::map_range(file, offset, bytes);
        let bases = mapped.and_then(|file| file.into_bases(group));
        self.bases.write().insert(object, bases.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Maps a matrix, which the server has checked.
    pub fn map_matrix(&self, request: &MapMatrixRequest, file: OwnedFd) -> Result<(), String> {
        let &MapMatrixRequest { object, shape, offset } = request;
        let mapped = MappedFile::map_range(file, offset, shape.bytes());
        let mapped = mapped.map_err(|error| error.to_string())?;
        let matrix = SparseMatrix::unchecked(shape, Arc::new(mapped));
        self.matrices.write().insert(object, matrix.map_err(|error| error.to_string())?);
        Ok(())
    }

    pub fn drop_bases(&self, object: u64) {
        drop(self.bases.write().remove(&object));
    }

    pub fn drop_matrix(&self, object: u64) {
        drop(self.matrices.write().remove(&object));
    }

    /// The objects that a run uses.
    ///
    /// Errors: `Internal` if one is not mapped.
    pub fn find(&self, named: &NamedObjects) -> Result<RunningObjects> {
        let NamedObjects { bases, matrices } = named;
        let bases = bases.iter().map(|named| self.find_bases(named)).collect::<Result<_>>()?;
        let matrices = matrices.iter().map(|object| self.find_matrix(*object));
        Ok(RunningObjects { bases, matrices: matrices.collect::<Result<_>>()? })
    }

    /// Those of the objects that are mapped.
    pub fn find_all(&self, objects: &SuspectObjects) -> RunningObjects {
        let bases = objects.bases.iter().filter_map(|object| self.whole_bases(*object).ok());
        let matrices = objects.matrices.iter().filter_map(|object| self.find_matrix(*object).ok());
        RunningObjects { bases: bases.collect(), matrices: matrices.collect() }
    }

    /// All points of each number, with the number.
    pub fn all_bases(&self) -> Vec<(u64, Bases)> {
        self.bases.read().iter().map(|(number, bases)| (*number, bases.clone())).collect()
    }

    /// All points of a number.
    ///
    /// Errors: `Internal` if they are not mapped.
    pub fn whole_bases(&self, object: u64) -> Result<Bases> {
        let found = self.bases.read().get(&object).cloned();
        found.ok_or_else(|| Error::Internal("the bases are not mapped".into()))
    }

    fn find_bases(&self, named: &NamedBases) -> Result<Bases> {
        let &NamedBases { object, start, len } = named;
        let range = self.whole_bases(object)?.slice(start as usize, len as usize);
        range.ok_or_else(|| Error::Internal("the bases are shorter".into()))
    }

    fn find_matrix(&self, object: u64) -> Result<SparseMatrix> {
        let found = self.matrices.read().get(&object).cloned();
        found.ok_or_else(|| Error::Internal("the matrix is not mapped".into()))
    }
}
