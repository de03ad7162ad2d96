//! The bases of an MSM.

use std::sync::Arc;

use bytes::Bytes;

use super::ComputeHost;
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        points::{self, BadElement, Bases, CurvePoint, PointEncoding, PointSlice},
    },
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

    /// Errors: `Invalid` for the first point that is not on the curve or not in the group.
    pub(super) fn check(self, host: &ComputeHost) -> Result<Bases> {
        let unchecked = match self {
            Self::Checked(bases) => return Ok(bases),
            Self::Unchecked(bases) => bases,
        };
        let decode = || match unchecked.group {
            Group::G1 => decode::<G1Affine>(&unchecked),
            Group::G2 => decode::<G2Affine>(&unchecked),
        };
        // Decoding a point takes far longer than its bytes suggest.
        let bases = host.run_sized(unchecked.data.len() << 8, decode);
        bases.map_err(|bad| Error::element("spec.bases.inline.data", bad.index, bad.problem))
    }
}

fn decode<A: CurvePoint>(bases: &UncheckedBases) -> Result<Bases, BadElement> {
    points::decode::<A>(bases.encoding, &bases.data)
        .map(|points| A::into_bases(PointSlice::new(Arc::new(points))))
}
