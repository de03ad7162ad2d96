//! No secret remains in freed memory: an allocator searches every freed block for a marker scalar
//! while jobs end in every possible way. The buffers of tonic, h2 and TLS are not wiped
//! (SECURITY.md), so this test drives the layers below them.
#![cfg(feature = "server")]

mod allocator;
#[path = "../rig/faulty_engine.rs"]
#[allow(dead_code)] // not every mode is used here
mod faulty_engine;
mod programs;
#[path = "../common/run_program.rs"]
#[allow(dead_code)] // only the outcome is read here
mod run_program;
mod sent_chunks;

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use allocator::{ARMED, FOUND, MARKERS};

use ark_ff::{FftField, Field};
use capstan::{
    buffer::{PayloadPool, Quota, UploadBuffer},
    curve::{
        Fr, G1Affine, Group,
        layout::fr_as_bytes,
        points::{CurvePoint, PointSlice, SumEncoding},
        scalars::{ScalarEncoding, encode_fr},
    },
    engine::{JobControl, NttPlan},
    error::{EngineError, FieldProblem, Limit, Result, ServiceError},
    exec::{BusyPoll, start_run},
    field::FieldId,
    jobs::{
        ComputeHost, JobBases, JobOwner, JobWork, ProgramJob, ProgramJobInput, ProgramJobOutput,
        ProgramWork, Scheduler,
    },
    ops::{OperationProgram, SINGLE_STEP, single_msm, single_ntt},
    program::{InputSpec, OutputKind, OutputSpec},
    store::{UploadOwner, Uploads},
    tenant::Tenants,
    verify::Verification,
    wire::decode::{UploadId, VectorUploadHeader},
};
use faulty_engine::{EngineMode, FaultDial, faulty_executor};
use zeroize::Zeroizing;

/// A value that nothing else holds: its words differ from each other and from common patterns.
fn marker() -> Fr {
    Fr::from(0x9e37_79b9_7f4a_7c15u64).pow([11])
}

fn words(bytes: &[u8]) -> [u64; 4] {
    std::array::from_fn(|i| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight")))
}

struct JobRunner {
    scheduler: Scheduler,
    host: Arc<ComputeHost>,
    dial: FaultDial,
    pool: PayloadPool,
    bases: Vec<G1Affine>,
}

const N: usize = 700;

/// More than the payloads of a test take, from the beginning of the memory on.
const PAYLOADS_BYTES: usize = 16 << 20;

/// `N` elements as bytes; every ninth is the marker.
fn payload(encoding: ScalarEncoding) -> Zeroizing<Vec<u8>> {
    let value = |i| if i % 9 == 0 { marker() } else { Fr::from(i) };
    let values: Zeroizing<Vec<Fr>> = Zeroizing::new((0..N as u64).map(value).collect());
    let mut bytes = Zeroizing::new(vec![0; 32 * N]);
    encode_fr(encoding, &values, &mut bytes);
    bytes
}

/// A job of one piece that does nothing.
struct EmptyJob;

impl JobWork for EmptyJob {
    type Output = ();

    fn is_ready(&self) -> bool {
        true
    }

    fn step(&mut self, _: &JobControl) -> Result<Option<()>, ServiceError> {
        Ok(Some(()))
    }

    fn span(&self, _: u64) -> tracing::Span {
        tracing::Span::none()
    }
}

impl JobRunner {
    fn new() -> Self {
        let (executor, dial) = faulty_executor();
        let host = Arc::new(ComputeHost::new(Arc::new(executor)).expect("threads"));
        let bases = vec![<G1Affine as ark_ec::AffineRepr>::generator(); N];
        let pool = PayloadPool::new(0, 0).expect("memory");
        Self {
            scheduler: Scheduler::new(1, BusyPoll::default()).expect("threads"),
            host,
            dial,
            pool,
            bases,
        }
    }

    /// Runs `work`; no block that is freed meanwhile may hold the marker, nor may payload memory
    /// afterwards.
    fn assert_wiped(&self, name: &str, work: impl FnOnce(&Arc<Quota>)) {
        let counter = Quota::new(Limit::BytesInFlight, 1000);
        ARMED.store(true, Ordering::SeqCst);
        work(&counter);
        self.wait_until_freed();
        assert_eq!(counter.used(), 0, "{name}: a payload is still counted");
        let mut payloads = Vec::new();
        self.pool.memory().append_to(&mut payloads, 0, PAYLOADS_BYTES);
        drop(payloads);
        ARMED.store(false, Ordering::SeqCst);
        let found = FOUND.lock().expect("no panic").take();
        assert!(found.is_none(), "{name}: a secret was left in {}", found.unwrap_or_default());
    }

    /// An upload of `bytes`, counted by `counter`.
    fn upload(&self, bytes: &[u8], counter: &Arc<Quota>) -> Arc<UploadBuffer> {
        let permit = counter.acquire(1).expect("within the limit");
        Arc::new(UploadBuffer::from_bytes(&self.pool, bytes, vec![permit]).expect("memory"))
    }

    /// Waits until background threads have dropped their values: the only worker has finished a job
    /// when it runs the next one, and the wiping thread drops values in order.
    fn wait_until_freed(&self) {
        block_on(self.scheduler.submit(JobOwner::default(), JobControl::default(), |_| EmptyJob))
            .expect("a worker");
        let (sender, receiver) = mpsc::channel::<()>();
        self.pool.wiper().drop_later(sender);
        receiver.recv().expect_err("the sender is dropped");
    }

    fn msm(
        &self,
        encoding: ScalarEncoding,
        upload: Arc<UploadBuffer>,
        control: JobControl,
    ) -> Result<()> {
        let points = PointSlice::new(Arc::new(self.bases.clone()));
        let rows = N * 32 / encoding.width() / N;
        let verify = [Verification::None, Verification::Probabilistic][rows % 2];
        self.run(SingleStep {
            program: single_msm(Group::G1, rows, N)?,
            input: InputSpec::new(encoding, (rows * N) as u64),
            kind: OutputKind::Points,
            bases: vec![JobBases::Checked(G1Affine::into_bases(points))],
            payload: upload,
            output: ProgramJobOutput::Points(SumEncoding::Compressed),
            verify,
            control,
        })
    }

    fn ntt(&self, upload: Arc<UploadBuffer>, bits: u32, verify: Verification) -> Result<()> {
        let encodings = [ScalarEncoding::Canonical, ScalarEncoding::Montgomery];
        let plan = NttPlan {
            lg_n: 9,
            inverse: bits & 1 != 0,
            coset: (bits & 2 != 0).then_some(Fr::GENERATOR),
            input_reversed: bits & 4 != 0,
            output_reversed: bits & 8 != 0,
        };
        let result = Arc::new(UploadBuffer::new(&self.pool, 64 << 9, vec![]));
        let (encoding, payload) = (encodings[bits as usize & 1], result);
        self.run(SingleStep {
            program: single_ntt(
                FieldId::Bls12381Fr,
                plan.with_coset(plan.coset.map(Into::into)),
                2,
                350,
            )?,
            input: InputSpec::new(encodings[0], 700),
            kind: OutputKind::Elements,
            bases: vec![],
            payload: upload,
            output: ProgramJobOutput::Elements { encoding, payload },
            verify,
            control: JobControl::default(),
        })
    }

    fn run(&self, step: SingleStep) -> Result<()> {
        let SingleStep { input: spec, payload, verify, .. } = step;
        let output = OutputSpec { value: SINGLE_STEP, kind: step.kind };
        let program = Arc::new(step.program);
        let run = start_run(&*self.host.executor, program, &[step.input], &[output], verify)?;
        let input = ProgramJobInput { payload, copy: None, spec, first: 0 };
        let job = ProgramJob {
            call: "test",
            run,
            inputs: vec![input],
            input_field: Some(if step.bases.is_empty() { "input" } else { "scalars" }),
            bases: step.bases,
            matrices: Vec::new(),
            outputs: vec![step.output],
            early_points: None,
            verify,
            states_modelled_time: false,
            steps: 2,
            row_length: spec.count,
        };
        let host = self.host.clone();
        let ticket = self
            .scheduler
            .submit(JobOwner::default(), step.control, |wake| ProgramWork::new(host, job, wake));
        block_on(ticket).map(drop).map_err(|error| match error {
            ServiceError::Engine(error) => error,
            other => panic!("{other}"),
        })
    }
}

/// A job of one step.
struct SingleStep {
    program: OperationProgram,
    input: InputSpec,
    kind: OutputKind,
    bases: Vec<JobBases>,
    payload: Arc<UploadBuffer>,
    output: ProgramJobOutput,
    verify: Verification,
    control: JobControl,
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn no_freed_block_holds_a_secret() {
    let mut canonical = [0; 32];
    encode_fr(ScalarEncoding::Canonical, &[marker()], &mut canonical);
    let decimal = words(&marker().to_string().as_bytes()[..32]);
    let markers = [words(&canonical), words(fr_as_bytes(&[marker()])), decimal];
    MARKERS.set(markers).expect("set once");
    finds_an_unwiped_block(&canonical);
    let bench = JobRunner::new();
    msms(&bench);
    ntts(&bench);
    programs::run(&bench);
    sent_chunks::run(&bench);
    failures(&bench);
    uploads(&bench);
    text(&bench, &canonical);
}

/// The allocator finds a block that was freed without wiping.
fn finds_an_unwiped_block(canonical: &[u8]) {
    ARMED.store(true, Ordering::SeqCst);
    // Large enough to be unmapped: a smaller block would be found again in its next allocation.
    drop(std::hint::black_box(canonical.repeat(1 << 16)));
    ARMED.store(false, Ordering::SeqCst);
    assert!(FOUND.lock().expect("no panic").take().is_some(), "the allocator finds nothing");
}

fn msms(bench: &JobRunner) {
    use ScalarEncoding::{Canonical, Montgomery, Signed, Unsigned};
    for encoding in [Canonical, Montgomery, Unsigned(8), Signed(8), Signed(1)] {
        let full = if encoding == Montgomery { Montgomery } else { Canonical };
        let bytes = payload(full);
        bench.assert_wiped(&format!("msm of {encoding:?}"), |counter| {
            bench
                .msm(encoding, bench.upload(&bytes, counter), JobControl::default())
                .expect("succeeds");
        });
    }
}

fn ntts(bench: &JobRunner) {
    let bytes = payload(ScalarEncoding::Canonical);
    // The marker followed by zeros: every element of the transform is the marker.
    let mut constant = Zeroizing::new(vec![0; 32 * N]);
    constant[..32].copy_from_slice(&bytes[..32]);
    for bits in 0..16 {
        for verify in [Verification::None, Verification::Full, Verification::Probabilistic] {
            bench.assert_wiped(&format!("ntt {bits:04b}, {verify:?}"), |counter| {
                bench.ntt(bench.upload(&bytes, counter), bits, verify).expect("succeeds");
                bench.ntt(bench.upload(&constant, counter), bits, verify).expect("succeeds");
            });
        }
    }
}

fn failures(bench: &JobRunner) {
    let encoding = ScalarEncoding::Canonical;
    let bytes = payload(encoding);
    let mut bad = bytes.clone();
    bad[32 * N - 32..].fill(0xff);
    bench.assert_wiped("a bad scalar", |counter| {
        let failed = bench.msm(encoding, bench.upload(&bad, counter), JobControl::default());
        assert_eq!(
            failed,
            Err(EngineError::element("scalars", N as u64 - 1, FieldProblem::NotCanonical))
        );
        let failed = bench.ntt(bench.upload(&bad, counter), 0, Verification::Full);
        assert_eq!(
            failed,
            Err(EngineError::element("input", N as u64 - 1, FieldProblem::NotCanonical))
        );
    });
    bench.assert_wiped("a panic", |counter| {
        bench.dial.set(EngineMode::Panics);
        let panicked = Err(EngineError::Internal("a job panicked".into()));
        let failed = bench.msm(encoding, bench.upload(&bytes, counter), JobControl::default());
        assert_eq!(failed, panicked);
        assert_eq!(bench.ntt(bench.upload(&bytes, counter), 0, Verification::Full), panicked);
        bench.dial.set(EngineMode::Honest);
    });
    bench.assert_wiped("a deadline", |counter| {
        bench.dial.set(EngineMode::Hangs);
        let soon = JobControl::new(Some(Instant::now() + Duration::from_millis(50)));
        let failed = bench.msm(encoding, bench.upload(&bytes, counter), soon);
        assert_eq!(failed, Err(EngineError::Deadline));
        bench.dial.set(EngineMode::Honest);
    });
    bench.assert_wiped("a wrong result", |counter| {
        bench.dial.set(EngineMode::WrongResults);
        let failed = bench.ntt(bench.upload(&bytes, counter), 0, Verification::Full);
        assert_eq!(failed, Err(EngineError::Corrupt));
        bench.dial.set(EngineMode::Honest);
    });
    bench.assert_wiped("cancelled during the upload", |counter| {
        let held = vec![counter.acquire(1).expect("within the limit")];
        let half = Arc::new(UploadBuffer::new(&bench.pool, bytes.len() as u64, held));
        half.write(0, &bytes[..bytes.len() / 2]).expect("fits");
        half.fail(EngineError::Cancelled);
        assert_eq!(bench.msm(encoding, half, JobControl::default()), Err(EngineError::Cancelled));
    });
}

fn uploads(bench: &JobRunner) {
    let bytes = payload(ScalarEncoding::Canonical);
    let vector = |id| VectorUploadHeader {
        id: UploadId([id; 16]),
        encoding: ScalarEncoding::Canonical,
        count: N as u64,
        streams: 1,
    };
    bench.assert_wiped("vectors released and expired", |counter| {
        let (uploads, tenants) = (Uploads::new(8, bench.pool.clone()), Tenants::default());
        let tenant = &*tenants.find(None, "").expect("exists");
        let owner = UploadOwner::of_tenant(tenant);
        for id in 1..=3 {
            let payload = bench.upload(&bytes, counter);
            let kept = uploads.reserve(owner, vec![vector(id)]).expect("within the limit");
            uploads.keep(kept, vec![payload]).expect("is free");
        }
        uploads.release(tenant.id, UploadId([1; 16])).expect("is stored");
        assert_eq!(uploads.drop_idle(Duration::ZERO, Duration::ZERO, Duration::ZERO), 2);
    });
}

fn text(bench: &JobRunner, canonical: &[u8]) {
    use capstan::formats::scalars::{Notation, to_text};
    bench.assert_wiped("text", |_| {
        for radix in [Notation::Hex, Notation::Decimal] {
            drop(to_text(radix, canonical));
        }
    });
}
