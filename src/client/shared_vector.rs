//! Vectors in memory that a server on the same host reads and writes.

use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
};

use zeroize::{Zeroize, Zeroizing};

use super::{
    Client, Fr,
    error::{ClientError, Result},
    mapped_region::ClientRegion,
    run::ReceivedElements,
};
use crate::{
    curve::layout::{fr_from_bytes, fr_from_bytes_mut},
    error::FieldProblem,
    field::FieldId,
};

/// A vector that runs of programs read and write, and MSMs read if it is over Fr, in place if the
/// server is on the same host: its elements are not copied into messages. Dereferences to its
/// elements.
///
/// A run that writes to it owns it, and returns it in its result. The server wipes it after it is
/// dropped. If the server ends first, the elements stay, but runs fail: allocate a new vector.
pub struct SharedVector<E: SharedElement = Fr> {
    len: usize,
    memory: VectorMemory<E>,
}

enum VectorMemory<E: Zeroize> {
    Region(ClientRegion),
    /// The server shares no memory: runs send and receive the elements.
    Own(Zeroizing<Vec<E>>),
}

/// Elements of a [`SharedVector`]: `Fr`, or `u32` for values below a prime below 2^31.
pub trait SharedElement: sealed::ElementMemory {}

impl SharedElement for Fr {}
impl SharedElement for u32 {}

pub(crate) mod sealed {
    use super::*;

    pub trait ElementMemory: Clone + Default + Zeroize + Sized {
        const NAME: &str;

        /// `None` if `bytes` is not aligned.
        fn from_bytes(bytes: &[u8]) -> Option<&[Self]>;

        /// Like [`Self::from_bytes`], for elements that can be changed.
        fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]>;

        fn into_run_vector(vector: SharedVector<Self>) -> RunVector
        where
            Self: SharedElement;

        /// Errors: the same vector if its elements are of another type.
        fn from_run_vector(vector: RunVector) -> Result<SharedVector<Self>, RunVector>
        where
            Self: SharedElement;
    }

    impl ElementMemory for Fr {
        const NAME: &str = "Fr";

        fn from_bytes(bytes: &[u8]) -> Option<&[Self]> {
            fr_from_bytes(bytes)
        }

        fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
            fr_from_bytes_mut(bytes)
        }

        fn into_run_vector(vector: SharedVector) -> RunVector {
            RunVector::Fr(vector)
        }

        fn from_run_vector(vector: RunVector) -> Result<SharedVector, RunVector> {
            match vector {
                RunVector::Fr(vector) => Ok(vector),
                other @ RunVector::Words(_) => Err(other),
            }
        }
    }

    impl ElementMemory for u32 {
        const NAME: &str = "u32";

        fn from_bytes(bytes: &[u8]) -> Option<&[Self]> {
            bytemuck::try_cast_slice(bytes).ok()
        }

        fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
            bytemuck::try_cast_slice_mut(bytes).ok()
        }

        fn into_run_vector(vector: SharedVector<Self>) -> RunVector {
            RunVector::Words(vector)
        }

        fn from_run_vector(vector: RunVector) -> Result<SharedVector<Self>, RunVector> {
            match vector {
                RunVector::Words(vector) => Ok(vector),
                other @ RunVector::Fr(_) => Err(other),
            }
        }
    }
}

/// A vector that a run writes to.
#[derive(Debug)]
pub enum RunVector {
    Fr(SharedVector),
    Words(SharedVector<u32>),
}

impl Client {
    /// Allocates a vector of `len` zeros of Fr, in memory that the server shares if it is reached
    /// over its Unix socket and has some left, and in ordinary memory otherwise. Sharing is slow,
    /// since both processes touch every page, and takes at least 2 MiB and a connection: use a
    /// vector for many runs.
    ///
    /// Errors: `InvalidInput` if there is no memory for `len` elements; `Refused`;
    /// `CannotConnect` if the server does not hand out the memory.
    pub async fn alloc_vector(&self, len: usize) -> Result<SharedVector> {
        self.alloc_shared(len).await
    }

    /// Like [`Self::alloc_vector`], over a field of a prime below 2^31: values below the prime.
    ///
    /// Errors: those of [`Self::alloc_vector`].
    pub async fn alloc_vector31(&self, len: usize) -> Result<SharedVector<u32>> {
        self.alloc_shared(len).await
    }

    async fn alloc_shared<E: SharedElement>(&self, len: usize) -> Result<SharedVector<E>> {
        let max = isize::MAX as usize / size_of::<E>();
        let no_memory = || ClientError::input("len", FieldProblem::TooLarge { max: max as u64 });
        if len > max {
            return Err(no_memory());
        }
        let memory = match self.open_region((size_of::<E>() * len.max(1)) as u64).await? {
            Some(region) => VectorMemory::Region(region),
            None => {
                let mut elements = Zeroizing::new(Vec::new());
                elements.try_reserve_exact(len).map_err(|_| no_memory())?;
                elements.resize(len, E::default());
                VectorMemory::Own(elements)
            }
        };
        Ok(SharedVector { len, memory })
    }
}

impl<E: SharedElement> SharedVector<E> {
    /// Whether the server reads and writes the vector in place.
    pub fn is_shared(&self) -> bool {
        self.region_id().is_some()
    }

    /// Replaces the elements by the same number of others. Returns the old ones, or none if they
    /// were in a region.
    fn replace(&mut self, elements: Zeroizing<Vec<E>>) -> Zeroizing<Vec<E>> {
        match &mut self.memory {
            VectorMemory::Region(_) => {
                self.clone_from_slice(&elements);
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

impl RunVector {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Fr(vector) => vector.len(),
            Self::Words(vector) => vector.len(),
        }
    }

    /// Whether it can hold elements of `field`.
    pub(crate) fn suits(&self, field: FieldId) -> bool {
        match self {
            Self::Fr(_) => field == FieldId::Bls12381Fr,
            Self::Words(_) => matches!(field, FieldId::Prime31(_)),
        }
    }

    pub(crate) fn region_id(&self) -> Option<[u8; 16]> {
        match self {
            Self::Fr(vector) => vector.region_id(),
            Self::Words(vector) => vector.region_id(),
        }
    }

    /// Replaces the elements by received ones, which suit the vector. Returns the old ones, or none
    /// if they were in a region.
    pub(crate) fn replace(&mut self, received: &mut ReceivedElements) -> Option<ReceivedElements> {
        let old = match (self, received) {
            (Self::Fr(vector), ReceivedElements::Fr(elements)) => {
                ReceivedElements::Fr(vector.replace(mem::take(elements)))
            }
            (Self::Words(vector), ReceivedElements::Words(prime, words)) => {
                ReceivedElements::Words(*prime, vector.replace(mem::take(words)))
            }
            _ => return None,
        };
        Some(old)
    }
}

impl<E: SharedElement> Deref for SharedVector<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &self.memory {
            // Pages are aligned and whole.
            VectorMemory::Region(region) => {
                &E::from_bytes(region.memory.bytes()).unwrap_or_default()[..self.len]
            }
            VectorMemory::Own(elements) => elements,
        }
    }
}

impl<E: SharedElement> DerefMut for SharedVector<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        match &mut self.memory {
            VectorMemory::Region(region) => {
                &mut E::from_bytes_mut(region.memory.bytes_mut()).unwrap_or_default()[..self.len]
            }
            VectorMemory::Own(elements) => elements,
        }
    }
}

// Elements may be secret witness data: only their number is printed.
impl<E: SharedElement> fmt::Debug for SharedVector<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_shared() { "shared" } else { "not shared" };
        write!(f, "SharedVector({} {}, {place})", self.len, E::NAME)
    }
}
