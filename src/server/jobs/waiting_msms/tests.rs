use std::sync::atomic::{AtomicBool, Ordering};

use ark_ec::VariableBaseMSM;
use ark_ff::UniformRand;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use futures_util::future::join_all;

use super::*;
use crate::{
    buffer::{PayloadPool, UploadBuffer},
    curve::{
        Fr, G1Affine, G1Projective, NttPlan, layout,
        points::{CurvePoint, PointSlice, SumEncoding},
        scalars::ScalarEncoding,
    },
    engine::{
        DeviceInfo, Element31, EngineModel, EngineWork, ExecutedBy, Field31, MsmNttEngine, MsmRun,
        NttRows,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::{Error, FieldProblem},
    exec::{BusyPoll, HostExecutor, RunCall, RunInProgress, start_run},
    jobs::{
        ComputeHost, JobBases, JobOwner, JobTicket, ProgramJob, ProgramJobOutput, ProgramOutput,
        ProgramWork, Scheduler,
    },
};

const N: usize = 5;
const BATCH_SCALARS_MAX: usize = 8 * N;

/// The CPU engine, which notes the number of vectors of each MSM and computes while it is open.
struct NotingEngine {
    cpu: CpuEngine,
    vectors: Mutex<Vec<usize>>,
    is_open: AtomicBool,
    panics_on_batches: AtomicBool,
    stops_on_batches: AtomicBool,
}

impl EngineModel for NotingEngine {
    fn description(&self) -> DeviceInfo {
        self.cpu.description()
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        self.cpu.msm_piece_len(group, n)
    }

    fn modelled_time(&self, work: &EngineWork) -> Duration {
        self.cpu.modelled_time(work)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.cpu.msm_scratch_bytes(group, n)
    }
}

impl MsmNttEngine for NotingEngine {
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        self.vectors.lock().push(batch);
        let stops = || batch > 1 && self.stops_on_batches.load(Ordering::SeqCst);
        while !self.is_open.load(Ordering::SeqCst) || stops() {
            std::thread::yield_now();
        }
        assert!(!self.panics_on_batches.load(Ordering::SeqCst) || batch == 1, "a batch panics");
        self.cpu.msm(bases, batch)
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        self.cpu.ntt(plan, rows, control)
    }

    fn ntt31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.cpu.ntt31(field, plan, rows, control)
    }
}

/// An executor for which batches gain.
struct BatchingExecutor(HostExecutor);

impl Executor for BatchingExecutor {
    fn description(&self) -> DeviceInfo {
        self.0.description()
    }

    fn oracle(&self) -> Option<Arc<dyn MsmNttEngine>> {
        self.0.oracle()
    }

    fn prepare(&self, call: Arc<RunCall>) -> Box<dyn RunInProgress> {
        self.0.prepare(call)
    }

    fn msm_batch_scalars_max(&self) -> usize {
        BATCH_SCALARS_MAX
    }
}

/// A scheduler with one worker, which is busy until [`Workplace::open`].
struct Workplace {
    engine: Arc<NotingEngine>,
    host: Arc<ComputeHost>,
    scheduler: Scheduler,
    pool: PayloadPool,
    rng: StdRng,
    first: Option<JobTicket<ProgramOutput>>,
}

struct TestPoints {
    points: Vec<G1Affine>,
    bases: Bases,
}

impl TestPoints {
    fn new(rng: &mut StdRng) -> Self {
        let points: Vec<_> = (0..N).map(|_| G1Projective::rand(rng).into()).collect();
        let bases = G1Affine::into_bases(PointSlice::new(Arc::new(points.clone())));
        Self { points, bases }
    }

    fn sums(&self, scalars: &[Fr]) -> Vec<G1Projective> {
        let sum = |scalars| G1Projective::msm(&self.points, scalars).unwrap();
        scalars.chunks(N).map(sum).collect()
    }
}

impl Workplace {
    fn new() -> Self {
        let engine = Arc::new(NotingEngine {
            cpu: CpuEngine::new(1).unwrap(),
            vectors: Mutex::default(),
            is_open: AtomicBool::new(false),
            panics_on_batches: AtomicBool::new(false),
            stops_on_batches: AtomicBool::new(false),
        });
        let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
        let executor =
            BatchingExecutor(HostExecutor { engine: engine.clone(), oracle: Some(oracle) });
        let host = Arc::new(ComputeHost::new(Arc::new(executor)).unwrap());
        let scheduler = Scheduler::new(1, BusyPoll::default()).unwrap();
        let pool = PayloadPool::new(0, 0).unwrap();
        let rng = StdRng::seed_from_u64(7);
        let mut workplace = Self { engine, host, scheduler, pool, rng, first: None };
        let others = TestPoints::new(&mut workplace.rng);
        workplace.first = Some(workplace.submit(&others, &[Fr::from(1); N]));
        while workplace.engine.vectors.lock().is_empty() {
            std::thread::yield_now();
        }
        workplace
    }

    fn scalars(&mut self, vectors: usize) -> Vec<Fr> {
        (0..vectors * N).map(|_| Fr::rand(&mut self.rng)).collect()
    }

    fn submit(&self, points: &TestPoints, scalars: &[Fr]) -> JobTicket<ProgramOutput> {
        let bytes = layout::fr_as_bytes(scalars);
        let payload = Arc::new(UploadBuffer::from_bytes(&self.pool, bytes, Vec::new()).unwrap());
        self.submit_payload(points, payload, scalars.len() / N)
    }

    fn submit_payload(
        &self,
        points: &TestPoints,
        payload: Arc<UploadBuffer>,
        batch: usize,
    ) -> JobTicket<ProgramOutput> {
        let encoding = ScalarEncoding::Montgomery;
        let verify = Verification::Probabilistic;
        let program = Arc::new(single_msm(Group::G1, batch, N).unwrap());
        let count = (batch * N) as u64;
        let input = InputSpec::new(encoding, count);
        let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Points };
        let run = start_run(&*self.host.executor, program, &[input], &[output], verify).unwrap();
        let input = ProgramJobInput { payload, copy: None, spec: input, first: 0 };
        let job = ProgramJob {
            call: "msm",
            run,
            inputs: vec![input],
            input_field: Some("scalars"),
            bases: vec![JobBases::Checked(points.bases.clone())],
            matrices: Vec::new(),
            outputs: vec![ProgramJobOutput::Points(SumEncoding::Compressed)],
            early_points: None,
            verify,
            states_modelled_time: false,
            steps: 2,
            row_length: N as u64,
        };
        let host = self.host.clone();
        self.scheduler.submit(JobOwner::default(), JobControl::default(), |waker| {
            ProgramWork::new(host, job, waker)
        })
    }

    /// Forgets the MSMs noted so far, and lets the worker go on.
    fn open(&self) {
        self.engine.vectors.lock().clear();
        self.engine.is_open.store(true, Ordering::SeqCst);
    }

    /// The numbers of vectors of MSMs, without those of checks, which have one.
    fn batches(&self) -> Vec<usize> {
        self.engine.vectors.lock().iter().copied().filter(|vectors| *vectors > 1).collect()
    }

    fn is_nothing_waiting(&self) -> bool {
        self.host.waiting_msms.0.lock().is_empty()
    }

    /// Waits until `condition` holds.
    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        for _ in 0..3000 {
            if condition(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the condition never holds");
    }
}

fn encoded(sums: Vec<G1Projective>) -> Vec<u8> {
    crate::curve::points::encode_sums(SumEncoding::Compressed, &MsmSums::G1(sums))
}

#[tokio::test]
async fn jobs_over_the_same_bases_become_one_batch() {
    let mut workplace = Workplace::new();
    let (points, others) =
        (TestPoints::new(&mut workplace.rng), TestPoints::new(&mut workplace.rng));
    // Together 8 vectors, as many as fit; the next two are the next batch.
    let counts = [1, 2, 1, 3, 1, 1, 1];
    let all: Vec<_> = counts.iter().map(|vectors| workplace.scalars(*vectors)).collect();
    let tickets: Vec<_> = all.iter().map(|scalars| workplace.submit(&points, scalars)).collect();
    let apart = workplace.scalars(1);
    let apart_ticket = workplace.submit(&others, &apart);
    workplace.open();
    let done = join_all(tickets).await;
    for (done, scalars) in done.into_iter().zip(&all) {
        let output = done.unwrap().output;
        assert_eq!(output.points, [encoded(points.sums(scalars))]);
        assert!(output.batch_jobs > 1);
    }
    let output = apart_ticket.await.unwrap().output;
    assert_eq!((output.points, output.batch_jobs), (vec![encoded(others.sums(&apart))], 1));
    assert_eq!(workplace.batches(), [8, 2]);
    workplace.first.take().unwrap().await.unwrap();
    assert!(workplace.is_nothing_waiting());
}

#[tokio::test]
async fn a_refused_scalar_refuses_its_own_job_only() {
    let mut workplace = Workplace::new();
    let points = TestPoints::new(&mut workplace.rng);
    let good = workplace.scalars(1);
    let mut bytes = layout::fr_as_bytes(&good).to_vec();
    bytes[3 * 32..4 * 32].fill(0xff);
    let bad = Arc::new(UploadBuffer::from_bytes(&workplace.pool, &bytes, Vec::new()).unwrap());
    let first = workplace.submit(&points, &good);
    let refused = workplace.submit_payload(&points, bad, 1);
    let last = workplace.submit(&points, &good);
    workplace.open();
    for ticket in [first, last] {
        assert_eq!(ticket.await.unwrap().output.points, [encoded(points.sums(&good))]);
    }
    let expected = Error::element("scalars", 3, FieldProblem::NotCanonical);
    assert_eq!(refused.await.err(), Some(expected));
    assert_eq!(workplace.batches(), [3, 2]);
}

#[tokio::test]
async fn a_panicking_batch_is_computed_one_by_one() {
    let mut workplace = Workplace::new();
    let points = TestPoints::new(&mut workplace.rng);
    let scalars = workplace.scalars(1);
    let tickets: Vec<_> = (0..3).map(|_| workplace.submit(&points, &scalars)).collect();
    workplace.engine.panics_on_batches.store(true, Ordering::SeqCst);
    workplace.open();
    for done in join_all(tickets).await {
        assert_eq!(done.unwrap().output.points, [encoded(points.sums(&scalars))]);
    }
    assert_eq!(workplace.batches(), [3]);
}

#[tokio::test]
async fn jobs_that_are_cancelled_in_a_batch_do_not_spoil_it() {
    let mut workplace = Workplace::new();
    let points = TestPoints::new(&mut workplace.rng);
    let scalars = workplace.scalars(1);
    let mut tickets: Vec<_> = (0..4).map(|_| workplace.submit(&points, &scalars)).collect();
    // Computes the first job, then stops in the batch.
    workplace.engine.stops_on_batches.store(true, Ordering::SeqCst);
    workplace.open();
    workplace.until(|workplace| workplace.batches() == [4]).await;
    // The one that leads the batch, and one that was taken along.
    drop((tickets.remove(0), tickets.remove(1)));
    workplace.engine.stops_on_batches.store(false, Ordering::SeqCst);
    for done in join_all(tickets).await {
        let output = done.unwrap().output;
        assert_eq!((output.points, output.batch_jobs), (vec![encoded(points.sums(&scalars))], 4));
    }
    workplace.until(Workplace::is_nothing_waiting).await;
}

#[tokio::test]
async fn jobs_that_are_cancelled_or_lack_scalars_are_left_out() {
    let mut workplace = Workplace::new();
    let points = TestPoints::new(&mut workplace.rng);
    let scalars = workplace.scalars(1);
    let payload = Arc::new(UploadBuffer::new(&workplace.pool, 32 * N as u64, Vec::new()));
    let incomplete = workplace.submit_payload(&points, payload.clone(), 1);
    drop(workplace.submit(&points, &scalars));
    let tickets = [0, 1].map(|_| workplace.submit(&points, &scalars));
    let waiting = |workplace: &Workplace| {
        workplace.host.waiting_msms.0.lock().values().map(Vec::len).sum::<usize>()
    };
    workplace.until(|workplace| waiting(workplace) == 3).await;
    workplace.open();
    for done in join_all(tickets).await {
        assert_eq!(done.unwrap().output.points, [encoded(points.sums(&scalars))]);
    }
    assert_eq!(workplace.batches(), [2]);
    payload.write(0, layout::fr_as_bytes(&scalars)).unwrap();
    let output = incomplete.await.unwrap().output;
    assert_eq!((output.points, output.batch_jobs), (vec![encoded(points.sums(&scalars))], 1));
    assert!(workplace.is_nothing_waiting());
}
