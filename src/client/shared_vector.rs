//! Vectors in memory that a server on the same host reads and writes.

use std::{fmt, mem};

use capstan_math::{
    curve::layout::{fr_as_bytes, fr_as_bytes_mut},
    error::FieldProblem,
    field::FieldId,
    runner::ValueElements,
};
use zeroize::{Zeroize, Zeroizing};

use super::{
    Client, Fr, convert,
    error::{ClientError, Result},
};
use crate::transfer::{mapped_region::ClientRegion, payload::OutgoingBytes};

/// A vector that runs of programs read and write, and MSMs read if it is over Fr, in place if the
/// server is on the same host: its elements are not copied into messages.
///
/// A run that writes to it owns it, and returns it in its result. The server wipes it after it is
/// dropped. If the server ends first, the elements stay, but runs fail: allocate a new vector.
///
/// [`Self::read`] and [`Self::write`] copy elements. There are no references to them, because the
/// server may write the memory:
///
/// ```compile_fail,E0308
/// # use capstan::client::{Fr, SharedVector};
/// # fn wrong(vector: &SharedVector) {
/// let elements: &[Fr] = vector;
/// # }
/// ```
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

    pub trait ElementMemory: Copy + Default + Zeroize {
        const NAME: &str;

        /// Errors: `InvalidInput` for `field` if there is no memory for `count` zeros.
        fn zeros(field: &'static str, count: u64) -> Result<Zeroizing<Vec<Self>>>;

        /// `None` for elements of another type.
        fn of_values(values: ValueElements) -> Option<Zeroizing<Vec<Self>>>;

        fn as_bytes(elements: &[Self]) -> &[u8];

        fn as_bytes_mut(elements: &mut [Self]) -> &mut [u8];

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

        fn zeros(field: &'static str, count: u64) -> Result<Zeroizing<Vec<Self>>> {
            convert::fr_zeros(field, count)
        }

        fn of_values(values: ValueElements) -> Option<Zeroizing<Vec<Self>>> {
            if let ValueElements::Fr(elements) = values { Some(elements) } else { None }
        }

        fn as_bytes(elements: &[Self]) -> &[u8] {
            fr_as_bytes(elements)
        }

        fn as_bytes_mut(elements: &mut [Self]) -> &mut [u8] {
            fr_as_bytes_mut(elements)
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

        fn zeros(field: &'static str, count: u64) -> Result<Zeroizing<Vec<Self>>> {
            convert::zeros(field, count, 1)
        }

        fn of_values(values: ValueElements) -> Option<Zeroizing<Vec<Self>>> {
            if let ValueElements::Words(_, words) = values { Some(words) } else { None }
        }

        fn as_bytes(elements: &[Self]) -> &[u8] {
            bytemuck::cast_slice(elements)
        }

        fn as_bytes_mut(elements: &mut [Self]) -> &mut [u8] {
            bytemuck::cast_slice_mut(elements)
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

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the vector has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the elements from index `start` on to `out`. Those that a server has written in place
    /// are not checked to be below the modulus.
    ///
    /// Panics if the vector has fewer elements.
    pub fn read(&self, start: usize, out: &mut [E]) {
        self.check_range(start, out.len());
        match &self.memory {
            VectorMemory::Region(region) => {
                region.memory.read(size_of::<E>() * start, E::as_bytes_mut(out));
            }
            VectorMemory::Own(own) => out.copy_from_slice(&own[start..][..out.len()]),
        }
    }

    /// Replaces the elements from index `start` on.
    ///
    /// Panics if the vector has fewer elements.
    pub fn write(&mut self, start: usize, elements: &[E]) {
        self.check_range(start, elements.len());
        match &mut self.memory {
            VectorMemory::Region(region) => {
                region.memory.write(size_of::<E>() * start, E::as_bytes(elements));
            }
            VectorMemory::Own(own) => own[start..][..elements.len()].copy_from_slice(elements),
        }
    }

    /// Replaces all elements.
    ///
    /// Panics if `elements` has another length.
    pub fn copy_from_slice(&mut self, elements: &[E]) {
        assert_eq!(elements.len(), self.len, "a slice of another length");
        self.write(0, elements);
    }

    /// Copies all elements, like [`Self::read`]. The copy is wiped when it is dropped.
    pub fn to_vec(&self) -> Zeroizing<Vec<E>> {
        let mut elements = Zeroizing::new(vec![E::default(); self.len]);
        self.read(0, &mut elements);
        elements
    }

    /// A pointer to the first element, for code that reads the vector in place; the others follow.
    /// Valid until the vector is dropped or given to a run. An empty vector has nothing to read.
    ///
    /// The server writes a [shared](Self::is_shared) vector during runs that own it. A faulty or
    /// malicious server may write it at any time. Code that makes references to elements promises
    /// that nothing writes them meanwhile.
    pub fn as_ptr(&self) -> *const E {
        match &self.memory {
            // Pages are aligned.
            VectorMemory::Region(region) => region.memory.as_mut_ptr().cast_const().cast(),
            VectorMemory::Own(own) => own.as_ptr(),
        }
    }

    /// Like [`Self::as_ptr`], for code that also writes.
    pub fn as_mut_ptr(&mut self) -> *mut E {
        match &mut self.memory {
            VectorMemory::Region(region) => region.memory.as_mut_ptr().cast(),
            VectorMemory::Own(own) => own.as_mut_ptr(),
        }
    }

    fn check_range(&self, start: usize, count: usize) {
        let is_inside = start.checked_add(count).is_some_and(|end| end <= self.len);
        assert!(is_inside, "elements {start} to {start} + {count} of {}", self.len);
    }

    /// The elements, to be sent in messages unless the server reads them in place.
    pub(crate) fn payload(&self) -> OutgoingBytes<'_> {
        match &self.memory {
            VectorMemory::Region(region) => {
                OutgoingBytes::Region { region, bytes: size_of::<E>() * self.len }
            }
            VectorMemory::Own(own) => OutgoingBytes::Secret(E::as_bytes(own)),
        }
    }

    /// Replaces the elements by the same number of others. Returns the old ones, or none if they
    /// were in a region.
    fn replace(&mut self, elements: Zeroizing<Vec<E>>) -> Zeroizing<Vec<E>> {
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
    pub(crate) fn replace(&mut self, received: &mut ValueElements) -> Option<ValueElements> {
        let old = match (self, received) {
            (Self::Fr(vector), ValueElements::Fr(elements)) => {
                ValueElements::Fr(vector.replace(mem::take(elements)))
            }
            (Self::Words(vector), ValueElements::Words(prime, words)) => {
                ValueElements::Words(*prime, vector.replace(mem::take(words)))
            }
            _ => return None,
        };
        Some(old)
    }
}

// Elements may be secret witness data: only their number is printed.
impl<E: SharedElement> fmt::Debug for SharedVector<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_shared() { "shared" } else { "not shared" };
        write!(f, "SharedVector({} {}, {place})", self.len, E::NAME)
    }
}
