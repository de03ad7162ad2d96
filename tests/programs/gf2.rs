//! Steps over GF(2), against an elimination of sets of columns.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use capstan::{
    buffer::ByteSource,
    curve::scalars::ScalarEncoding,
    engine::{EncodedScalars, JobControl},
    error::{EngineError, Result},
    exec::{ElementSink, Executor, ProgramPlan, RunOperands, RunReport, start_run},
    field::{FieldId, Gf2Words},
    gf2::BitMatrix,
    ops::{
        ConcatStep, Gf2EchelonStep, Gf2ReduceStep, InputStep, Operation, OperationProgram, PadStep,
        SliceStep,
        host::{HostArgument, HostContext, HostElements},
        on_host,
    },
    program::{InputSpec, OutputKind, OutputSpec, ValueId, ValueType, VectorShape},
    verify::Verification,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use zeroize::Zeroizing;

use crate::{
    rig::{EXECUTOR, some_of},
    run_program::run_program,
    vec_sink::VecSink,
};

const BITS: ScalarEncoding = ScalarEncoding::PackedBits64;

/// The columns in which each row is 1.
type SetRows = Vec<BTreeSet<usize>>;

fn packed(rows: &SetRows, columns: usize) -> Vec<u64> {
    let mut matrix = BitMatrix::zeros(rows.len() as u64, columns as u64).unwrap();
    for (row, ones) in rows.iter().enumerate() {
        ones.iter().for_each(|column| matrix.set(row, *column));
    }
    matrix.words().to_vec()
}

/// The rows, each reduced by the pivots and by the rows before it.
fn reduced(pivots: &SetRows, rows: &SetRows) -> SetRows {
    let mut pivots = pivots.clone();
    let mut reduced = SetRows::new();
    for row in rows {
        let mut row = row.clone();
        while let Some(pivot) = pivots.iter().find(|pivot| pivot.first() == row.first()) {
            row = &row ^ pivot;
            if row.is_empty() {
                break;
            }
        }
        if !row.is_empty() {
            pivots.push(row.clone());
        }
        reduced.push(row);
    }
    reduced
}

/// The reduced row echelon form.
fn echelon(rows: &SetRows) -> SetRows {
    let mut form: SetRows = reduced(&vec![], rows).into_iter().filter(|r| !r.is_empty()).collect();
    form.sort_by_key(|row| *row.first().unwrap());
    for at in (0..form.len()).rev() {
        let pivot = form[at].clone();
        let leading = *pivot.first().unwrap();
        for row in form[..at].iter_mut().filter(|row| row.contains(&leading)) {
            *row = &*row ^ &pivot;
        }
    }
    form.resize(rows.len(), BTreeSet::new());
    form
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn input(words: &[u64]) -> Operation {
    InputStep { field: FieldId::Gf2, rows: 1, length: words.len() as u64 }.into()
}

/// The last value of a program whose first steps are these inputs.
fn run(inputs: &[Vec<u64>], steps: Vec<Operation>, verify: Verification) -> Result<Vec<u64>> {
    let given = inputs.iter().map(|words| input(words));
    run_steps(inputs, given.chain(steps).collect(), verify)
}

/// The last value of a program with these inputs.
fn run_steps(inputs: &[Vec<u64>], steps: Vec<Operation>, verify: Verification) -> Result<Vec<u64>> {
    let value = ValueId(steps.len() as u32 - 1);
    let program = Arc::new(OperationProgram::new(steps)?);
    let Some(ValueType::Vector(shape)) = program.value_type(value) else { panic!("a vector") };
    let sources: Vec<_> = inputs.iter().map(|words| bytes(words)).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let elements = sources.iter();
    let elements: Vec<_> = elements
        .map(|source| EncodedScalars::new(BITS, source.len() / 8, source as &dyn ByteSource))
        .collect();
    let outputs = vec![OutputSpec { value, kind: OutputKind::Elements }];
    let run_on = |executor: &dyn Executor| {
        let sink = VecSink::new(shape.bytes() as usize);
        let sinks = [Some(ElementSink { encoding: BITS, sink: &sink })];
        let operands = RunOperands { inputs: &elements, sinks: &sinks, ..RunOperands::default() };
        let (program, outputs, control) = (program.clone(), outputs.clone(), JobControl::default());
        let run = run_program(executor, program, outputs, &operands, verify, &control)?;
        Ok((run.report, sink.into_bytes()))
    };
    let on_host = run_on(&*EXECUTOR);
    {
        check_gpu(run_on(crate::gpu::executor()), &on_host, " panels by ");
        for in_blocks in crate::gpu::in_blocks() {
            check_gpu(run_on(in_blocks), &on_host, " of columns by ");
        }
    }
    let (_, bytes) = on_host?;
    Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Checks that the GPU has eliminated, and that it got what the host got.
fn check_gpu(
    on_gpu: Result<(RunReport, Vec<u8>)>,
    on_host: &Result<(RunReport, Vec<u8>)>,
    method: &str,
) {
    match (on_gpu, on_host) {
        (Ok((report, bytes)), Ok((on_host, expected))) => {
            assert!(bytes == *expected, "the GPU's result differs");
            for (step, on_host) in report.steps.iter().zip(&on_host.steps) {
                assert_eq!(step.verified, on_host.verified);
                if step.operation.starts_with("gf2_") {
                    assert!(step.method.contains(method), "{:?}", step.method);
                }
            }
        }
        (on_gpu, on_host) => assert_eq!(on_gpu.err().as_ref(), on_host.as_ref().err()),
    }
}

const REDUCE: [ValueId; 2] = [ValueId(0), ValueId(1)];

fn reduce(columns: usize) -> Operation {
    Gf2ReduceStep { inputs: REDUCE, columns: columns as u64 }.into()
}

fn echelon_of(input: u32, columns: usize) -> Operation {
    Gf2EchelonStep { input: ValueId(input), columns: columns as u64 }.into()
}

fn check(pivots: &SetRows, rows: &SetRows, columns: usize) {
    let given = [packed(pivots, columns), packed(rows, columns)];
    let expected = packed(&reduced(pivots, rows), columns);
    for verify in [Verification::None, Verification::Full, Verification::Probabilistic] {
        let found = run(&given, vec![reduce(columns)], verify).unwrap();
        assert!(found == expected, "{verify:?}: {} rows of {columns} columns", rows.len());
    }
    let found = run(&given[1..], vec![echelon_of(0, columns)], Verification::Full).unwrap();
    assert!(found == packed(&echelon(rows), columns), "{} rows of {columns}", rows.len());
}

fn random(rows: usize, columns: usize, density: f64, rng: &mut StdRng) -> SetRows {
    let row = |_| (0..columns).filter(|_| rng.random_bool(density)).collect();
    (0..rows).map(row).collect()
}

/// Rows with distinct leading columns, in any order.
fn random_pivots(columns: usize, density: f64, rng: &mut StdRng) -> SetRows {
    let mut pivots = SetRows::new();
    for leading in (0..columns).step_by(3) {
        let rest = (leading + 1..columns).filter(|_| rng.random_bool(density));
        pivots.push(rest.chain([leading]).collect());
    }
    pivots.shuffle(rng);
    pivots
}

#[test]
fn random_sparse_and_empty_matrices_equal_those_of_sets() {
    let mut rng = StdRng::seed_from_u64(1);
    for (number, columns) in [1, 63, 64, 65, 200, 513].into_iter().enumerate() {
        let shapes = [(0, 0.5), (80, 0.02), (1, 0.5), (120, 0.5)];
        for (rows, density) in some_of(shapes, 2, number) {
            let pivots = random_pivots(columns, density, &mut rng);
            let rows = random(rows, columns, density, &mut rng);
            check(&pivots, &rows, columns);
            check(&SetRows::new(), &rows, columns);
        }
    }
}

#[test]
fn singular_and_equal_rows_and_chains_equal_those_of_sets() {
    let mut rng = StdRng::seed_from_u64(2);
    // Sums of ten rows.
    let base = random(10, 130, 0.5, &mut rng);
    let sum = |_| base.iter().filter(|_| rng.random_bool(0.5)).fold(BTreeSet::new(), |s, r| &s ^ r);
    check(&SetRows::new(), &(0..60).map(sum).collect(), 130);
    let equal: SetRows = vec![(0..130).collect(); 70];
    check(&equal[..1].to_vec(), &equal, 130);
    check(&SetRows::new(), &equal, 130);
    // Each addition moves the leading column by one.
    let mut chain: SetRows = (0..199).map(|at| BTreeSet::from([at, at + 1])).collect();
    chain.shuffle(&mut StdRng::seed_from_u64(3));
    check(&chain, &vec![BTreeSet::from([0]); 2], 200);
    let fan: SetRows = (1..200).map(|at| BTreeSet::from([0, at])).collect();
    check(&SetRows::new(), &fan, 200);
}

/// Blocks of two and three strips, the last one of fewer, with more rows than a panel has columns.
#[test]
fn matrices_of_many_panels_are_the_same_on_all_engines() {
    let mut rng = StdRng::seed_from_u64(5);
    let columns = 1700;
    let words = |rows: usize, rng: &mut StdRng| {
        let mut words: Vec<u64> = (0..27 * rows).map(|_| rng.random()).collect();
        words.iter_mut().skip(26).step_by(27).for_each(|word| *word >>= 64 - columns % 64);
        words
    };
    let (few, many) = (words(300, &mut rng), words(1900, &mut rng));
    // Echelon forms are pivots with distinct leading columns.
    let pivots =
        run(std::slice::from_ref(&few), vec![echelon_of(0, columns)], Verification::None).unwrap();
    let reduced = |rows: &Vec<u64>| (vec![pivots.clone(), rows.clone()], reduce(columns));
    let form = |rows: &Vec<u64>| (vec![rows.clone()], echelon_of(0, columns));
    let cases = [form(&many), form(&few), reduced(&few), reduced(&many)];
    for (given, step) in some_of(cases, 2, 0) {
        run(&given, vec![step], Verification::None).unwrap();
    }
}

#[test]
fn rows_of_matrices_are_joined_taken_and_appended() {
    let mut rng = StdRng::seed_from_u64(4);
    let (columns, words) = (130, 3);
    let (first, second) = (random(20, columns, 0.3, &mut rng), random(30, columns, 0.3, &mut rng));
    let given = [packed(&first, columns), packed(&second, columns)];
    // Both matrices, their echelon form without its last rows, two rows of zeros, and the first
    // matrix reduced by that form.
    let steps = vec![
        ConcatStep { inputs: REDUCE.to_vec() }.into(),
        echelon_of(2, columns),
        SliceStep { input: ValueId(3), offset: 0, length: 40 * words }.into(),
        Gf2ReduceStep { inputs: [ValueId(4), ValueId(0)], columns: columns as u64 }.into(),
        PadStep { input: ValueId(5), length: 22 * words }.into(),
    ];
    let mut form = echelon(&[first.clone(), second].concat());
    form.truncate(40);
    assert!(form.iter().all(|row| !row.is_empty()), "not the case that is meant");
    let mut expected = reduced(&form, &first);
    expected.resize(22, BTreeSet::new());
    let found = run(&given, steps, Verification::Full).unwrap();
    assert!(found == packed(&expected, columns));
}

fn refusal(inputs: &[Vec<u64>], step: Operation) -> String {
    run(inputs, vec![step], Verification::None).expect_err("refused").to_string()
}

#[test]
fn rows_are_refused_by_their_index() {
    let pivots = vec![vec![1, 0, 2, 0, 1, 0], vec![1, 0]];
    let expected = "program.steps[2].gf2_reduce.pivots[2]: has the leading column of pivot 0";
    assert_eq!(refusal(&pivots, reduce(70)), expected);
    let pivots = vec![vec![1, 0, 0, 0], vec![1, 0]];
    let expected = "program.steps[2].gf2_reduce.pivots[1]: must not be zero";
    assert_eq!(refusal(&pivots, reduce(70)), expected);
    let expected =
        |at: &str| format!("program.steps[{at}: has a bit that is set after its last column");
    let rows = vec![vec![1, 0], vec![1, 0, 0, 1 << 6]];
    assert_eq!(refusal(&rows, reduce(70)), expected("2].gf2_reduce.rows[1]"));
    let rows = vec![vec![0, 1 << 63], vec![1, 0]];
    assert_eq!(refusal(&rows, reduce(70)), expected("2].gf2_reduce.pivots[0]"));
    let rows = vec![vec![1, 0, 2, 0, 0, 1 << 6]];
    assert_eq!(refusal(&rows, echelon_of(0, 70)), expected("1].gf2_echelon.input[2]"));
}

#[test]
fn shapes_that_are_not_matrices_are_refused() {
    let two = [vec![0; 6], vec![0; 6]];
    let refuses = |step: Operation, message: &str| {
        let refusal = refusal(&two, step);
        assert!(refusal.contains(message), "{refusal}, not {message}");
    };
    refuses(reduce(0), "gf2_reduce.columns: must not be zero");
    refuses(reduce((1 << 20) + 1), "gf2_reduce.columns: must be at most 1048576");
    refuses(reduce(250), "gf2_reduce.pivots: wrong length: expected 8, got 6");
    refuses(echelon_of(1, 250), "gf2_echelon.input: wrong length: expected 8, got 6");
    let later = Gf2ReduceStep { inputs: [ValueId(0), ValueId(7)], columns: 64 };
    refuses(later.into(), "gf2_reduce.rows: must be the index of an earlier step");
    let types = |field, rows: u32, length| {
        let shape = VectorShape::row(field, length).unwrap().with_rows(rows).unwrap();
        ValueType::Vector(shape)
    };
    let infer = |value: ValueType| {
        let step = echelon_of(0, 65);
        let problem = capstan::program::StepKind::infer(&step, &[value]);
        problem.expect_err("refused").of_step(0, "gf2_echelon").to_string()
    };
    let of_fr = infer(types(FieldId::Bls12381Fr, 1, 2));
    assert!(of_fr.contains("is a vector over bls12-381-fr"), "{of_fr}");
    let two_rows = infer(types(FieldId::Gf2, 2, 2));
    assert!(two_rows.contains("wrong number of rows: expected 1, got 2"), "{two_rows}");
    let many = infer(types(FieldId::Gf2, 1, (1 << 25) + 2));
    assert!(many.contains("too long: at most 33554432"), "{many}");
}

#[test]
fn rows_of_vectors_of_several_rows_are_taken_joined_and_padded() {
    let words: Vec<u64> = (1..=12).collect();
    let given = InputStep { field: FieldId::Gf2, rows: 3, length: 4 }.into();
    let steps = vec![
        given,
        SliceStep { input: ValueId(0), offset: 1, length: 2 }.into(),
        ConcatStep { inputs: vec![ValueId(1), ValueId(0)] }.into(),
        PadStep { input: ValueId(2), length: 7 }.into(),
    ];
    let row = |first: u64| [first + 1, first + 2, first, first + 1, first + 2, first + 3, 0];
    let expected: Vec<u64> = [1, 5, 9].into_iter().flat_map(row).collect();
    assert_eq!(run_steps(&[words], steps, Verification::None).unwrap(), expected);
}

#[test]
fn eliminations_stop_at_a_cancellation() {
    let matrix = vec![u64::MAX; 600];
    let shape = VectorShape::row(FieldId::Gf2, 600).unwrap();
    let control = JobControl::default();
    control.cancel();
    let context = HostContext {
        engine: &*EXECUTOR.engine,
        control: &control,
        value_type: ValueType::Vector(shape),
        input: None,
        bases: None,
        matrix: None,
    };
    let argument =
        |words: &[u64]| HostArgument::Owned(Gf2Words.wrap(Zeroizing::new(vec![words.to_vec()])));
    let echelon = echelon_of(0, 640);
    let stopped = on_host(&echelon).run(vec![argument(&matrix)], &context);
    assert_eq!(stopped.err(), Some(EngineError::Cancelled));
    let step = reduce(640);
    let stopped = on_host(&step).run(vec![argument(&[]), argument(&matrix)], &context);
    assert_eq!(stopped.err(), Some(EngineError::Cancelled));
}

/// The plan of the echelon form of a square matrix.
fn plan_of_echelon(executor: &dyn Executor, columns: u64) -> ProgramPlan {
    let length = columns * columns / 64;
    let input = InputStep { field: FieldId::Gf2, rows: 1, length };
    let steps = vec![input.into(), echelon_of(0, columns as usize)];
    let program = Arc::new(OperationProgram::new(steps).unwrap());
    let outputs = [OutputSpec { value: ValueId(1), kind: OutputKind::Elements }];
    let given = [InputSpec::new(BITS, length)];
    let run = start_run(executor, program, &given, &outputs, Verification::None).unwrap();
    run.plan().clone()
}

#[test]
fn plans_count_the_working_memory_and_the_time() {
    let (columns, length) = (1 << 16, 1 << 26);
    let plan = plan_of_echelon(&*EXECUTOR, columns);
    assert_eq!(plan.value_bytes, 8 * length, "the form takes the place of the matrix");
    assert!(plan.memory_bytes >= 16 * length, "the matrix is held in strips, too");
    // About 2^16 rows, 2^10 steps, and half of 2^13 additions of words for each.
    let seconds = plan.modelled.total.as_secs_f64();
    assert!((10.0..1000.0).contains(&seconds), "{seconds} s");
}

/// A GPU takes 64 panels' time, unless its memory does not hold the matrix twice.
#[test]
fn plans_on_a_gpu_are_those_of_the_host_if_it_has_too_little_memory() {
    let time = |executor: &dyn Executor, columns| plan_of_echelon(executor, columns).modelled.total;
    let host = &crate::gpu::executor().host;
    let (small, on_host) = (time(crate::gpu::executor(), 1 << 14), time(host, 1 << 14));
    assert!(small > Duration::from_millis(5) && small < on_host, "{small:?}, {on_host:?}");
    if crate::emulated::driver().is_some() {
        // Of 600 MB, the matrix takes 512.
        assert_eq!(time(crate::gpu::executor(), 1 << 16), time(host, 1 << 16));
    }
}
