//! Vectors in memory that a server on the same host reads and writes.

use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
};

use ark_ff::Zero;
use zeroize::Zeroizing;

use super::{
    Client, Fr,
    error::{ClientError, Result},
    mapped_region::ClientRegion,
};
use crate::{
    curve::layout::{fr_from_bytes, fr_from_bytes_mut},
    error::FieldProblem,
};

/// A vector that MSMs read, and runs of programs read and write, in place if the server is on the
/// same host: its elements are not copied into messages. Dereferences to its elements.
///
/// A run that writes to it owns it, and returns it in its result. The server wipes it after it is
/// dropped. If the server ends first, the elements stay, but runs fail: allocate a new vector.
pub struct SharedVector {
    len: usize,
    memory: VectorMemory,
}

enum VectorMemory {
    Region(ClientRegion),
    /// The server shares no memory: runs send and receive the elements.
    Own(Zeroizing<Vec<Fr>>),
}

impl Client {
    /// Allocates a vector of `len` zeros, in memory that the server shares if it is reached over
    /// its Unix socket and has some left, and in ordinary memory otherwise. Sharing is slow, since
    /// both processes touch every page, and takes at least 2 MiB and a connection: use a vector for
    /// many runs.
    ///
    /// Errors: `InvalidInput` if there is no memory for `len` elements; `Refused`;
    /// `CannotConnect` if the server does not hand out the memory.
    pub async fn alloc_vector(&self, len: usize) -> Result<SharedVector> {
        let max = isize::MAX as usize / size_of::<Fr>();
        let no_memory = || ClientError::input("len", FieldProblem::TooLarge { max: max as u64 });
        if len > max {
            return Err(no_memory());
        }
        let memory = match self.open_region((size_of::<Fr>() * len.max(1)) as u64).await? {
            Some(region) => VectorMemory::Region(region),
            None => {
                let mut elements = Zeroizing::new(Vec::new());
                elements.try_reserve_exact(len).map_err(|_| no_memory())?;
                elements.resize(len, Fr::zero());
                VectorMemory::Own(elements)
            }
        };
        Ok(SharedVector { len, memory })
    }
}

impl SharedVector {
    /// Whether the server reads and writes the vector in place.
    pub fn is_shared(&self) -> bool {
        self.region_id().is_some()
    }

    /// Replaces the elements by the same number of others. Returns the old ones, or none if they
    /// were in a region.
    pub(crate) fn replace(&mut self, elements: Zeroizing<Vec<Fr>>) -> Zeroizing<Vec<Fr>> {
        match &mut self.memory {
            VectorMemory::Region(_) => {
                self.copy_from_slice(&elements);
                Zeroizing::default()
            }
            VectorMemory::Own(old) => mem::replace(old, elements),
        }
    }

    /// The region that begins with the vector.
    pub(crate) fn region_id(&self) -> Option<[u8; 16]> {
        match &self.memory {
            VectorMemory::Region(region) => Some(region.id),
            VectorMemory::Own(_) => None,
        }
    }
}

impl Deref for SharedVector {
    type Target = [Fr];

    fn deref(&self) -> &[Fr] {
        match &self.memory {
            // Pages are aligned and whole.
            VectorMemory::Region(region) => {
                &fr_from_bytes(region.memory.bytes()).unwrap_or_default()[..self.len]
            }
            VectorMemory::Own(elements) => elements,
        }
    }
}

impl DerefMut for SharedVector {
    fn deref_mut(&mut self) -> &mut [Fr] {
        match &mut self.memory {
            VectorMemory::Region(region) => {
                &mut fr_from_bytes_mut(region.memory.bytes_mut()).unwrap_or_default()[..self.len]
            }
            VectorMemory::Own(elements) => elements,
        }
    }
}

// Elements may be secret witness data: only their number is printed.
impl fmt::Debug for SharedVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_shared() { "shared" } else { "not shared" };
        write!(f, "SharedVector({} Fr, {place})", self.len)
    }
}
