//! NTTs against their definition, and at larger sizes against arkworks.

use ark_ff::{AdditiveGroup, BigInt, BigInteger, FftField, Field, PrimeField, UniformRand};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    curve::{
        Fr,
        scalars::{ScalarEncoding, encode_fr},
    },
    engine::{
        EncodedScalars, JobControl, MsmNttEngine, NttPlan, NttRows,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::{EngineError, FieldPath, FieldProblem, InputError},
    program::InputSpec,
};

use crate::vec_sink::VecSink;

fn row(lg_n: u32, seed: u64) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..1 << lg_n).map(|_| Fr::rand(&mut rng)).collect()
}

/// Every direction, order and kind of coset.
fn plans(lg_n: u32) -> impl Iterator<Item = NttPlan> {
    let cosets = [None, Some(Fr::GENERATOR), Some(-Fr::from(3)), Some(Fr::ONE)];
    cosets.into_iter().flat_map(move |coset| {
        (0..8).map(move |bits| NttPlan {
            lg_n,
            inverse: bits & 1 != 0,
            coset,
            input_reversed: bits & 2 != 0,
            output_reversed: bits & 4 != 0,
        })
    })
}

fn reversed(row: &[Fr]) -> Vec<Fr> {
    let lg_n = row.len().trailing_zeros();
    let at = |i: usize| (0..lg_n).fold(0, |j, bit| j | (i >> bit & 1) << (lg_n - 1 - bit));
    (0..row.len()).map(|i| row[at(i)]).collect()
}

/// Applies `natural`, a transform from natural to natural order, with the plan's orders.
fn ordered(plan: &NttPlan, row: &[Fr], natural: impl Fn(&[Fr]) -> Vec<Fr>) -> Vec<Fr> {
    let input = if plan.input_reversed { reversed(row) } else { row.to_vec() };
    let output = natural(&input);
    if plan.output_reversed { reversed(&output) } else { output }
}

fn by_arkworks(plan: &NttPlan, row: &[Fr]) -> Vec<Fr> {
    let domain = Radix2EvaluationDomain::<Fr>::new(1 << plan.lg_n).unwrap();
    let domain = domain.get_coset(plan.coset.unwrap_or(Fr::ONE)).unwrap();
    ordered(plan, row, |row| if plan.inverse { domain.ifft(row) } else { domain.fft(row) })
}

fn transform(engine: &dyn MsmNttEngine, plan: &NttPlan, row: &[Fr]) -> Vec<Fr> {
    let mut rows = [row.to_vec()];
    engine.ntt_in_place(plan, &mut rows, &JobControl::default()).unwrap();
    rows.into_iter().next().unwrap()
}

/// Every size, each with one in `every` orders and cosets. All of these occur.
pub fn every_size_order_and_coset(engine: &dyn MsmNttEngine, lg_n_max: u32, every: usize) {
    for lg_n in 0..=lg_n_max {
        let input = row(lg_n, lg_n.into());
        for plan in plans(lg_n).skip(lg_n as usize % every).step_by(every) {
            assert!(transform(engine, &plan, &input) == by_arkworks(&plan, &input), "{plan:?}");
        }
    }
}

/// Rows that the CPU engines transform in parts.
#[test]
fn long_rows_are_transformed_as_by_arkworks() {
    let engines: [&dyn MsmNttEngine; 2] =
        [&CpuEngine::new(2).unwrap(), &ArkworksEngine::new(2).unwrap()];
    for lg_n in [18, 19] {
        let input = row(lg_n, lg_n.into());
        // Each direction, order and kind of coset occurs.
        for plan in plans(lg_n).step_by(5) {
            let expected = by_arkworks(&plan, &input);
            for engine in engines {
                let name = engine.description().kind;
                assert!(transform(engine, &plan, &input) == expected, "{name}: {plan:?}");
            }
        }
    }
}

/// output[j] = sum of input[i] * (shift * root^j)^i, and the inverse transform inverts this.
pub fn matches_the_definition(engine: &dyn MsmNttEngine) {
    for lg_n in 0..=5 {
        let input = row(lg_n, 99);
        let root = Fr::get_root_of_unity(1 << lg_n).unwrap();
        for plan in plans(lg_n) {
            let shift = plan.coset.unwrap_or(Fr::ONE);
            let forward = |row: &[Fr]| -> Vec<Fr> {
                let at = |j: u64| shift * root.pow([j]);
                let sum = |x: Fr| row.iter().rev().fold(Fr::ZERO, |sum, value| sum * x + value);
                (0..row.len() as u64).map(|j| sum(at(j))).collect()
            };
            let output = transform(engine, &plan, &input);
            if plan.inverse {
                let swapped = NttPlan {
                    inverse: false,
                    input_reversed: plan.output_reversed,
                    output_reversed: plan.input_reversed,
                    ..plan
                };
                assert_eq!(ordered(&swapped, &output, forward), input, "{plan:?}");
            } else {
                assert_eq!(output, ordered(&plan, &input, forward), "{plan:?}");
            }
        }
    }
}

/// For each number of rows, one in `every` orders and cosets.
pub fn batches(engine: &dyn MsmNttEngine, every: usize) {
    for (lg_n, batch) in [(0, 5), (1, 3), (6, 70), (11, 9), (15, 3), (4, 0)] {
        let input: Vec<Vec<Fr>> = (0..batch).map(|seed| row(lg_n, seed)).collect();
        let plans = plans(lg_n).filter(|plan| plan.coset != Some(Fr::ONE));
        for plan in plans.skip(lg_n as usize % every).step_by(every) {
            let mut rows = input.clone();
            engine.ntt_in_place(&plan, &mut rows, &JobControl::default()).unwrap();
            for (output, input) in rows.iter().zip(&input) {
                assert!(*output == by_arkworks(&plan, input), "{plan:?}");
            }
        }
    }
}

pub fn refuses_invalid_plans(engine: &dyn MsmNttEngine) {
    let plan = plans(3).next().unwrap();
    let run = |plan: &NttPlan, len: usize, control: &JobControl| {
        engine.ntt_in_place(plan, &mut [vec![Fr::ONE; len]], control)
    };
    let go = JobControl::default();
    assert!(run(&plan, 8, &go).is_ok());
    assert!(matches!(run(&plan, 7, &go), Err(EngineError::Internal(_))));
    let huge = NttPlan { lg_n: 33, ..plan };
    let is_about = |refused: Option<EngineError>, name| match refused {
        Some(EngineError::Input(InputError::Invalid { path, .. })) => {
            path == FieldPath::Field(name)
        }
        _ => false,
    };
    assert!(is_about(run(&huge, 8, &go).err(), "lg_n"));
    let zero = NttPlan { coset: Some(Fr::ZERO), ..plan };
    assert!(is_about(run(&zero, 8, &go).err(), "coset"));
    go.cancel();
    assert_eq!(run(&plan, 8, &go), Err(EngineError::Cancelled));
}

/// Rows shorter than the transform, in each encoding, with elements that are not canonical.
pub fn encodings_are_checked(engine: &dyn MsmNttEngine) {
    const LG_N: u32 = 5;
    const ROWS: usize = 3;
    const LENGTH: usize = 19;
    let elements = row(6, 3);
    let both = [ScalarEncoding::Canonical, ScalarEncoding::Montgomery];
    for (i, (from, to)) in both.iter().flat_map(|from| both.map(|to| (*from, to))).enumerate() {
        let plan = plans(LG_N).nth(3 * i).unwrap();
        let mut bytes = vec![0; 32 * ROWS * LENGTH];
        encode_fr(from, &elements[..ROWS * LENGTH], &mut bytes);
        let run = |bytes: &[u8], reduce| {
            let spec = InputSpec { encoding: from, count: (ROWS * LENGTH) as u64, reduce };
            let input = EncodedScalars { spec, first: 500, source: &bytes };
            let output = VecSink::new((ROWS * 32) << LG_N);
            let (count, row_length, check) = (ROWS, LENGTH, i % 2 == 0);
            let rows = NttRows {
                input,
                count,
                row_length,
                encoding: to,
                output: &output,
                check_on_device: check,
            };
            let executor = engine.ntt(&plan, &rows, &JobControl::default())?;
            assert_eq!(executor.checked_on_device, check && executor.engine == "cuda");
            Ok(output.into_bytes())
        };
        let mut expected = vec![0; (ROWS * 32) << LG_N];
        for (given, out) in elements.chunks(LENGTH).zip(expected.chunks_mut(32 << LG_N)) {
            let mut padded = given.to_vec();
            padded.resize(1 << LG_N, Fr::ZERO);
            encode_fr(to, &by_arkworks(&plan, &padded), out);
        }
        assert!(run(&bytes, false).unwrap() == expected, "{plan:?}");
        // Add r: the same elements if they are to be reduced. Element 40 is the first one refused.
        for number in [40, 50] {
            let element = &mut bytes[32 * number..][..32];
            let mut value = BigInt::<4>::default();
            for (limb, bytes) in value.0.iter_mut().zip(element.as_chunks().0) {
                *limb = u64::from_le_bytes(*bytes);
            }
            assert!(!value.add_with_carry(&Fr::MODULUS));
            element.copy_from_slice(&value.to_bytes_le());
        }
        assert!(run(&bytes, true).unwrap() == expected, "{plan:?}");
        let refused = EngineError::element("elements", 540, FieldProblem::NotCanonical);
        assert_eq!(run(&bytes, false), Err(refused), "{plan:?}");
    }
}
