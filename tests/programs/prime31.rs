//! Steps over fields of a prime below 2^31, against arithmetic of integers.

use capstan::{
    curve::{Fr, Group, NttPlan, scalars::ScalarEncoding},
    engine::{EncodedScalars, JobControl},
    error::EngineError,
    exec::{ElementSink, Executor, RunOperands},
    field::{FieldId, Prime31},
    ops::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        InputStep, LinearCombinationStep, MsmStep, NttStep, Operation, OperationProgram, PadStep,
        PointwiseOperation, PointwiseStep, PowersStep, PrefixProductStep, SliceStep,
        SparseProductStep,
    },
    program::{Constant, InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    arkworks31::by_arkworks,
    faulty_engine::{EngineMode, faulty_executor},
    rig::EXECUTOR,
    run_program::run_program,
    vec_sink::VecSink,
};

const LENGTH: usize = 32;

/// Inputs of `LENGTH` elements, and a step that reads them.
pub struct Call31 {
    prime: Prime31,
    encoding: ScalarEncoding,
    reduce: bool,
    rows: u32,
    inputs: Vec<Vec<u32>>,
    step: Operation,
}

impl Call31 {
    pub fn new(prime: Prime31, inputs: &[Vec<u32>], step: impl Into<Operation>) -> Self {
        let (encoding, inputs) = (ScalarEncoding::Canonical31, inputs.to_vec());
        Self { prime, encoding, reduce: false, rows: 1, inputs, step: step.into() }
    }

    pub fn of_rows(self, rows: u32) -> Self {
        Self { rows, ..self }
    }

    pub fn run(
        &self,
        executor: &dyn Executor,
        verify: Verification,
    ) -> Result<Vec<u32>, EngineError> {
        let (field, rows) = (self.prime.into(), self.rows);
        let input = |elements: &Vec<u32>| {
            InputStep { field, rows, length: elements.len() as u64 / u64::from(rows) }.into()
        };
        let mut steps: Vec<Operation> = self.inputs.iter().map(input).collect();
        steps.push(self.step.clone());
        let value = ValueId(steps.len() as u32 - 1);
        let program = std::sync::Arc::new(OperationProgram::new(steps)?);
        let bytes =
            |words: &Vec<u32>| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
        let bytes: Vec<_> = self.inputs.iter().map(bytes).collect();
        let sources: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let inputs = sources.iter().map(|source| {
            let count = source.len() as u64 / 4;
            let spec = InputSpec { encoding: self.encoding, count, reduce: self.reduce };
            EncodedScalars::of(spec, source)
        });
        let capstan::program::ValueType::Vector(shape) = program.value_type(value).expect("a step")
        else {
            panic!("points")
        };
        let sink = VecSink::new(shape.bytes() as usize);
        let sinks = [Some(ElementSink { encoding: self.encoding, sink: &sink })];
        let operands = RunOperands {
            inputs: &inputs.collect::<Vec<_>>(),
            sinks: &sinks,
            ..RunOperands::default()
        };
        let outputs = vec![OutputSpec { value, kind: OutputKind::Elements }];
        run_program(executor, program, outputs, &operands, verify, &JobControl::default())?;
        let bytes = sink.into_bytes();
        Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The value, which is the same on every executor and with every check.
    pub fn value(&self) -> Vec<u32> {
        let value = self.run(&*EXECUTOR, Verification::None).expect("succeeds");
        for verify in [Verification::Full, Verification::Probabilistic] {
            assert!(self.run(&*EXECUTOR, verify).expect("succeeds") == value, "{verify:?}");
            assert!(self.run(crate::gpu::executor(), verify).expect("succeeds") == value, "GPU");
        }
        value
    }

    /// The refusal, which is the same on every executor.
    fn refusal(&self) -> String {
        let refused = self.run(&*EXECUTOR, Verification::None).expect_err("refused");
        assert_eq!(self.run(crate::gpu::executor(), Verification::None), Err(refused.clone()));
        refused.to_string()
    }
}

/// Zero, the largest elements, and others.
fn samples(prime: Prime31, seed: u32) -> Vec<u32> {
    let p = prime.modulus();
    let spread = (0..LENGTH as u32).map(|i| (i + seed).wrapping_mul(0x9e37_79b9) % p);
    let mut row: Vec<_> = spread.collect();
    row[..4].copy_from_slice(&[0, p - 1, 1, p - 2]);
    row.rotate_left(seed as usize % LENGTH);
    row
}

fn ids(count: u32) -> Vec<ValueId> {
    (0..count).map(ValueId).collect()
}

/// A function of the prime and of three elements.
type OfThree = fn(u64, u64, u64, u64) -> u64;

#[test]
fn pointwise_steps_compute_modulo_the_prime() {
    for prime in Prime31::ALL {
        let p = u64::from(prime.modulus());
        let rows = [1, 2, 3].map(|seed| samples(*prime, seed));
        use PointwiseOperation as Op;
        let expected: [(Op, OfThree); 5] = [
            (Op::Add, |p, a, b, _| (a + b) % p),
            (Op::Subtract, |p, a, b, _| (a + p - b) % p),
            (Op::Multiply, |p, a, b, _| a * b % p),
            (Op::MultiplyAdd, |p, a, b, c| (a * b + c) % p),
            (Op::MultiplySubtract, |p, a, b, c| (a * b + p - c) % p),
        ];
        for (operation, expected) in expected {
            let arity = operation.arity();
            let step = PointwiseStep { operation, inputs: ids(arity as u32) };
            let made = Call31::new(*prime, &rows[..arity], step).value();
            for (i, made) in made.into_iter().enumerate() {
                let at = |row: usize| u64::from(rows[row][i]);
                assert_eq!(u64::from(made), expected(p, at(0), at(1), at(2)), "{operation:?}");
            }
        }
        let step = PointwiseStep { operation: Op::Invert, inputs: ids(1) };
        let inverses = Call31::new(*prime, &rows[..1], step).value();
        for (x, inverse) in rows[0].iter().zip(inverses) {
            let product = u64::from(*x) * u64::from(inverse) % p;
            assert_eq!(product, u64::from(*x != 0), "{prime}");
        }
    }
}

#[test]
fn other_steps_compute_modulo_the_prime() {
    for prime in Prime31::ALL {
        let (p, field) = (prime.modulus(), FieldId::from(*prime));
        let wide = u64::from(p);
        let rows = [4, 5].map(|seed| samples(*prime, seed));
        let constant = Constant::Word;
        let step =
            ConstantStep { field, elements: rows[0].iter().copied().map(constant).collect() };
        assert_eq!(Call31::new(*prime, &[], step).value(), rows[0]);
        let step = PowersStep { field, base: constant(p - 2), first: constant(3), length: 70 };
        let mut power = 3;
        for made in Call31::new(*prime, &[], step).value() {
            assert_eq!(u64::from(made), power);
            power = power * (wide - 2) % wide;
        }
        let factors = vec![constant(p - 1), constant(7)];
        let step = LinearCombinationStep { inputs: ids(2), factors };
        let combined = Call31::new(*prime, &rows, step).value();
        for (i, made) in combined.into_iter().enumerate() {
            let [a, b] = [0, 1].map(|row| u64::from(rows[row][i]));
            assert_eq!(u64::from(made), (a * (wide - 1) + 7 * b) % wide);
        }
        // More terms than a launch on a GPU takes.
        let inputs = (0..20).map(|term| ValueId(term % 2)).collect();
        let step = LinearCombinationStep { inputs, factors: (1..=20).map(constant).collect() };
        let combined = Call31::new(*prime, &rows, step).value();
        for (i, made) in combined.into_iter().enumerate() {
            let [a, b] = [0, 1].map(|row| u64::from(rows[row][i]));
            assert_eq!(u64::from(made), (100 * a + 110 * b) % wide);
        }
        let step = EvaluateStep { input: ValueId(0), point: constant(p - 3) };
        let value =
            rows[0].iter().rev().fold(0, |value, x| (value * (wide - 3) + u64::from(*x)) % wide);
        assert_eq!(Call31::new(*prime, &rows[..1], step).value(), [value as u32]);
        let step = SliceStep { input: ValueId(0), offset: 3, length: 5 };
        assert_eq!(Call31::new(*prime, &rows[..1], step).value(), rows[0][3..8]);
        let step = ConcatStep { inputs: ids(2) };
        assert_eq!(Call31::new(*prime, &rows, step).value(), rows.concat());
        let step = PadStep { input: ValueId(0), length: LENGTH as u64 + 3 };
        let padded = Call31::new(*prime, &rows[..1], step).value();
        assert_eq!(padded, [&rows[0][..], &[0; 3]].concat());
    }
}

fn ntt(lg_n: u32, coset: Option<u32>) -> NttPlan<u32> {
    let (inverse, input_reversed, output_reversed) = (false, false, true);
    NttPlan { lg_n, inverse, coset, input_reversed, output_reversed }
}

fn ntt_step(plan: NttPlan<u32>) -> NttStep {
    NttStep { input: ValueId(0), plan: plan.with_coset(plan.coset.map(Constant::Word)) }
}

#[test]
fn transforms_of_padded_rows_equal_those_of_arkworks() {
    for prime in Prime31::ALL {
        for plan in [ntt(6, None), NttPlan { inverse: true, ..ntt(6, Some(5)) }] {
            let rows = [samples(*prime, 1), samples(*prime, 2)];
            let call = Call31::new(*prime, &[rows.concat()], ntt_step(plan));
            let made = Call31 { rows: 2, ..call }.value();
            for (row, made) in rows.iter().zip(made.chunks(64)) {
                let padded = [&row[..], &[0; 32]].concat();
                assert_eq!(made, by_arkworks(*prime, &plan, &padded), "{prime}");
            }
        }
    }
}

#[test]
fn wrong_transforms_are_found() {
    let (executor, dial) = faulty_executor();
    dial.set(EngineMode::WrongResults);
    for prime in Prime31::ALL {
        for plan in [ntt(5, Some(3)), NttPlan { inverse: true, ..ntt(5, None) }] {
            let call = Call31::new(*prime, &[samples(*prime, 1)], ntt_step(plan));
            for verify in [Verification::Full, Verification::Probabilistic] {
                assert_eq!(
                    call.run(&executor, verify),
                    Err(EngineError::Corrupt),
                    "{prime} {verify:?}"
                );
            }
        }
    }
}

#[test]
fn elements_in_montgomery_form_have_the_factor_2_to_the_32() {
    for prime in Prime31::ALL {
        let p = u64::from(prime.modulus());
        let montgomery = |x: u64| ((x << 32) % p) as u32;
        let input: Vec<_> = (0..LENGTH as u64).map(montgomery).collect();
        let step = PointwiseStep { operation: PointwiseOperation::Multiply, inputs: ids(2) };
        let call = Call31::new(*prime, &[input.clone(), input], step);
        let squares = Call31 { encoding: ScalarEncoding::Montgomery31, ..call }.value();
        assert_eq!(squares, (0..LENGTH as u64).map(|x| montgomery(x * x)).collect::<Vec<_>>());
    }
}

#[test]
fn elements_of_the_prime_and_above_are_refused_or_reduced() {
    for prime in Prime31::ALL {
        let p = prime.modulus();
        let mut input = samples(*prime, 0);
        for large in [p, p + 1, u32::MAX] {
            (input[9], input[21]) = (large, p);
            let step = PadStep { input: ValueId(0), length: LENGTH as u64 };
            for encoding in [ScalarEncoding::Canonical31, ScalarEncoding::Montgomery31] {
                let call = Call31::new(*prime, std::slice::from_ref(&input), step.clone());
                let call = Call31 { encoding, ..call };
                let refusal = call.refusal();
                assert!(refusal.starts_with("program.steps[0].input.elements[9]"), "{refusal}");
                let reduced = Call31 { reduce: true, ..call }.value();
                assert_eq!(reduced[9], large % p);
            }
        }
    }
}

#[test]
fn the_first_of_several_elements_that_are_too_large_is_named() {
    // More elements than a block of threads decodes; the first one is in neither the first block
    // nor the last.
    const LENGTH: usize = 70_001;
    for (number, prime) in Prime31::ALL.iter().enumerate() {
        let mut input = vec![prime.modulus() - 1; LENGTH];
        let first = 30_000 + 257 * number;
        for at in [first, first + 1, 69_000, LENGTH - 1] {
            input[at] = prime.modulus() + number as u32;
        }
        let step = PadStep { input: ValueId(0), length: LENGTH as u64 };
        let refusal = Call31::new(*prime, &[input], step).refusal();
        let expected = format!("program.steps[0].input.elements[{first}]");
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

/// Lengths around the sizes of a GPU's chunks, and one whose chunks have chunks.
#[test]
fn elements_are_multiplied_up() {
    for (number, prime) in Prime31::ALL.iter().enumerate() {
        let p = u64::from(prime.modulus());
        let longest = if number == 0 { (1 << 20) + 1025 } else { 5000 };
        for (rows, length) in [(1, 1), (3, 1023), (2, 1024), (1, 1025), (1, longest)] {
            let mut input: Vec<_> =
                (0..rows * length).map(|x| (1 + x * 2_654_435_761 % (p - 1)) as u32).collect();
            if length > 1024 {
                input[length as usize - 3] = 0;
            }
            let products = input.chunks(length as usize).flat_map(|row| {
                row.iter().scan(1, |product, word| {
                    *product = *product * u64::from(*word) % p;
                    Some(*product as u32)
                })
            });
            let expected: Vec<_> = products.collect();
            let call = Call31::new(*prime, &[input], PrefixProductStep { input: ValueId(0) });
            let made = Call31 { rows: rows as u32, ..call }.value();
            assert!(made == expected, "{prime}, {rows} rows of {length}");
        }
    }
}

#[test]
fn steps_refuse_what_is_not_of_their_field() {
    let prime = Prime31::BabyBear;
    let p = prime.modulus();
    let input = [samples(prime, 1)];
    let refuses = |step: Operation, message: &str| {
        let refusal = Call31::new(prime, &input, step).refusal();
        assert!(refusal.contains(message), "{refusal}, not {message}");
    };
    let of = ValueId(0);
    let other = "is a vector over babybear: this step does not compute in that field";
    let (object_id, offset) = ([0; 32], 0);
    refuses(MsmStep { input: of, group: Group::G1, object_id, offset }.into(), other);
    refuses(SparseProductStep { input: of, object_id, rows: 1, terms: 1 }.into(), other);
    refuses(DivideByLinearStep { input: of, point: Fr::from(2) }.into(), other);
    let coset_generator = Fr::from(7);
    refuses(DivideByVanishingStep { input: of, lg_n: 5, coset_generator }.into(), other);
    refuses(ntt_step(ntt(28, None)).into(), "ntt.lg_n: must be at most 27");
    refuses(ntt_step(ntt(5, Some(0))).into(), "ntt.coset_generator: must not be zero");
    refuses(ntt_step(ntt(5, Some(p))).into(), "ntt.coset_generator: not canonical");
    let point = Constant::Word(p);
    refuses(EvaluateStep { input: of, point }.into(), "evaluate.point: not canonical");
    let point = Fr::from(1).into();
    let wrong = "evaluate.point: wrong length: expected 4, got 32";
    refuses(EvaluateStep { input: of, point }.into(), wrong);
    let factors = vec![Constant::Word(u32::MAX)];
    let step = LinearCombinationStep { inputs: ids(1), factors };
    refuses(step.into(), "linear_combination.factors[0]: not canonical");
    let field = FieldId::from(Prime31::KoalaBear);
    let step = ConstantStep { field, elements: vec![Constant::Word(1), Constant::Word(u32::MAX)] };
    refuses(step.into(), "constant.elements[1]: not canonical");
    let call = Call31::new(prime, &input, PadStep { input: of, length: LENGTH as u64 });
    let call = Call31 { encoding: ScalarEncoding::Unsigned(4), ..call };
    assert!(call.refusal().contains("inputs[0]"), "{}", call.refusal());
}
