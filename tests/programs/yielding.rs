//! Programs that let short jobs of others run during their MSMs.

use std::sync::Arc;

use ark_ff::Field;
use capstan::{
    curve::{Fr, G1Affine},
    engine::{JobControl, cuda::GpuPolicy},
    msm::SplitThresholds,
    ops::{PointwiseOperation, PointwiseStep},
    verify::Verification,
};

use crate::{
    emulated, gpu,
    msm::{msm, points, sums},
    rig::{Call, OutputValue, Rows, bases, random_rows, some_of},
};

/// Thresholds at which a few scalars are split like millions by default.
const LOW_THRESHOLDS: SplitThresholds = SplitThresholds {
    streamed_scalars_min: 32,
    points_min: 8,
    whole_bucket_digits_max: 0,
    level_additions_min: None,
};

/// A program with an MSM in the middle.
fn of_squares(rows: &Rows) -> Call {
    let mut call =
        Call { bases: vec![bases(points::<G1Affine>(rows[0].len()))], ..Call::default() };
    let input = call.input(rows);
    let multiply = |inputs| PointwiseStep { operation: PointwiseOperation::Multiply, inputs };
    let squares = call.push(multiply(vec![input, input]));
    let sums = call.push(msm::<G1Affine>(squares, 0));
    let cubes = call.push(multiply(vec![squares, input]));
    call.outputs = vec![sums, cubes];
    call
}

/// A program of two MSMs of an input that no step decodes.
fn of_an_input(rows: &Rows) -> Call {
    let all = bases(points::<G1Affine>(rows[0].len()));
    let mut call = Call { bases: vec![all.clone(), all], ..Call::default() };
    let input = call.input(rows);
    call.outputs = vec![call.push(msm::<G1Affine>(input, 0)), call.push(msm::<G1Affine>(input, 0))];
    call
}

/// The number of passes in the description of an MSM.
fn pass_count(method: &str) -> usize {
    let count = method.strip_suffix(" passes").and_then(|rest| rest.rsplit(' ').next());
    count.map_or(1, |count| count.parse().expect("a number"))
}

#[test]
fn msms_of_programs_yield() {
    let policy = GpuPolicy { split: LOW_THRESHOLDS, ..GpuPolicy::default() };
    let executor = gpu::open(10, Arc::new(|| true), policy);
    let (alone, yielding) = (JobControl::default(), JobControl::default());
    yielding.set_yielding(true);
    for (rows, length) in some_of([(3, 40), (1, 70)], 2, 0) {
        let rows = random_rows(rows, length, 5);
        let power = |exponent| -> Rows {
            let row = |row: &Vec<Fr>| row.iter().map(|element| element.pow([exponent])).collect();
            rows.iter().map(row).collect()
        };
        let points = points::<G1Affine>(length);
        let [first, second] = [1, 2].map(|exponent| sums(&points, &power(exponent)));
        let cases = [
            (of_squares(&rows), 2, [second, OutputValue::Rows(power(3))]),
            (of_an_input(&rows), 1, [first.clone(), first]),
        ];
        for (call, msm, expected) in cases {
            let run = |control, verify| {
                let answer = call.run(&executor, verify, control).expect("succeeds");
                assert!(answer.outputs == expected, "{} x {length}", rows.len());
                (pass_count(&answer.report.steps[msm].method), answer.pauses)
            };
            let (passes, pauses) = run(&alone, Verification::None);
            for verify in [Verification::None, Verification::Probabilistic] {
                let (more_passes, more_pauses) = run(&yielding, verify);
                assert!(more_passes > passes + 1, "{} x {length}, {verify:?}", rows.len());
                // Other jobs could run between these passes. On a busy host with a GPU, a pass may
                // end before the next one is launched: then there is nothing to wait for.
                let (more_passes, more_pauses) = (more_passes - passes, more_pauses - pauses);
                let could_run = 2 * more_pauses >= more_passes || emulated::driver().is_none();
                assert!(could_run, "{more_pauses}, {more_passes} passes");
            }
        }
    }
}
