//! The encodings of one point or sum. Decoding treats bytes as untrusted: what it returns is
//! canonical and on the curve, a point also in the subgroup.

use ark_ec::{
    AffineRepr,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{Field, Zero};
use serde::{Deserialize, Serialize};

use super::coordinate::EncodedCoordinate;
use crate::{curve::Group, error::FieldProblem};

/// Encodings of points. See `proto/capstan/v1/types.proto` for each layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PointEncoding {
    /// x with flags, Zcash's format.
    Compressed,
    /// x and y with flags, Zcash's format.
    Uncompressed,
    /// x and y as Montgomery limbs.
    Montgomery,
}

impl PointEncoding {
    /// Bytes of one point.
    pub const fn point_bytes(self, group: Group) -> usize {
        match self {
            Self::Compressed => group.coordinate_bytes(),
            Self::Uncompressed | Self::Montgomery => group.affine_bytes(),
        }
    }
}

/// Encodings of sums. See `proto/capstan/v1/types.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumEncoding {
    /// x with flags, Zcash's format.
    Compressed,
    /// x and y with flags, Zcash's format.
    Uncompressed,
    /// Jacobian X, Y, Z as Montgomery limbs.
    Projective,
}

impl SumEncoding {
    /// Bytes of one point.
    pub const fn point_bytes(self, group: Group) -> usize {
        match self {
            Self::Compressed => group.coordinate_bytes(),
            Self::Uncompressed => group.affine_bytes(),
            Self::Projective => 3 * group.coordinate_bytes(),
        }
    }
}

// The flags of Zcash's format, in the first byte.
const COMPRESSED: u8 = 0x80;
const INFINITY: u8 = 0x40;
const GREATER_Y: u8 = 0x20;
const FLAGS: u8 = COMPRESSED | INFINITY | GREATER_Y;

/// Reads and checks one point, or writes it, in slices of exactly its length.
pub trait PointCodec: AffineRepr {
    fn read(encoding: PointEncoding, bytes: &[u8]) -> Result<Self, FieldProblem>;
    /// Like [`Self::read`], without the check that the point is in the subgroup.
    fn read_on_curve(encoding: PointEncoding, bytes: &[u8]) -> Result<Self, FieldProblem>;
    /// Reads a sum: Jacobian coordinates in Montgomery limbs. Checks that it is on the curve.
    fn read_projective(bytes: &[u8]) -> Result<Self::Group, FieldProblem>;
    /// Writes the form that [`Self::read_projective`] reads.
    fn write_projective(point: &Self::Group, out: &mut [u8]);
}

impl<P: SWCurveConfig<BaseField: EncodedCoordinate>> PointCodec for Affine<P> {
    fn read(encoding: PointEncoding, bytes: &[u8]) -> Result<Self, FieldProblem> {
        check_subgroup(Self::read_on_curve(encoding, bytes)?)
    }

    fn read_on_curve(encoding: PointEncoding, bytes: &[u8]) -> Result<Self, FieldProblem> {
        match encoding {
            PointEncoding::Compressed => read_compressed(bytes),
            PointEncoding::Uncompressed => read_uncompressed(bytes),
            PointEncoding::Montgomery => read_montgomery(bytes),
        }
    }

    fn read_projective(bytes: &[u8]) -> Result<Projective<P>, FieldProblem> {
        let [x, y, z]: [P::BaseField; 3] = read_coordinates(bytes)?;
        if z.is_zero() {
            return Ok(Projective::zero());
        }
        // y^2 = x^3 + b for x / z^2 and y / z^3, without an inversion.
        let z_cubed = z.square() * z;
        if y.square() != x.square() * x + z_cubed.square() * P::COEFF_B {
            return Err(FieldProblem::NotOnCurve);
        }
        Ok(Projective::new_unchecked(x, y, z))
    }

    fn write_projective(point: &Projective<P>, out: &mut [u8]) {
        let width = out.len() / 3;
        let coordinates = [point.x, point.y, point.z];
        for (coordinate, out) in coordinates.iter().zip(out.chunks_exact_mut(width)) {
            coordinate.write_montgomery(out);
        }
    }
}

/// Shape: `point` is on the curve.
pub(super) fn check_subgroup<P: SWCurveConfig>(
    point: Affine<P>,
) -> Result<Affine<P>, FieldProblem> {
    let inside = point.is_zero() || P::is_in_correct_subgroup_assuming_on_curve(&point);
    if inside { Ok(point) } else { Err(FieldProblem::NotInSubgroup) }
}

/// Infinity is the flag byte `first`, then zeros.
fn read_infinity<P: SWCurveConfig>(bytes: &[u8], first: u8) -> Result<Affine<P>, FieldProblem> {
    let rest_zero = bytes[1..].iter().all(|&byte| byte == 0);
    if bytes[0] == first && rest_zero { Ok(Affine::zero()) } else { Err(FieldProblem::BadInfinity) }
}

fn read_compressed<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    if bytes[0] & COMPRESSED == 0 {
        return Err(FieldProblem::BadEncoding);
    }
    if bytes[0] & INFINITY != 0 {
        return read_infinity(bytes, COMPRESSED | INFINITY);
    }
    let x = read_flagged(bytes)?;
    let (smaller, greater) =
        Affine::<P>::get_ys_from_x_unchecked(x).ok_or(FieldProblem::NotOnCurve)?;
    let y = if bytes[0] & GREATER_Y == 0 { smaller } else { greater };
    Ok(Affine::new_unchecked(x, y))
}

fn read_uncompressed<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    if bytes[0] & COMPRESSED != 0 {
        return Err(FieldProblem::BadEncoding);
    }
    if bytes[0] & INFINITY != 0 {
        return read_infinity(bytes, INFINITY);
    }
    if bytes[0] & GREATER_Y != 0 {
        return Err(FieldProblem::BadEncoding);
    }
    let (x, y) = bytes.split_at(bytes.len() / 2);
    let y = EncodedCoordinate::read_canonical(y).ok_or(FieldProblem::NotCanonical)?;
    let x = read_flagged(x)?;
    if P::BaseField::is_zero(&x) && P::BaseField::is_zero(&y) {
        // arkworks treats (0, 0) as infinity, which this format marks with a flag.
        return Err(FieldProblem::BadInfinity);
    }
    check_on_curve(x, y)
}

fn read_montgomery<P: SWCurveConfig<BaseField: EncodedCoordinate>>(
    bytes: &[u8],
) -> Result<Affine<P>, FieldProblem> {
    let [x, y]: [P::BaseField; 2] = read_coordinates(bytes)?;
    if x.is_zero() && y.is_zero() { Ok(Affine::zero()) } else { check_on_curve(x, y) }
}

/// Reads `N` coordinates in Montgomery limbs.
fn read_coordinates<F: EncodedCoordinate, const N: usize>(
    bytes: &[u8],
) -> Result<[F; N], FieldProblem> {
    let width = bytes.len() / N;
    let mut coordinates = [F::ZERO; N];
    for (coordinate, bytes) in coordinates.iter_mut().zip(bytes.chunks_exact(width)) {
        *coordinate = F::read_montgomery(bytes).ok_or(FieldProblem::NotCanonical)?;
    }
    Ok(coordinates)
}

/// Reads a big-endian coordinate whose first byte holds flags.
fn read_flagged<F: EncodedCoordinate>(bytes: &[u8]) -> Result<F, FieldProblem> {
    let mut plain = [0; 96];
    let plain = &mut plain[..bytes.len()];
    plain.copy_from_slice(bytes);
    plain[0] &= !FLAGS;
    F::read_canonical(plain).ok_or(FieldProblem::NotCanonical)
}

/// Checks y^2 = x^3 + b. It rejects (0, 0), which arkworks' own check accepts as infinity.
pub(super) fn check_on_curve<P: SWCurveConfig>(
    x: P::BaseField,
    y: P::BaseField,
) -> Result<Affine<P>, FieldProblem> {
    if y.square() == x.square() * x + P::COEFF_B {
        Ok(Affine::new_unchecked(x, y))
    } else {
        Err(FieldProblem::NotOnCurve)
    }
}
