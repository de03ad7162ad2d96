//! Invalid points, and unusual points that are valid.

use ark_bls12_381::{Fq, g1, g2};
use ark_ec::short_weierstrass::Affine;
use ark_ff::{BigInteger, PrimeField, UniformRand};
use bytes::Bytes;
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine, Group,
        points::{CurvePoint, PointEncoding, encode},
    },
    wire::v1,
};

use crate::{
    daemon::messages,
    table::{Call, Row, World, good, invalid},
};

const ENCODINGS: [PointEncoding; 3] =
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery];

pub fn rows(_: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, encoding, bytes, reason) in bad::<G1Affine>(wrong_subgroup_g1()) {
        refused::<G1Affine>(&mut rows, &format!("G1 {name}"), encoding, &bytes, reason);
    }
    for (name, encoding, bytes, reason) in bad::<G2Affine>(wrong_subgroup_g2()) {
        refused::<G2Affine>(&mut rows, &format!("G2 {name}"), encoding, &bytes, reason);
    }
    infinities::<G1Affine>(&mut rows);
    infinities::<G2Affine>(&mut rows);
    rows.push(two_bad_points());
    rows
}

/// A bad point as the third of four, inline and in a `Put`.
fn refused<A: CurvePoint>(
    rows: &mut Vec<Row>,
    name: &str,
    encoding: PointEncoding,
    point: &[u8],
    reason: &'static str,
) {
    let width = encoding.point_bytes(A::GROUP);
    let mut data = encode(encoding, &messages::points::<A>(4));
    data[2 * width..3 * width].copy_from_slice(point);
    let spec =
        messages::spec(messages::group::<A>(), messages::inline_bytes(encoding, data.clone()));
    let scalars = messages::scalars(v1::ScalarEncoding::U8, vec![1; 4]);
    let call = Call::msm(spec, scalars);
    let name = format!("{name}, {encoding:?}");
    rows.push(invalid(format!("{name}, inline"), call, reason, "spec.bases.inline.data").at(2));
    let call = Call::put_bases(messages::bases::<A>(encoding, 4), vec![messages::chunk(0, data)]);
    rows.push(invalid(format!("{name}, put"), call, reason, "points").at(2));
}

type Bad = (&'static str, PointEncoding, Vec<u8>, &'static str);

/// One of each kind of invalid point.
fn bad<A: CurvePoint>(wrong_subgroup: A) -> Vec<Bad> {
    let mut all = bad_coordinates::<A>();
    all.extend(bad_flags::<A>());
    for encoding in ENCODINGS {
        let bytes = encode(encoding, &[wrong_subgroup]);
        all.push(("wrong subgroup", encoding, bytes, "NOT_IN_SUBGROUP"));
    }
    all
}

/// A valid point's bytes, changed by `spoil`.
fn spoiled<A: CurvePoint>(encoding: PointEncoding, spoil: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = encode(encoding, &messages::points::<A>(1));
    spoil(&mut bytes);
    bytes
}

/// Infinity with extra bits set.
fn infinity<A: CurvePoint>(encoding: PointEncoding, at: usize, value: u8) -> Vec<u8> {
    let mut bytes = encode(encoding, &[A::zero()]);
    bytes[at] |= value;
    bytes
}

fn bad_coordinates<A: CurvePoint>() -> Vec<Bad> {
    use PointEncoding::{Compressed, Montgomery, Uncompressed};
    const LARGE: &str = "NOT_CANONICAL";
    const OFF: &str = "NOT_ON_CURVE";
    let (big, little) = (Fq::MODULUS.to_bytes_be(), Fq::MODULUS.to_bytes_le());
    let last = A::GROUP.affine_bytes() - 48;
    let put = |encoding, at: usize, bytes: &[u8]| {
        spoiled::<A>(encoding, |point| point[at..at + 48].copy_from_slice(bytes))
    };
    let mut ones = [0xff; 48];
    ones[0] = 0x9f;
    let y_last = |encoding, at: usize| spoiled::<A>(encoding, |point| point[at] ^= 1);
    vec![
        ("x = p", Uncompressed, put(Uncompressed, 0, &big), LARGE),
        ("y = p", Uncompressed, put(Uncompressed, last, &big), LARGE),
        ("x = p", Montgomery, put(Montgomery, 0, &little), LARGE),
        ("y = p", Montgomery, put(Montgomery, last, &little), LARGE),
        ("x = 2^384-1", Montgomery, put(Montgomery, 0, &[0xff; 48]), LARGE),
        ("x = 2^381-1", Compressed, put(Compressed, 0, &ones), LARGE),
        ("another y", Uncompressed, y_last(Uncompressed, last + 47), OFF),
        ("another y", Montgomery, y_last(Montgomery, last), OFF),
        ("x without y", Compressed, x_without_y::<A>(), OFF),
        ("(0, 1)", Montgomery, infinity::<A>(Montgomery, last, 1), OFF),
        ("(1, 0)", Montgomery, infinity::<A>(Montgomery, 0, 1), OFF),
    ]
}

fn bad_flags<A: CurvePoint>() -> Vec<Bad> {
    use PointEncoding::{Compressed, Uncompressed};
    const FORMAT: &str = "BAD_ENCODING";
    const INFINITY: &str = "BAD_INFINITY";
    let flag = |encoding, flag: u8| spoiled::<A>(encoding, |point| point[0] ^= flag);
    let last = A::GROUP.affine_bytes() - 1;
    let end = infinity::<A>(Compressed, 47, 1);
    vec![
        ("no compression flag", Compressed, flag(Compressed, 0x80), FORMAT),
        ("compression flag", Uncompressed, flag(Uncompressed, 0x80), FORMAT),
        ("sign flag", Uncompressed, flag(Uncompressed, 0x20), FORMAT),
        ("infinity flag on a point", Compressed, flag(Compressed, 0x40), INFINITY),
        ("infinity flag on a point", Uncompressed, flag(Uncompressed, 0x40), INFINITY),
        ("infinity and a last bit", Compressed, end, INFINITY),
        ("infinity and a last bit", Uncompressed, infinity::<A>(Uncompressed, last, 1), INFINITY),
        ("infinity and a sign", Compressed, infinity::<A>(Compressed, 0, 0x20), INFINITY),
    ]
}

/// An x that no point of the curve has.
fn x_without_y<A: CurvePoint>() -> Vec<u8> {
    use capstan::curve::points::decode;
    let mut bytes = encode(PointEncoding::Compressed, &[A::generator()]);
    loop {
        *bytes.last_mut().unwrap() = bytes.last().unwrap().wrapping_add(1);
        let decoded = decode::<A>(PointEncoding::Compressed, &bytes);
        if decoded.is_err_and(|bad| bad.problem == capstan::error::FieldProblem::NotOnCurve) {
            return bytes;
        }
    }
}

fn wrong_subgroup_g1() -> G1Affine {
    let mut rng = ark_std::test_rng();
    let points = std::iter::repeat_with(|| {
        Affine::<g1::Config>::get_point_from_x_unchecked(UniformRand::rand(&mut rng), false)
    });
    points.flatten().find(|point| !point.is_in_correct_subgroup_assuming_on_curve()).unwrap()
}

fn wrong_subgroup_g2() -> G2Affine {
    let mut rng = ark_std::test_rng();
    let points = std::iter::repeat_with(|| {
        Affine::<g2::Config>::get_point_from_x_unchecked(UniformRand::rand(&mut rng), false)
    });
    points.flatten().find(|point| !point.is_in_correct_subgroup_assuming_on_curve()).unwrap()
}

/// Infinity at every subset of positions, in every encoding.
fn infinities<A: CurvePoint>(rows: &mut Vec<Row>) {
    let scalars: Vec<Fr> = (3..6u64).map(Fr::from).collect();
    for encoding in ENCODINGS {
        for at in 1..8 {
            let mut points = messages::points::<A>(3);
            for (i, point) in points.iter_mut().enumerate().filter(|(i, _)| at >> i & 1 == 1) {
                assert!(i < 3);
                *point = A::zero();
            }
            let bases = messages::inline_bytes(encoding, encode(encoding, &points));
            let spec = messages::spec(messages::group::<A>(), bases);
            let inline = messages::scalars(v1::ScalarEncoding::U8, vec![3, 4, 5]);
            let name = format!("{} infinity at {at:03b}, {encoding:?}", A::GROUP);
            let sum = messages::compressed::<A>(messages::sum(&points, &scalars));
            rows.push(good(name, Call::msm(spec, inline), sum));
        }
    }
    let zeros = vec![0; 2 * A::GROUP.affine_bytes()];
    let upload = messages::bases::<A>(PointEncoding::Montgomery, 2);
    let call = Call::put_bases(upload, vec![messages::chunk(0, zeros)]);
    rows.push(good(format!("{} put of nothing but infinities", A::GROUP), call, None));
}

/// The first of two bad points is reported, whichever thread finds it.
fn two_bad_points() -> Row {
    assert_eq!(<G1Affine as CurvePoint>::GROUP, Group::G1);
    let mut data = encode(PointEncoding::Montgomery, &messages::points::<G1Affine>(200));
    data[150 * 96..150 * 96 + 48].fill(0xff);
    data[77 * 96 + 48] ^= 1;
    let upload = messages::bases::<G1Affine>(PointEncoding::Montgomery, 200);
    let call = Call::put_bases(upload, vec![messages::chunk(0, Bytes::from(data))]);
    invalid("two bad points: the first is reported", call, "NOT_ON_CURVE", "points").at(77)
}
