//! Products and squares of integers of 2^30 bits, and of many short ones, as steps of a program:
//! the time of the step on the device. Each product is compared with its factors modulo secret
//! primes, by the host.

use std::sync::Arc;

use capstan::{
    buffer::{PayloadPool, PayloadView, UploadBuffer},
    curve::scalars::ScalarEncoding,
    engine::{
        EncodedScalars, JobControl,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy},
    },
    exec::{ElementSink, Executor, GpuExecutor, RunOperands, RunReport, start_run},
    field::FieldId,
    ops::{InputStep, IntMulStep, OperationProgram},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::{CheckedInteger, SecretPrimes, Verification},
};

use crate::{
    pool,
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

const LG_BITS: u32 = 30;
/// Bits of a short integer; all of them together have 2^30.
const LG_SHORT_BITS: u32 = 15;
const ENCODING: ScalarEncoding = ScalarEncoding::Limbs32;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let cpu = CpuEngine::new(0).unwrap_or_else(|error| panic!("{error}"));
    let engine = CudaEngine::new(cpu, rig.gpu.clone().into(), GpuPolicy::default())
        .unwrap_or_else(|why| panic!("{why}"));
    let lg_bits = rig.size(LG_BITS, 13);
    let limbs = 1_usize << (lg_bits - 5);
    let pool = pool::payload_pool(&engine, 32 * limbs);
    let bench = IntegerBench { executor: GpuExecutor::new(Arc::new(engine), None), pool };
    let mut random = Random(u64::from(lg_bits));
    let mut integer = || -> Vec<u32> { (0..limbs).map(|_| random.next() as u32).collect() };
    let (a, b, ones) = (integer(), integer(), vec![u32::MAX; limbs]);
    let one = IntegerRows { lg_bits, count: 1 };
    let lg_short_bits = rig.size(LG_SHORT_BITS, 8);
    let many = IntegerRows { lg_bits: lg_short_bits, count: 1 << (lg_bits - lg_short_bits) };
    let cases = [
        ("device", one, [&a, &b]),
        ("device_ones", one, [&ones, &ones.clone()]),
        ("device_square", one, [&a, &a]),
        ("device", many, [&a, &b]),
    ];
    for (mode, rows, factors) in cases {
        bench.measure(rig, record, mode, rows, factors);
    }
}

/// `count` integers of 2^`lg_bits` bits each, as rows.
#[derive(Clone, Copy)]
struct IntegerRows {
    lg_bits: u32,
    count: usize,
}

struct IntegerBench {
    executor: GpuExecutor,
    pool: PayloadPool,
}

impl IntegerBench {
    fn measure(
        &self,
        rig: &BenchRig,
        record: &mut Record,
        mode: &str,
        rows: IntegerRows,
        factors: [&Vec<u32>; 2],
    ) {
        let is_square = std::ptr::eq(factors[0], factors[1]);
        let given = if is_square { &factors[..1] } else { &factors[..] };
        let (report, products) = self.run(rows, given);
        let length = factors[0].len() / rows.count;
        let [a, b] = factors.map(|factor| factor.chunks(length));
        let primes = SecretPrimes::random();
        for ((a, b), product) in a.zip(b).zip(products.chunks(2 * length)) {
            let checked = CheckedInteger { a, b, product };
            let is_right = primes.verify(checked, &JobControl::default());
            assert_eq!(is_right, Ok(true), "a product is wrong: {mode}");
        }
        let how = report.steps.last().map(|step| step.method.clone()).unwrap_or_default();
        let times = (0..rig.repeats).map(|_| {
            let (report, again) = self.run(rows, given);
            assert!(again == products, "products differ: {mode}");
            report.steps.last().map(|step| step.duration).unwrap_or_default()
        });
        let (times, IntegerRows { lg_bits, count }) = (times.collect(), rows);
        let lg_n = lg_bits;
        record.record_time(&TimeFigure { op: "int_mul", mode, lg_n, batch: count, times, how });
    }

    /// The report of a run, and the rows of the product of all factors, or of the square of the
    /// only one.
    fn run(&self, rows: IntegerRows, factors: &[&Vec<u32>]) -> (RunReport, Vec<u32>) {
        let n = factors[0].len();
        let payloads: Vec<_> = factors.iter().map(|factor| self.payload(factor)).collect();
        let (field, rows, length) = (FieldId::Integers, rows.count as u32, (n / rows.count) as u64);
        let input = InputStep { field, rows, length };
        let last = ValueId(factors.len() as u32 - 1);
        let mut steps: Vec<_> = factors.iter().map(|_| input.clone().into()).collect();
        steps.push(IntMulStep { inputs: vec![ValueId(0), last] }.into());
        let program = Arc::new(OperationProgram::new(steps).expect("a program"));
        let sources: Vec<_> =
            payloads.iter().map(|payload| PayloadView::starting_at(payload, 0)).collect();
        let inputs = sources.iter().map(|source| EncodedScalars::new(ENCODING, n, source));
        let inputs: Vec<_> = inputs.collect();
        let out = UploadBuffer::new(&self.pool, 8 * n as u64, Vec::new());
        let sink = PayloadView::starting_at(&out, 0);
        let sinks = [Some(ElementSink { encoding: ENCODING, sink: &sink })];
        let operands = RunOperands { inputs: &inputs, sinks: &sinks, ..RunOperands::default() };
        let given = vec![InputSpec::new(ENCODING, n as u64); factors.len()];
        let value = ValueId(factors.len() as u32);
        let wanted = [OutputSpec { value, kind: OutputKind::Elements }];
        let executor: &dyn Executor = &self.executor;
        let run = start_run(executor, program, &given, &wanted, Verification::None);
        let mut run = run.unwrap_or_else(|error| panic!("{error}"));
        run.begin(&[]).unwrap_or_else(|error| panic!("{error}"));
        let control = JobControl::default();
        let report = loop {
            let step = run.step(&operands, &control).unwrap_or_else(|error| panic!("{error}"));
            if let Some(report) = step {
                break report;
            }
        };
        let mut bytes = vec![0; 8 * n];
        out.read(0, &mut bytes);
        let limbs = bytes.as_chunks().0.iter().map(|limb| u32::from_le_bytes(*limb));
        (report, limbs.collect())
    }

    fn payload(&self, limbs: &[u32]) -> UploadBuffer {
        let bytes: &[u8] = bytemuck::cast_slice(limbs);
        let payload = UploadBuffer::new(&self.pool, bytes.len() as u64, Vec::new());
        payload.write(0, bytes).unwrap_or_else(|error| panic!("{error}"));
        payload
    }
}
