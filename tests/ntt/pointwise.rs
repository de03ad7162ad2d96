//! Elementwise operations, polynomial evaluation and Groth16's quotient against arkworks.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, FftField, Field, batch_inversion};
use ark_poly::{
    DenseUVPolynomial, EvaluationDomain, Polynomial, Radix2EvaluationDomain,
    univariate::DensePolynomial,
};
use capstan::{
    curve::NttPlan,
    device::{DeviceFault, DeviceLease, FaultClass, Stream},
    error::{FieldProblem, InputError},
    ntt::{DeviceVector, StridedRows, VanishingPolynomial, VectorKernels},
};

use crate::{
    emulated,
    rig::{NttRig, each_seed, edge_elements},
};

pub const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Lengths around the sizes of blocks and of the chains of powers and inversions. The emulated
/// device inverts with 3 blocks of 256 threads on each of 4 multiprocessors.
pub const COUNTS: [usize; 12] =
    [0, 1, 2, 127, 128, 129, 257, 2048, 2049, 3 * 1024 + 1, 6144, 20_011];

/// The operations on a device, with their stream.
pub struct PointwiseBench<'a> {
    pub rig: &'a NttRig,
    pub stream: Stream,
    pub pointwise: VectorKernels,
}

impl<'a> PointwiseBench<'a> {
    pub fn new(rig: &'a NttRig) -> Self {
        Self { rig, stream: rig.stream(), pointwise: VectorKernels::load(&rig.gpu).unwrap() }
    }

    /// A vector followed by a guard element, which must not be overwritten.
    fn put(&self, values: &[Fr]) -> DeviceLease {
        let guarded: Vec<_> = values.iter().copied().chain([-Fr::ONE]).collect();
        self.rig.upload(&self.stream, &guarded)
    }

    fn get(&self, lease: &DeviceLease) -> Vec<Fr> {
        let mut values = self.rig.download(&self.stream, lease);
        assert_eq!(values.pop(), Some(-Fr::ONE), "the guard element was overwritten");
        values
    }

    /// Checks the result of `run` out of place and in place of each input.
    pub fn check(
        &self,
        given: &[&[Fr]],
        expected: &[Fr],
        run: impl Fn(&Stream, DeviceVector<'_>, &[DeviceVector<'_>]) -> Result<(), DeviceFault>,
    ) {
        let n = expected.len();
        for place in 0..=given.len() {
            let leases: Vec<_> = given.iter().map(|values| self.put(values)).collect();
            let separate = self.put(&vec![Fr::ONE; n]);
            let out = leases.get(place).unwrap_or(&separate);
            let vectors: Vec<_> = leases.iter().map(|l| l.all().slice(0, n).unwrap()).collect();
            run(&self.stream, out.all().slice(0, n).unwrap(), &vectors).unwrap();
            assert!(self.get(out) == expected, "{n} elements, in place of {place}");
            for (lease, values) in leases.iter().zip(given) {
                assert!(std::ptr::eq(lease, out) || self.get(lease) == *values, "an input changed");
            }
        }
    }
}

#[test]
fn sums_and_products_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let pointwise = &bench.pointwise;
        for (i, n) in COUNTS.into_iter().enumerate() {
            let numbers = |salt: usize| edge_elements(n, (97 * i + 7 * seed + salt) as u64);
            let [a, b, c] = [numbers(0), numbers(1), numbers(2)];
            let of = |op: fn(Fr, Fr) -> Fr| -> Vec<Fr> {
                a.iter().zip(&b).map(|(a, b)| op(*a, *b)).collect()
            };
            let both: [&[Fr]; 2] = [&a, &b];
            bench.check(&both, &of(|a, b| a * b), |s, out, v| {
                pointwise.multiply(s, out, v[0], v[1])
            });
            bench.check(&both, &of(|a, b| a + b), |s, out, v| pointwise.add(s, out, v[0], v[1]));
            bench.check(&both, &of(|a, b| a - b), |s, out, v| {
                pointwise.subtract(s, out, v[0], v[1])
            });
            let squares: Vec<_> = a.iter().map(Field::square).collect();
            bench.check(&[&a], &squares, |s, out, v| pointwise.multiply(s, out, v[0], v[0]));
            for factor in [Fr::ZERO, Fr::ONE, -Fr::ONE, Fr::from(5_u64).pow([1 << 40])] {
                let scaled: Vec<_> = a.iter().map(|a| *a * factor).collect();
                bench.check(&[&a], &scaled, |s, out, v| pointwise.scale(s, out, v[0], factor));
            }
            let vanishing = VanishingPolynomial::on_coset(5, Fr::from(7_u64)).unwrap();
            let divisor = Fr::from(7_u64).pow([32]) - Fr::ONE;
            let divided: Vec<_> = a.iter().map(|a| *a / divisor).collect();
            bench.check(&[&a], &divided, |s, out, v| pointwise.divide(s, out, v[0], &vanishing));
            let of_three = |op: fn(Fr, Fr, Fr) -> Fr| -> Vec<Fr> {
                (0..n).map(|i| op(a[i], b[i], c[i])).collect()
            };
            let all: [&[Fr]; 3] = [&a, &b, &c];
            bench.check(&all, &of_three(|a, b, c| a * b + c), |s, out, v| {
                pointwise.rows.multiply_add(s, out, [v[0], v[1], v[2]])
            });
            bench.check(&all, &of_three(|a, b, c| a * b - c), |s, out, v| {
                pointwise.rows.multiply_subtract(s, out, [v[0], v[1], v[2]])
            });
        }
    });
}

#[test]
fn rows_are_copied_between_strides() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        for (rows, length, from_stride, to_stride) in
            [(1, 0, 0, 0), (1, 300, 1, 7), (3, 5, 5, 9), (4, 129, 131, 129), (2, 1, 1, 1)]
        {
            let len = |stride: usize| (rows - 1) * stride + length;
            let values = edge_elements(len(from_stride), (length + seed) as u64);
            let (from, to) = (bench.put(&values), bench.put(&vec![Fr::ONE; len(to_stride)]));
            let source = StridedRows {
                vector: from.all().slice(0, values.len()).unwrap(),
                stride: from_stride,
            };
            let target = StridedRows {
                vector: to.all().slice(0, len(to_stride)).unwrap(),
                stride: to_stride,
            };
            bench.pointwise.rows.copy_rows(&bench.stream, target, source, rows, length).unwrap();
            let mut expected = vec![Fr::ONE; len(to_stride)];
            for row in 0..rows {
                expected[row * to_stride..][..length]
                    .copy_from_slice(&values[row * from_stride..][..length]);
            }
            assert!(bench.get(&to) == expected, "{rows} rows of {length}");
            let too_many =
                bench.pointwise.rows.copy_rows(&bench.stream, target, source, rows + 1, length + 1);
            assert!(too_many.is_err(), "{} rows of {}", rows + 1, length + 1);
        }
    });
}

#[test]
fn powers_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let bench = PointwiseBench::new(rig);
        let base = Fr::get_root_of_unity(1 << 20).unwrap() * Fr::GENERATOR;
        let cases = [(Fr::ONE, base), (base, -Fr::ONE), (-Fr::ONE, Fr::ZERO), (Fr::ZERO, base)];
        for n in COUNTS {
            for (first, base) in cases {
                let powers = std::iter::successors(Some(first), |power| Some(*power * base));
                let powers: Vec<_> = powers.take(n).collect();
                bench.check(&[], &powers, |s, out, _| bench.pointwise.powers(s, out, first, base));
            }
        }
    });
}

#[test]
fn inverses_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let check = |values: &[Fr]| {
            let mut expected = values.to_vec();
            batch_inversion(&mut expected);
            bench.check(&[values], &expected, |s, out, v| bench.pointwise.invert(s, out, v[0]));
        };
        for (i, n) in COUNTS.into_iter().enumerate() {
            // With some zeros, with one nonzero element, and without zeros.
            for salt in 0..3 {
                check(&edge_elements(n, (31 * i + seed + 100 * salt) as u64));
            }
            check(&vec![Fr::ZERO; n]);
        }
        // More than all blocks invert at once.
        check(&edge_elements(4 * 3 * 256 * 33, 5 + seed as u64));
    });
}

/// Groth16's quotient (a b - c) / (X^n - 1) of polynomials given by their values on a domain with a
/// b = c: against arkworks' division, and against single operations.
#[test]
fn groth16_quotient_matches_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        for lg_n in [0, 1, 5, 10, 12] {
            quotient(&PointwiseBench::new(rig), lg_n, 1000 + seed as u64);
        }
    });
}

fn quotient(bench: &PointwiseBench<'_>, lg_n: u32, salt: u64) {
    let (rig, stream, pointwise) = (bench.rig, &bench.stream, &bench.pointwise);
    let n = 1_usize << lg_n;
    let domain = Radix2EvaluationDomain::<Fr>::new(n).unwrap();
    let generator = Fr::GENERATOR;
    let values = {
        let mut values = edge_elements(2 * n, salt);
        let c: Vec<_> = (0..n).map(|i| values[i] * values[n + i]).collect();
        values.extend(c);
        values
    };
    let [a, b, c] = [0, 1, 2]
        .map(|i| DensePolynomial::from_coefficients_vec(domain.ifft(&values[i * n..(i + 1) * n])));
    let (expected, rest) = (&(&a * &b) - &c).divide_by_vanishing_poly(domain);
    assert_eq!(rest, DensePolynomial::from_coefficients_vec(vec![]));

    let back =
        NttPlan { lg_n, inverse: true, coset: None, input_reversed: false, output_reversed: true };
    let coset = Some(generator);
    let onto =
        NttPlan { inverse: false, coset, input_reversed: true, output_reversed: false, ..back };
    let from = NttPlan { coset, output_reversed: false, ..back };
    let data = rig.upload(stream, &values);
    for transform in [back, onto] {
        let plan = rig.transforms.plan(&transform, 3).unwrap();
        rig.transforms.run(stream, &plan, data.all(), 3, None).unwrap();
    }
    let vector = |i: usize| data.all().slice(i * n, n).unwrap();
    let given = [0, 1, 2].map(vector);
    let (slow, out) = (bench.put(&vec![Fr::ONE; n]), bench.put(&vec![Fr::ONE; n]));
    let slow_out = slow.all().slice(0, n).unwrap();
    divide_slowly(bench, domain, slow_out, given);
    let vanishing = VanishingPolynomial::on_coset(lg_n, generator).unwrap();
    pointwise.rows.multiply_subtract(stream, given[0], given).unwrap();
    pointwise.divide(stream, given[0], given[0], &vanishing).unwrap();
    assert!(bench.get(&slow) == rig.download(stream, &data)[..n], "2^{lg_n}: values");

    let plan = rig.transforms.plan(&from, 1).unwrap();
    let to = plan.needs_output_buffer().then(|| out.all().slice(0, n).unwrap());
    rig.transforms.run(stream, &plan, vector(0), 1, to).unwrap();
    let mut found = if to.is_some() { bench.get(&out) } else { rig.download(stream, &data) };
    found.truncate(n);
    assert_eq!(DensePolynomial::from_coefficients_vec(found), expected, "2^{lg_n}");
}

/// The quotient's values by powers, products and inverses of vectors.
fn divide_slowly(
    bench: &PointwiseBench<'_>,
    domain: Radix2EvaluationDomain<Fr>,
    out: DeviceVector<'_>,
    [a, b, c]: [DeviceVector<'_>; 3],
) {
    let (stream, pointwise) = (&bench.stream, &bench.pointwise);
    let n = out.len();
    let lease = bench.put(&vec![Fr::ONE; n]);
    let divisors = lease.all().slice(0, n).unwrap();
    pointwise.powers(stream, divisors, Fr::GENERATOR, domain.group_gen()).unwrap();
    for _ in 0..n.ilog2() {
        pointwise.multiply(stream, divisors, divisors, divisors).unwrap();
    }
    pointwise.powers(stream, out, Fr::ONE, Fr::ONE).unwrap();
    pointwise.subtract(stream, divisors, divisors, out).unwrap();
    pointwise.invert(stream, divisors, divisors).unwrap();
    pointwise.multiply(stream, out, a, b).unwrap();
    pointwise.subtract(stream, out, out, c).unwrap();
    pointwise.multiply(stream, out, out, divisors).unwrap();
}

/// Lengths around the sizes of blocks and levels; edge values as coefficients and points.
#[test]
fn polynomial_evaluations_match_arkworks() {
    each_seed(TABLE_BYTES_MAX, |rig, seed| {
        let bench = PointwiseBench::new(rig);
        let root = Fr::get_root_of_unity(1 << 12).unwrap();
        let points = [Fr::ZERO, Fr::ONE, -Fr::ONE, root, Fr::from(3_u64).pow([1 << 33])];
        // So long that the emulated device's threads each sum more than 16 coefficients.
        let most = if emulated::driver().is_some() { 70_001 } else { (1 << 24) + 1 };
        let sizes =
            [(1, COUNTS.to_vec()), (3, COUNTS.to_vec()), (70, vec![1, 33]), (1, vec![most])];
        for (rows, lengths) in sizes {
            for (i, length) in lengths.into_iter().enumerate() {
                if rows > 1 && length > 2049 && i % 3 != seed {
                    continue;
                }
                let values = edge_elements(rows * length, (i * 31 + rows + 7 * seed) as u64);
                let (given, out) = (bench.put(&values), bench.put(&vec![Fr::ONE; rows]));
                let polynomials: Vec<_> = (0..rows)
                    .map(|r| values[r * length..(r + 1) * length].to_vec())
                    .map(DensePolynomial::from_coefficients_vec)
                    .collect();
                let points = if length < 2049 { &points[..] } else { &points[3 + i % 2..][..1] };
                for point in points {
                    let parts = (out.all().slice(0, rows), given.all().slice(0, values.len()));
                    let (to, from) = (parts.0.unwrap(), parts.1.unwrap());
                    bench.pointwise.evaluate(&bench.stream, to, from, *point).unwrap();
                    let expected: Vec<_> = polynomials.iter().map(|p| p.evaluate(point)).collect();
                    let found = bench.get(&out);
                    assert!(found == expected, "{rows} rows of {length} at {point}");
                }
                assert!(bench.get(&given) == values, "the coefficients");
            }
        }
    });
}

/// A transform on a coset equals the transform of the elements times powers of the generator.
#[test]
fn coset_transforms_equal_transforms_of_scaled_inputs() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let (bench, lg_n, generator) = (PointwiseBench::new(rig), 11, Fr::from(5_u64));
        let values = edge_elements(1 << lg_n, 3);
        let plain = NttPlan {
            lg_n,
            inverse: false,
            coset: None,
            input_reversed: false,
            output_reversed: true,
        };
        let [one, other] = [(); 2].map(|()| rig.upload(&bench.stream, &values));
        let powers = rig.upload(&bench.stream, &values);
        bench.pointwise.powers(&bench.stream, powers.all(), Fr::ONE, generator).unwrap();
        let (to, by) = (one.all(), powers.all());
        bench.pointwise.multiply(&bench.stream, to, to, by).unwrap();
        let on_coset = NttPlan { coset: Some(generator), ..plain };
        for (transform, lease) in [(plain, &one), (on_coset, &other)] {
            let plan = rig.transforms.plan(&transform, 1).unwrap();
            rig.transforms.run(&bench.stream, &plan, lease.all(), 1, None).unwrap();
        }
        assert!(rig.download(&bench.stream, &one) == rig.download(&bench.stream, &other));
    });
}

#[test]
fn mismatched_and_overlapping_vectors_are_refused() {
    each_seed(TABLE_BYTES_MAX, |rig, _| {
        let bench = PointwiseBench::new(rig);
        let lease = rig.upload(&bench.stream, &edge_elements(64, 1));
        let part = |first, count| lease.all().slice(first, count).unwrap();
        let is_misuse =
            |done: Result<(), DeviceFault>| done.unwrap_err().class() == FaultClass::Misuse;
        let (pointwise, stream) = (&bench.pointwise, &bench.stream);
        assert!(is_misuse(pointwise.add(stream, part(0, 32), part(0, 32), part(32, 31))));
        assert!(is_misuse(pointwise.multiply(stream, part(0, 32), part(31, 32), part(0, 32))));
        assert!(is_misuse(pointwise.scale(stream, part(8, 32), part(0, 32), Fr::ONE)));
        assert!(is_misuse(pointwise.invert(stream, part(0, 9), part(8, 9))));
        for (out, given) in [((0, 3), (32, 31)), ((4, 1), (0, 5)), ((0, 0), (0, 5))] {
            let [out, given] = [out, given].map(|(first, count)| part(first, count));
            assert!(is_misuse(pointwise.evaluate(stream, out, given, Fr::ONE)));
        }
        pointwise.evaluate(stream, part(5, 0), part(0, 0), Fr::ONE).unwrap();
        pointwise.add(stream, part(0, 32), part(32, 32), part(32, 32)).unwrap();
        let root = Fr::get_root_of_unity(32).unwrap();
        let zero = Some(InputError::field("coset", FieldProblem::Zero));
        for (lg_n, generator) in [(5, Fr::ONE), (5, root), (0, Fr::ONE)] {
            assert_eq!(VanishingPolynomial::on_coset(lg_n, generator).err(), zero);
        }
        assert!(VanishingPolynomial::on_coset(4, root).is_ok());
        stream.synchronize().unwrap();
    });
}
