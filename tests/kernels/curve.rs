//! `kernels/selftest_curve.cu`, `kernels/test/curve.cu` and `kernels/check/points.cu`: arithmetic
//! and checks of points.

use ark_bls12_381::{Fq, g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand};
use ark_std::{rand::RngCore, test_rng as rng};
use capstan::device::{BlockShape, DevicePtr};

use crate::{
    elements::KernelElement,
    gpu::{KernelRig, each_seed},
};

const THREADS: u32 = 64;
const SIGN: u32 = 1 << 31;

/// A curve, with the prefix of its kernels' names.
trait KernelCurve: SWCurveConfig<BaseField: KernelElement> {
    const NAME: &'static str;
    /// Two prime factors of the cofactor.
    const FACTORS: [u64; 2];
}
impl KernelCurve for g1::Config {
    const NAME: &'static str = "g1";
    const FACTORS: [u64; 2] = [3, 11];
}
impl KernelCurve for g2::Config {
    const NAME: &'static str = "g2";
    const FACTORS: [u64; 2] = [13, 23];
}

fn limbs<P: KernelCurve>(points: &[Affine<P>]) -> Vec<u64> {
    let coordinates = points.iter().flat_map(|point| [point.x, point.y]);
    coordinates.flat_map(|coordinate| coordinate.limbs(0)).collect()
}

/// A random point of the curve, almost certainly outside the subgroup.
fn on_curve<P: KernelCurve>(rng: &mut impl RngCore) -> Affine<P> {
    loop {
        let x = P::BaseField::rand(rng);
        if let Some(point) = Affine::get_point_from_x_unchecked(x, rng.next_u32() & 1 == 0) {
            return point;
        }
    }
}

/// A point of order `factor`.
fn of_order<P: KernelCurve>(rng: &mut impl RngCore, factor: u64) -> Affine<P> {
    // Divide the cofactor by `factor` as often as possible.
    let mut rest = P::COFACTOR.to_vec();
    loop {
        let (mut quotient, mut remainder) = (rest.clone(), 0);
        for limb in quotient.iter_mut().rev() {
            let wide = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (wide / u128::from(factor)) as u64;
            remainder = (wide % u128::from(factor)) as u64;
        }
        if remainder != 0 {
            break;
        }
        rest = quotient;
    }
    let r = P::ScalarField::MODULUS;
    loop {
        let mut point = on_curve::<P>(rng).mul_bigint(r).into_affine().mul_bigint(&rest);
        while point != Projective::ZERO {
            let next = point.into_affine().mul_bigint([factor]);
            if next == Projective::ZERO {
                return point.into_affine();
            }
            point = next;
        }
    }
}

/// Points outside the subgroup, points of the subgroup, points of small order, and infinity.
fn samples<P: KernelCurve>(rng: &mut impl RngCore) -> Vec<Affine<P>> {
    let mut found: Vec<_> = (0..3).map(|_| on_curve(rng)).collect();
    found.extend((0..3).map(|_| Affine::rand(rng)));
    found.extend(P::FACTORS.map(|factor| of_order(rng, factor)));
    found.push(Affine::zero());
    found
}

fn operations<P: KernelCurve>() {
    each_seed(|rig| {
        let mut rng = rng();
        let points = samples::<P>(&mut rng);
        let mut pairs = Vec::new();
        for a in &points {
            let twice = (*a + *a).into_affine();
            pairs.extend(
                [*a, -*a, twice, points[0], points[4], points[7], Affine::zero()].map(|b| (*a, b)),
            );
        }
        let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let scales: Vec<_> = (0..pairs.len())
            .map(|i| if i % 5 == 0 { P::BaseField::ONE } else { P::BaseField::rand(&mut rng) })
            .flat_map(|scale| scale.limbs(0))
            .collect();
        let (left, right, scales) =
            (rig.upload(&limbs(&a)), rig.upload(&limbs(&b)), rig.upload(&scales));
        let out = rig.lease::<u64>(limbs(&a).len());
        type Arguments = (DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, u32, u32);
        let name = format!("{}_selftest_points", P::NAME);
        let kernel = rig.kernel::<Arguments>("selftest_curve", &name, THREADS);
        for op in 0..9 {
            let count = pairs.len() as u32;
            let given = (out.all(), left.all(), right.all(), scales.all(), count, op);
            rig.launch(&kernel, 2, given);
            let found = rig.download::<u64>(&out);
            for (i, (a, b)) in pairs.iter().enumerate() {
                let expected = match op {
                    0 | 1 | 4 | 5 => (*a + *b).into_affine(),
                    2 | 6 => (*a + *a).into_affine(),
                    _ => -*a,
                };
                let width = found.len() / pairs.len();
                assert_eq!(found[i * width..][..width], limbs(&[expected]), "{name} {op}: {a} {b}");
            }
        }
    });
}

fn predicates<P: KernelCurve>() {
    each_seed(|rig| {
        let mut rng = rng();
        let mut points = samples::<P>(&mut rng);
        let off = (P::BaseField::rand(&mut rng), P::BaseField::rand(&mut rng));
        points.push(Affine::new_unchecked(off.0, off.1));
        let (given, out) = (rig.upload(&limbs(&points)), rig.lease::<u32>(points.len()));
        let name = format!("{}_test_predicates", P::NAME);
        let kernel =
            rig.kernel::<(DevicePtr<u32>, DevicePtr<u8>, u32)>("test/curve", &name, THREADS);
        rig.launch(&kernel, 1, (out.all(), given.all(), points.len() as u32));
        for (point, flags) in points.iter().zip(rig.download::<u32>(&out)) {
            assert_eq!(flags & 1 != 0, point.is_on_curve(), "{point}");
            assert_eq!(flags & 4 != 0, point.is_zero(), "{point}");
            if point.is_on_curve() {
                let inside = point.mul_bigint(P::ScalarField::MODULUS) == Projective::ZERO;
                assert_eq!(flags & 2 != 0, inside, "{point}");
            }
        }
    });
}

fn batches<P: KernelCurve>() {
    each_seed(|rig| {
        let mut rng = rng();
        let table = samples::<P>(&mut rng);
        let width = limbs(&table).len() / table.len();
        let bytes = 8 * width;
        let shared_bytes = (5 * bytes / 2) as u32 * (THREADS + 2);
        let block = BlockShape { threads: THREADS, shared_bytes };
        let name = format!("{}_test_batch_affine", P::NAME);
        type Arguments = (DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u32>, u32, u32);
        let kernel = rig.kernel_with_block::<Arguments>("test/curve", &name, block);
        let points = rig.upload(&limbs(&table));
        for (count, chain) in [(1, 1), (33, 4), (500, 3), (700, 100)] {
            let mut reference = || (rng.next_u32() % table.len() as u32) | rng.next_u32() & SIGN;
            let pairs: Vec<u32> = (0..2 * count).map(|_| reference()).collect();
            let (given, out) = (rig.upload(&pairs), rig.lease::<u64>(count * width));
            let scratch = rig.lease::<u8>(bytes / 2 * chain * 2 * THREADS as usize);
            let arguments =
                (out.all(), scratch.all(), points.all(), given.all(), count as u32, chain as u32);
            rig.launch(&kernel, 2, arguments);
            let found = rig.download::<u64>(&out);
            let signed = |reference: u32| {
                let point = table[(reference & !SIGN) as usize];
                if reference & SIGN == 0 { point } else { -point }
            };
            for (i, pair) in pairs.chunks(2).enumerate() {
                let expected = (signed(pair[0]) + signed(pair[1])).into_affine();
                let words = &found[i * width..][..width];
                assert!(same(words, &expected), "{name}: {i} of {count}, chains of {chain}");
            }
        }
    });
}

/// Whether `words` encode the point, with a canonical x and a y below 2p.
fn same<P: KernelCurve>(words: &[u64], point: &Affine<P>) -> bool {
    let coordinates: Vec<_> = words.chunks(Fq::LIMBS).collect();
    let (x, y) = coordinates.split_at(coordinates.len() / 2);
    let canonical = |limbs: &&[u64]| {
        let mut integer = ark_ff::BigInt::<6>(<[u64; 6]>::try_from(*limbs).unwrap());
        if integer >= Fq::MODULUS {
            integer.sub_with_borrow(&Fq::MODULUS);
        }
        // 2p means zero, too: the y of infinity.
        if integer == Fq::MODULUS { vec![0; 6] } else { integer.0.to_vec() }
    };
    let found: Vec<u64> =
        x.iter().flat_map(|limbs| limbs.to_vec()).chain(y.iter().flat_map(canonical)).collect();
    found == limbs(&[*point])
}

/// Runs `kernels/check/points.cu`. Returns its word for the first bad point, and the points.
fn first_bad<P: KernelCurve>(rig: &KernelRig, words: &[u64], form: u32) -> (u64, Vec<u64>) {
    let threads = if P::NAME == "g1" { 128 } else { 64 };
    let name = format!("{}_check_points", P::NAME);
    type Arguments = (DevicePtr<u8>, DevicePtr<u64>, u64, u32, u32);
    let kernel = rig.kernel::<Arguments>("check/points", &name, threads);
    let (points, word) = (rig.upload(words), rig.upload(&[u64::MAX]));
    let count = words.len() / (2 * P::BaseField::LIMBS);
    rig.launch(&kernel, 1, (points.all(), word.all(), 1000, count as u32, form));
    (rig.download::<u64>(&word)[0], rig.download::<u64>(&points))
}

fn checks<P: KernelCurve>() {
    const AT: usize = 7;
    each_seed(|rig| {
        let mut rng = rng();
        let mut good: Vec<Affine<P>> = (0..12).map(|_| Affine::rand(&mut rng)).collect();
        good[3] = Affine::zero();
        let words = limbs(&good);
        let width = words.len() / good.len();
        assert_eq!(first_bad::<P>(rig, &words, 0).0, u64::MAX);
        let with = |bad: &[u64]| {
            let mut words = words.clone();
            words[AT * width..][..width].copy_from_slice(bad);
            first_bad::<P>(rig, &words, 0).0
        };
        let word = |problem| (1000 + AT as u64) << 8 | problem;
        let mut large = limbs(&good[AT..=AT]);
        large[..Fq::LIMBS].copy_from_slice(&Fq::MODULUS.0);
        assert_eq!(with(&large), word(1));
        let mut off = limbs(&good[AT..=AT]);
        off[width / 2..].copy_from_slice(&limbs(&good[..1])[width / 2..]);
        assert_eq!(with(&off), word(2));
        assert_eq!(with(&limbs(&[on_curve::<P>(&mut rng)])), word(3));
        for factor in P::FACTORS {
            assert_eq!(with(&limbs(&[of_order::<P>(&mut rng, factor)])), word(3));
        }
    });
}

macro_rules! test_curve {
    ($($name:ident, $check:ident, $config:ty;)*) => {$(
        #[test]
        fn $name() {
            $check::<$config>();
        }
    )*};
}
test_curve! {
    g1_operations_match_arkworks, operations, g1::Config;
    g2_operations_match_arkworks, operations, g2::Config;
    g1_predicates_match_arkworks, predicates, g1::Config;
    g2_predicates_match_arkworks, predicates, g2::Config;
    g1_batched_additions_match_arkworks, batches, g1::Config;
    g2_batched_additions_match_arkworks, batches, g2::Config;
    g1_checks_find_the_first_bad_point, checks, g1::Config;
    g2_checks_find_the_first_bad_point, checks, g2::Config;
}
