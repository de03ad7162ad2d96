//! The bases of an MSM.

use std::{mem, sync::Arc, time::Duration};

use super::{
    ComputeHost,
    decode_points::{decode_points, host_piece_points},
};
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        points::{Bases, CurvePoint, PointEncoding, PointSlice},
    },
    engine::JobControl,
    error::{Error, Result},
};

/// Points of a request, which the job checks piece by piece.
pub struct UncheckedBases {
    group: Group,
    encoding: PointEncoding,
    data: Box<[u8]>,
    count: usize,
    checked: CheckedPoints,
}

/// The points checked so far.
enum CheckedPoints {
    G1(Vec<G1Affine>),
    G2(Vec<G2Affine>),
}

pub enum JobBases {
    Checked(Bases),
    Unchecked(UncheckedBases),
}

impl UncheckedBases {
    /// The `count` points that `data` encodes. They are copied, because `data` is a part of a
    /// message that would be kept with its scalars.
    pub fn new(group: Group, encoding: PointEncoding, data: &[u8], count: usize) -> Self {
        let checked = match group {
            Group::G1 => CheckedPoints::G1(Vec::new()),
            Group::G2 => CheckedPoints::G2(Vec::new()),
        };
        Self { group, encoding, data: data.into(), count, checked }
    }

    /// Checks the next piece. Returns all points after the last one.
    fn check_piece(&mut self, host: &ComputeHost, control: &JobControl) -> Result<Option<Bases>> {
        let Self { encoding, count, .. } = *self;
        let data = &self.data[..];
        match &mut self.checked {
            CheckedPoints::G1(points) => check_next(points, count, encoding, data, host, control),
            CheckedPoints::G2(points) => check_next(points, count, encoding, data, host, control),
        }
    }
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
            Self::Unchecked(bases) => {
                (bases.data.len() + bases.count * bases.group.affine_bytes()) as u64
            }
        }
    }

    /// The modelled time to check them.
    pub fn check_time(&self, host: &ComputeHost) -> Duration {
        match self {
            Self::Checked(_) => Duration::ZERO,
            Self::Unchecked(bases) => host.check_time(bases.group, bases.count as u64),
        }
    }

    /// Checks the next points of the request, if there are any left.
    ///
    /// Errors: `Invalid` for the first point that is not on the curve or not in the group; those of
    /// `control`.
    pub(super) fn check_piece(&mut self, host: &ComputeHost, control: &JobControl) -> Result<()> {
        if let Self::Unchecked(bases) = self
            && let Some(checked) = bases.check_piece(host, control)?
        {
            *self = Self::Checked(checked);
        }
        Ok(())
    }
}

fn check_next<A: CurvePoint>(
    checked: &mut Vec<A>,
    count: usize,
    encoding: PointEncoding,
    data: &[u8],
    host: &ComputeHost,
    control: &JobControl,
) -> Result<Option<Bases>> {
    let first = checked.len();
    let width = encoding.point_bytes(A::GROUP);
    let end = count.min(first + host_piece_points(A::GROUP));
    checked.reserve_exact(count - first);
    let points = decode_points::<A>(host, encoding, &data[first * width..end * width], control)?;
    checked.extend(points.map_err(|bad| {
        Error::element("spec.bases.inline.data", first as u64 + bad.index, bad.problem)
    })?);
    let is_complete = end == count;
    Ok(is_complete.then(|| A::into_bases(PointSlice::new(Arc::new(mem::take(checked))))))
}
