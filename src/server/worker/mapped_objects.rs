//! The stored objects that this worker has mapped, under the server's numbers.

use std::{collections::HashMap, os::fd::OwnedFd, sync::Arc};

use parking_lot::RwLock;

use super::{
    message::{MapObjectRequest, NamedBases, NamedObjects, ObjectShape},
    running::RunningObjects,
};
use crate::{
    curve::points::Bases,
    error::{EngineError as Error, EngineResult as Result},
    region::MappedFile,
    sparse::SparseMatrix,
};

#[derive(Default)]
pub struct MappedObjects(RwLock<HashMap<u64, MappedObject>>);

/// An object, which the server has checked.
#[derive(Clone)]
enum MappedObject {
    Bases(Bases),
    Matrix(SparseMatrix),
}

impl MappedObjects {
    pub fn map(&self, request: &MapObjectRequest, file: OwnedFd) -> Result<(), String> {
        let &MapObjectRequest { object, shape, offset } = request;
        let mapped = MappedFile::map_range(file, offset, shape.bytes());
        let mapped = mapped.map_err(|error| error.to_string())?;
        let mapped = match shape {
            ObjectShape::Points { group, .. } => {
                let bases = mapped.into_bases(group).map_err(|error| error.to_string())?;
                MappedObject::Bases(bases)
            }
            ObjectShape::Matrix(shape) => {
                let matrix = SparseMatrix::unchecked(shape, Arc::new(mapped));
                MappedObject::Matrix(matrix.map_err(|error| error.to_string())?)
            }
        };
        self.0.write().insert(object, mapped);
        Ok(())
    }

    pub fn unmap(&self, object: u64) {
        drop(self.0.write().remove(&object));
    }

    /// The objects that a run uses.
    ///
    /// Errors: `Internal` if one is not mapped.
    pub fn find(&self, named: &NamedObjects) -> Result<RunningObjects> {
        let NamedObjects { bases, matrices } = named;
        let bases = bases.iter().map(|named| self.find_bases(named)).collect::<Result<_>>()?;
        let matrices = matrices.iter().map(|object| match self.0.read().get(object) {
            Some(MappedObject::Matrix(matrix)) => Ok(matrix.clone()),
            _ => Err(Error::Internal("the matrix is not mapped".into())),
        });
        Ok(RunningObjects { bases, matrices: matrices.collect::<Result<_>>()? })
    }

    /// Those of the objects that are mapped.
    pub fn find_all(&self, objects: &[u64]) -> RunningObjects {
        let mut found = RunningObjects { bases: Vec::new(), matrices: Vec::new() };
        let mapped = self.0.read();
        for object in objects.iter().filter_map(|object| mapped.get(object).cloned()) {
            match object {
                MappedObject::Bases(bases) => found.bases.push(bases),
                MappedObject::Matrix(matrix) => found.matrices.push(matrix),
            }
        }
        found
    }

    /// All points of each number, with the number.
    pub fn all_bases(&self) -> Vec<(u64, Bases)> {
        let mapped = self.0.read();
        let bases = mapped.iter().filter_map(|(number, object)| match object {
            MappedObject::Bases(bases) => Some((*number, bases.clone())),
            MappedObject::Matrix(_) => None,
        });
        bases.collect()
    }

    /// All points of a number.
    ///
    /// Errors: `Internal` if they are not mapped.
    pub fn whole_bases(&self, object: u64) -> Result<Bases> {
        match self.0.read().get(&object) {
            Some(MappedObject::Bases(bases)) => Ok(bases.clone()),
            _ => Err(Error::Internal("the bases are not mapped".into())),
        }
    }

    fn find_bases(&self, named: &NamedBases) -> Result<Bases> {
        let &NamedBases { object, start, len } = named;
        let range = self.whole_bases(object)?.slice(start as usize, len as usize);
        range.ok_or_else(|| Error::Internal("the bases are shorter".into()))
    }
}
