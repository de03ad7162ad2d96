//! Products of two polynomials of 131072 coefficients: the step on the device, and the whole
//! program from payload memory to payload memory. The values of products at random points are
//! compared with those of their factors. `fields=bls12-381-fr,babybear` selects fields. Those that
//! no GPU computes in are left out, and modes of other fields than the first one end with the name
//! of the field.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Instant,
};

use capstan::{
    buffer::{PayloadPool, PayloadView, UploadBuffer},
    curve::{
        FrField,
        scalars::{ElementCodec, ScalarEncoding},
    },
    engine::{
        EncodedScalars, JobControl,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy},
    },
    exec::{ElementSink, Executor, GpuExecutor, RunOperands, RunReport, start_run},
    field::{Arithmetic, Field31, Prime31},
    ops::{InputStep, OperationProgram, PolyMulStep, PolyReduction},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};
use rayon::prelude::*;

use crate::{
    pool,
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

const LG_N: u32 = 17;
/// Number of points at which products are compared.
const POINTS: usize = 8;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let cpu = CpuEngine::new(0).unwrap_or_else(|error| panic!("{error}"));
    let engine = CudaEngine::new(cpu, rig.gpu.clone().into(), GpuPolicy::default())
        .unwrap_or_else(|why| panic!("{why}"));
    let lg_n = rig.size(LG_N, 7);
    let pool = pool::payload_pool(&engine, 1 << (lg_n + 9));
    let bench = ProductBench { executor: GpuExecutor::new(Arc::new(engine), None), pool, lg_n };
    let fields = rig.argument("fields").unwrap_or_else(|| "bls12-381-fr,babybear".to_owned());
    for (number, name) in fields.split(',').enumerate() {
        let suffix = if number == 0 { String::new() } else { format!("_{name}") };
        match Prime31::ALL.iter().find(|prime| prime.name() == name) {
            Some(prime) => bench.measure(rig, record, Field31::new(*prime), &suffix),
            None => bench.measure(rig, record, FrField, &suffix),
        }
    }
}

struct ProductBench {
    executor: GpuExecutor,
    pool: PayloadPool,
    /// log2 of the coefficients of each factor.
    lg_n: u32,
}

impl ProductBench {
    fn measure<F: ElementCodec + Arithmetic>(
        &self,
        rig: &BenchRig,
        record: &mut Record,
        field: F,
        suffix: &str,
    ) {
        let (n, name) = (1 << self.lg_n, field.id().name());
        let factors = [1, 2].map(|seed| elements(field, n, seed));
        let payloads = factors.each_ref().map(|factor| {
            let payload = self.payload(F::as_bytes(factor).len());
            payload.write(0, F::as_bytes(factor)).unwrap_or_else(|error| panic!("{error}"));
            payload
        });
        let (report, product) = self.run(field, &payloads);
        // Steps on the host have the method of its threads.
        if report.steps[2].method.contains("threads") {
            println!("  poly_mul over {name} is not computed on GPUs");
            return;
        }
        check(field, [&factors[0], &factors[1]], &product);
        let (mut device, mut whole) = (Vec::new(), Vec::new());
        for run in 0..=rig.repeats {
            let begun = Instant::now();
            let (report, again) = self.run(field, &payloads);
            let time = begun.elapsed();
            assert!(again == product, "products over {name} differ");
            if run > 0 {
                device.push(report.steps[2].duration);
                whole.push(time);
            }
        }
        for (mode, times) in [("step", device), ("host_to_host", whole)] {
            let (mode, how) = (format!("{mode}{suffix}"), report.steps[2].method.clone());
            let (lg_n, batch) = (self.lg_n, 1);
            let time = TimeFigure { op: "poly_mul", mode: &mode, lg_n, batch, times, how };
            record.record_us(name, &time);
        }
    }

    fn payload(&self, bytes: usize) -> UploadBuffer {
        UploadBuffer::new(&self.pool, bytes as u64, Vec::new())
    }

    /// The report of a run, and the product.
    fn run<F: ElementCodec + Arithmetic>(
        &self,
        field: F,
        factors: &[UploadBuffer; 2],
    ) -> (RunReport, Vec<F::Element>) {
        let (n, encoding) = (1 << self.lg_n, ScalarEncoding::in_memory(field.id()));
        let input = InputStep { field: field.id(), rows: 1, length: n };
        let inputs = vec![ValueId(0), ValueId(1)];
        let step = PolyMulStep { inputs, reduction: PolyReduction::None };
        let steps = vec![input.clone().into(), input.into(), step.into()];
        let program = Arc::new(OperationProgram::new(steps).expect("a program"));
        let sources = factors.each_ref().map(|factor| PayloadView::starting_at(factor, 0));
        let inputs =
            sources.each_ref().map(|source| EncodedScalars::new(encoding, n as usize, source));
        let count = 2 * n as usize - 1;
        let out = self.payload(count * encoding.width());
        let sink = PayloadView::starting_at(&out, 0);
        let sinks = [Some(ElementSink { encoding, sink: &sink })];
        let operands = RunOperands { inputs: &inputs, sinks: &sinks, ..RunOperands::default() };
        let given = [InputSpec::new(encoding, n); 2];
        let wanted = [OutputSpec { value: ValueId(2), kind: OutputKind::Elements }];
        let executor: &dyn Executor = &self.executor;
        let mut run = start_run(executor, program, &given, &wanted, Verification::None)
            .unwrap_or_else(|error| panic!("{error}"));
        run.begin(&[]).unwrap_or_else(|error| panic!("{error}"));
        let control = JobControl::default();
        let report = loop {
            let step = run.step(&operands, &control).unwrap_or_else(|error| panic!("{error}"));
            if let Some(report) = step {
                break report;
            }
        };
        let mut bytes = vec![0; count * encoding.width()];
        out.read(0, &mut bytes);
        let mut product = vec![F::Element::default(); count];
        let decoded = field.decode(encoding, &bytes, false, &mut product);
        assert!(decoded.is_ok(), "an element is not canonical");
        (report, product)
    }
}

fn elements<F: ElementCodec + Arithmetic>(field: F, count: usize, seed: u64) -> Vec<F::Element> {
    let mut random = Random(seed);
    let encoding = ScalarEncoding::in_memory(field.id());
    // Reduced below 2^253 or 2^30, so that elements are canonical.
    let bytes: Vec<u8> = match encoding.width() {
        4 => (0..count).flat_map(|_| ((random.next() >> 34) as u32).to_le_bytes()).collect(),
        _ => (0..4 * count).flat_map(|_| (random.next() >> 2).to_le_bytes()).collect(),
    };
    let mut elements = vec![F::Element::default(); count];
    assert!(field.decode(encoding, &bytes, true, &mut elements).is_ok(), "not canonical");
    elements
}

/// Compares the values of the product with those of the factors. Over a field of a 31-bit prime, a
/// wrong product passes with probability below 2^-100.
fn check<F: ElementCodec + Arithmetic>(
    field: F,
    factors: [&[F::Element]; 2],
    product: &[F::Element],
) {
    let points = elements(field, POINTS, seed());
    points.into_par_iter().for_each(|point| {
        let value = |coefficients: &[F::Element]| {
            let zero = F::Element::default();
            let coefficients = coefficients.iter().rev();
            coefficients.fold(zero, |sum, next| field.add(field.multiply(sum, point), *next))
        };
        let [a, b] = factors.map(value);
        assert!(field.multiply(a, b) == value(product), "a product over {}", field.id().name());
    });
}

/// Another one in each run.
fn seed() -> u64 {
    RandomState::new().hash_one(())
}
