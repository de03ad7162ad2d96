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
            EvaluateStep, Gf2EchelonStep, InputStep, IntMulStep, MsmStep, Operation, PowersStep,
            Program, SparseProductStep, ValueId, Verification,
        },
    },
    error::{Error, FieldProblem},
    sparse::{SparseBuilder, SparseMatrix},
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
        let refused = engine.ntt(&mut random::<Fr>(4, 5), NttPlan::forward(64)).unwrap_err();
        assert_eq!(refused, Error::field("lg_n", FieldProblem::TooLarge { max: 32 }));
        let zero = NttPlan { coset: Some(Fr::from(0).into()), ..NttPlan::forward(2) };
        let refused = engine.ntt(&mut random::<Fr>(4, 5), zero).unwrap_err();
        assert_eq!(refused, Error::field("coset", FieldProblem::Zero));
        let refused = engine.ntt(&mut vec![Fr::from(0); 65_537], NttPlan::forward(0));
        let problem = FieldProblem::TooLong { max: 65_536, got: 65_537 };
        assert_eq!(refused, Err(Error::field("values", problem)));

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
        let other = Error::element("inputs", 0, FieldProblem::OtherEncoding);
        // As many bytes as the input has.
        for input in [EngineInput::Bits(&[1]), EngineInput::Fr(&[Fr::from(1)])] {
            assert_eq!(run(vec![input], 1).err().as_ref(), Some(&other));
        }
        assert!(run(vec![EngineInput::Words(&[1, u32::MAX])], 1).is_err(), "not below the prime");
        assert!(run(vec![EngineInput::Words(&words[..2])], 7).is_err(), "no such step");
    }
}

/// Two rows, of which the second has a 3 in the first column.
fn one_entry(columns: usize) -> SparseMatrix {
    let mut builder = SparseBuilder::new(2, columns);
    builder.push_row([]).unwrap();
    builder.push_row([(Fr::from(3), 0)]).unwrap();
    builder.build().unwrap()
}

#[test]
fn bases_and_matrices_that_do_not_suit_their_step_are_refused() {
    let input = |length| InputStep { field: FieldId::Bls12381Fr, rows: 2, length };
    let step = |group, offset| MsmStep { input: ValueId(0), group, object_id: [0; 32], offset };
    let rows: Vec<Fr> = random(8, 6);
    let sum = |scalars: &[Fr]| G1Affine::generator() * scalars.iter().sum::<Fr>();
    for engine in engines() {
        let g1 = engine.bases(&[G1Affine::generator(); 6]).unwrap();
        let g2 = engine.bases(&[G2Affine::generator(); 4]).unwrap().any_group();
        let run = |group, offset, bases| {
            let steps = vec![input(4).into(), step(group, offset).into()];
            let program = Arc::new(Program::new(steps).unwrap());
            let (inputs, outputs) = (vec![EngineInput::Fr(&rows)], vec![ValueId(1)]);
            let run = EngineRun { inputs, bases: vec![bases], outputs, ..EngineRun::default() };
            engine.run(&program, run)
        };
        let [EngineOutput::Sums(sums)] = &run(Group::G1, 2, g1.any_group()).unwrap()[..] else {
            panic!("other outputs")
        };
        let sums = G1Affine::from_sums(sums.clone()).unwrap();
        assert_eq!(sums, [sum(&rows[..4]), sum(&rows[4..])]);
        let few = |count| g1.slice(0, count).unwrap().any_group();
        let wrong = [
            (Group::G1, 0, few(3), "input"),
            (Group::G1, 0, few(0), "input"),
            (Group::G1, 3, g1.any_group(), "offset"),
            (Group::G1, 0, g2.clone(), "group"),
            (Group::G2, 0, g1.any_group(), "group"),
        ];
        for (group, offset, bases, field) in wrong {
            let refused = run(group, offset, bases).unwrap_err().to_string();
            assert!(refused.contains(&format!("program.steps[1].msm.{field}")), "{refused}");
        }

        let step = SparseProductStep { input: ValueId(0), object_id: [0; 32], rows: 2, terms: 1 };
        let program = Arc::new(Program::new(vec![input(4).into(), step.into()]).unwrap());
        let product = |columns| {
            let run = EngineRun {
                inputs: vec![EngineInput::Fr(&rows)],
                matrices: vec![one_entry(columns)],
                outputs: vec![ValueId(1)],
                ..EngineRun::default()
            };
            engine.run(&program, run)
        };
        let [EngineOutput::Fr(made)] = &product(4).unwrap()[..] else { panic!("other outputs") };
        let zero = Fr::from(0);
        assert_eq!(made[..], [zero, rows[0] * Fr::from(3), zero, rows[4] * Fr::from(3)]);
        let refused = product(5).unwrap_err().to_string();
        assert!(refused.contains("program.steps[1].sparse_product.input"), "{refused}");
    }
}

/// Also in a task of a pool, from which runs move to another thread.
#[test]
fn values_that_fit_in_no_memory_are_refused() {
    let powers = |length| PowersStep {
        field: FieldId::Bls12381Fr,
        base: Fr::from(2).into(),
        first: Fr::from(1).into(),
        length,
    };
    for engine in engines() {
        let run = |length| {
            let program = Arc::new(Program::new(vec![powers(length).into()]).unwrap());
            engine.run(&program, EngineRun { outputs: vec![ValueId(0)], ..EngineRun::default() })
        };
        let refused = run(1 << 40).unwrap_err();
        let Error::Invalid { problem: FieldProblem::NoMemory { bytes }, .. } = refused else {
            panic!("{refused}")
        };
        assert!(bytes >= 32 << 40, "{bytes} bytes");
        let (here, in_a_pool) = rayon::join(|| run(5), || run(5));
        assert!(here.unwrap() == in_a_pool.unwrap());
    }
    let wrong = EngineOptions { gpus: false, memory_percent: 0, ..EngineOptions::default() };
    let refused = Engine::with(wrong).err();
    assert_eq!(refused, Some(Error::field("memory_percent", FieldProblem::OutOfRange)));
}
