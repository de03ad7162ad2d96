//! `kernels/integers/sums.cuh`, compared with sums that are carried one by one.

use capstan::ntt31::{LimbKernels, LimbTerm};
use rand::{Rng, rngs::StdRng};

use crate::{
    elements::rng,
    gpu::{KernelRig, each_seed},
    integers::OutputRows,
};

const TILE: usize = 4 * 504;
/// Limbs of a sum, on both sides of the limits of quads, warps and tiles.
const LENGTHS: [usize; 10] = [1, 3, 4, 5, 127, 129, TILE - 1, TILE, TILE + 1, 3 * TILE + 2];
/// Sets of factors.
const FACTORS: [&[i64]; 8] = [
    &[1],
    &[-1],
    &[1, 1],
    &[1, -1],
    &[u32::MAX as i64],
    &[-(u32::MAX as i64)],
    &[1 << 31, -(1 << 30), 12345],
    &[3, -4, 0, 1, -1, 70000, -80000, 1],
];

/// Limbs of an integer whose multiples carry far, or of a random one.
fn integer(kind: usize, length: usize, rng: &mut StdRng) -> Vec<u32> {
    let limb = |rng: &mut StdRng, at: usize| match kind {
        0 => rng.random(),
        1 => u32::MAX,
        2 => 0,
        3 => u32::from(at == 0),
        _ if rng.random_range(0..300) == 0 => rng.random(),
        _ => [0, u32::MAX][at / 1000 % 2],
    };
    (0..length).map(|at| limb(rng, at)).collect()
}

fn sum(terms: &[(i64, &[u32])], length: usize) -> Vec<u32> {
    let mut carry = 0_i128;
    let limb = |at: usize| {
        for (factor, limbs) in terms {
            carry += i128::from(*factor) * i128::from(limbs.get(at).copied().unwrap_or(0));
        }
        let limb = carry as u32;
        carry >>= 32;
        limb
    };
    (0..length).map(limb).collect()
}

fn check(rig: &KernelRig, kernels: &LimbKernels, factors: &[i64], length: usize, kind: usize) {
    let mut rng = rng();
    let rows = 1 + (length + kind) % 3;
    let inputs: Vec<Vec<Vec<u32>>> = (0..factors.len())
        .map(|term| {
            let other_length = [length, length + 5, length / 2, 0][(term + kind) % 4];
            (0..rows).map(|row| integer((kind + row) % 5, other_length, &mut rng)).collect()
        })
        .collect();
    let given: Vec<_> = inputs.iter().map(|rows| rig.upload(&rows.concat())).collect();
    let terms: Vec<_> = (given.iter().zip(&inputs).zip(factors))
        .map(|((given, rows), &factor)| {
            let length = rows[0].len();
            let limbs = given.all().slice(0, rows.len() * length).unwrap();
            LimbTerm { limbs, length: length as u32, factor }
        })
        .collect();
    let out = OutputRows::new(rig, rows, length);
    let lease = |bytes| rig.gpu().arena().lease(rig.stream(), bytes);
    kernels.launch_sum(rig.stream(), &terms, out.rows(), lease).unwrap();
    let expected: Vec<_> = (0..rows)
        .map(|row| {
            let terms: Vec<_> =
                factors.iter().zip(&inputs).map(|(factor, rows)| (*factor, &*rows[row])).collect();
            sum(&terms, length)
        })
        .collect();
    out.check(&expected, &format!("factors {factors:?}, kind {kind}"));
}

#[test]
fn sums_are_those_of_limbs_that_are_carried_one_by_one() {
    each_seed(|rig| {
        let kernels = LimbKernels::load(rig.gpu()).unwrap();
        for (at, length) in LENGTHS.into_iter().enumerate() {
            for (set, factors) in FACTORS.into_iter().enumerate() {
                for kind in 0..5 {
                    if rig.runs_case(at + set + kind) {
                        check(rig, &kernels, factors, length, kind);
                    }
                }
            }
        }
    });
}

#[test]
fn terms_that_do_not_match_their_sum_are_refused() {
    each_seed(|rig| {
        let kernels = LimbKernels::load(rig.gpu()).unwrap();
        let memory = rig.lease::<u32>(64);
        let term = |words: usize, factor: i64| LimbTerm {
            limbs: memory.all().slice(0, words).unwrap(),
            length: 8,
            factor,
        };
        let sum = |terms: &[LimbTerm<'_>]| {
            let out = OutputRows::new(rig, 2, 8);
            let lease = |bytes| rig.gpu().arena().lease(rig.stream(), bytes);
            kernels.launch_sum(rig.stream(), terms, out.rows(), lease)
        };
        assert!(sum(&[term(16, 1)]).is_ok());
        assert!(sum(&[]).is_err(), "no term");
        assert!(sum(&[term(16, 1); 9]).is_err(), "too many terms");
        assert!(sum(&[term(8, 1)]).is_err(), "one row of two");
        assert!(sum(&[term(16, 1), term(16, u32::MAX.into())]).is_err(), "too large factors");
        assert!(sum(&[term(16, i64::MIN)]).is_err(), "too large a factor");
    });
}
