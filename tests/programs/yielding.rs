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
    gpu,
    msm::{msm, points, sums},
    rig::{Call, OutputValue, Rows, bases, random_rows},
};

/// Thresholds at which a few scalars are split like millions by default.
const LOW_THRESHOLDS: SplitThresholds = SplitThresholds {
    streamed_scalars_min: 32,
    points_min: 8,
    whole_bucket_digits_max: 0,
    level_additions_min: None,
};

/// A program with an MSM in the middle.
fn call(rows: &Rows) -> Call {
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

#[test]
fn msms_of_programs_yield() {
    let policy = GpuPolicy { split: LOW_THRESHOLDS, ..GpuPolicy::default() };
    let executor = gpu::open(10, Arc::new(|| true), policy);
    let yielding = JobControl::default();
    yielding.set_yielding(true);
    for (rows, length) in [(1, 70), (3, 40)] {
        let rows = random_rows(rows, length, 5);
        let power = |exponent| -> Rows {
            let row = |row: &Vec<Fr>| row.iter().map(|element| element.pow([exponent])).collect();
            rows.iter().map(row).collect()
        };
        let points = points::<G1Affine>(length);
        let expected = [sums(&points, &power(2)), OutputValue::Rows(power(3))];
        let passes = |control: &JobControl, verify| {
            let answer = call(&rows).run(&executor, verify, control).expect("succeeds");
            assert!(answer.outputs == expected, "{rows:?}");
            let method = &answer.report.steps[2].method;
            let count = method.strip_suffix(" passes").and_then(|rest| rest.rsplit(' ').next());
            count.map_or(1, |count| count.parse::<u32>().expect("a number"))
        };
        let alone = passes(&JobControl::default(), Verification::None);
        for verify in [Verification::None, Verification::Probabilistic] {
            assert!(passes(&yielding, verify) > alone + 1, "{} x {length}", rows.len());
        }
    }
}
