//! Builds programs, runs them on the host and reads their outputs.

use std::sync::{Arc, LazyLock, Mutex};

use ark_ff::UniformRand;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    buffer::{ByteSink, ByteSource},
    curve::{
        Fr,
        points::{Bases, CurvePoint, MsmSums, PointSlice},
        scalars::{ScalarEncoding, decode_fr, encode_fr},
    },
    engine::{
        EncodedScalars, JobControl, NttPlan,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::Result,
    exec::{ElementSink, Executor, HostExecutor, RunOperands, RunReport},
    field::FieldId,
    ops::{InputStep, Operation, OperationProgram, PowersStep},
    program::{Constant, InputSpec, OutputKind, OutputSpec, ValueId, ValueType},
    sparse::SparseMatrix,
    verify::Verification,
};

pub use crate::repeat::some_of;
use crate::run_program::{CountedRun, run_program};

pub type Rows = Vec<Vec<Fr>>;

pub static EXECUTOR: LazyLock<HostExecutor> = LazyLock::new(|| HostExecutor {
    engine: Arc::new(CpuEngine::new(2).expect("threads")),
    oracle: Some(Arc::new(ArkworksEngine::new(1).expect("threads"))),
});

pub fn random_rows(rows: usize, length: usize, seed: u64) -> Rows {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..rows).map(|_| (0..length).map(|_| Fr::rand(&mut rng)).collect()).collect()
}

pub fn random(seed: u64) -> Fr {
    random_rows(1, 1, seed)[0][0]
}

pub fn bases<A: CurvePoint>(points: Vec<A>) -> Bases {
    A::into_bases(PointSlice::new(Arc::new(points)))
}

pub fn constants(elements: &[Fr]) -> Vec<Constant> {
    elements.iter().copied().map(Into::into).collect()
}

pub fn powers(first: Fr, base: Fr, length: u64) -> PowersStep {
    PowersStep { field: FieldId::Bls12381Fr, base: base.into(), first: first.into(), length }
}

/// A transform in natural order.
pub fn natural(lg_n: u32, inverse: bool, coset: Option<Fr>) -> NttPlan<Constant> {
    let coset = coset.map(Into::into);
    NttPlan { lg_n, inverse, coset, input_reversed: false, output_reversed: false }
}

/// An input of a call.
#[derive(Clone)]
pub struct CallInput {
    pub encoding: ScalarEncoding,
    pub reduce: bool,
    pub bytes: Vec<u8>,
}

impl CallInput {
    pub fn new(encoding: ScalarEncoding, bytes: Vec<u8>) -> Self {
        Self { encoding, reduce: false, bytes }
    }

    pub fn canonical(rows: &Rows) -> Self {
        let elements = rows.concat();
        let mut bytes = vec![0; 32 * elements.len()];
        encode_fr(ScalarEncoding::Canonical, &elements, &mut bytes);
        Self::new(ScalarEncoding::Canonical, bytes)
    }
}

/// A program, and the data of a call of it.
#[derive(Clone, Default)]
pub struct Call {
    pub steps: Vec<Operation>,
    pub inputs: Vec<CallInput>,
    pub bases: Vec<Bases>,
    pub matrices: Vec<SparseMatrix>,
    pub outputs: Vec<ValueId>,
}

/// The value of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputValue {
    Rows(Rows),
    Points(MsmSums),
}

#[derive(Debug)]
pub struct Answer {
    /// How often the run let other jobs run.
    pub pauses: usize,
    pub outputs: Vec<OutputValue>,
    pub report: RunReport,
}

impl Call {
    pub fn push(&mut self, step: impl Into<Operation>) -> ValueId {
        self.steps.push(step.into());
        ValueId(self.steps.len() as u32 - 1)
    }

    /// An input step and its data.
    pub fn input(&mut self, rows: &Rows) -> ValueId {
        self.inputs.push(CallInput::canonical(rows));
        self.input_step(rows.len(), rows[0].len())
    }

    /// An input step without data.
    pub fn input_step(&mut self, rows: usize, length: usize) -> ValueId {
        let (rows, length) = (rows as u32, length as u64);
        self.push(InputStep { field: FieldId::Bls12381Fr, rows, length })
    }

    pub fn program(&self) -> Result<Arc<OperationProgram>> {
        Ok(OperationProgram::new(self.steps.clone()).map(Arc::new)?)
    }

    pub fn run(
        &self,
        executor: &dyn Executor,
        verify: Verification,
        control: &JobControl,
    ) -> Result<Answer> {
        let program = self.program()?;
        let types: Vec<_> =
            self.outputs.iter().map(|value| program.value_type(*value).expect("a step")).collect();
        let sinks: Vec<_> = types.iter().map(|kind| MemorySink::new(*kind)).collect();
        let sources: Vec<&[u8]> = self.inputs.iter().map(|input| &input.bytes[..]).collect();
        let inputs = self.inputs.iter().zip(&sources).map(|(input, source)| {
            let count = (input.bytes.len() / input.encoding.width()) as u64;
            let spec = InputSpec { encoding: input.encoding, count, reduce: input.reduce };
            EncodedScalars::of(spec, source)
        });
        let operands = RunOperands {
            inputs: &inputs.collect::<Vec<_>>(),
            bases: &self.bases,
            matrices: &self.matrices,
            sinks: &sinks.iter().enumerate().map(MemorySink::element_sink).collect::<Vec<_>>(),
            ..RunOperands::default()
        };
        let spec = |(value, kind): (&ValueId, &ValueType)| OutputSpec {
            value: *value,
            kind: match kind {
                ValueType::Vector(_) => OutputKind::Elements,
                ValueType::Points(_) => OutputKind::Points,
            },
        };
        let outputs = self.outputs.iter().zip(&types).map(spec).collect();
        let run = run_program(executor, program, outputs, &operands, verify, control)?;
        let CountedRun { report, pauses } = run;
        let values = sinks.into_iter().enumerate().zip(&report.points);
        let outputs = values.map(|((number, sink), points)| match points {
            Some(points) => OutputValue::Points(points.clone()),
            None => OutputValue::Rows(sink.rows(number)),
        });
        Ok(Answer { pauses, outputs: outputs.collect(), report })
    }

    /// The outputs of a run, which are the same on every executor and with every check.
    pub fn outputs(&self) -> Vec<OutputValue> {
        let run = |executor: &dyn Executor, verify| {
            self.run(executor, verify, &JobControl::default()).expect("succeeds").outputs
        };
        let outputs = run(&*EXECUTOR, Verification::None);
        for verify in [Verification::Full, Verification::Probabilistic] {
            assert!(run(&*EXECUTOR, verify) == outputs, "{verify:?}: other outputs");
        }
        for verify in [Verification::Full, Verification::Probabilistic] {
            assert!(run(crate::gpu::executor(), verify) == outputs, "GPU, {verify:?}");
        }
        outputs
    }

    /// The rows of the value of `step`, which becomes the only output.
    pub fn rows_of(&mut self, step: impl Into<Operation>) -> Rows {
        let value = self.push(step);
        self.outputs = vec![value];
        match self.outputs().remove(0) {
            OutputValue::Rows(rows) => rows,
            OutputValue::Points(_) => panic!("points"),
        }
    }
}

/// Keeps an output in memory.
struct MemorySink {
    kind: ValueType,
    bytes: Mutex<Vec<u8>>,
}

/// Every second output is in Montgomery form.
fn output_encoding(number: usize) -> ScalarEncoding {
    [ScalarEncoding::Canonical, ScalarEncoding::Montgomery][number % 2]
}

impl MemorySink {
    fn new(kind: ValueType) -> Self {
        let elements = match kind {
            ValueType::Vector(shape) => shape.elements() as usize,
            ValueType::Points(_) => 0,
        };
        Self { kind, bytes: Mutex::new(vec![0xff; 32 * elements]) }
    }

    fn element_sink((number, sink): (usize, &Self)) -> Option<ElementSink<'_>> {
        let encoding = output_encoding(number);
        matches!(sink.kind, ValueType::Vector(_)).then_some(ElementSink { encoding, sink })
    }

    fn rows(self, number: usize) -> Rows {
        let ValueType::Vector(shape) = self.kind else { panic!("points were not reported") };
        let bytes = self.bytes.into_inner().expect("no panic");
        let length = shape.length() as usize;
        let row = |row: usize| {
            let mut elements = vec![Fr::default(); length];
            let bytes = &bytes[32 * row * length..][..32 * length];
            decode_fr(output_encoding(number), bytes, false, &mut elements).expect("canonical");
            elements
        };
        (0..shape.rows() as usize).map(row).collect()
    }
}

impl ByteSource for MemorySink {
    fn read(&self, at: u64, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes.lock().expect("no panic")[at as usize..][..out.len()]);
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for MemorySink {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.bytes.lock().expect("no panic")[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
