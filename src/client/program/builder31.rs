//! Steps over fields of a prime below 2^31.

use super::{
    NttTransform, ProgramBuilder, VectorValue,
    builder::{constants, ids},
};
use crate::{
    client::error::Result,
    field::Prime31,
    operation::{ConstantStep, EvaluateStep, InputStep, LinearCombinationStep, PowersStep},
};

impl ProgramBuilder {
    /// Like [`Self::input_rows`], over the field of a prime below 2^31.
    pub fn input31(&mut self, field: Prime31, rows: u32, length: u64) -> Result<VectorValue> {
        self.vector(&[], InputStep { field: field.into(), rows, length })
    }

    /// Like [`Self::constant`], over the field of a prime below 2^31.
    pub fn constant31(&mut self, field: Prime31, elements: &[u32]) -> Result<VectorValue> {
        let (field, elements) = (field.into(), constants(elements));
        self.vector(&[], ConstantStep { field, elements })
    }

    /// Like [`Self::powers`], over the field of a prime below 2^31.
    pub fn powers31(
        &mut self,
        field: Prime31,
        first: u32,
        base: u32,
        length: u64,
    ) -> Result<VectorValue> {
        let (base, first) = (base.into(), first.into());
        self.vector(&[], PowersStep { field: field.into(), base, first, length })
    }

    /// Like [`Self::ntt`], over the field of a prime below 2^31.
    pub fn ntt31(
        &mut self,
        input: VectorValue,
        transform: NttTransform<u32>,
    ) -> Result<VectorValue> {
        self.transform(input, transform)
    }

    /// Like [`Self::scale`], over the field of a prime below 2^31.
    pub fn scale31(&mut self, input: VectorValue, factor: u32) -> Result<VectorValue> {
        self.linear_combination31(&[input], &[factor])
    }

    /// Like [`Self::linear_combination`], over the field of a prime below 2^31.
    pub fn linear_combination31(
        &mut self,
        inputs: &[VectorValue],
        factors: &[u32],
    ) -> Result<VectorValue> {
        let step = LinearCombinationStep { inputs: ids(inputs), factors: constants(factors) };
        self.vector(inputs, step)
    }

    /// Like [`Self::evaluate`], over the field of a prime below 2^31.
    pub fn evaluate31(&mut self, input: VectorValue, point: u32) -> Result<VectorValue> {
        self.vector(&[input], EvaluateStep { input: input.id, point: point.into() })
    }
}
