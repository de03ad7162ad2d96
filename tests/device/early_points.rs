//! Points that workers report before a run ends.

use std::sync::Mutex;

use capstan::{
    client::{ClientProgram, Fr, PointsValue, ProgramBuilder, ProgramRun, VectorValue},
    curve::G1Affine,
};

use crate::{daemon_jobs::MsmData, shared::spread_server, spread::SpreadServer};

const LENGTH: usize = 64;
/// Rows of the last sums, which take longest.
const ROWS: u32 = 8;
/// A run may end before the server sends what it knows early.
const ATTEMPTS: usize = 50;

/// Short sums, and long ones after them.
struct TwoSums {
    program: ClientProgram,
    short_input: VectorValue,
    long_input: VectorValue,
    short: PointsValue<G1Affine>,
    long: PointsValue<G1Affine>,
}

impl TwoSums {
    fn new(spread: &SpreadServer, msms: &MsmData<G1Affine>) -> Self {
        let bases = spread.client.put_bases(&msms.points).unwrap();
        let mut program = ProgramBuilder::new();
        let short_input = program.input(LENGTH as u64).unwrap();
        let long_input = program.input_rows(ROWS, LENGTH as u64).unwrap();
        // No GPU reports sums of an input early: it waits for them before the next step.
        let [of_short, of_long] =
            [short_input, long_input].map(|input| program.scale(input, Fr::from(1)).unwrap());
        let bases = bases.slice(0, LENGTH as u64).unwrap();
        let short = program.msm(&bases, of_short).unwrap();
        let long = program.msm(&bases, of_long).unwrap();
        let program = program.build().unwrap();
        Self { program, short_input, long_input, short, long }
    }

    /// Runs the program on this many GPUs; true if the short sums arrived early.
    fn run(&self, spread: &SpreadServer, msms: &MsmData<G1Affine>, gpus: usize) -> bool {
        let scalars = &msms.scalars[..LENGTH];
        let rows = scalars.repeat(ROWS as usize);
        let early = Mutex::new(Vec::new());
        let run = ProgramRun::new(&self.program)
            .input(self.short_input, scalars)
            .input(self.long_input, &rows[..])
            .send_points(self.long)
            .send_points_early(self.short, |points| early.lock().unwrap().push(points));
        let result = spread.client.run(run).unwrap();
        assert_eq!(result.execution.device.starts_with("2 GPUs"), gpus == 2);
        let expected = msms.sums(scalars, LENGTH);
        assert_eq!(result.points(self.short).unwrap(), expected);
        assert_eq!(result.points(self.long).unwrap(), expected.repeat(ROWS as usize));
        let early = early.into_inner().unwrap();
        assert!(early.iter().all(|points| *points == expected));
        assert!(early.len() <= 1, "points are sent early once");
        !early.is_empty()
    }
}

fn check(devices: usize) {
    let Some(spread) = spread_server(devices) else { return };
    let msms = MsmData::<G1Affine>::new();
    let sums = TwoSums::new(&spread, &msms);
    assert!((0..ATTEMPTS).any(|_| sums.run(&spread, &msms, devices)), "no points arrived early");
}

#[test]
fn a_worker_reports_sums_before_its_run_ends() {
    check(1);
}

#[test]
fn a_worker_reports_sums_before_the_parts_of_other_gpus_end() {
    check(2);
}
