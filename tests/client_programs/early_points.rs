//! Points that are sent before a run ends.

use std::sync::Mutex;

use capstan::client::{
    ClientProgram, Fr, G1Affine, G1Projective, PointsValue, ProgramBuilder, ProgramRun, RunOptions,
    RunResult, VectorValue, Verification,
};

use crate::client_programs::{ProgramFixture, common::scalars};

/// On a busy host, a run may end before the server sends what it knows early.
const ATTEMPTS: usize = 5;

/// A sum, and a long computation after it.
struct SlowProgram {
    program: ClientProgram,
    input: VectorValue,
    sum: PointsValue<G1Affine>,
    last: VectorValue,
}

impl SlowProgram {
    fn new(fixture: &ProgramFixture) -> Self {
        let mut program = ProgramBuilder::new();
        let input = program.input(8).unwrap();
        let sum = program.msm(&fixture.bases.slice(0, 8).unwrap(), input).unwrap();
        let mut last = program.pad(input, 1 << 16).unwrap();
        for _ in 0..8 {
            last = program.invert(last).unwrap();
        }
        let last = program.slice(last, 0, 1).unwrap();
        Self { program: program.build().unwrap(), input, sum, last }
    }

    /// The points that arrived early, and the result.
    async fn run(
        &self,
        fixture: &ProgramFixture,
        elements: &[Fr],
        verify: Verification,
    ) -> (Vec<Vec<G1Projective>>, RunResult) {
        let early = Mutex::new(Vec::new());
        let run = ProgramRun::new(&self.program)
            .input(self.input, elements)
            .send_points_early(self.sum, |points| early.lock().unwrap().push(points))
            .send(self.last);
        let options = RunOptions { verify, ..RunOptions::default() };
        let result = fixture.client.run_with(run, options).await.unwrap();
        (early.into_inner().unwrap(), result)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn points_are_sent_before_the_run_ends() {
    let fixture = ProgramFixture::new().await;
    let (slow, elements) = (SlowProgram::new(&fixture), scalars(8));
    let expected = vec![fixture.msm(&elements)];
    let mut arrived_early = 0;
    for _ in 0..ATTEMPTS {
        let (early, result) = slow.run(&fixture, &elements, Verification::None).await;
        assert!(early.len() <= 1 && early.iter().all(|points| *points == expected));
        assert_eq!(result.points(slow.sum).unwrap(), expected);
        assert_eq!(result.vector(slow.last).unwrap(), &elements[..1]);
        arrived_early += early.len();
    }
    assert!(arrived_early > 0, "no points arrived early");
}

#[tokio::test(flavor = "multi_thread")]
async fn checked_points_are_sent_at_the_end_only() {
    let fixture = ProgramFixture::new().await;
    let (slow, elements) = (SlowProgram::new(&fixture), scalars(8));
    for verify in [Verification::Probabilistic, Verification::Full] {
        let (early, result) = slow.run(&fixture, &elements, verify).await;
        assert!(early.is_empty(), "{verify:?}");
        assert_eq!(result.points(slow.sum).unwrap(), [fixture.msm(&elements)]);
    }
}
