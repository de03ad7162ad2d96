//! How much steps compute, for models of their time.

use crate::{
    engines::{EngineWork, VectorWork},
    field::FieldId,
    program::ValueType,
};

/// Products in a field of a prime below 2^31 that take as long as one in Fr.
const PRODUCTS31: u64 = 16;
/// Products that the check of an NTT in such a field takes per element of a row, at a point of an
/// extension of degree 8.
const CHECK_PRODUCTS31: u64 = 32;

/// The same for setting up such a check, per row: its point and the point's powers.
const CHECK_ROW_PRODUCTS31: u64 = 4096;

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

    /// A pass that takes this number of products in all.
    pub fn products(&self, products: u64) -> EngineWork {
        let all = self.inputs.iter().copied().chain([self.value]);
        let bytes = all.map(ValueType::bytes).sum();
        let products = products / products_per_fr_product(self.value);
        EngineWork::Vectors(VectorWork { products, bytes, is_scan: false })
    }

    /// The evaluation of `coefficients` coefficients in all, of rows like the value's, at secret
    /// points.
    pub fn evaluations(&self, coefficients: u64) -> EngineWork {
        let ValueType::Vector(shape) = self.value else { return self.products(0) };
        let rows = u64::from(shape.rows());
        self.products(match shape.field() {
            FieldId::Bls12381Fr => coefficients,
            // There are none over GF(2) and of limbs.
            FieldId::Prime31(_) | FieldId::Gf2 | FieldId::Integers => {
                let setup = CHECK_ROW_PRODUCTS31 * rows;
                coefficients.saturating_mul(CHECK_PRODUCTS31).saturating_add(setup)
            }
        })
    }

    /// The value, copied from the host.
    pub fn transfer(&self) -> EngineWork {
        EngineWork::Transfer { bytes: vector_bytes(self.value) }
    }

    fn vector_work(&self, products: u64) -> VectorWork {
        let all = || self.inputs.iter().copied().chain([self.value]);
        let longest = all().map(elements).max().unwrap_or(0);
        let bytes = all().map(ValueType::bytes).sum();
        let products = products * longest / products_per_fr_product(self.value);
        VectorWork { products, bytes, is_scan: false }
    }
}

/// The bytes of a vector; 0 for points.
pub fn vector_bytes(value: ValueType) -> u64 {
    match value {
        ValueType::Vector(shape) => shape.bytes(),
        ValueType::Points(_) => 0,
    }
}

/// How many products in the field of a vector take as long as one in Fr.
fn products_per_fr_product(value: ValueType) -> u64 {
    match value {
        ValueType::Vector(shape) if shape.field() != FieldId::Bls12381Fr => PRODUCTS31,
        _ => 1,
    }
}

/// The elements of a vector; 0 for points.
pub fn elements(value: ValueType) -> u64 {
    match value {
        ValueType::Vector(shape) => shape.elements(),
        ValueType::Points(_) => 0,
    }
}

/// The rows of a vector; 0 for points.
pub fn rows(value: ValueType) -> u64 {
    match value {
        ValueType::Vector(shape) => shape.rows().into(),
        ValueType::Points(_) => 0,
    }
}

/// The work of checking a value that `work` made.
pub(super) fn check_work(work: EngineWork) -> Vec<EngineWork> {
    match work {
        // The input and the output are evaluated at a point.
        EngineWork::Ntt { field, lg_n, rows } => {
            let elements = u64::from(rows) << lg_n;
            let products = match field {
                FieldId::Bls12381Fr => 2 * elements,
                // There are none over GF(2) and of limbs.
                FieldId::Prime31(_) | FieldId::Gf2 | FieldId::Integers => {
                    CHECK_PRODUCTS31 * elements / PRODUCTS31
                }
            };
            let bytes = 2 * field.element_bytes() * elements;
            vec![EngineWork::Vectors(VectorWork { products, bytes, is_scan: true })]
        }
        // One more MSM, over a combination of the rows.
        EngineWork::Msm { group, n, vectors } => {
            let products = n.saturating_mul(vectors.into());
            let bytes = products.saturating_mul(32);
            let combination = VectorWork { products, bytes, is_scan: false };
            vec![EngineWork::Vectors(combination), EngineWork::Msm { group, n, vectors: 1 }]
        }
        EngineWork::Vectors(_) | EngineWork::Elimination(_) | EngineWork::Transfer { .. } => {
            Vec::new()
        }
    }
}
