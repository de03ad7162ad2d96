//! The public engine: on the CPU, and on a GPU or the emulated one.

use std::sync::OnceLock;

use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_ff::UniformRand;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    builder::ProgramObject,
    curve::{Fr, G1Affine, G2Affine, points::CurvePoint},
    engine::{
        Engine, EngineInput, EngineOptions, EngineRun, FieldId, NttPlan, Prime31, ProgramBases,
        ProgramBuilder, Verification, cuda::DeviceSelection,
    },
    error::{EngineError, FieldProblem, InputError},
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
    let points = vec![G1Affine::generator(); 40];
    let scalars: Vec<Fr> = random(40, 3);
    for engine in engines() {
        let bases = engine.bases(&points).unwrap();
        let mut program = ProgramBuilder::new();
        let fr = program.input(40).unwrap();
        let words = program.input_over(FieldId::from(Prime31::BabyBear), 1, 3).unwrap();
        let bits = program.input_bits(2, 64).unwrap();
        let limbs = program.input_integers(1, 2).unwrap();
        let sum = program.msm(&bases, fr).unwrap();
        let value = program.evaluate(words, 10_u32).unwrap();
        let echelon = program.gf2_echelon(bits).unwrap();
        let square = program.int_mul(limbs, limbs).unwrap();
        let program = program.build().unwrap();
        let run = EngineRun::new(&program)
            .input(fr, &scalars)
            .input(words, &[1_u32, 2, 3][..])
            .input(bits.vector(), &[0b110_u64, 0b011][..])
            .input(limbs, &[u32::MAX, u32::MAX][..])
            .send_points(sum)
            .send(value)
            .send(echelon.vector())
            .send(square)
            .send(fr);
        let made = engine.run(run).unwrap();
        let expected = G1Affine::generator() * scalars.iter().sum::<Fr>();
        assert_eq!(made.points(sum).unwrap(), [expected]);
        assert_eq!(made.words(value).unwrap(), [321]);
        // Leading columns are the lowest ones.
        assert_eq!(made.bits(echelon.vector()).unwrap(), [0b101, 0b110]);
        assert_eq!(made.words(square).unwrap(), [1, 0, u32::MAX - 1, u32::MAX]);
        assert!(made.vector(fr).unwrap() == scalars);
        assert!(made.vector(words).is_err(), "not an output");
    }
}

#[test]
fn wrong_operands_of_the_public_engine_are_refused() {
    let outside = G1Affine::new_unchecked(1_u64.into(), 1_u64.into());
    for engine in engines() {
        let points = [G1Affine::generator(), outside];
        let refused = engine.bases(&points).err().unwrap();
        assert_eq!(refused, EngineError::element("points", 1, FieldProblem::NotOnCurve));

        let bases = engine.bases(&points[..1]).unwrap();
        let refused = engine.msm(&bases, &random::<Fr>(2, 4)).unwrap_err();
        let problem = FieldProblem::TooLong { max: 1, got: 2 };
        assert_eq!(refused, EngineError::field("scalars", problem));

        for (length, expected) in [(0, 8), (7, 8), (17, 16)] {
            let mut values: Vec<Fr> = random(length, 5);
            let refused = engine.ntt(&mut values, NttPlan::forward(3)).unwrap_err();
            let problem = FieldProblem::Length { expected, got: length as u64 };
            assert_eq!(refused, EngineError::field("values", problem));
        }
        let refused = engine.ntt(&mut random::<Fr>(4, 5), NttPlan::forward(64)).unwrap_err();
        assert_eq!(refused, EngineError::field("lg_n", FieldProblem::TooLarge { max: 32 }));
        let zero = NttPlan { coset: Some(Fr::from(0).into()), ..NttPlan::forward(2) };
        let refused = engine.ntt(&mut random::<Fr>(4, 5), zero).unwrap_err();
        assert_eq!(refused, EngineError::field("coset", FieldProblem::Zero));
        let refused = engine.ntt(&mut vec![Fr::from(0); 65_537], NttPlan::forward(0));
        let problem = FieldProblem::TooLong { max: 65_536, got: 65_537 };
        assert_eq!(refused, Err(EngineError::field("values", problem)));

        let mut program = ProgramBuilder::new();
        let input = program.input_over(FieldId::from(Prime31::BabyBear), 1, 2).unwrap();
        let value = program.evaluate(input, 1_u32).unwrap();
        let program = program.build().unwrap();
        let run = |elements: EngineInput<'_>| {
            engine.run(EngineRun::new(&program).input(input, elements).send(value))
        };
        let words = [1, 2, 3];
        assert!(run(EngineInput::Words(&words[..2])).is_ok());
        let missing = engine.run(EngineRun::new(&program).send(value)).unwrap_err().to_string();
        assert!(missing.contains("program.steps[0].input"), "{missing}");
        assert!(run(EngineInput::Words(&words)).is_err(), "too many elements");
        let other = EngineError::element("inputs", 0, FieldProblem::OtherEncoding);
        // As many bytes as the input has.
        for elements in [EngineInput::Bits(&[1]), EngineInput::Fr(&[Fr::from(1)])] {
            assert_eq!(run(elements).err().as_ref(), Some(&other));
        }
        assert!(run(EngineInput::Words(&[1, u32::MAX])).is_err(), "not below the prime");
        let mut other = ProgramBuilder::new();
        let of_other = other.input_over(FieldId::from(Prime31::BabyBear), 1, 2).unwrap();
        let foreign = EngineRun::new(&program).input(input, &words[..2]).send(of_other);
        let refused = engine.run(foreign).unwrap_err();
        assert_eq!(refused, EngineError::element("outputs", 0, FieldProblem::OtherProgram));
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
    let rows: Vec<Fr> = random(8, 6);
    let sum = |scalars: &[Fr]| G1Affine::generator() * scalars.iter().sum::<Fr>();
    for engine in engines() {
        let bases = engine.bases(&[G1Affine::generator(); 6]).unwrap();
        let mut program = ProgramBuilder::new();
        let input = program.input_rows(2, 4).unwrap();
        let sums = program.msm(&bases.slice(2, 4).unwrap(), input).unwrap();
        for count in [0, 3] {
            let few = bases.slice(0, count).unwrap();
            let refused = program.msm(&few, input).unwrap_err().to_string();
            assert!(refused.contains("program.steps[2].msm.input"), "{refused}");
        }
        let product = program.multiply_sparse(engine.matrix(&one_entry(4)), input).unwrap();
        let refused = program.multiply_sparse(engine.matrix(&one_entry(5)), input).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("program.steps[3].sparse_product.input"), "{refused}");
        let program = program.build().unwrap();
        let run = EngineRun::new(&program).input(input, &rows).send_points(sums).send(product);
        let made = engine.run(run).unwrap();
        assert_eq!(made.points(sums).unwrap(), [sum(&rows[..4]), sum(&rows[4..])]);
        let zero = Fr::from(0);
        let expected = [zero, rows[0] * Fr::from(3), zero, rows[4] * Fr::from(3)];
        assert_eq!(made.vector(product).unwrap(), expected);

        // Named by an id that no engine gave.
        let object = ProgramObject { id: [7; 32], keeper: None };
        let foreign = ProgramBases::<G1Affine>::new(object, 0, 4);
        let mut program = ProgramBuilder::new();
        let input = program.input_rows(2, 4).unwrap();
        let sums = program.msm(&foreign, input).unwrap();
        let program = program.build().unwrap();
        let run = EngineRun::new(&program).input(input, &rows).send_points(sums);
        assert_eq!(engine.run(run).unwrap_err(), InputError::NotFound.into());
    }
}

/// Also in a task of a pool, from which runs move to another thread.
#[test]
fn values_that_fit_in_no_memory_are_refused() {
    for engine in engines() {
        let run = |length| -> Result<_, EngineError> {
            let mut program = ProgramBuilder::new();
            let powers = program.powers(Fr::from(1), Fr::from(2), length)?;
            let program = program.build()?;
            let made = engine.run(EngineRun::new(&program).send(powers))?;
            Ok(made.vector(powers).map(<[Fr]>::to_vec)?)
        };
        let refused = run(1 << 40).unwrap_err();
        let EngineError::Input(InputError::Invalid {
            problem: FieldProblem::NoMemory { bytes },
            ..
        }) = refused
        else {
            panic!("{refused}")
        };
        assert!(bytes >= 32 << 40, "{bytes} bytes");
        let (here, in_a_pool) = rayon::join(|| run(5), || run(5));
        assert!(here.unwrap() == in_a_pool.unwrap());
    }
    let wrong = EngineOptions { gpus: false, memory_percent: 0, ..EngineOptions::default() };
    let refused = Engine::with(wrong).err();
    assert_eq!(refused, Some(EngineError::field("memory_percent", FieldProblem::OutOfRange)));
}
