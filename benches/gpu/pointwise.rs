//! Operations on vectors and polynomials, as rates of the bytes that they must read and write; and
//! times of Groth16's quotient of three polynomials, in all and by parts.
//!
//! `sizes=20,24` selects sizes.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, FftField, Field, batch_inversion};
use capstan::{
    curve::{NttPlan, layout},
    device::{DeviceFault, DeviceLease, DeviceSlice},
    ntt::{
        DeviceFr, DeviceVector, LinearTerm, NttDevice, VanishingPolynomial, VectorKernels,
        table_bytes_max,
    },
};
use rayon::prelude::*;

use crate::{
    record::{RateFigure, Record, TimeFigure},
    rig::{BenchRig, Random},
};

const VECTORS: [u32; 3] = [16, 20, 24];
const QUOTIENTS: [u32; 3] = [20, 22, 24];
/// Number of elements that are compared with arkworks.
const SAMPLES: usize = 64;
/// Elements per task of the host's threads.
const CHUNK: usize = 1 << 12;

/// Name of a part of the quotient, and the function that runs it.
type Part<'a> = (&'static str, &'a dyn Fn() -> Result<(), DeviceFault>);

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let pointwise = VectorKernels::load(&rig.gpu).unwrap_or_else(|reason| panic!("{reason}"));
    let numbers = |text: String| text.split(',').map(|n| n.parse().expect("a number")).collect();
    let sizes: Option<Vec<u32>> = rig.argument("sizes").map(numbers);
    let chosen = |all: &[u32]| sizes.clone().unwrap_or_else(|| all.to_vec());
    for lg_n in chosen(rig.size(&VECTORS, &[12])) {
        rates(rig, record, &pointwise, lg_n);
        combinations(rig, record, &pointwise, lg_n);
    }
    let transforms = NttDevice::load(&rig.gpu, table_bytes_max(rig.gpu.arena().bytes()))
        .unwrap_or_else(|reason| panic!("{reason}"));
    for lg_n in chosen(rig.size(&QUOTIENTS, &[5, 11])) {
        Quotient::new(rig, &transforms, &pointwise, lg_n).measure(record);
    }
}

fn numbers(count: usize, seed: u64) -> Vec<Fr> {
    let mut values = vec![Fr::ZERO; count];
    let mut random = Random(seed);
    // Clear the top bits, so that elements are below r.
    for bytes in layout::fr_as_bytes_mut(&mut values).chunks_exact_mut(8) {
        bytes.copy_from_slice(&(random.next() >> 2).to_le_bytes());
    }
    values
}

fn put(rig: &BenchRig, to: DeviceVector<'_>, values: &[Fr]) {
    rig.put(to.cast().expect("bytes"), layout::fr_as_bytes(values));
}

fn get(rig: &BenchRig, from: DeviceVector<'_>) -> Vec<Fr> {
    let limbs = rig.get(from);
    let mut values = vec![Fr::ZERO; limbs.len()];
    layout::fr_as_bytes_mut(&mut values).copy_from_slice(bytemuck::cast_slice(&limbs));
    values
}

/// Evaluates the polynomial with these coefficients at a point.
fn evaluate(coefficients: &[Fr], point: Fr) -> Fr {
    let start = |number: usize| point.pow([(number * CHUNK) as u64]);
    let sum = |(number, chunk): (usize, &[Fr])| {
        chunk.iter().rev().fold(Fr::ZERO, |sum, value| sum * point + value) * start(number)
    };
    coefficients.par_chunks(CHUNK).enumerate().map(sum).sum()
}

/// Number of runs of an operation per measurement.
fn runs_per_measurement(rig: &BenchRig, lg_n: u32) -> usize {
    rig.size(1 << 24_u32.saturating_sub(lg_n).clamp(1, 5), 1)
}

/// An operation on vectors, and the bytes per element that it must read and write.
struct VectorOperation {
    op: &'static str,
    mode: &'static str,
    bytes: usize,
}

fn rate(
    rig: &BenchRig,
    record: &mut Record,
    lg_n: u32,
    operation: &VectorOperation,
    run: &dyn Fn() -> Result<(), DeviceFault>,
) {
    let &VectorOperation { op, mode, bytes } = operation;
    let runs = runs_per_measurement(rig, lg_n);
    let times = rig.times(|| (0..runs).try_for_each(|_| run()));
    let count = ((bytes * runs) as u64) << lg_n;
    let details = format!("2^{lg_n}, {bytes} bytes an element");
    record.record_rate(&RateFigure { op, mode, count, times, unit: "GB/s", details });
}

fn rates(rig: &BenchRig, record: &mut Record, pointwise: &VectorKernels, lg_n: u32) {
    let n = 1 << lg_n;
    let [a, b, c] = [1, 2, 3].map(|seed| numbers(n, seed));
    let leases = [&a, &b, &c].map(|values| rig.upload_new(layout::fr_as_bytes(values)));
    let [x, y, z] = leases.each_ref().map(DeviceLease::all::<DeviceFr>);
    let out = rig.lease::<DeviceFr>(n);
    let (to, stream, factor) = (out.all(), &rig.stream, Fr::from(7_u64).pow([99]));
    let mut rate = |op, mode, bytes, run: &dyn Fn() -> Result<(), DeviceFault>| {
        rate(rig, record, lg_n, &VectorOperation { op, mode, bytes }, run);
    };
    let check_at = |op: &str, i: usize, expected: Fr| {
        let found = get(rig, to.slice(i, 1).expect("inside"))[0];
        assert!(found == expected, "{op} at {i} is wrong");
    };
    let check = |op: &str, expected: &dyn Fn(usize) -> Fr| {
        let mut random = Random(9);
        for sample in 0..SAMPLES {
            let i = if sample == 0 { n - 1 } else { random.below(n) };
            check_at(op, i, expected(i));
        }
    };
    rate("fr_multiply", "device", 96, &|| pointwise.multiply(stream, to, x, y));
    check("multiply", &|i| a[i] * b[i]);
    rate("fr_add", "device", 96, &|| pointwise.add(stream, to, x, y));
    check("add", &|i| a[i] + b[i]);
    rate("fr_subtract", "device", 96, &|| pointwise.subtract(stream, to, x, y));
    check("subtract", &|i| a[i] - b[i]);
    rate("fr_scale", "device", 64, &|| pointwise.scale(stream, to, x, factor));
    check("scale", &|i| a[i] * factor);
    rate("fr_multiply_subtract", "device", 128, &|| {
        pointwise.rows.multiply_subtract(stream, to, [x, y, z])
    });
    check("multiply_subtract", &|i| a[i] * b[i] - c[i]);
    rate("fr_powers", "device", 32, &|| pointwise.powers(stream, to, factor, Fr::GENERATOR));
    check("powers", &|i| factor * Fr::GENERATOR.pow([i as u64]));
    rate("fr_invert", "device", 64, &|| pointwise.invert(stream, to, x));
    check("invert", &|i| a[i].inverse().expect("not zero"));
    rate("fr_invert", "in_place", 64, &|| pointwise.invert(stream, x, x));
    let value = to.slice(n - 1, 1).expect("inside");
    rate("fr_evaluate", "device", 32, &|| pointwise.evaluate(stream, value, y, factor));
    check_at("evaluate", n - 1, evaluate(&b, factor));
    let divide = |out, given| pointwise.divide_by_linear(stream, out, given, 1, factor);
    rate("fr_divide_by_linear", "device", 64, &|| divide(to, y));
    for i in [0, n / 3, n - 1] {
        check_at("divide by linear", i, evaluate(&b[i + 1..], factor));
    }
    let products: Vec<_> = b
        .iter()
        .scan(Fr::ONE, |product, x| {
            *product *= x;
            Some(*product)
        })
        .collect();
    rate("fr_prefix_products", "device", 64, &|| pointwise.prefix_products(stream, to, y, 1));
    check("prefix products", &|i| products[i]);
    rate("fr_divide_by_linear", "in_place", 64, &|| divide(y, y));
}

/// Linear combinations of multiples of one vector.
fn combinations(rig: &BenchRig, record: &mut Record, pointwise: &VectorKernels, lg_n: u32) {
    const COUNTS: [(usize, &str); 3] = [(2, "2_vectors"), (4, "4_vectors"), (8, "8_vectors")];
    let (n, stream) = (1 << lg_n, &rig.stream);
    let given = numbers(n, 1);
    let first = rig.upload_new(layout::fr_as_bytes(&given));
    let (multiples, out) = (rig.lease::<DeviceFr>(8 * n), rig.lease::<DeviceFr>(n));
    let multiplier = |k: usize| Fr::from(k as u64 + 2);
    let term = |k: usize| LinearTerm {
        factor: Fr::from(7_u64).pow([k as u64 + 50]),
        vector: multiples.all().slice(k * n, n).expect("inside"),
    };
    for k in 0..8 {
        let launched = pointwise.scale(stream, term(k).vector, first.all(), multiplier(k));
        launched.expect("a launch");
    }
    for (count, mode) in COUNTS {
        let terms: Vec<_> = (0..count).map(term).collect();
        let bytes = 32 * (count + 1);
        let operation = VectorOperation { op: "fr_linear_combination", mode, bytes };
        rate(rig, record, lg_n, &operation, &|| {
            pointwise.linear_combination(stream, out.all(), &terms)
        });
        let sum: Fr = (0..count).map(|k| terms[k].factor * multiplier(k)).sum();
        for i in [0, n / 3, n - 1] {
            let found = get(rig, out.all().slice(i, 1).expect("inside"))[0];
            assert!(found == given[i] * sum, "the combination of {count} vectors at {i} is wrong");
        }
    }
}

/// Three polynomials by their values on a domain; the third one is the product of the others there.
struct Quotient<'a> {
    rig: &'a BenchRig,
    transforms: &'a NttDevice,
    pointwise: &'a VectorKernels,
    lg_n: u32,
    given: Vec<Fr>,
    data: DeviceLease,
    out: DeviceLease,
}

impl<'a> Quotient<'a> {
    fn new(
        rig: &'a BenchRig,
        transforms: &'a NttDevice,
        pointwise: &'a VectorKernels,
        lg_n: u32,
    ) -> Self {
        let n = 1 << lg_n;
        let mut given = numbers(2 * n, 5);
        let products: Vec<_> = (0..n).into_par_iter().map(|i| given[i] * given[n + i]).collect();
        given.extend(products);
        let (data, out) = (rig.lease::<DeviceFr>(3 * n), rig.lease::<DeviceFr>(n));
        Self { rig, transforms, pointwise, lg_n, given, data, out }
    }

    fn vector(&self, i: usize) -> DeviceSlice<'_, DeviceFr> {
        let n = 1 << self.lg_n;
        self.data.all().slice(i * n, n).expect("three of them")
    }

    fn measure(&self, record: &mut Record) {
        let (lg_n, rig, stream) = (self.lg_n, self.rig, &self.rig.stream);
        let back = NttPlan {
            lg_n,
            inverse: true,
            coset: None,
            input_reversed: false,
            output_reversed: true,
        };
        let coset = Some(Fr::GENERATOR);
        let onto =
            NttPlan { inverse: false, coset, input_reversed: true, output_reversed: false, ..back };
        let from = NttPlan { coset, output_reversed: false, ..back };
        let plan = |transform, rows| self.transforms.plan(transform, rows).expect("a plan");
        let (back, onto, from) = (plan(&back, 3), plan(&onto, 3), plan(&from, 1));
        let vanishing = VanishingPolynomial::on_coset(lg_n, Fr::GENERATOR).expect("another coset");
        let vectors = [0, 1, 2].map(|i| self.vector(i));
        let to = if from.needs_output_buffer() { self.out.all() } else { vectors[0] };
        let apart = from.needs_output_buffer().then_some(to);
        let parts: [Part<'_>; 4] = [
            ("3_inverse", &|| self.transforms.run(stream, &back, self.data.all(), 3, None)),
            ("3_coset", &|| self.transforms.run(stream, &onto, self.data.all(), 3, None)),
            ("pointwise", &|| {
                self.pointwise.rows.multiply_subtract(stream, vectors[0], vectors)?;
                self.pointwise.divide(stream, vectors[0], vectors[0], &vanishing)
            }),
            ("inverse_coset", &|| self.transforms.run(stream, &from, vectors[0], 1, apart)),
        ];
        // The last part leaves elements that are not canonical, which the emulated driver rejects.
        let fresh = || {
            if rig.quick {
                put(rig, self.data.all(), &self.given);
            }
        };
        let all = || {
            fresh();
            parts.iter().try_for_each(|(_, part)| part())
        };
        put(rig, self.data.all(), &self.given);
        all().expect("launches");
        self.check(&get(rig, to));
        let time = |mode, run: &dyn Fn() -> Result<(), DeviceFault>| {
            let inner = runs_per_measurement(rig, lg_n);
            let mut times = rig.times(|| (0..inner).try_for_each(|_| run()));
            times.iter_mut().for_each(|time| *time /= inner as u32);
            TimeFigure { op: "quotient", mode, lg_n, batch: 1, times, how: String::new() }
        };
        for (mode, part) in parts {
            fresh();
            record.print_time(&time(mode, &|| {
                fresh();
                part()
            }));
        }
        record.record_time(&time("groth16", &all));
    }

    /// Checks the coefficients of (a b - c) / (X^n - 1) at a point.
    fn check(&self, coefficients: &[Fr]) {
        let (n, point) = (1_u64 << self.lg_n, Fr::from(3_u64).pow([1 << 41]) + Fr::ONE);
        let quotient = evaluate(coefficients, point);
        let root = Fr::get_root_of_unity(n).expect("a power of two");
        let above = point.pow([n]) - Fr::ONE;
        let value = |values: &[Fr]| {
            let sum = |(number, chunk): (usize, &[Fr])| -> Fr {
                let first = root.pow([(number * CHUNK) as u64]);
                let roots = std::iter::successors(Some(first), |power| Some(*power * root));
                let roots: Vec<Fr> = roots.take(chunk.len()).collect();
                let mut weights: Vec<Fr> = roots.iter().map(|root| point - root).collect();
                batch_inversion(&mut weights);
                chunk.iter().zip(roots).zip(weights).map(|((v, r), w)| *v * r * w).sum()
            };
            let sum: Fr = values.par_chunks(CHUNK).enumerate().map(sum).sum();
            sum * above / Fr::from(n)
        };
        let [a, b, c] = [0, 1, 2].map(|i| value(&self.given[i << self.lg_n..(i + 1) << self.lg_n]));
        assert!(quotient * above == a * b - c, "the quotient of 2^{} is wrong", self.lg_n);
    }
}
