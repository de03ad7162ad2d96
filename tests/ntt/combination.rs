//! Linear combinations of vectors against arkworks.

use std::iter;

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field, PrimeField};
use capstan::{device::FaultClass, ntt::LinearTerm};

use crate::{
    pointwise::{PointwiseBench, TABLE_BYTES_MAX},
    rig::{each_seed, edge_elements},
};

/// Numbers of terms around the most of one launch.
const TERMS: [usize; 8] = [0, 1, 2, 5, 7, 8, 9, 17];

/// Checks the sum of all `vectors` times `factors`, which start again at the end.
fn check(bench: &PointwiseBench<'_>, n: usize, vectors: &[Vec<Fr>], factors: &[Fr]) {
    let sum = |i: usize| iter::zip(vectors, factors.iter().cycle()).map(|(v, f)| v[i] * f).sum();
    let expected: Vec<Fr> = (0..n).map(sum).collect();
    let given: Vec<&[Fr]> = vectors.iter().map(Vec::as_slice).collect();
    bench.check(&given, &expected, |stream, out, vectors| {
        let terms = iter::zip(vectors, factors.iter().cycle());
        let terms: Vec<_> =
            terms.map(|(vector, factor)| LinearTerm { factor: *factor, vector: *vector }).collect();
        bench.pointwise.linear_combination(stream, out, &terms)
    });
}

#[test]
fn linear_combinations_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let random = Fr::from(5_u64).pow([1 << 40]);
        let factors = [random, Fr::ZERO, Fr::ONE, -Fr::ONE, random.double()];
        for (i, n) in [0, 1, 127, 128, 300].into_iter().enumerate() {
            for terms in TERMS {
                let salt = |k: usize| (97 * i + 7 * seed + 11 * k + terms) as u64;
                let vectors: Vec<_> = (0..terms).map(|k| edge_elements(n, salt(k))).collect();
                check(&bench, n, &vectors, &factors[..1 + i % factors.len()]);
            }
        }
    });
}

/// All limbs as large as possible, so that the sum before its reduction is, too.
#[test]
fn the_largest_sums_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let bench = PointwiseBench::new(rig);
        let largest = Fr::new_unchecked((-Fr::ONE).into_bigint());
        for terms in TERMS {
            check(&bench, 5, &vec![vec![largest; 5]; terms], &[largest]);
        }
    });
}

#[test]
fn a_vector_may_occur_in_several_terms() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let [a, b] = [1, 2].map(|salt| edge_elements(200, salt + seed as u64));
        let factors = [3_u64, 5, 7, 11].map(Fr::from);
        let sum = |(a, b): (&Fr, &Fr)| *a * Fr::from(10_u64) + *b * Fr::from(16_u64);
        let expected: Vec<_> = iter::zip(&a, &b).map(sum).collect();
        bench.check(&[&a, &b], &expected, |stream, out, v| {
            let vectors = [v[0], v[1], v[0], v[1]];
            let terms = iter::zip(factors, vectors);
            let terms: Vec<_> =
                terms.map(|(factor, vector)| LinearTerm { factor, vector }).collect();
            bench.pointwise.linear_combination(stream, out, &terms)
        });
    });
}

#[test]
fn terms_of_other_lengths_and_partial_overlaps_are_refused() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let bench = PointwiseBench::new(rig);
        let lease = rig.upload(&bench.stream, &edge_elements(64, 1));
        for (first, count) in [(32, 31), (32, 0), (1, 32), (31, 32)] {
            let vector = lease.all().slice(first, count).unwrap();
            let out = lease.all().slice(0, 32).unwrap();
            let terms = [LinearTerm { factor: Fr::ONE, vector }];
            let done = bench.pointwise.linear_combination(&bench.stream, out, &terms);
            assert_eq!(done.unwrap_err().class(), FaultClass::Misuse, "{count} from {first}");
        }
    });
}
