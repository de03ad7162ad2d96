//! The fields that steps compute in on the host.

use ark_ff::FftField;

use super::rows::{HostRows, Rows};
use crate::{
    curve::{Fr, FrField, NttPlan, scalars::ElementCodec},
    engines::{ExecutedBy, JobControl, MsmNttEngine},
    error::{Error, Result},
    field::{Arithmetic, Element31, Field31, Gf2Words, IntegerLimbs},
    program::Constant,
    verify::{CheckedProduct, verify_ntt, verify_ntt31, verify_product, verify_product31},
};

/// The elements of vectors over a field, in the host's memory.
pub trait HostElements: ElementCodec {
    fn wrap(self, rows: Rows<Self::Element>) -> HostRows;

    /// Errors: `Internal` if the rows are over another field.
    fn rows(self, rows: &HostRows) -> Result<&[Vec<Self::Element>]>;

    /// Errors: `Internal` if the rows are over another field.
    fn into_rows(self, rows: HostRows) -> Result<Rows<Self::Element>>;
}

/// A field that steps compute in on the host.
pub trait HostField: HostElements + Arithmetic {
    /// Whether transforms on the host are faster if values are in bit-reversed order.
    const HAS_REVERSED_VALUES: bool;

    /// Errors: `Internal` if the constant belongs to another field.
    fn constant(self, constant: Constant) -> Result<Self::Element>;

    /// Transforms rows in place.
    ///
    /// Errors: those of the engine.
    fn transform(
        self,
        engine: &dyn MsmNttEngine,
        plan: &NttPlan<Self::Element>,
        rows: &mut [Vec<Self::Element>],
        control: &JobControl,
    ) -> Result<ExecutedBy>;

    /// Whether `output` is the transform of `input`; see [`verify_ntt`].
    fn verify_ntt(
        self,
        plan: &NttPlan<Self::Element>,
        input: &[Self::Element],
        output: &[Self::Element],
        control: &JobControl,
    ) -> Result<bool>;

    /// Whether a product is right; see [`verify_product`].
    fn verify_product(
        self,
        product: &CheckedProduct<'_, Self::Element>,
        control: &JobControl,
    ) -> Result<bool>;

    /// The root of unity of order 2^`lg_n`; `None` if the field has none.
    fn root_of_unity(self, lg_n: u32) -> Option<Self::Element>;

    /// The plan with a coset generator of this field.
    fn plan(self, plan: NttPlan<Constant>) -> Result<NttPlan<Self::Element>> {
        let coset = plan.coset.map(|generator| self.constant(generator)).transpose()?;
        Ok(plan.with_coset(coset))
    }
}

fn other_field<T>() -> Result<T> {
    Err(Error::Internal("an element is of another field".into()))
}

impl HostElements for FrField {
    fn wrap(self, rows: Rows<Fr>) -> HostRows {
        HostRows::Fr(rows)
    }

    fn rows(self, rows: &HostRows) -> Result<&[Vec<Fr>]> {
        if let HostRows::Fr(rows) = rows { Ok(rows) } else { other_field() }
    }

    fn into_rows(self, rows: HostRows) -> Result<Rows<Fr>> {
        if let HostRows::Fr(rows) = rows { Ok(rows) } else { other_field() }
    }
}

impl HostField for FrField {
    // arkworks' transforms are in natural order.
    const HAS_REVERSED_VALUES: bool = false;

    fn constant(self, constant: Constant) -> Result<Fr> {
        if let Constant::Fr(element) = constant { Ok(element) } else { other_field() }
    }

    fn transform(
        self,
        engine: &dyn MsmNttEngine,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        engine.ntt_in_place(plan, rows, control)
    }

    fn verify_ntt(
        self,
        plan: &NttPlan,
        input: &[Fr],
        output: &[Fr],
        control: &JobControl,
    ) -> Result<bool> {
        verify_ntt(plan, input, output, control)
    }

    fn verify_product(
        self,
        product: &CheckedProduct<'_, Fr>,
        control: &JobControl,
    ) -> Result<bool> {
        verify_product(product, control)
    }

    fn root_of_unity(self, lg_n: u32) -> Option<Fr> {
        Fr::get_root_of_unity(1_u64.checked_shl(lg_n)?)
    }
}

impl HostElements for Field31 {
    fn wrap(self, rows: Rows<Element31>) -> HostRows {
        HostRows::Prime31(self, rows)
    }

    fn rows(self, rows: &HostRows) -> Result<&[Vec<Element31>]> {
        match rows {
            HostRows::Prime31(field, rows) if *field == self => Ok(rows),
            _ => other_field(),
        }
    }

    fn into_rows(self, rows: HostRows) -> Result<Rows<Element31>> {
        match rows {
            HostRows::Prime31(field, rows) if field == self => Ok(rows),
            _ => other_field(),
        }
    }
}

impl HostField for Field31 {
    const HAS_REVERSED_VALUES: bool = true;

    fn constant(self, constant: Constant) -> Result<Element31> {
        if let Constant::Word(word) = constant { Ok(self.element(word)) } else { other_field() }
    }

    fn transform(
        self,
        engine: &dyn MsmNttEngine,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        engine.ntt31(self, plan, rows, control)
    }

    fn verify_ntt(
        self,
        plan: &NttPlan<Element31>,
        input: &[Element31],
        output: &[Element31],
        control: &JobControl,
    ) -> Result<bool> {
        verify_ntt31(self, plan, input, output, control)
    }

    fn verify_product(
        self,
        product: &CheckedProduct<'_, Element31>,
        control: &JobControl,
    ) -> Result<bool> {
        verify_product31(self, product, control)
    }

    fn root_of_unity(self, lg_n: u32) -> Option<Element31> {
        self.root_of_unity(lg_n)
    }
}

impl HostElements for Gf2Words {
    fn wrap(self, rows: Rows<u64>) -> HostRows {
        HostRows::Gf2(rows)
    }

    fn rows(self, rows: &HostRows) -> Result<&[Vec<u64>]> {
        if let HostRows::Gf2(rows) = rows { Ok(rows) } else { other_field() }
    }

    fn into_rows(self, rows: HostRows) -> Result<Rows<u64>> {
        if let HostRows::Gf2(rows) = rows { Ok(rows) } else { other_field() }
    }
}

impl HostElements for IntegerLimbs {
    fn wrap(self, rows: Rows<u32>) -> HostRows {
        HostRows::Integers(rows)
    }

    fn rows(self, rows: &HostRows) -> Result<&[Vec<u32>]> {
        if let HostRows::Integers(rows) = rows { Ok(rows) } else { other_field() }
    }

    fn into_rows(self, rows: HostRows) -> Result<Rows<u32>> {
        if let HostRows::Integers(rows) = rows { Ok(rows) } else { other_field() }
    }
}
