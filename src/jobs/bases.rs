//! The bases of an MSM.

use std::sync::Arc;

use bytes::Bytes;

use super::{ComputeHost, decode_points::decode_points};
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        points::{Bases, CurvePoint, PointEncoding, PointSlice},
    },
    engine::JobControl,
    error::{Error, Result},
};

/// Points of a request, which the job must check.
#[derive(Debug, Clone, PartialEq)]
pub struct UncheckedBases {
    pub group: Group,
    pub encoding: PointEncoding,
    pub data: Bytes,
    pub count: usize,
}

pub enum JobBases {
    Checked(Bases),
    Unchecked(UncheckedBases),
}

impl JobBases {
    pub fn count(&self) -> usize {
        match self {
            Self::Checked(bases) => bases.len(),
            Self::Unchecked(bases) => bases.count,
        }
    }

    /// Bytes that the job takes for them.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Checked(_) => 0,
            Self::Unchecked(bases) => (bases.count * bases.group.affine_bytes()) as u64,
        }
    }

    /// Errors: `Invalid` for the first point that is not on the curve or not in the group; those of
    /// `control`.
    pub(super) fn check(self, host: &ComputeHost, control: &JobControl) -> Result<Bases> {
        match self {
            Self::Checked(bases) => Ok(bases),
            Self::Unchecked(bases) => match bases.group {
                Group::G1 => decode::<G1Affine>(&bases, host, control),
                Group::G2 => decode::<G2Affine>(&bases, host, control),
            },
        }
    }
}

fn decode<A: CurvePoint>(
    bases: &UncheckedBases,
    host: &ComputeHost,
    control: &JobControl,
) -> Result<Bases> {
    let points = decode_points::<A>(host, bases.encoding, &bases.data, control)?;
    let points =
        points.map_err(|bad| Error::element("spec.bases.inline.data", bad.index, bad.problem))?;
    Ok(A::into_bases(PointSlice::new(Arc::new(points))))
}
