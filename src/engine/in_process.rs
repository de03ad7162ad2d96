//! The engine in the caller's process: blocking calls, without a server.

use std::{error, marker::PhantomData, sync::Arc, time::Duration};

use zeroize::Zeroizing;

use crate::{
    buffer::{ByteSink, ByteSource},
    curve::{
        Fr, NttPlan,
        layout::{fr_as_bytes, fr_as_bytes_mut, points_as_bytes},
        points::{self, Bases, CurvePoint, MsmSums, PointEncoding, PointSlice},
        scalars::ScalarEncoding,
    },
    device::{
        self, DeviceFault, DevicePolicy, DeviceSelection, FaultHandler, OpenOptions,
        SERVER_MEMORY_WAIT,
    },
    engines::{
        DeviceInfo, EncodedScalars, JobControl,
        cpu::{ArkworksEngine, CpuEngine},
        cuda::{CudaEngine, GpuPolicy},
    },
    error::{Error, FieldProblem, Result},
    exec::{ElementSink, Executor, GpuExecutor, HostExecutor, RunOperands, start_run},
    field::FieldId,
    ops::{OperationProgram, SINGLE_STEP, single_msm, single_ntt},
    program::{
        Constant, ExternalOperand, InputSpec, OutputKind, OutputSpec, ValueId, ValueType,
        Verification,
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
    /// Which of them, and the library of the driver.
    pub selection: DeviceSelection,
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
/// processors. Calls block, and can be made from several threads at the same time.
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
    /// Of Fr.
    Fr(&'a [Fr]),
    /// Of a field of a prime below 2^31, below the prime; or limbs of integers, the lowest first.
    Words(&'a [u32]),
    /// Of GF(2): words of 64 coefficients, the first in the lowest bit.
    Bits(&'a [u64]),
}

/// The value of an output: the rows of a vector, one after another, which are wiped when they are
/// dropped, or the sums of an MSM.
#[derive(Clone, PartialEq)]
pub enum EngineOutput {
    /// Of Fr.
    Fr(Zeroizing<Vec<Fr>>),
    /// Of a field of a prime below 2^31, or limbs of integers.
    Words(Zeroizing<Vec<u32>>),
    /// Of GF(2).
    Bits(Zeroizing<Vec<u64>>),
    /// One for each row of the scalars.
    Sums(MsmSums),
}

/// What a run of a program reads and makes.
#[derive(Clone, Default)]
pub struct EngineRun<'a> {
    /// One for each input step, in order.
    pub inputs: Vec<EngineInput<'a>>,
    /// One for each MSM step, in order, as long as a row of its scalars. The step's object is not
    /// looked up.
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
    /// Errors: no threads can be started.
    pub fn open() -> Result<Self> {
        Self::with(EngineOptions::default())
    }

    /// Like [`Self::open`], with options.
    pub fn with(options: EngineOptions) -> Result<Self> {
        let EngineOptions { threads, verify, .. } = options;
        let oracle = Arc::new(ArkworksEngine::new(threads)?);
        let reason = match options.gpus {
            true => match options.open_gpus() {
                Ok(engine) => {
                    let reason = engine.summary();
                    let executor = GpuExecutor::new(engine.into(), Some(oracle));
                    return Ok(Self { executor: Arc::new(executor), reason, verify });
                }
                Err(reason) => reason.to_string(),
            },
            false => "no GPUs are wanted".into(),
        };
        let engine = Arc::new(CpuEngine::new(threads)?);
        let executor = HostExecutor { engine, oracle: Some(oracle) };
        Ok(Self { executor: Arc::new(executor), reason, verify })
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
        let (encoding, bytes) = (PointEncoding::Montgomery, points_as_bytes(points));
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

    /// Transforms rows of 2^`plan.lg_n` elements in place.
    ///
    /// Shape: whole rows, one after another. Errors: `Invalid` for another length; `Corrupt` if the
    /// result fails its check; `Exhausted`, `DeviceLost`.
    pub fn ntt(&self, values: &mut [Fr], plan: NttPlan<Constant>) -> Result<()> {
        let length = 1_u64.checked_shl(plan.lg_n).unwrap_or(u64::MAX);
        let rows = values.len() as u64 / length;
        if rows == 0 || rows * length != values.len() as u64 {
            let (expected, got) = (rows.max(1).saturating_mul(length), values.len() as u64);
            return Err(Error::field("values", FieldProblem::Length { expected, got }));
        }
        let program = single_ntt(FieldId::Bls12381Fr, plan, rows as usize, length)?;
        let run = EngineRun {
            inputs: vec![EngineInput::Fr(values)],
            outputs: vec![SINGLE_STEP],
            ..EngineRun::default()
        };
        match self.run(&Arc::new(program), run)?.pop() {
            Some(EngineOutput::Fr(made)) => values.copy_from_slice(&made),
            _ => return Err(Error::Internal("no rows".into())),
        }
        Ok(())
    }

    /// Runs a program, and returns the values of its outputs in order.
    ///
    /// Errors: `Invalid` and `Step` if inputs, bases or outputs do not suit the program, or for an
    /// element that is not canonical; `Corrupt` if a value fails its check; `Exhausted`,
    /// `DeviceLost`.
    pub fn run(
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
        let fields = program.operands(ExternalOperand::Input).map(|id| field_of(program, id));
        let encodings: Vec<_> = fields.map(encoding_of).collect();
        let sources: Vec<&[u8]> = inputs.iter().map(EngineInput::bytes).collect();
        let elements = encodings.iter().zip(&sources).map(|(encoding, source)| {
            EncodedScalars::new(*encoding, source.len() / encoding.width(), source)
        });
        let elements: Vec<_> = elements.collect();
        let specs: Vec<_> = elements
            .iter()
            .map(|input| InputSpec { encoding: input.encoding, count: input.count as u64 })
            .collect();
        let mut made: Vec<_> = outputs.iter().map(|id| EngineOutput::zeros(program, *id)).collect();
        let output_specs: Vec<_> = outputs
            .iter()
            .zip(&made)
            .map(|(value, made)| {
                let is_points = matches!(made, EngineOutput::Sums(_));
                let kind = if is_points { OutputKind::Points } else { OutputKind::Elements };
                OutputSpec { value: *value, kind }
            })
            .collect();
        let mut run =
            start_run(&*self.executor, program.clone(), &specs, &output_specs, self.verify)?;
        let memory: Vec<_> = made.iter_mut().map(EngineOutput::memory).collect();
        let sinks = outputs.iter().zip(&memory).map(|(value, memory)| {
            let sink = memory.as_ref()?;
            Some(ElementSink { encoding: encoding_of(field_of(program, *value)), sink })
        });
        let sinks: Vec<_> = sinks.collect();
        let operands = RunOperands {
            inputs: &elements,
            bases: &bases,
            matrices: &matrices,
            sinks: &sinks,
            early_sums: &[],
        };
        let control = JobControl::default();
        run.begin(&bases)?;
        let report = loop {
            if let Some(report) = run.step(&operands, &control)? {
                break report;
            }
        };
        for (made, sums) in made.iter_mut().zip(report.points) {
            if let Some(sums) = sums {
                *made = EngineOutput::Sums(sums);
            }
        }
        Ok(made)
    }
}

/// The field of a vector; Fr for points.
fn field_of(program: &OperationProgram, id: ValueId) -> FieldId {
    match program.value_type(id) {
        Some(ValueType::Vector(shape)) => shape.field(),
        _ => FieldId::Bls12381Fr,
    }
}

/// How this process holds elements of a field.
fn encoding_of(field: FieldId) -> ScalarEncoding {
    match field {
        FieldId::Bls12381Fr => ScalarEncoding::Montgomery,
        FieldId::Prime31(_) => ScalarEncoding::Canonical31,
        FieldId::Gf2 => ScalarEncoding::PackedBits64,
        FieldId::Integers => ScalarEncoding::Limbs32,
    }
}

impl EngineInput<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fr(elements) => fr_as_bytes(elements),
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Bits(words) => bytemuck::cast_slice(words),
        }
    }
}

impl EngineOutput {
    /// Room for a value: zeros, or no sums.
    fn zeros(program: &OperationProgram, id: ValueId) -> Self {
        match program.value_type(id) {
            Some(ValueType::Vector(shape)) => {
                let count = shape.elements() as usize;
                match shape.field() {
                    FieldId::Bls12381Fr => Self::Fr(vec![Fr::from(0_u64); count].into()),
                    FieldId::Prime31(_) | FieldId::Integers => Self::Words(vec![0; count].into()),
                    FieldId::Gf2 => Self::Bits(vec![0; count].into()),
                }
            }
            // `start_run` refuses a value that no step makes.
            _ => Self::Sums(MsmSums::G1(Vec::new())),
        }
    }

    /// The memory of a vector.
    fn memory(&mut self) -> Option<EngineMemory<'_>> {
        let bytes = match self {
            Self::Fr(elements) => fr_as_bytes_mut(elements),
            Self::Words(words) => bytemuck::cast_slice_mut(words.as_mut_slice()),
            Self::Bits(words) => bytemuck::cast_slice_mut(words.as_mut_slice()),
            Self::Sums(_) => return None,
        };
        Some(EngineMemory(Mutex::new(bytes)))
    }
}

/// Memory of an output, which several threads write.
struct EngineMemory<'a>(Mutex<&'a mut [u8]>);

impl ByteSource for EngineMemory<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        out.copy_from_slice(&self.0.lock()[start as usize..][..out.len()]);
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for EngineMemory<'_> {
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.0.lock()[start as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
