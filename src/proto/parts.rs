//! Fields that several messages have.

use ark_ff::{BigInt, PrimeField};
use bytes::Bytes;
use capstan_math::{
    curve::Fr,
    error::FieldProblem,
    program::{Constant, ValueId},
};

use super::{enums::specified, v1};

pub fn is_inverse(direction: i32) -> Result<bool, FieldProblem> {
    specified::<v1::Direction>(direction).map(|direction| direction == v1::Direction::Inverse)
}

pub const fn direction(is_inverse: bool) -> v1::Direction {
    if is_inverse { v1::Direction::Inverse } else { v1::Direction::Forward }
}

pub fn is_reversed(order: i32) -> Result<bool, FieldProblem> {
    specified::<v1::Order>(order).map(|order| order == v1::Order::BitReversed)
}

pub const fn order(is_reversed: bool) -> v1::Order {
    if is_reversed { v1::Order::BitReversed } else { v1::Order::Natural }
}

/// A generator, which is not zero; `None` if it is empty.
pub fn coset(bytes: &[u8]) -> Result<Option<Constant>, FieldProblem> {
    match (bytes, constant(bytes)) {
        ([], _) => Ok(None),
        (_, Ok(zero)) if zero.is_zero() => Err(FieldProblem::Zero),
        (_, generator) => generator.map(Some),
    }
}

/// An element of a field that the bytes do not name: 4 bytes of a small one, else of Fr.
pub fn constant(bytes: &[u8]) -> Result<Constant, FieldProblem> {
    match bytes.try_into() {
        Ok(word) => Ok(Constant::Word(u32::from_le_bytes(word))),
        Err(_) => element(bytes).map(Constant::Fr),
    }
}

/// An element of Fr: 32 bytes, canonical, little-endian.
pub fn element(bytes: &[u8]) -> Result<Fr, FieldProblem> {
    let length = FieldProblem::Length { expected: 32, got: bytes.len() as u64 };
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| length)?;
    let limbs = bytemuck::cast::<_, [[u8; 8]; 4]>(bytes).map(u64::from_le_bytes);
    Fr::from_bigint(BigInt(limbs)).ok_or(FieldProblem::NotCanonical)
}

/// Canonical little-endian bytes, concatenated.
pub fn canonical(elements: &[Constant]) -> Bytes {
    elements.iter().flat_map(|element| element.to_bytes_le()).collect()
}

pub fn values(indices: &[u32]) -> Vec<ValueId> {
    indices.iter().copied().map(ValueId).collect()
}

pub fn indices(values: &[ValueId]) -> Vec<u32> {
    values.iter().map(|value| value.0).collect()
}
