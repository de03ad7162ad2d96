//! Jobs that check points on the host end soon after they are cancelled.

use std::{sync::Arc, time::Duration};

use capstan::{
    buffer::{PayloadPool, UploadBuffer},
    curve::{
        G1Affine, Group,
        points::{PointEncoding, SumEncoding, encode},
        scalars::ScalarEncoding,
    },
    engine::{
        JobControl,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::{Result, ServiceError},
    exec::{BusyPoll, HostExecutor, start_run},
    jobs::{
        ComputeHost, ImportJob, JobBases, JobOwner, JobWaker, JobWork, ObjectImport, PointsImport,
        ProgramJob, ProgramJobInput, ProgramJobOutput, ProgramWork, Scheduler, UncheckedBases,
    },
    ops::{SINGLE_STEP, single_msm},
    program::{InputSpec, OutputKind, OutputSpec},
    tenant::DeviceTimeBudget,
    verify::Verification,
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    cancellation::{ends_soon, measuring},
    msm::known_points,
};

const N: usize = 1 << 14;
const ENCODING: PointEncoding = PointEncoding::Compressed;

/// A scheduler with one worker.
struct Workplace {
    host: Arc<ComputeHost>,
    scheduler: Scheduler,
    pool: PayloadPool,
    runtime: Runtime,
    points: Vec<u8>,
}

impl Workplace {
    fn new() -> Self {
        let engine = Arc::new(CpuEngine::new(2).expect("threads"));
        let oracle = Arc::new(ArkworksEngine::new(1).expect("threads"));
        let executor = HostExecutor { engine, oracle: Some(oracle) };
        let points: Vec<_> = known_points::<G1Affine>().iter().copied().cycle().take(N).collect();
        Self {
            host: Arc::new(ComputeHost::new(Arc::new(executor)).expect("threads")),
            scheduler: Scheduler::new(1, BusyPoll::default()).expect("a thread"),
            pool: PayloadPool::new(0, 0).expect("memory"),
            runtime: Builder::new_current_thread().build().expect("a runtime"),
            points: encode(ENCODING, &points),
        }
    }

    fn payload(&self, bytes: &[u8]) -> Arc<UploadBuffer> {
        Arc::new(UploadBuffer::from_bytes(&self.pool, bytes, Vec::new()).expect("memory"))
    }

    fn run<W: JobWork>(
        &self,
        control: &JobControl,
        work: impl FnOnce(JobWaker) -> W,
    ) -> Result<()> {
        let ticket = self.scheduler.submit(JobOwner::default(), control.clone(), work);
        self.runtime.block_on(ticket).map(drop).map_err(|error| match error {
            ServiceError::Engine(error) => error,
            other => panic!("{other}"),
        })
    }

    fn import(&self, payload: Arc<UploadBuffer>, control: &JobControl) -> Result<()> {
        let import = ObjectImport {
            content: PointsImport::<G1Affine>::new(ENCODING, N),
            payload,
            expected_hash: None,
            device_time: Arc::new(DeviceTimeBudget::new(None)),
        };
        self.run(control, |waker| ImportJob::new(self.host.clone(), import, waker))
    }

    /// An MSM over bases that its request contains.
    fn msm(&self, payload: Arc<UploadBuffer>, control: &JobControl) -> Result<()> {
        let (encoding, count, verify) = (ScalarEncoding::Unsigned(1), N as u64, Verification::None);
        let program = Arc::new(single_msm(Group::G1, 1, N)?);
        let input = InputSpec::new(encoding, count);
        let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Points };
        let run = start_run(&*self.host.executor, program, &[input], &[output], verify)?;
        let bases = UncheckedBases::new(Group::G1, ENCODING, &self.points, N);
        let job = ProgramJob {
            call: "msm",
            run,
            inputs: vec![ProgramJobInput { payload, copy: None, spec: input, first: 0 }],
            input_field: Some("scalars"),
            bases: vec![JobBases::Unchecked(bases)],
            matrices: Vec::new(),
            outputs: vec![ProgramJobOutput::Points(SumEncoding::Compressed)],
            early_points: None,
            verify,
            states_modelled_time: false,
            steps: 2,
            row_length: count,
        };
        let host = self.host.clone();
        self.run(control, |waker| ProgramWork::new(host, job, waker))
    }
}

#[test]
fn imports_and_inline_bases_end_soon_after_they_are_cancelled() {
    let _measuring = measuring();
    let workplace = Workplace::new();
    let upload = || workplace.payload(&workplace.points);
    ends_soon("import of 2^14 points", Duration::ZERO, upload, |payload, control| {
        workplace.import(payload, control)
    });
    let scalars = || workplace.payload(&[1; N]);
    ends_soon("MSM over 2^14 inline bases", Duration::ZERO, scalars, |payload, control| {
        workplace.msm(payload, control)
    });
}
