//! How much steps compute, for models of their time.

use crate::{
    engine::{EngineWork, VectorWork},
    program::ValueType,
};

/// The types of the values that a step reads and makes.
#[derive(Debug, Clone, Copy)]
pub struct StepTypes<'a> {
    pub inputs: &'a [ValueType],
    pub value: ValueType,
}

impl StepTypes<'_> {
    /// A pass in which each result depends on few elements, and takes `products` products.
    pub fn pass(&self, products: u64) -> EngineWork {
        EngineWork::Vectors(self.vector_work(products))
    }

    /// Like [`Self::pass`], but each result depends on all elements before it.
    pub fn scan(&self, products: u64) -> EngineWork {
        EngineWork::Vectors(VectorWork { is_scan: true, ..self.vector_work(products) })
    }

    /// The value, copied from the host.
    pub fn transfer(&self) -> EngineWork {
        EngineWork::Transfer { elements: elements(self.value) }
    }

    fn vector_work(&self, products: u64) -> VectorWork {
        let all = || self.inputs.iter().copied().chain([self.value]);
        let longest = all().map(elements).max().unwrap_or(0);
        let bytes = all().map(ValueType::bytes).sum();
        VectorWork { products: products * longest, bytes, is_scan: false }
    }
}

/// The elements of a vector; 0 for points.
pub fn elements(value: ValueType) -> u64 {
    match value {
        ValueType::Vector(shape) => shape.elements(),
        ValueType::Points(_) => 0,
    }
}

/// The work of checking a value that `work` made.
pub fn check_work(work: EngineWork) -> Vec<EngineWork> {
    match work {
        // The input and the output are evaluated at a point.
        EngineWork::Ntt { lg_n, rows } => {
            let elements = u64::from(rows) << lg_n;
            let (products, bytes) = (2 * elements, 64 * elements);
            vec![EngineWork::Vectors(VectorWork { products, bytes, is_scan: true })]
        }
        // One more MSM, over a combination of the rows.
        EngineWork::Msm { group, n, vectors } => {
            let products = n.saturating_mul(vectors.into());
            let bytes = products.saturating_mul(32);
            let combination = VectorWork { products, bytes, is_scan: false };
            vec![EngineWork::Vectors(combination), EngineWork::Msm { group, n, vectors: 1 }]
        }
        EngineWork::Vectors(_) | EngineWork::Transfer { .. } => Vec::new(),
    }
}
