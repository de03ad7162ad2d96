//! The engine in the caller's process: blocking calls, without a server.

use std::{
    error, fs,
    ops::Range,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use zeroize::Zeroizing;

use crate::{
    buffer::{ByteSink, ByteSource},
    builder::{BuiltProgram, ProgramBases, ProgramBuilder, ProgramMatrix, ProgramObject},
    curve::{
        Fr, NttPlan, TWO_ADICITY,
        layout::{fr_as_bytes, fr_as_bytes_mut, points_as_bytes},
        points::{self, Bases, CurvePoint, MsmSums, PointEncoding, PointSlice},
        scalars::ScalarEncoding,
    },
    device::{
        self, DeviceFault, DevicePolicy, DeviceSelection, FaultHandler, OpenOptions,
        SERVER_MEMORY_WAIT,
    },
    engines::{
        DeviceInfo, EncodedScalars, JobControl, MsmNttEngine,
        cpu::{ArkworksEngine, CpuEngine},
        cuda::{CudaEngine, GpuPolicy},
    },
    error::{Error, FieldProblem, InputError, Result},
    exec::{
        ElementSink, Executor, GpuExecutor, HostExecutor, RunInProgress, RunOperands, RunReport,
        SumsListener, start_run,
    },
    field::FieldId,
    ops::{Operation, OperationProgram, SINGLE_STEP, single_ntt},
    program::{
        Constant, ExternalOperand, OutputKind, OutputSpec, ROWS_MAX, ValueId, ValueType,
        VectorShape, Verification,
    },
    runner::{
        EarlyListener, Execution, MadeValue, NewRun, ProgramRunner, PutOptions, RunContent,
        RunOptions, RunStep, RunValues, Stage, Timing, ValueElements, check_given,
    },
    sparse::SparseMatrix,
    sync::Mutex,
};

/// How an [`Engine`] is opened.
#[derive(Clone)]
pub struct EngineOptions {
    /// Threads of the CPU engine; 0: one for each processor.
    pub threads: usize,
    /// Whether GPUs are used if there are some.
    pub gpus: bool,
    /// The GPUs to use, and the library of the driver.
    pub selection: DeviceSelection,
    /// Bytes of the host's memory that the values of a run may take. By default, all of it.
    pub memory_bytes_max: u64,
    /// Percentage of the free memory of each GPU that the engine takes, 1 to 100.
    pub memory_percent: u64,
    /// Longest wait for one piece of work on a GPU, which counts as lost after it.
    pub timeout: Duration,
    /// Called for every fault of a GPU. After a fatal one, calls fail with `DeviceLost`, and only
    /// another process can use the GPU.
    pub on_fault: FaultHandler,
    /// How results are checked, unless a run asks for more.
    pub verify: Verification,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            gpus: true,
            selection: DeviceSelection::default(),
            memory_bytes_max: host_memory().unwrap_or(u64::MAX),
            memory_percent: 80,
            timeout: Duration::from_secs(20),
            on_fault: Arc::new(|_: &DeviceFault| ()),
            verify: Verification::None,
        }
    }
}

impl EngineOptions {
    /// Opens the GPUs, with a CPU engine for small jobs.
    ///
    /// Errors: why no GPU can be used.
    #[doc(hidden)]
    pub fn open_gpus(self) -> Result<CudaEngine, Box<dyn error::Error>> {
        let options = OpenOptions {
            memory_percent: self.memory_percent,
            memory_wait: SERVER_MEMORY_WAIT,
            arena_bytes_min: None,
            timeout: self.timeout,
            on_fault: self.on_fault,
            policy: DevicePolicy::default(),
        };
        let opened = device::open(&self.selection, &options)?;
        Ok(CudaEngine::new(CpuEngine::new(self.threads)?, opened, GpuPolicy::default())?)
    }
}

/// Computes MSMs, NTTs and programs in the caller's process: on the GPUs of the host, or on its
/// processors. Calls block, and can be made from several threads at the same time. A call from a
/// task of a rayon pool runs on another thread, since it waits for other pools.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ark_bls12_381::{Fr, G1Affine};
/// use capstan_engine::{Engine, NttPlan};
/// # use capstan_engine::EngineOptions;
/// # let engine = Engine::with(EngineOptions { gpus: false, ..EngineOptions::default() })?;
///
/// # /*
/// let engine = Engine::open()?; // the GPUs that pass a self-test, or the processors
/// # */
/// println!("{}: {}", engine.device().name, engine.reason());
///
/// let points = vec![G1Affine::generator(); 4];
/// let scalars: Vec<Fr> = (0..4).map(Fr::from).collect();
/// let bases = engine.bases(&points)?; // checked once; a GPU keeps them
/// let sum = engine.msm(&bases, &scalars)?;
/// # assert_eq!(sum, G1Affine::generator() * Fr::from(6));
///
/// let mut values = scalars;
/// engine.ntt(&mut values, NttPlan::forward(2))?;
/// # assert_eq!(values[0], Fr::from(6));
/// # use ark_ec::AffineRepr;
/// # Ok(()) }
/// ```
pub struct Engine {
    executor: Arc<dyn Executor>,
    reason: String,
    verify: Verification,
    memory_bytes_max: u64,
}

/// Builds a program that [`Engine::run`] runs, over bases and matrices of an engine.
pub type EngineProgramBuilder = ProgramBuilder<Error>;

/// What a run of a program reads and returns.
pub type EngineRun<'a> = NewRun<'a, EngineInput<'a>>;

/// Elements of an input: its rows, one after another.
#[derive(Clone)]
pub enum EngineInput<'a> {
    /// Elements of Fr.
    Fr(&'a [Fr]),
    /// Elements of Fr, which are wiped after the run.
    Owned(Zeroizing<Vec<Fr>>),
    /// Elements of a field of a prime below 2^31, below the prime; or limbs of integers, the lowest
    /// first.
    Words(&'a [u32]),
    /// Elements of GF(2): words of 64 coefficients, the first in the lowest bit.
    Bits(&'a [u64]),
}

impl<'a> From<&'a [Fr]> for EngineInput<'a> {
    fn from(elements: &'a [Fr]) -> Self {
        Self::Fr(elements)
    }
}

impl<'a> From<&'a Vec<Fr>> for EngineInput<'a> {
    fn from(elements: &'a Vec<Fr>) -> Self {
        Self::Fr(elements)
    }
}

impl From<Vec<Fr>> for EngineInput<'_> {
    fn from(elements: Vec<Fr>) -> Self {
        Self::Owned(elements.into())
    }
}

impl<'a> From<&'a [u32]> for EngineInput<'a> {
    fn from(words: &'a [u32]) -> Self {
        Self::Words(words)
    }
}

impl<'a> From<&'a [u64]> for EngineInput<'a> {
    fn from(words: &'a [u64]) -> Self {
        Self::Bits(words)
    }
}

/// A run whose bases and matrices are found.
struct EngineCall<'a> {
    program: &'a Arc<OperationProgram>,
    /// One for each input step, in order.
    inputs: Vec<&'a EngineInput<'a>>,
    /// One for each MSM step, in order, as long as a row of its scalars.
    bases: Vec<Bases>,
    /// One for each sparse product, in order, of the shape that the step states.
    matrices: Vec<SparseMatrix>,
    outputs: Vec<ValueId>,
    early: &'a [EarlyListener<'a>],
    options: RunOptions,
}

/// What a run has made.
struct EngineResult {
    /// One for each output.
    values: Vec<RunContent>,
    report: RunReport,
}

impl Engine {
    /// Opens all GPUs of the host that pass a self-test. If there is none, [`Self::reason`] says
    /// why, and the processors compute.
    ///
    /// Errors: `Internal` if no threads can be started.
    pub fn open() -> Result<Self> {
        Self::with(EngineOptions::default())
    }

    /// Like [`Self::open`], with options.
    ///
    /// Errors: those of [`Self::open`]; `Invalid` for a percentage that is not from 1 to 100.
    pub fn with(options: EngineOptions) -> Result<Self> {
        let EngineOptions { threads, verify, memory_bytes_max, memory_percent, .. } = options;
        if !(1..=100).contains(&memory_percent) {
            return Err(Error::field("memory_percent", FieldProblem::OutOfRange));
        }
        // Each run can ask for a full check.
        let oracle: Option<Arc<dyn MsmNttEngine>> = Some(Arc::new(ArkworksEngine::new(threads)?));
        let reason = match options.gpus {
            true => match options.open_gpus() {
                Ok(engine) => {
                    let reason = engine.summary();
                    let executor = Arc::new(GpuExecutor::new(engine.into(), oracle));
                    return Ok(Self { executor, reason, verify, memory_bytes_max });
                }
                Err(reason) => reason.to_string(),
            },
            false => "no GPUs are wanted".into(),
        };
        let engine = Arc::new(CpuEngine::new(threads)?);
        let executor = Arc::new(HostExecutor { engine, oracle });
        Ok(Self { executor, reason, verify, memory_bytes_max })
    }

    /// All devices that compute, described as one.
    pub fn device(&self) -> DeviceInfo {
        self.executor.description()
    }

    /// Why these devices compute, in a sentence.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Checks points, and copies them. They live as long as the result or a program that uses it. A
    /// GPU keeps them from their first use on, and makes tables of multiples if they are used
    /// again.
    ///
    /// Errors: `Invalid` for the first point that is not on the curve or not in the subgroup.
    pub fn bases<A: CurvePoint>(&self, points: &[A]) -> Result<ProgramBases<A>> {
        let encoding = PointEncoding::Montgomery;
        let bytes = points_as_bytes(points);
        let refused = |start: usize| {
            move |bad: points::BadElement| {
                Error::element("points", start as u64 + bad.index, bad.problem)
            }
        };
        let checker = self.executor.point_checker();
        let piece = checker.and_then(|checker| {
            Some((checker, checker.piece_len(A::GROUP, encoding, points.len())?))
        });
        let checked = match piece {
            None => points::decode::<A>(encoding, bytes).map_err(refused(0))?,
            Some((checker, piece)) => {
                let mut checked = vec![A::zero(); points.len()];
                let width = encoding.point_bytes(A::GROUP);
                let pieces = checked.chunks_mut(piece).zip(bytes.chunks(piece * width));
                for (number, (out, bytes)) in pieces.enumerate() {
                    let done = checker.check(encoding, bytes, A::points_mut(out))?;
                    done.map_err(refused(number * piece))?;
                }
                // One transient fault of a device would stay in the bases for good.
                match points::encode(encoding, &checked) == bytes {
                    true => checked,
                    false => points::decode::<A>(encoding, bytes).map_err(refused(0))?,
                }
            }
        };
        let bases = A::into_bases(PointSlice::new(Arc::new(checked)));
        Ok(ProgramBases::new(engine_object(bases), 0, points.len() as u64))
    }

    /// A matrix for sparse products of programs. Does not copy it.
    pub fn matrix(&self, matrix: &SparseMatrix) -> ProgramMatrix {
        ProgramMatrix { object: engine_object(matrix.clone()), shape: matrix.shape() }
    }

    /// The sum of `scalars[i] * bases[i]`.
    ///
    /// Shape: one scalar for each of the bases, or fewer. Errors: `Invalid` for more; `Corrupt` if
    /// the result fails its check; `Exhausted`, `DeviceLost`.
    pub fn msm<A: CurvePoint>(&self, bases: &ProgramBases<A>, scalars: &[Fr]) -> Result<A::Group> {
        let got = scalars.len() as u64;
        if got > bases.len() {
            let problem = FieldProblem::TooLong { max: bases.len(), got };
            return Err(Error::field("scalars", problem));
        }
        let mut program = EngineProgramBuilder::new();
        let row = program.input(got)?;
        let sum = program.msm(bases, row)?;
        let run = EngineRun::new(&program.build()?).input(row, scalars).send_points(sum);
        let sum = self.run(run)?.points(sum)?.pop();
        sum.ok_or_else(|| Error::Internal("no sum".into()))
    }

    /// Transforms rows of 2^`plan.lg_n` elements in place. Checks take memory for as many elements
    /// in addition.
    ///
    /// Shape: 1 to 65536 whole rows, one after another. Errors, after which the values are
    /// unspecified: `Invalid` for another length or plan; `Corrupt` if the result fails its check;
    /// `Exhausted`, `DeviceLost`.
    pub fn ntt(&self, values: &mut [Fr], plan: NttPlan<Constant>) -> Result<()> {
        if plan.lg_n > TWO_ADICITY {
            return Err(Error::field("lg_n", FieldProblem::TooLarge { max: TWO_ADICITY.into() }));
        }
        let length = 1_u64 << plan.lg_n;
        let got = values.len() as u64;
        let rows = got / length;
        if rows == 0 || rows * length != got {
            let expected = rows.max(1) * length;
            return Err(Error::field("values", FieldProblem::Length { expected, got }));
        }
        if rows > u64::from(ROWS_MAX) {
            let max = u64::from(ROWS_MAX) * length;
            return Err(Error::field("values", FieldProblem::TooLong { max, got }));
        }
        if plan.coset.is_some_and(Constant::is_zero) {
            return Err(Error::field("coset", FieldProblem::Zero));
        }
        let program = Arc::new(single_ntt(FieldId::Bls12381Fr, plan, rows as usize, length)?);
        if self.verify == Verification::None {
            return off_rayon(|| self.ntt_in_place(program, values));
        }
        // A check compares the result with the input.
        let input = EngineInput::Fr(values);
        let call = EngineCall {
            program: &program,
            inputs: vec![&input],
            bases: Vec::new(),
            matrices: Vec::new(),
            outputs: vec![SINGLE_STEP],
            early: &[],
            options: RunOptions { verify: self.verify, ..RunOptions::default() },
        };
        match off_rayon(|| self.compute(call))?.values.pop() {
            Some(RunContent::Vector(ValueElements::Fr(made))) => values.copy_from_slice(&made),
            _ => return Err(Error::Internal("no rows".into())),
        }
        Ok(())
    }

    fn ntt_in_place(&self, program: Arc<OperationProgram>, values: &mut [Fr]) -> Result<()> {
        let encoding = ScalarEncoding::Montgomery;
        let count = values.len();
        let memory = EngineMemory::new(fr_as_bytes_mut(values));
        let elements = [EncodedScalars::new(encoding, count, &memory)];
        let wanted = [OutputSpec { value: SINGLE_STEP, kind: OutputKind::Elements }];
        let run = self.start(program, &elements, &wanted, Verification::None)?;
        let sinks = [Some(ElementSink { encoding, sink: &memory })];
        let operands = RunOperands { inputs: &elements, sinks: &sinks, ..RunOperands::default() };
        finish(run, &operands, None).map(|_| ())
    }

    /// Runs a program.
    ///
    /// Errors: `Invalid` if inputs or outputs do not suit the program, if its values take more
    /// memory than the options allow, or for an element that is not canonical; `NotFound` if its
    /// bases or matrices are not of an engine; `Corrupt` if a value fails its check; `Exhausted`,
    /// `DeviceLost`.
    pub fn run(&self, run: EngineRun<'_>) -> Result<RunValues> {
        self.run_with(run, RunOptions::default())
    }

    /// Like [`Self::run`], with a check of the steps, a deadline or progress.
    ///
    /// Errors: those of [`Self::run`]; `Deadline`.
    pub fn run_with(&self, run: EngineRun<'_>, options: RunOptions) -> Result<RunValues> {
        let begun = Instant::now();
        let NewRun { program, inputs, outputs, early } = &run;
        let tags = outputs.iter().map(|output| output.program);
        let inputs = check_given(program, inputs, tags)?;
        let (steps, tag) = (program.program(), program.tag());
        let verify = match (options.verify, self.verify) {
            (Verification::None, of_engine) => of_engine,
            (_, Verification::Full) => Verification::Full,
            (of_run, _) => of_run,
        };
        let bytes: u64 = inputs.iter().map(|given| given.input.bytes().len() as u64).sum();
        let progress = options.progress.clone();
        let call = EngineCall {
            program: steps,
            inputs: inputs.iter().map(|given| &given.input).collect(),
            bases: used_bases(program)?,
            matrices: used_matrices(program)?,
            outputs: outputs.iter().map(|output| output.value).collect(),
            early,
            options: RunOptions { verify, ..options },
        };
        let EngineResult { values, report } = off_rayon(|| self.compute(call))?;
        if let Some(progress) = progress {
            progress(bytes, bytes);
        }
        let values = outputs.iter().zip(values);
        let values = values.map(|(output, content)| MadeValue { value: output.value, content });
        let RunReport { steps, executor, .. } = report;
        let (total, checks) = (begun.elapsed(), steps.iter().map(|step| step.verify_time).sum());
        let compute = total.saturating_sub(checks);
        let timing = Timing { compute, verify: checks, total, ..Timing::default() };
        let stages = executor
            .stages
            .iter()
            .map(|stage| Stage { name: stage.name.into(), duration: stage.duration });
        let execution = Execution {
            engine: executor.engine.into(),
            device: executor.device,
            verified: verify,
            stages: stages.collect(),
        };
        let steps = steps.into_iter().map(|step| RunStep {
            operation: step.operation.into(),
            time: step.duration,
            method: step.method,
            verified: step.verified,
        });
        Ok(RunValues::new(tag, values.collect(), timing, execution, steps.collect()))
    }

    fn compute(&self, call: EngineCall<'_>) -> Result<EngineResult> {
        let EngineCall { program, inputs, bases, matrices, outputs, early, options } = call;
        let shapes = program.operands(ExternalOperand::Input).filter_map(|id| program.shape(id));
        let fields: Vec<_> = shapes.map(VectorShape::field).collect();
        for (number, (field, input)) in fields.iter().zip(&inputs).enumerate() {
            if !input.suits(*field) {
                let problem = FieldProblem::OtherEncoding;
                return Err(Error::element("inputs", number as u64, problem));
            }
        }
        let sources: Vec<&[u8]> = inputs.iter().map(|input| input.bytes()).collect();
        let elements = fields.iter().zip(&sources).map(|(field, source)| {
            let encoding = ScalarEncoding::typed(*field);
            EncodedScalars::new(encoding, source.len() / encoding.width(), source)
        });
        let elements: Vec<_> = elements.collect();
        let wanted = outputs.iter().map(|value| {
            let kind = match program.value_type(*value) {
                Some(ValueType::Points(_)) => OutputKind::Points,
                _ => OutputKind::Elements,
            };
            OutputSpec { value: *value, kind }
        });
        let wanted: Vec<_> = wanted.collect();
        let run = self.start(program.clone(), &elements, &wanted, options.verify)?;
        let made = outputs.iter().map(|id| made_by(program, *id));
        let mut made: Vec<_> = made.collect::<Result<_>>()?;
        let memory = made.iter_mut().map(|made| match made {
            RunContent::Vector(elements) => Some(EngineMemory::new(elements.as_bytes_mut())),
            RunContent::Points(_) => None,
        });
        let memory: Vec<_> = memory.collect();
        let sinks = outputs.iter().zip(&memory).map(|(value, memory)| {
            let encoding = ScalarEncoding::typed(program.shape(*value)?.field());
            Some(ElementSink { encoding, sink: memory.as_ref()? })
        });
        let sinks: Vec<_> = sinks.collect();
        let report_early = |output: usize| {
            move |sums: &MsmSums| {
                let listeners = early.iter().filter(|listener| listener.output == output);
                listeners.for_each(|listener| (listener.call)(sums.clone()));
            }
        };
        let listeners: Vec<_> = (0..outputs.len()).map(report_early).collect();
        let early_sums = listeners.iter().enumerate().map(|(output, listener)| {
            let is_wanted = early.iter().any(|early| early.output == output);
            is_wanted.then_some(listener as SumsListener<'_>)
        });
        let early_sums: Vec<_> = early_sums.collect();
        let operands = RunOperands {
            inputs: &elements,
            bases: &bases,
            matrices: &matrices,
            sinks: &sinks,
            early_sums: &early_sums,
        };
        let mut report = finish(run, &operands, options.deadline)?;
        for (made, sums) in made.iter_mut().zip(report.points.drain(..)) {
            if let Some(sums) = sums {
                *made = RunContent::Points(sums);
            }
        }
        Ok(EngineResult { values: made, report })
    }

    fn start(
        &self,
        program: Arc<OperationProgram>,
        elements: &[EncodedScalars<'_>],
        wanted: &[OutputSpec],
        verify: Verification,
    ) -> Result<Box<dyn RunInProgress>> {
        let given: Vec<_> = elements.iter().map(|input| input.spec).collect();
        let run = start_run(&*self.executor, program, &given, wanted, verify)?;
        let bytes = run.plan().memory_bytes;
        if bytes > self.memory_bytes_max {
            return Err(Error::field("program", FieldProblem::NoMemory { bytes }));
        }
        Ok(run)
    }
}

/// Proofs by the engine: the futures do their work when they are polled, on the polling thread.
/// Groth16 proofs need a runtime of tokio around them.
impl ProgramRunner for Engine {
    type Error = Error;
    type Input<'a> = EngineInput<'a>;

    async fn put_points<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: &[A],
    ) -> Result<ProgramBases<A>> {
        let bases = self.bases(points)?;
        if let Some(progress) = options.progress {
            let bytes = size_of_val(points) as u64;
            progress(bytes, bytes);
        }
        Ok(bases)
    }

    async fn put_sparse(&self, _: PutOptions, matrix: &SparseMatrix) -> Result<ProgramMatrix> {
        Ok(self.matrix(matrix))
    }

    async fn run_program<'a>(&self, run: EngineRun<'a>, options: RunOptions) -> Result<RunValues> {
        self.run_with(run, options)
    }
}

fn finish(
    mut run: Box<dyn RunInProgress>,
    operands: &RunOperands<'_>,
    limit: Option<Duration>,
) -> Result<RunReport> {
    // An unrepresentable deadline means no deadline.
    let control = JobControl::new(limit.and_then(|limit| Instant::now().checked_add(limit)));
    run.begin(operands.bases)?;
    loop {
        if let Some(report) = run.step(operands, &control)? {
            return Ok(report);
        }
    }
}

/// Does `work` on another thread if this one belongs to a rayon pool: a task that waits for another
/// pool runs other tasks of its pool meanwhile, such as another run, which can wait for the GPU
/// that this one holds.
fn off_rayon<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if rayon::current_thread_index().is_none() {
        return work();
    }
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Bases or a matrix of an engine, under a number of this process.
fn engine_object<T: Send + Sync + 'static>(content: T) -> ProgramObject {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut id = [0; 32];
    id[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    ProgramObject { id, keeper: Some(Arc::new(content)) }
}

/// The content of an object of an engine.
///
/// Errors: `NotFound` for one of another runner.
fn content<T: 'static>(program: &BuiltProgram, id: [u8; 32]) -> Result<&T, InputError> {
    let object = program.objects().iter().find(|object| object.id == id);
    let keeper = object.and_then(|object| object.keeper.as_ref());
    keeper.and_then(|keeper| keeper.downcast_ref()).ok_or(InputError::NotFound)
}

/// The bases that each MSM step uses.
fn used_bases(program: &BuiltProgram) -> Result<Vec<Bases>, InputError> {
    let steps = program.program();
    let bases = steps.ids().filter_map(|id| match &steps.steps()[id.index()] {
        Operation::Msm(step) => Some((id, step)),
        _ => None,
    });
    let bases = bases.map(|(id, step)| {
        let length = steps.shape(step.input).map_or(0, VectorShape::length);
        let used = step.bases(content(program, step.object_id)?, length);
        used.map_err(|problem| steps.step_error(id, problem))
    });
    bases.collect()
}

/// The matrix of each sparse product.
fn used_matrices(program: &BuiltProgram) -> Result<Vec<SparseMatrix>, InputError> {
    let matrices = program.program().steps().iter().filter_map(|step| match step {
        Operation::SparseProduct(step) => Some(content(program, step.object_id).cloned()),
        _ => None,
    });
    matrices.collect()
}

/// Memory for a value: zeros, or no sums.
///
/// Errors: `Invalid` if the host has no memory for it.
fn made_by(program: &OperationProgram, id: ValueId) -> Result<RunContent> {
    // `start_run` has refused values that no step makes.
    Ok(match program.shape(id) {
        Some(shape) => RunContent::Vector(ValueElements::zeros(shape.field(), shape.elements())?),
        None => RunContent::Points(MsmSums::G1(Vec::new())),
    })
}

/// Bytes of the host's memory.
fn host_memory() -> Option<u64> {
    let facts = fs::read_to_string("/proc/meminfo").ok()?;
    let total = facts.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

impl EngineInput<'_> {
    /// Whether the elements are those of a field.
    fn suits(&self, field: FieldId) -> bool {
        match self {
            Self::Fr(_) | Self::Owned(_) => field == FieldId::Bls12381Fr,
            Self::Words(_) => matches!(field, FieldId::Prime31(_) | FieldId::Integers),
            Self::Bits(_) => field == FieldId::Gf2,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fr(elements) => fr_as_bytes(elements),
            Self::Owned(elements) => fr_as_bytes(elements),
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Bits(words) => bytemuck::cast_slice(words),
        }
    }
}

/// Memory that several threads read and write, in pieces of `PIECE_BYTES`.
struct EngineMemory<'a>(Vec<Mutex<&'a mut [u8]>>);

const PIECE_BYTES: usize = 256 << 10;

impl<'a> EngineMemory<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self(bytes.chunks_mut(PIECE_BYTES).map(Mutex::new).collect())
    }

    /// Calls `copy` with the memory of each piece of `start..start + len`, and the part of that
    /// range that the piece is.
    fn each_piece(&self, start: u64, len: usize, mut copy: impl FnMut(&mut [u8], Range<usize>)) {
        let mut done = 0;
        while done < len {
            let at = start as usize + done;
            let mut piece = self.0[at / PIECE_BYTES].lock();
            let piece = &mut piece[at % PIECE_BYTES..];
            let here = piece.len().min(len - done);
            copy(&mut piece[..here], done..done + here);
            done += here;
        }
    }
}

impl ByteSource for EngineMemory<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.each_piece(start, out.len(), |piece, range| out[range].copy_from_slice(piece));
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for EngineMemory<'_> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.each_piece(start, bytes.len(), |piece, range| piece.copy_from_slice(&bytes[range]));
        Ok(())
    }
}
