//! Scans against arkworks: divisions by X - z, and prefix products.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, FftField, Field};
use ark_poly::{DenseUVPolynomial, univariate::DensePolynomial};
use capstan::device::{DeviceFault, FaultClass};

use crate::{
    emulated,
    pointwise::{COUNTS, PointwiseBench, TABLE_BYTES_MAX},
    rig::{each_seed, edge_elements},
};

/// The coefficients of arkworks' quotient of each row, as many as the row has.
fn quotients(values: &[Fr], length: usize, point: Fr) -> Vec<Fr> {
    let divisor = DensePolynomial::from_coefficients_vec(vec![-point, Fr::ONE]);
    let divide = |row: &[Fr]| {
        let mut quotient = (&DensePolynomial::from_coefficients_slice(row) / &divisor).coeffs;
        quotient.resize(length, Fr::ZERO);
        quotient
    };
    values.chunks(length.max(1)).flat_map(divide).collect()
}

/// Lengths around the sizes of tiles, chains and chunks; edge values as coefficients and points.
#[test]
fn quotients_by_linear_polynomials_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let root = Fr::get_root_of_unity(1 << 12).unwrap();
        let points = [Fr::ZERO, Fr::ONE, -Fr::ONE, root, Fr::from(3_u64).pow([1 << 33])];
        // On a GPU, its chunks have chunks.
        let most = if emulated::driver().is_some() { 70_001 } else { (1 << 24) + 1 };
        let one = [&COUNTS[..], &[3, 4, 5, 511, 512, 513, 2047, most]].concat();
        let sizes = [(1, one), (3, vec![1, 3, 127, 513, 2049, 6145]), (70, vec![2, 33])];
        for (rows, lengths) in sizes {
            for (i, length) in lengths.into_iter().enumerate() {
                let salt = (i * 31 + rows + 7 * seed) as u64;
                let values = edge_elements(rows * length, salt);
                let points = if length < 2047 { &points[..] } else { &points[3 + i % 2..][..1] };
                for point in points {
                    let expected = quotients(&values, length, *point);
                    bench.check(&[&values], &expected, |s, out, v| {
                        bench.pointwise.divide_by_linear(s, out, v[0], rows, *point)
                    });
                }
            }
        }
    });
}

/// Lengths like those of quotients; zeros inside.
#[test]
fn prefix_products_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let most = if emulated::driver().is_some() { 70_001 } else { (1 << 24) + 1 };
        let one = [&COUNTS[..], &[3, 4, 5, 511, 512, 513, 2047, most]].concat();
        let sizes = [(1, one), (3, vec![1, 3, 127, 513, 2049, 6145]), (70, vec![2, 33])];
        for (rows, lengths) in sizes {
            for (i, length) in lengths.into_iter().enumerate() {
                let mut values = edge_elements(rows * length, (i * 37 + rows + 5 * seed) as u64);
                // Edge values include zeros, after which all products are.
                for (at, value) in values.iter_mut().enumerate() {
                    if *value == Fr::ZERO && at % length.max(1) < length / 2 {
                        *value = Fr::from(at as u64 + 2);
                    }
                }
                let products = values.chunks(length.max(1)).flat_map(|row| {
                    row.iter().scan(Fr::ONE, |product, value| {
                        *product *= value;
                        Some(*product)
                    })
                });
                let expected: Vec<_> = products.collect();
                bench.check(&[&values], &expected, |s, out, v| {
                    bench.pointwise.prefix_products(s, out, v[0], rows)
                });
            }
        }
    });
}

#[test]
fn partial_rows_and_overlapping_quotients_are_refused() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let bench = PointwiseBench::new(rig);
        let lease = rig.upload(&bench.stream, &edge_elements(64, 1));
        let divide = |out: usize, given: usize, count: usize, rows: usize| {
            let [out, given] = [out, given].map(|first| lease.all().slice(first, count).unwrap());
            bench.pointwise.divide_by_linear(&bench.stream, out, given, rows, Fr::ONE)
        };
        let is_misuse =
            |done: Result<(), DeviceFault>| done.unwrap_err().class() == FaultClass::Misuse;
        assert!(is_misuse(divide(0, 32, 31, 3)));
        assert!(is_misuse(divide(0, 32, 31, 0)));
        assert!(is_misuse(divide(0, 32, 31, 32)));
        assert!(is_misuse(divide(0, 1, 31, 1)));
        for rows in [0, 1, 5] {
            divide(0, 1, 0, rows).unwrap();
        }
        bench.stream.synchronize().unwrap();
    });
}
