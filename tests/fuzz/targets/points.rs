//! Points and sums, in every encoding.

use ark_bls12_381::{g1, g2};
use ark_ec::{
    CurveGroup,
    short_weierstrass::{Affine, SWCurveConfig},
};
use capstan::curve::{
    G1Affine, G2Affine,
    points::{CurvePoint, PointEncoding, SumEncoding, decode, decode_sums, encode, encode_sums},
};

use crate::{
    driver::{SMALL, Target},
    rig::messages,
};

const POINTS: [PointEncoding; 3] =
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery];
const SUMS: [SumEncoding; 3] =
    [SumEncoding::Compressed, SumEncoding::Uncompressed, SumEncoding::Projective];

/// The first byte selects the encoding.
fn check_points<P: SWCurveConfig>(input: &[u8])
where
    Affine<P>: CurvePoint,
{
    let Some((selector, bytes)) = input.split_first() else { return };
    let encoding = POINTS[usize::from(*selector) % 3];
    let width = encoding.point_bytes(Affine::<P>::GROUP);
    match decode::<Affine<P>>(encoding, bytes) {
        Ok(points) => {
            assert_eq!(points.len() * width, bytes.len());
            for point in &points {
                assert!(point.is_on_curve() && P::is_in_correct_subgroup_assuming_on_curve(point));
            }
            assert_eq!(encode(encoding, &points), bytes, "two encodings of one point");
        }
        Err(bad) => assert!(bad.index <= (bytes.len() / width) as u64),
    }
}

fn check_sums<P: SWCurveConfig>(input: &[u8])
where
    Affine<P>: CurvePoint<Group = ark_ec::short_weierstrass::Projective<P>>,
{
    let Some((selector, bytes)) = input.split_first() else { return };
    let encoding = SUMS[usize::from(*selector) % 3];
    let Ok(sums) = decode_sums::<Affine<P>>(encoding, bytes) else { return };
    assert!(sums.iter().all(|sum| sum.into_affine().is_on_curve()));
    let again = encode_sums(encoding, &Affine::<P>::into_sums(sums.clone()));
    assert_eq!(again.len(), bytes.len());
    let decoded = decode_sums::<Affine<P>>(encoding, &again);
    assert_eq!(decoded.expect("an encoding of sums"), sums);
}

fn point_seeds<A: CurvePoint>() -> Vec<Vec<u8>> {
    let mut points = messages::points::<A>(2);
    points.push(A::zero());
    let seed = |(number, encoding): (usize, &PointEncoding)| {
        [vec![number as u8], encode(*encoding, &points)].concat()
    };
    POINTS.iter().enumerate().map(seed).collect()
}

fn sum_seeds<A: CurvePoint>() -> Vec<Vec<u8>> {
    let points = messages::points::<A>(3);
    let sums = A::into_sums(vec![points[0] + points[1], points[2].into_group()]);
    let seed = |(number, encoding): (usize, &SumEncoding)| {
        [vec![number as u8], encode_sums(*encoding, &sums)].concat()
    };
    SUMS.iter().enumerate().map(seed).collect()
}

fn run(name: &'static str, seeds: Vec<Vec<u8>>, check: fn(&[u8])) {
    Target { name, seeds, words: &[], check, cases: 5_000, memory: SMALL }.run();
}

#[test]
fn points_of_g1() {
    run("points_of_g1", point_seeds::<G1Affine>(), check_points::<g1::Config>);
}

#[test]
fn points_of_g2() {
    run("points_of_g2", point_seeds::<G2Affine>(), check_points::<g2::Config>);
}

#[test]
fn sums_of_g1() {
    run("sums_of_g1", sum_seeds::<G1Affine>(), check_sums::<g1::Config>);
}

#[test]
fn sums_of_g2() {
    run("sums_of_g2", sum_seeds::<G2Affine>(), check_sums::<g2::Config>);
}
