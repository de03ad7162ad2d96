//! Enums of this crate and their counterparts in messages, whose zero means "not specified".

use super::v1;
use crate::{
    curve::{
        Group,
        points::{PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    ops::PointwiseOperation,
    verify::Verification,
};

/// Converts between an enum and its counterpart, which has the same variants.
macro_rules! counterparts {
    ($($ours:ident, $wire:ident: $($variant:ident),+;)+) => { $(
        impl From<$ours> for v1::$wire {
            fn from(value: $ours) -> Self {
                match value { $($ours::$variant => Self::$variant),+ }
            }
        }

        impl TryFrom<v1::$wire> for $ours {
            type Error = FieldProblem;

            fn try_from(value: v1::$wire) -> Result<Self, FieldProblem> {
                match value {
                    v1::$wire::Unspecified => Err(FieldProblem::Unspecified),
                    $(v1::$wire::$variant => Ok(Self::$variant)),+
                }
            }
        }
    )+ };
}
#[cfg(feature = "client")]
pub(crate) use counterparts;

counterparts! {
    Group, Group: G1, G2;
    PointEncoding, PointEncoding: Compressed, Uncompressed, Montgomery;
    SumEncoding, ResultEncoding: Compressed, Uncompressed, Projective;
    Verification, Verify: None, Full, Probabilistic;
    PointwiseOperation, PointwiseOperation:
        Add, Subtract, Multiply, MultiplyAdd, MultiplySubtract, Invert;
}

const SCALAR_ENCODINGS: [(ScalarEncoding, v1::ScalarEncoding); 12] = [
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
];

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
