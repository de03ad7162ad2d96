//! Points: round trips, refusals, random bytes.

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, SWCurveConfig},
};
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand, Zero};
use ark_serialize::CanonicalSerialize;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine, layout,
        points::{
            BadElement, CurvePoint,
            PointEncoding::{self, Compressed, Montgomery, Uncompressed},
            SumEncoding, content_hash, decode, decode_sums, encode, encode_sums,
        },
    },
    error::FieldProblem,
};
use proptest::prelude::*;

const ENCODINGS: [PointEncoding; 3] = [Compressed, Uncompressed, Montgomery];

/// Random points, with infinity and the generator among them.
fn points<A: CurvePoint>(n: usize) -> Vec<A> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let group: Vec<_> = (0..n)
        .map(|i| match i % 7 {
            3 => A::Group::zero(),
            5 => A::Group::generator(),
            _ => A::Group::rand(&mut rng),
        })
        .collect();
    A::Group::normalize_batch(&group)
}

/// Two points on the curve and outside the subgroup: both values of y for one x.
fn outside_subgroup<P: SWCurveConfig>() -> [Affine<P>; 2] {
    let mut rng = StdRng::seed_from_u64(1);
    loop {
        let x = P::BaseField::rand(&mut rng);
        if let Some((y, other)) = Affine::<P>::get_ys_from_x_unchecked(x) {
            return [Affine::new_unchecked(x, y), Affine::new_unchecked(x, other)];
        }
    }
}

fn round_trips<A: CurvePoint>() {
    for n in [0, 1, 2, 3, 4, 5, 8, 9, 70] {
        let points = points::<A>(n);
        for encoding in ENCODINGS {
            let bytes = encode(encoding, &points);
            assert_eq!(bytes.len(), n * encoding.point_bytes(A::GROUP));
            assert_eq!(decode::<A>(encoding, &bytes).unwrap(), points);
        }
        let mut ours = Vec::new();
        for point in &points {
            point.serialize_compressed(&mut ours).unwrap();
        }
        assert_eq!(ours, encode(Compressed, &points));
        ours.clear();
        for point in &points {
            point.serialize_uncompressed(&mut ours).unwrap();
        }
        assert_eq!(ours, encode(Uncompressed, &points));
    }
}

#[test]
fn points_round_trip() {
    round_trips::<G1Affine>();
    round_trips::<G2Affine>();
}

fn sums_round_trip<A: CurvePoint>() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut sums: Vec<A::Group> = (0..5).map(|_| A::Group::rand(&mut rng)).collect();
    sums.push(A::Group::zero());
    sums.push(A::generator().into_group());
    for encoding in [SumEncoding::Compressed, SumEncoding::Uncompressed, SumEncoding::Projective] {
        let bytes = encode_sums(encoding, &A::into_sums(sums.clone()));
        assert_eq!(bytes.len(), sums.len() * encoding.point_bytes(A::GROUP));
        assert_eq!(decode_sums::<A>(encoding, &bytes).unwrap(), sums);
    }
}

#[test]
fn sums_of_both_groups_round_trip() {
    sums_round_trip::<G1Affine>();
    sums_round_trip::<G2Affine>();
}

#[test]
fn projective_sums_are_checked() {
    // With Z other than 1.
    let sum = G1Affine::generator().into_group().double();
    let sums = encode_sums(SumEncoding::Projective, &G1Affine::into_sums(vec![sum; 3]));
    let problem = |at: usize, value: &[u8]| {
        let mut bytes = sums.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        decode_sums::<G1Affine>(SumEncoding::Projective, &bytes).unwrap_err()
    };
    assert_eq!(
        problem(144, &[0xff; 48]),
        BadElement { index: 1, problem: FieldProblem::NotCanonical }
    );
    assert_eq!(
        problem(2 * 144, &[1; 8]),
        BadElement { index: 2, problem: FieldProblem::NotOnCurve }
    );
}

#[test]
fn points_and_elements_are_viewed_as_bytes_in_the_layout_of_arkworks() {
    let points = points::<G2Affine>(9);
    let bytes = layout::points_as_bytes(&points);
    assert_eq!(layout::points_from_bytes::<G2Affine>(bytes).unwrap(), points);
    assert!(layout::points_from_bytes::<G2Affine>(&bytes[8..]).is_none(), "half a point");
    assert!(layout::points_from_bytes::<G1Affine>(&bytes[4..100]).is_none(), "not aligned");
    let x = points[0].x;
    assert_eq!(&bytes[..8], &x.c0.0.0[0].to_le_bytes());
    assert_eq!(&bytes[48..56], &x.c1.0.0[0].to_le_bytes());
    let mut values = vec![Fr::from(5), -Fr::ONE];
    let bytes = layout::fr_as_bytes(&values).to_vec();
    assert_eq!(bytes[32..40], values[1].0.0[0].to_le_bytes());
    layout::fr_as_bytes_mut(&mut values).fill(0);
    assert_eq!(values, [Fr::ZERO; 2]);
    layout::fr_as_bytes_mut(&mut values).copy_from_slice(&bytes);
    assert_eq!(values, [Fr::from(5), -Fr::ONE]);
}

#[test]
fn ids_differ_by_group_and_content() {
    let g1 = points::<G1Affine>(8);
    assert_eq!(content_hash(&g1), content_hash(&points::<G1Affine>(8)));
    assert_ne!(content_hash(&g1), content_hash(&g1[..7]));
    assert_ne!(content_hash::<G1Affine>(&[]), content_hash::<G2Affine>(&[]));
    let expected = blake3::derive_key("capstan v1 bases g1", layout::points_as_bytes(&g1));
    assert_eq!(content_hash(&g1), expected);
}

/// p, big-endian, `parts` times.
fn modulus(parts: usize) -> Vec<u8> {
    Fq::MODULUS.to_bytes_be().repeat(parts)
}

/// A compressed encoding with an x that no point of the curve has.
fn off_curve<P: SWCurveConfig>() -> Vec<u8> {
    let no_point = |x: &P::BaseField| Affine::<P>::get_ys_from_x_unchecked(*x).is_none();
    let x = (1u64..).map(P::BaseField::from).find(no_point).unwrap();
    let mut bytes = Vec::new();
    Affine::<P>::new_unchecked(x, P::BaseField::ONE).serialize_compressed(&mut bytes).unwrap();
    bytes
}

/// Refused points: the encoding, the bytes of one point, the problem.
fn refusals<P>(parts: usize) -> Vec<(PointEncoding, Vec<u8>, FieldProblem)>
where
    P: SWCurveConfig,
    Affine<P>: CurvePoint,
{
    let point = points::<Affine<P>>(1);
    let good = |encoding| encode(encoding, &point);
    let with = |encoding, at: usize, value: &[u8]| {
        let mut bytes = good(encoding);
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let flip = |encoding, flags: u8| {
        let mut bytes = good(encoding);
        bytes[0] ^= flags;
        bytes
    };
    let lone = |encoding: PointEncoding, at: usize, value: u8| {
        let mut bytes = vec![0; encoding.point_bytes(Affine::<P>::GROUP)];
        bytes[at] = value;
        bytes
    };
    let infinity = |encoding, at: usize| {
        let mut bytes = encode(encoding, &[Affine::<P>::zero()]);
        bytes[at] |= 1;
        bytes
    };
    let coordinate = 48 * parts;
    let mut flagged_p = modulus(parts);
    flagged_p[0] |= 0x80;
    let [stray, other] = outside_subgroup::<P>();
    let mut limbs_p = Vec::new();
    for limb in Fq::MODULUS.0 {
        limbs_p.extend(limb.to_le_bytes());
    }
    let last_limbs = 2 * coordinate - 48;
    vec![
        (Compressed, flip(Compressed, 0x80), FieldProblem::BadEncoding),
        (Compressed, good(Uncompressed)[..coordinate].to_vec(), FieldProblem::BadEncoding),
        (Compressed, flip(Compressed, 0x40), FieldProblem::BadInfinity),
        (Compressed, infinity(Compressed, coordinate - 1), FieldProblem::BadInfinity),
        (Compressed, lone(Compressed, 0, 0xe0), FieldProblem::BadInfinity),
        (Compressed, lone(Compressed, 0, 0x40), FieldProblem::BadEncoding),
        (Compressed, lone(Compressed, 0, 0), FieldProblem::BadEncoding),
        (Compressed, flagged_p, FieldProblem::NotCanonical),
        (Compressed, vec![0x9f; coordinate], FieldProblem::NotCanonical),
        (Compressed, off_curve::<P>(), FieldProblem::NotOnCurve),
        (Compressed, encode(Compressed, &[stray]), FieldProblem::NotInSubgroup),
        (Compressed, encode(Compressed, &[other]), FieldProblem::NotInSubgroup),
        (Uncompressed, flip(Uncompressed, 0x80), FieldProblem::BadEncoding),
        (Uncompressed, flip(Uncompressed, 0x20), FieldProblem::BadEncoding),
        (Uncompressed, flip(Uncompressed, 0x40), FieldProblem::BadInfinity),
        (Uncompressed, infinity(Uncompressed, 2 * coordinate - 1), FieldProblem::BadInfinity),
        (Uncompressed, lone(Uncompressed, 0, 0x60), FieldProblem::BadInfinity),
        (Uncompressed, lone(Uncompressed, 0, 0), FieldProblem::BadInfinity),
        (Uncompressed, with(Uncompressed, 0, &modulus(parts)), FieldProblem::NotCanonical),
        (Uncompressed, with(Uncompressed, coordinate, &modulus(parts)), FieldProblem::NotCanonical),
        (Uncompressed, with(Uncompressed, coordinate, &[0xff]), FieldProblem::NotCanonical),
        (Uncompressed, lone(Uncompressed, coordinate - 1, 1), FieldProblem::NotOnCurve),
        (Uncompressed, with(Uncompressed, coordinate + 9, &[0]), FieldProblem::NotOnCurve),
        (Uncompressed, encode(Uncompressed, &[stray]), FieldProblem::NotInSubgroup),
        (Montgomery, with(Montgomery, 0, &limbs_p), FieldProblem::NotCanonical),
        (Montgomery, with(Montgomery, last_limbs, &limbs_p), FieldProblem::NotCanonical),
        (Montgomery, lone(Montgomery, 0, 1), FieldProblem::NotOnCurve),
        (Montgomery, lone(Montgomery, coordinate, 1), FieldProblem::NotOnCurve),
        (Montgomery, with(Montgomery, 3, &[0, 0]), FieldProblem::NotOnCurve),
        (Montgomery, encode(Montgomery, &[stray]), FieldProblem::NotInSubgroup),
    ]
}

fn refuses<P>(parts: usize)
where
    P: SWCurveConfig,
    Affine<P>: CurvePoint,
{
    let many = points::<Affine<P>>(37);
    for (row, (encoding, bad, problem)) in refusals::<P>(parts).into_iter().enumerate() {
        let width = encoding.point_bytes(Affine::<P>::GROUP);
        assert_eq!(bad.len(), width, "row {row}");
        for index in [0, 1, 3, 4, 17, 36] {
            let mut bytes = encode(encoding, &many);
            bytes[index * width..][..width].copy_from_slice(&bad);
            // The first bad point is reported, not this one.
            bytes[36 * width..].copy_from_slice(&bad);
            let found = decode::<Affine<P>>(encoding, &bytes).unwrap_err();
            assert_eq!(found, BadElement { index: index as u64, problem }, "row {row}");
        }
    }
    for encoding in ENCODINGS {
        let mut bytes = encode(encoding, &many[..2]);
        bytes.pop();
        let (width, got) = (bytes.len() as u64 + 1, bytes.len() as u64);
        let problem = FieldProblem::Length { expected: width, got };
        let found = decode::<Affine<P>>(encoding, &bytes).unwrap_err();
        assert_eq!(found, BadElement { index: 1, problem });
    }
}

#[test]
fn bad_points_are_refused_with_the_first_index() {
    refuses::<g1::Config>(1);
    refuses::<g2::Config>(2);
}

#[test]
fn each_part_of_a_g2_coordinate_is_checked() {
    let good = encode(Uncompressed, &[G2Affine::generator()]);
    for part in 0..4 {
        let mut bytes = good.clone();
        bytes[48 * part..][..48].copy_from_slice(&modulus(1));
        let found = decode::<G2Affine>(Uncompressed, &bytes).unwrap_err();
        assert_eq!(found.problem, FieldProblem::NotCanonical, "part {part}");
    }
    let x = Fq2::new(Fq::from(1), Fq::from(2));
    let bytes = encode(Montgomery, &[G2Affine::new_unchecked(x, x)]);
    assert_eq!(
        decode::<G2Affine>(Montgomery, &bytes).unwrap_err().problem,
        FieldProblem::NotOnCurve
    );
}

/// Bytes that decode are what the points encode to, and arkworks decodes them alike.
fn any_bytes<A: CurvePoint>(bytes: &[u8]) {
    for encoding in ENCODINGS {
        let width = encoding.point_bytes(A::GROUP);
        let whole = &bytes[..bytes.len() / width * width];
        if let Ok(points) = decode::<A>(encoding, whole) {
            assert_eq!(encode(encoding, &points), whole);
        }
        for one in whole.chunks(width) {
            let ours = decode::<A>(encoding, one).ok();
            match encoding {
                Compressed => {
                    assert_eq!(ours, A::deserialize_compressed(one).ok().map(|a| [a].into()))
                }
                _ => assert!(ours.is_none_or(|points| encode(encoding, &points) == one)),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        any_bytes::<G1Affine>(&bytes);
        any_bytes::<G2Affine>(&bytes);
        // Close to the modulus, so that checks after the first are reached.
        for part in bytes.chunks_mut(48) {
            part[0] = part[0] & 0xe0 | part[0] & 0x19;
        }
        any_bytes::<G1Affine>(&bytes);
        any_bytes::<G2Affine>(&bytes);
    }

    #[test]
    fn one_flipped_bit_never_decodes_to_the_same_point(seed in 0u64..1000, bit in 0usize..8 * 96) {
        let mut rng = StdRng::seed_from_u64(seed);
        let point = [<G1Affine as AffineRepr>::Group::rand(&mut rng).into_affine()];
        for encoding in ENCODINGS {
            let mut bytes = encode(encoding, &point);
            let bit = bit % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(decode::<G1Affine>(encoding, &bytes).ok(), Some(point.to_vec()));
        }
    }
}
