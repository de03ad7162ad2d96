//! `kernels/selftest.cu` and `kernels/test/inverse.cu`: field arithmetic.

use ark_bls12_381::{Fq, Fq2, Fr};
use ark_ff::{AdditiveGroup, Field, PrimeField};
use capstan::device::DevicePtr;
use rand::Rng;

use crate::{
    elements::{KernelElement, rng, shuffled},
    gpu::{KernelRig, each_seed},
};

/// operation, n, a, b, c, d, out.
type Elementwise =
    (u32, u32, DevicePtr<u64>, DevicePtr<u64>, DevicePtr<u64>, DevicePtr<u64>, DevicePtr<u64>);

/// How many times the modulus may be added to each input: the ranges of `kernels/field.cuh`.
type Multiples = [u64; 4];

/// An operation's code, input ranges, and right result.
struct FieldCase<E> {
    code: u32,
    multiples: Multiples,
    answer: fn(&[E; 4]) -> E,
}

const CANONICAL: u32 = 11;
const IS_CANONICAL: u32 = 12;

/// Operations of every field, with the input ranges of products, squares, and other operations.
fn cases<E: KernelElement>(mul: Multiples, sqr: u64, any: u64) -> Vec<FieldCase<E>> {
    let case = |code, multiples, answer| FieldCase { code, multiples, answer };
    vec![
        case(0, [0; 4], |[a, b, ..]| *a + b),
        case(1, [0; 4], |[a, b, ..]| *a - b),
        case(2, [0; 4], |[a, ..]| -*a),
        case(3, [0; 4], |[a, ..]| a.double()),
        case(4, mul, |[a, b, ..]| *a * b),
        case(5, [sqr, 0, 0, 0], |[a, ..]| a.square()),
        case(6, [any, 0, 0, 0], |[a, ..]| a.inverse().unwrap_or(E::ZERO)),
        case(9, [any, 0, 0, 0], |[a, ..]| *a * radix::<E>()),
        case(10, [any, 0, 0, 0], |[a, ..]| *a / radix::<E>()),
        case(CANONICAL, [any, 0, 0, 0], |[a, ..]| *a),
        case(13, [0; 4], |[a, b, ..]| *a - b),
        case(14, [0; 4], |[a, ..]| -*a),
        case(15, [0; 4], |[a, b, ..]| *a + b),
    ]
}

fn sum_of_products<E: KernelElement>(multiples: Multiples) -> FieldCase<E> {
    FieldCase { code: 7, multiples, answer: |[a, b, c, d]| *a * b + *c * d }
}

fn difference_of_products<E: KernelElement>(multiples: Multiples) -> FieldCase<E> {
    FieldCase { code: 8, multiples, answer: |[a, b, c, d]| *a * b - *c * d }
}

fn radix<E: KernelElement>() -> E {
    E::from(2_u64).pow([E::RADIX_BITS])
}

fn run<E: KernelElement>(rig: &KernelRig, case: &FieldCase<E>, count: usize) {
    let mut rng = rng();
    let kernel = rig.kernel::<Elementwise>("selftest", &format!("selftest_{}", E::NAME), 64);
    let inputs: [Vec<E>; 4] = std::array::from_fn(|_| shuffled(&mut rng, count));
    let mut added = Vec::new();
    let leases = std::array::from_fn::<_, 4, _>(|i| {
        let mut limbs = Vec::new();
        for value in &inputs[i] {
            let multiple = rng.random_range(0..=case.multiples[i]);
            limbs.extend(value.limbs(multiple));
            added.push(multiple);
        }
        rig.upload(&limbs)
    });
    let out = rig.lease::<u64>(count * E::LIMBS);
    let [a, b, c, d] = leases.each_ref().map(|lease| lease.all());
    rig.launch(&kernel, 3, (case.code, count as u32, a, b, c, d, out.all()));
    let found = rig.download::<u64>(&out);
    for (i, limbs) in found.chunks(E::LIMBS).enumerate() {
        let given = std::array::from_fn(|input| inputs[input][i]);
        let at = || format!("{} operation {} of {given:?}, {:?}", E::NAME, case.code, &added[i..]);
        if case.code == IS_CANONICAL {
            let mut flag = vec![0; E::LIMBS];
            flag[0] = u64::from(added[i] == 0);
            assert_eq!(limbs, flag, "{}", at());
        } else {
            assert_eq!(E::from_limbs(limbs), Some((case.answer)(&given)), "{}", at());
        }
    }
}

fn run_all<E: KernelElement>(cases: Vec<FieldCase<E>>, most: u64) {
    each_seed(|rig| {
        for case in &cases {
            run(rig, case, if case.code == 6 { 300 } else { 1500 });
        }
        // `run` compares with the flag instead of `answer`.
        let is_canonical =
            FieldCase::<E> { code: IS_CANONICAL, multiples: [most; 4], answer: |[a, ..]| *a };
        run(rig, &is_canonical, 1500);
    });
}

#[test]
fn fp_arithmetic_matches_arkworks() {
    // a < 3 p and b < 3 p: the product is below 9 p^2 of the 9.8 p^2 allowed.
    let mut all = cases::<Fq>([2, 2, 0, 0], 2, 3);
    all.push(sum_of_products([1; 4]));
    all.push(difference_of_products([1, 0, 1, 1]));
    all.push(FieldCase { code: 4, multiples: [6, 0, 0, 0], answer: |[a, b, ..]| *a * b });
    all.push(FieldCase { code: 16, multiples: [2, 2, 0, 0], answer: |[a, b, ..]| *a * b });
    all.push(FieldCase { code: 16, multiples: [8, 0, 0, 0], answer: |[a, b, ..]| *a * b });
    run_all(all, 8);
}

#[test]
fn fr_arithmetic_matches_arkworks() {
    run_all(cases::<Fr>([1, 0, 0, 0], 0, 1), 1);
}

#[test]
fn fp2_arithmetic_matches_arkworks() {
    let mut all = cases::<Fq2>([1, 1, 0, 0], 1, 1);
    all.push(difference_of_products([1; 4]));
    all.push(FieldCase { code: CANONICAL, multiples: [3, 0, 0, 0], answer: |[a, ..]| *a });
    run_all(all, 8);
}

#[test]
fn batch_inversions_are_right() {
    fn check<E: KernelElement>(rig: &KernelRig) {
        let kernel = rig.kernel::<(u32, DevicePtr<u64>, DevicePtr<u64>)>(
            "test/inverse",
            &format!("test_inverse_batch_{}", E::NAME),
            32,
        );
        // One element, fewer elements than threads, batches of unequal lengths; each with a zero.
        for count in [1_usize, 50, 64, 65, 1000] {
            let mut values = shuffled::<E>(&mut rng(), count);
            values[count / 2] = E::ZERO;
            let lease = rig.upload(&values.iter().flat_map(|v| v.limbs(0)).collect::<Vec<_>>());
            let scratch = rig.lease::<u64>(count * E::LIMBS);
            rig.launch(&kernel, 2, (count as u32, lease.all(), scratch.all()));
            for (limbs, value) in rig.download::<u64>(&lease).chunks(E::LIMBS).zip(&values) {
                let expected = value.inverse().unwrap_or(E::ZERO);
                assert_eq!(E::from_limbs(limbs), Some(expected), "1 / {value} of {count}");
            }
        }
    }
    each_seed(|rig| {
        check::<Fq>(rig);
        check::<Fr>(rig);
        check::<Fq2>(rig);
    });
}

/// Lanes that finish early wait for the others.
#[test]
fn inversions_by_groups_of_lanes_are_right() {
    fn check<E: KernelElement>(rig: &KernelRig) {
        let name = format!("test_inverse_split_{}", E::NAME);
        let kernel = rig.kernel::<(u32, DevicePtr<u64>)>("test/inverse", &name, 32);
        for count in [1_usize, 8, 61] {
            let mut values = shuffled::<E>(&mut rng(), count);
            values[count / 2] = E::ZERO;
            values[count / 3] = E::ONE;
            let lease = rig.upload(&values.iter().flat_map(|v| v.limbs(0)).collect::<Vec<_>>());
            rig.launch(&kernel, count.div_ceil(8) as u32, (count as u32, lease.all()));
            for (limbs, value) in rig.download::<u64>(&lease).chunks(E::LIMBS).zip(&values) {
                let expected = value.inverse().unwrap_or(E::ZERO);
                assert_eq!(E::from_limbs(limbs), Some(expected), "1 / {value} of {count}");
            }
        }
    }
    each_seed(|rig| {
        check::<Fq>(rig);
        check::<Fq2>(rig);
    });
}

/// Precomputed multiples W_k = w 2^(32 (N + L k)), as integers: see `kernels/field/fr.cuh`.
fn precomputed_multiples(factor: Fr, multiple_count: u64) -> Vec<u64> {
    let limbs = 8 / multiple_count;
    let steps = limbs + u64::from(multiple_count > 1);
    let multiple = |k| factor * Fr::from(2_u64).pow([32 * (steps + limbs * k)]);
    (0..multiple_count).flat_map(|k| multiple(k).into_bigint().0).collect()
}

#[test]
fn products_by_constants_are_right() {
    each_seed(|rig| {
        let kernel = rig.kernel::<(u32, u32, DevicePtr<u64>, DevicePtr<u64>, DevicePtr<u64>)>(
            "test/inverse",
            "test_fr_constant",
            64,
        );
        let mut rng = rng();
        let count = 800;
        for factor in [Fr::ZERO, Fr::ONE, -Fr::ONE].into_iter().chain(shuffled(&mut rng, 12)) {
            // Any 256 bits are a valid factor.
            let mut limbs: Vec<u64> = (0..4 * count).map(|_| rng.random()).collect();
            limbs[..8].fill(u64::MAX);
            let values: Vec<_> = shuffled::<Fr>(&mut rng, count / 2);
            for (place, value) in limbs[2 * count..].chunks_mut(4).zip(&values) {
                place.copy_from_slice(&value.limbs(rng.random_range(0..2)));
            }
            let a = rig.upload(&limbs);
            for multiple_count in [1, 2, 4, 8] {
                let multiples = rig.upload(&precomputed_multiples(factor, multiple_count));
                let out = rig.lease::<u64>(4 * count);
                let given =
                    (multiple_count as u32, count as u32, a.all(), multiples.all(), out.all());
                rig.launch(&kernel, 3, given);
                for (found, given) in rig.download::<u64>(&out).chunks(4).zip(limbs.chunks(4)) {
                    let bytes: &[u8] = bytemuck::cast_slice(given);
                    let expected = Fr::from_le_bytes_mod_order(bytes) * factor;
                    // Inputs and outputs are integers, not in Montgomery form.
                    assert_eq!(
                        found,
                        expected.into_bigint().0,
                        "{given:x?} {factor} {multiple_count}"
                    );
                }
            }
        }
    });
}
