//! What an engine is to compute, by size, for models of its time.

use crate::{curve::Group, field::FieldId};

/// Work whose time each engine models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineWork {
    /// MSMs over the same bases. The scalars are taken as uniform: small ones take less time.
    Msm {
        /// The curve group.
        group: Group,
        /// The number of bases, and of scalars of each vector.
        n: u64,
        /// The number of vectors.
        vectors: u32,
    },
    /// Transforms of rows.
    Ntt {
        /// The field of the elements.
        field: FieldId,
        /// log2 of the elements of a row.
        lg_n: u32,
        /// The number of rows.
        rows: u32,
    },
    /// Arithmetic on vectors.
    Vectors(VectorWork),
    /// Elimination over GF(2).
    Elimination(EliminationWork),
    /// Elements that are copied and decoded, or encoded, between a payload and the engine's memory.
    Transfer {
        /// The bytes of the elements.
        bytes: u64,
    },
}

/// Arithmetic on the elements of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorWork {
    /// Products of two elements of Fr. A product in a field of fewer bits counts as a part of one.
    pub products: u64,
    /// Bytes of elements read and written.
    pub bytes: u64,
    /// Whether results depend on all elements before them, which takes a GPU several launches.
    pub is_scan: bool,
}

/// The elimination of a matrix of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EliminationWork {
    /// Rows that are reduced.
    pub rows: u64,
    /// Rows that are pivots from the beginning.
    pub pivots: u64,
    /// Words of 64 columns of each row.
    pub words: u64,
}
