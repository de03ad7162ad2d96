//! Handles to the values of a program.

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering},
};

use capstan_math::{
    field::FieldId,
    program::{ValueId, VectorShape},
};

/// Tells the programs of this process apart, so that no program takes the handles of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProgramTag(u64);

impl ProgramTag {
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A vector that a step of a program makes: rows of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorValue {
    pub(crate) program: ProgramTag,
    pub(crate) id: ValueId,
    pub(crate) shape: VectorShape,
}

impl VectorValue {
    /// The field of the elements.
    pub fn field(&self) -> FieldId {
        self.shape.field()
    }

    /// Number of rows.
    pub fn rows(&self) -> u32 {
        self.shape.rows()
    }

    /// Elements of each row.
    pub fn length(&self) -> u64 {
        self.shape.length()
    }
}

/// The points that an MSM of a program makes: one for each row of its scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PointsValue<A> {
    pub(crate) program: ProgramTag,
    pub(crate) id: ValueId,
    pub(crate) count: u32,
    pub(crate) group: PhantomData<fn() -> A>,
}

impl<A> PointsValue<A> {
    /// Number of points.
    pub fn count(&self) -> u32 {
        self.count
    }
}
