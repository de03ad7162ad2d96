//! Enums of this crate and their counterparts in messages, whose zero means "not specified".

use capstan_math::{
    builder::{Direction, Order},
    curve::{
        Group,
        points::{PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    field::{FieldId, Prime31},
    operation::PointwiseOperation,
    program::Verification,
};

use super::v1;

/// A decoded enum. Its zero value is `Unspecified`, an unknown one is `OutOfRange`.
pub fn specified<W: TryFrom<i32> + Default + PartialEq>(value: i32) -> Result<W, FieldProblem> {
    let value = W::try_from(value).map_err(|_| FieldProblem::OutOfRange)?;
    let is_specified = value != W::default();
    is_specified.then_some(value).ok_or(FieldProblem::Unspecified)
}

/// Converts between an enum of the caller and its counterpart, which has the same variants.
macro_rules! counterparts {
    ($($ours:ident, $wire:ident: $($variant:ident),+;)+) => { $(
        impl From<$ours> for $crate::v1::$wire {
            fn from(value: $ours) -> Self {
                match value { $($ours::$variant => Self::$variant),+ }
            }
        }

        impl TryFrom<$crate::v1::$wire> for $ours {
            type Error = FieldProblem;

            fn try_from(value: $crate::v1::$wire) -> Result<Self, FieldProblem> {
                match value {
                    $crate::v1::$wire::Unspecified => Err(FieldProblem::Unspecified),
                    $($crate::v1::$wire::$variant => Ok(Self::$variant)),+
                }
            }
        }
    )+ };
}

counterparts! {
    Group, Group: G1, G2;
    PointEncoding, PointEncoding: Compressed, Uncompressed, Montgomery;
    Direction, Direction: Forward, Inverse;
    Order, Order: Natural, BitReversed;
    SumEncoding, ResultEncoding: Compressed, Uncompressed, Projective;
    Verification, Verify: None, Full, Probabilistic;
    PointwiseOperation, PointwiseOperation:
        Add, Subtract, Multiply, MultiplyAdd, MultiplySubtract, Invert;
}

const SCALAR_ENCODINGS: [(ScalarEncoding, v1::ScalarEncoding); 16] = [
    (ScalarEncoding::Canonical, v1::ScalarEncoding::Canonical),
    (ScalarEncoding::Montgomery, v1::ScalarEncoding::Montgomery),
    (ScalarEncoding::Unsigned(1), v1::ScalarEncoding::U8),
    (ScalarEncoding::Unsigned(2), v1::ScalarEncoding::U16),
    (ScalarEncoding::Unsigned(4), v1::ScalarEncoding::U32),
    (ScalarEncoding::Unsigned(8), v1::ScalarEncoding::U64),
    (ScalarEncoding::Unsigned(16), v1::ScalarEncoding::U128),
    (ScalarEncoding::Signed(1), v1::ScalarEncoding::I8),
    (ScalarEncoding::Signed(2), v1::ScalarEncoding::I16),
    (ScalarEncoding::Signed(4), v1::ScalarEncoding::I32),
    (ScalarEncoding::Signed(8), v1::ScalarEncoding::I64),
    (ScalarEncoding::Signed(16), v1::ScalarEncoding::I128),
    (ScalarEncoding::Canonical31, v1::ScalarEncoding::Canonical31),
    (ScalarEncoding::Montgomery31, v1::ScalarEncoding::Montgomery31),
    (ScalarEncoding::PackedBits64, v1::ScalarEncoding::PackedBits64),
    (ScalarEncoding::Limbs32, v1::ScalarEncoding::Limbs32),
];

const FIELDS: [(FieldId, v1::Field); 10] = [
    (FieldId::Bls12381Fr, v1::Field::Bls12381Fr),
    (FieldId::Prime31(Prime31::P7340033), v1::Field::P7340033),
    (FieldId::Prime31(Prime31::P104857601), v1::Field::P104857601),
    (FieldId::Prime31(Prime31::P469762049), v1::Field::P469762049),
    (FieldId::Prime31(Prime31::P998244353), v1::Field::P998244353),
    (FieldId::Prime31(Prime31::P1811939329), v1::Field::P1811939329),
    (FieldId::Prime31(Prime31::BabyBear), v1::Field::BabyBear),
    (FieldId::Prime31(Prime31::KoalaBear), v1::Field::KoalaBear),
    (FieldId::Gf2, v1::Field::Gf2),
    (FieldId::Integers, v1::Field::Integers),
];

impl From<FieldId> for v1::Field {
    fn from(value: FieldId) -> Self {
        let pair = FIELDS.iter().find(|(ours, _)| *ours == value);
        pair.map_or(Self::Unspecified, |(_, wire)| *wire)
    }
}

impl TryFrom<v1::Field> for FieldId {
    type Error = FieldProblem;

    fn try_from(value: v1::Field) -> Result<Self, FieldProblem> {
        let pair = FIELDS.iter().find(|(_, wire)| *wire == value);
        pair.map(|(ours, _)| *ours).ok_or(FieldProblem::Unspecified)
    }
}

impl TryFrom<ScalarEncoding> for v1::ScalarEncoding {
    type Error = FieldProblem;

    fn try_from(value: ScalarEncoding) -> Result<Self, FieldProblem> {
        let pair = SCALAR_ENCODINGS.iter().find(|(ours, _)| *ours == value);
        pair.map(|(_, wire)| *wire).ok_or(FieldProblem::OutOfRange)
    }
}

impl TryFrom<v1::ScalarEncoding> for ScalarEncoding {
    type Error = FieldProblem;

    fn try_from(value: v1::ScalarEncoding) -> Result<Self, FieldProblem> {
        let pair = SCALAR_ENCODINGS.iter().find(|(_, wire)| *wire == value);
        pair.map(|(ours, _)| *ours).ok_or(FieldProblem::Unspecified)
    }
}
