//! The engine in the caller's process: blocking calls, without a server.

use std::{
    error, fmt, fs, marker::PhantomData, ops::Range, panic::resume_unwind, sync::Arc, thread,
    time::Duration,
};

use zeroize::{Zeroize, Zeroizing};

use crate::{
    buffer::{ByteSink, ByteSource},
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
    error::{Error, FieldProblem, Result},
    exec::{
        ElementSink, Executor, GpuExecutor, HostExecutor, RunInProgress, RunOperands, RunReport,
        start_run,
    },
    field::FieldId,
    ops::{Operation, OperationProgram, SINGLE_STEP, single_msm, single_ntt},
    program::{
        Constant, ExternalOperand, OutputKind, OutputSpec, ROWS_MAX, ValueId, ValueType,
        VectorShape, Verification,
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
    /// How results are checked.
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

/// Points that an [`Engine`] has checked. Cheap to clone.
#[derive(Clone)]
pub struct EngineBases<A: CurvePoint> {
    bases: Bases,
    group: PhantomData<A>,
}

impl<A: CurvePoint> EngineBases<A> {
    /// The number of points.
    pub fn len(&self) -> usize {
        self.bases.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.bases.is_empty()
    }

    /// `len` points from `start` on; `None` if there are fewer.
    pub fn slice(&self, start: usize, len: usize) -> Option<Self> {
        Some(Self { bases: self.bases.slice(start, len)?, group: PhantomData })
    }

    /// The points for [`EngineRun::bases`].
    pub fn any_group(&self) -> Bases {
        self.bases.clone()
    }
}

/// Elements of an input: its rows, one after another.
#[derive(Clone, Copy)]
pub enum EngineInput<'a> {
    /// Elements of Fr.
    Fr(&'a [Fr]),
    /// Elements of a field of a prime below 2^31, below the prime; or limbs of integers, the lowest
    /// first.
    Words(&'a [u32]),
    /// Elements of GF(2): words of 64 coefficients, the first in the lowest bit.
    Bits(&'a [u64]),
}

/// The value of an output: the rows of a vector, one after another, which are wiped when they are
/// dropped, or the sums of an MSM.
#[derive(Clone, PartialEq)]
pub enum EngineOutput {
    /// Elements of Fr.
    Fr(Zeroizing<Vec<Fr>>),
    /// Elements of a field of a prime below 2^31, or limbs of integers.
    Words(Zeroizing<Vec<u32>>),
    /// Elements of GF(2): words of 64 coefficients.
    Bits(Zeroizing<Vec<u64>>),
    /// One for each row of the scalars.
    Sums(MsmSums),
}

/// What a run of a program reads and makes.
#[derive(Clone, Default)]
pub struct EngineRun<'a> {
    /// One for each input step, in order.
    pub inputs: Vec<EngineInput<'a>>,
    /// One for each MSM step, in order. The step uses as many as a row of its scalars has, from its
    /// offset on; its object is not looked up.
    pub bases: Vec<Bases>,
    /// One for each sparse product, in order, of the shape that the step states.
    pub matrices: Vec<SparseMatrix>,
    /// The values to return.
    pub outputs: Vec<ValueId>,
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
        let oracle: Option<Arc<dyn MsmNttEngine>> = match verify {
            Verification::Full => Some(Arc::new(ArkworksEngine::new(threads)?)),
            Verification::None | Verification::Probabilistic => None,
        };
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

    /// Checks points, and copies them. A GPU keeps them from their first use on, and makes tables
    /// of multiples if they are used again.
    ///
    /// Errors: `Invalid` for the first point that is not on the curve or not in the subgroup.
    pub fn bases<A: CurvePoint>(&self, points: &[A]) -> Result<EngineBases<A>> {
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
                checked
            }
        };
        let bases = A::into_bases(PointSlice::new(Arc::new(checked)));
        Ok(EngineBases { bases, group: PhantomData })
    }

    /// The sum of `scalars[i] * bases[i]`.
    ///
    /// Shape: one scalar for each of the bases, or fewer. Errors: `Invalid` for more; `Corrupt` if
    /// the result fails its check; `Exhausted`, `DeviceLost`.
    pub fn msm<A: CurvePoint>(&self, bases: &EngineBases<A>, scalars: &[Fr]) -> Result<A::Group> {
        let used = bases.bases.slice(0, scalars.len());
        let used = used.ok_or_else(|| {
            Error::field(
                "scalars",
                FieldProblem::TooLong { max: bases.len() as u64, got: scalars.len() as u64 },
            )
        })?;
        let program = single_msm(A::GROUP, 1, scalars.len())?;
        let run = EngineRun {
            inputs: vec![EngineInput::Fr(scalars)],
            bases: vec![used],
            outputs: vec![SINGLE_STEP],
            ..EngineRun::default()
        };
        let made = self.run(&Arc::new(program), run)?.pop();
        let sums = match made {
            Some(EngineOutput::Sums(sums)) => A::from_sums(sums),
            _ => None,
        };
        sums.and_then(|mut sums| sums.pop()).ok_or_else(|| Error::Internal("no sum".into()))
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
        let run = EngineRun {
            inputs: vec![EngineInput::Fr(values)],
            outputs: vec![SINGLE_STEP],
            ..EngineRun::default()
        };
        match self.run(&program, run)?.pop() {
            Some(EngineOutput::Fr(made)) => values.copy_from_slice(&made),
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
        let run = self.start(program, &elements, &wanted)?;
        let sinks = [Some(ElementSink { encoding, sink: &memory })];
        let operands = RunOperands { inputs: &elements, sinks: &sinks, ..RunOperands::default() };
        finish(run, &operands).map(|_| ())
    }

    /// Runs a program, and returns the values of its outputs in order.
    ///
    /// Errors: `Invalid` and `Step` if inputs, bases, matrices or outputs do not suit the program,
    /// if its values take more memory than the options allow, or for an element that is not
    /// canonical; `Corrupt` if a value fails its check; `Exhausted`, `DeviceLost`.
    pub fn run(
        &self,
        program: &Arc<OperationProgram>,
        run: EngineRun<'_>,
    ) -> Result<Vec<EngineOutput>> {
        off_rayon(|| self.run_on_this_thread(program, run))
    }

    fn run_on_this_thread(
        &self,
        program: &Arc<OperationProgram>,
        run: EngineRun<'_>,
    ) -> Result<Vec<EngineOutput>> {
        let EngineRun { inputs, bases, matrices, outputs } = run;
        let wanted = [
            ("inputs", ExternalOperand::Input, inputs.len()),
            ("bases", ExternalOperand::Bases, bases.len()),
            ("matrices", ExternalOperand::Matrix, matrices.len()),
        ];
        for (field, operand, got) in wanted {
            let (expected, got) = (program.operands(operand).count() as u64, got as u64);
            if expected != got {
                return Err(Error::field(field, FieldProblem::Length { expected, got }));
            }
        }
        let shapes = program.operands(ExternalOperand::Input).filter_map(|id| program.shape(id));
        let fields: Vec<_> = shapes.map(VectorShape::field).collect();
        for (number, (field, input)) in fields.iter().zip(&inputs).enumerate() {
            if !input.suits(*field) {
                let problem = FieldProblem::OtherEncoding;
                return Err(Error::element("inputs", number as u64, problem));
            }
        }
        let bases = used_bases(program, &bases)?;
        check_matrices(program, &matrices)?;
        let sources: Vec<&[u8]> = inputs.iter().map(EngineInput::bytes).collect();
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
        let run = self.start(program.clone(), &elements, &wanted)?;
        let made = outputs.iter().map(|id| EngineOutput::zeros(program, *id));
        let mut made: Vec<_> = made.collect::<Result<_>>()?;
        let memory: Vec<_> = made.iter_mut().map(EngineOutput::memory).collect();
        let sinks = outputs.iter().zip(&memory).map(|(value, memory)| {
            let encoding = ScalarEncoding::typed(program.shape(*value)?.field());
            Some(ElementSink { encoding, sink: memory.as_ref()? })
        });
        let sinks: Vec<_> = sinks.collect();
        let operands = RunOperands {
            inputs: &elements,
            bases: &bases,
            matrices: &matrices,
            sinks: &sinks,
            early_sums: &[],
        };
        let report = finish(run, &operands)?;
        for (made, sums) in made.iter_mut().zip(report.points) {
            if let Some(sums) = sums {
                *made = EngineOutput::Sums(sums);
            }
        }
        Ok(made)
    }

    fn start(
        &self,
        program: Arc<OperationProgram>,
        elements: &[EncodedScalars<'_>],
        wanted: &[OutputSpec],
    ) -> Result<Box<dyn RunInProgress>> {
        let given: Vec<_> = elements.iter().map(|input| input.spec).collect();
        let run = start_run(&*self.executor, program, &given, wanted, self.verify)?;
        let bytes = run.plan().memory_bytes;
        if bytes > self.memory_bytes_max {
            return Err(Error::field("program", FieldProblem::NoMemory { bytes }));
        }
        Ok(run)
    }
}

fn finish(mut run: Box<dyn RunInProgress>, operands: &RunOperands<'_>) -> Result<RunReport> {
    let control = JobControl::default();
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

/// The bases that each MSM step uses, of those that are given for it.
fn used_bases(program: &OperationProgram, given: &[Bases]) -> Result<Vec<Bases>> {
    let steps = program.operands(ExternalOperand::Bases).zip(given).map(|(id, given)| {
        let Operation::Msm(step) = &program.steps()[id.index()] else {
            return Err(Error::Internal("a step other than an MSM uses bases".into()));
        };
        let used = step.bases(given, row_length(program, step.input));
        used.map_err(|problem| program.step_error(id, problem))
    });
    steps.collect()
}

fn check_matrices(program: &OperationProgram, given: &[SparseMatrix]) -> Result<()> {
    let mut steps = program.operands(ExternalOperand::Matrix).zip(given);
    steps.try_for_each(|(id, given)| {
        let Operation::SparseProduct(step) = &program.steps()[id.index()] else {
            return Err(Error::Internal("a step other than a sparse product uses a matrix".into()));
        };
        let checked = step.check_matrix(given.shape(), row_length(program, step.input));
        checked.map_err(|problem| program.step_error(id, problem))
    })
}

fn row_length(program: &OperationProgram, id: ValueId) -> u64 {
    program.shape(id).map_or(0, VectorShape::length)
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
            Self::Fr(_) => field == FieldId::Bls12381Fr,
            Self::Words(_) => matches!(field, FieldId::Prime31(_) | FieldId::Integers),
            Self::Bits(_) => field == FieldId::Gf2,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fr(elements) => fr_as_bytes(elements),
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Bits(words) => bytemuck::cast_slice(words),
        }
    }
}

impl fmt::Debug for EngineOutput {
    /// Elements may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fr(elements) => write!(f, "Fr({} elements)", elements.len()),
            Self::Words(words) => write!(f, "Words({} elements)", words.len()),
            Self::Bits(words) => write!(f, "Bits({} words)", words.len()),
            Self::Sums(sums) => write!(f, "Sums({} points)", sums.len()),
        }
    }
}

impl EngineOutput {
    /// Memory for a value: zeros, or no sums.
    ///
    /// Errors: `Invalid` if the host has no memory for it.
    fn zeros(program: &OperationProgram, id: ValueId) -> Result<Self> {
        // `start_run` has refused values that no step makes.
        let Some(shape) = program.shape(id) else {
            return Ok(Self::Sums(MsmSums::G1(Vec::new())));
        };
        let (count, bytes) = (shape.elements() as usize, shape.bytes());
        Ok(match shape.field() {
            FieldId::Bls12381Fr => Self::Fr(zeros(count, bytes)?),
            FieldId::Prime31(_) | FieldId::Integers => Self::Words(zeros(count, bytes)?),
            FieldId::Gf2 => Self::Bits(zeros(count, bytes)?),
        })
    }

    /// The memory of a vector.
    fn memory(&mut self) -> Option<EngineMemory<'_>> {
        let bytes = match self {
            Self::Fr(elements) => fr_as_bytes_mut(elements),
            Self::Words(words) => bytemuck::cast_slice_mut(words.as_mut_slice()),
            Self::Bits(words) => bytemuck::cast_slice_mut(words.as_mut_slice()),
            Self::Sums(_) => return None,
        };
        Some(EngineMemory::new(bytes))
    }
}

fn zeros<E: Clone + Default + Zeroize>(count: usize, bytes: u64) -> Result<Zeroizing<Vec<E>>> {
    let mut elements = Vec::new();
    let reserved = elements.try_reserve_exact(count);
    reserved.map_err(|_| Error::field("outputs", FieldProblem::NoMemory { bytes }))?;
    elements.resize(count, E::default());
    Ok(elements.into())
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
