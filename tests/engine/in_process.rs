//! The public engine: on the CPU, and on a GPU or the emulated one.

use std::sync::{Arc, OnceLock};

use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_ff::UniformRand;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    curve::{Fr, G1Affine, G2Affine, Group, points::CurvePoint},
    engine::{
        Engine, EngineInput, EngineOptions, EngineOutput, EngineRun, FieldId, NttPlan, Prime31,
        cuda::DeviceSelection,
        steps::{
            EvaluateStep, Gf2EchelonStep, InputStep, IntMulStep, MsmStep, Operation, Program,
            ValueId, Verification,
        },
    },
    error::{Error, FieldProblem},
};

use crate::emulated;

/// On the CPU, without checks and with full ones, and on a GPU with those that cost little.
fn engines() -> &'static [Engine] {
    static ENGINES: OnceLock<Vec<Engine>> = OnceLock::new();
    ENGINES.get_or_init(|| {
        let cpu = EngineOptions { threads: 2, gpus: false, ..EngineOptions::default() };
        let selection = DeviceSelection { driver: emulated::driver(), devices: vec![0] };
        let gpu = EngineOptions {
            gpus: true,
            selection,
            memory_percent: 10,
            verify: Verification::Probabilistic,
            ..cpu.clone()
        };
        let checked = EngineOptions { verify: Verification::Full, ..cpu.clone() };
        let engines: Vec<_> =
            [cpu, checked, gpu].map(|options| Engine::with(options).unwrap()).into();
        assert_eq!(engines[2].device().kind, "cuda", "{}", engines[2].reason());
        engines
    })
}

fn random<T: UniformRand>(count: usize, seed: u64) -> Vec<T> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count).map(|_| T::rand(&mut rng)).collect()
}

fn msms_match_arkworks<A: CurvePoint>(sizes: &[usize]) {
    for &n in sizes {
        let points: Vec<A> = A::Group::normalize_batch(&random::<A::Group>(n, n as u64));
        let scalars: Vec<Fr> = random(n, 1);
        let expected = A::Group::msm(&points, &scalars).unwrap();
        for engine in engines() {
            let bases = engine.bases(&points).unwrap();
            assert_eq!(engine.msm(&bases, &scalars).unwrap(), expected, "{n} points");
            let half = A::Group::msm(&points[..n / 2], &scalars[..n / 2]).unwrap();
            assert_eq!(engine.msm(&bases, &scalars[..n / 2]).unwrap(), half, "half of {n}");
        }
    }
}

#[test]
fn msms_of_the_public_engine_match_arkworks() {
    msms_match_arkworks::<G1Affine>(&[2, 33, 300]);
    msms_match_arkworks::<G2Affine>(&[2, 33]);
}

#[test]
fn transforms_of_the_public_engine_match_arkworks() {
    for lg_n in [0, 1, 5, 9] {
        let n = 1_usize << lg_n;
        let domain = Radix2EvaluationDomain::<Fr>::new(n).unwrap();
        let rows: Vec<Fr> = random(3 * n, 2);
        let expected: Vec<Fr> = rows.chunks(n).flat_map(|row| domain.fft(row)).collect();
        for engine in engines() {
            let mut values = rows.clone();
            engine.ntt(&mut values, NttPlan::forward(lg_n)).unwrap();
            assert!(values == expected, "2^{lg_n}");
            engine.ntt(&mut values, NttPlan::inverse(lg_n)).unwrap();
            assert!(values == rows, "back from 2^{lg_n}");
        }
    }
}

/// One program with vectors over all fields, of which one is an output that is an input.
#[test]
fn programs_of_the_public_engine_compute_over_every_field() {
    let prime = Prime31::BabyBear;
    let input = |field, length| Operation::from(InputStep { field, rows: 1, length });
    let [fr, words, bits, limbs] = [0, 1, 2, 3].map(ValueId);
    let program = Program::new(vec![
        input(FieldId::Bls12381Fr, 40),
        input(prime.into(), 3),
        Operation::from(InputStep { field: FieldId::Gf2, rows: 1, length: 2 }),
        input(FieldId::Integers, 2),
        MsmStep { input: fr, group: Group::G1, object_id: [0; 32], offset: 0 }.into(),
        EvaluateStep { input: words, point: 10_u32.into() }.into(),
        Gf2EchelonStep { input: bits, columns: 64 }.into(),
        IntMulStep { inputs: vec![limbs, limbs] }.into(),
    ]);
    let program = Arc::new(program.unwrap());
    let points = vec![G1Affine::generator(); 40];
    let scalars: Vec<Fr> = random(40, 3);
    for engine in engines() {
        let bases = engine.bases(&points).unwrap();
        let run = EngineRun {
            inputs: vec![
                EngineInput::Fr(&scalars),
                EngineInput::Words(&[1, 2, 3]),
                EngineInput::Bits(&[0b110, 0b011]),
                EngineInput::Words(&[u32::MAX, u32::MAX]),
            ],
            bases: vec![bases.any_group()],
            outputs: vec![ValueId(4), ValueId(5), ValueId(6), ValueId(7), fr],
            ..EngineRun::default()
        };
        let made = engine.run(&program, run).unwrap();
        let [
            EngineOutput::Sums(sums),
            EngineOutput::Words(value),
            EngineOutput::Bits(echelon),
            EngineOutput::Words(square),
            EngineOutput::Fr(same),
        ] = &made[..]
        else {
            panic!("other outputs")
        };
        let sum = G1Affine::from_sums(sums.clone()).unwrap();
        assert_eq!(sum, [G1Affine::generator() * scalars.iter().sum::<Fr>()]);
        assert_eq!(value[..], [321]);
        // Leading columns are the lowest ones.
        assert_eq!(echelon[..], [0b101, 0b110]);
        assert_eq!(square[..], [1, 0, u32::MAX - 1, u32::MAX]);
        assert!(**same == scalars);
    }
}

#[test]
fn wrong_operands_of_the_public_engine_are_refused() {
    let outside = G1Affine::new_unchecked(1_u64.into(), 1_u64.into());
    for engine in engines() {
        let points = [G1Affine::generator(), outside];
        let refused = engine.bases(&points).err().unwrap();
        assert_eq!(refused, Error::element("points", 1, FieldProblem::NotOnCurve));

        let bases = engine.bases(&points[..1]).unwrap();
        let refused = engine.msm(&bases, &random::<Fr>(2, 4)).unwrap_err();
        let problem = FieldProblem::TooLong { max: 1, got: 2 };
        assert_eq!(refused, Error::field("scalars", problem));

        for (length, expected) in [(0, 8), (7, 8), (17, 16)] {
            let mut values: Vec<Fr> = random(length, 5);
            let refused = engine.ntt(&mut values, NttPlan::forward(3)).unwrap_err();
            let problem = FieldProblem::Length { expected, got: length as u64 };
            assert_eq!(refused, Error::field("values", problem));
        }
        let refused = engine.ntt(&mut random::<Fr>(4, 5), NttPlan::forward(64));
        assert!(refused.is_err(), "no row has 2^64 elements");

        let field = FieldId::from(Prime31::BabyBear);
        let input = InputStep { field, rows: 1, length: 2 };
        let step = EvaluateStep { input: ValueId(0), point: 1_u32.into() };
        let program = Arc::new(Program::new(vec![input.into(), step.into()]).unwrap());
        let run = |inputs: Vec<EngineInput<'_>>, output| {
            let outputs = vec![ValueId(output)];
            engine.run(&program, EngineRun { inputs, outputs, ..EngineRun::default() })
        };
        let words = [1, 2, 3];
        assert!(run(vec![EngineInput::Words(&words[..2])], 1).is_ok());
        let missing = Error::field("inputs", FieldProblem::Length { expected: 1, got: 0 });
        assert_eq!(run(Vec::new(), 1).err(), Some(missing));
        assert!(run(vec![EngineInput::Words(&words)], 1).is_err(), "too many elements");
        assert!(run(vec![EngineInput::Fr(&[Fr::from(1)])], 1).is_err(), "elements of Fr");
        assert!(run(vec![EngineInput::Words(&[1, u32::MAX])], 1).is_err(), "not below the prime");
        assert!(run(vec![EngineInput::Words(&words[..2])], 7).is_err(), "no such step");
    }
}
