//! The modelled time of programs, and of MSMs and NTTs on a GPU against what an H200 took.

use std::time::Duration;

use capstan::{
    curve::{Fr, Group, scalars::ScalarEncoding},
    engine::{EngineModel, EngineWork, VectorWork, cpu::CpuEngine},
    exec::{Executor, ModelledTime, start_run},
    field::FieldId,
    ops::{
        DivideByLinearStep, EvaluateStep, MsmStep, NttStep, Operation, PointwiseOperation,
        PointwiseStep,
    },
    program::{InputSpec, OutputKind, OutputSpec, ValueId, ValueType},
    verify::Verification,
};

use crate::rig::{Call, EXECUTOR, natural};

/// A program with an NTT that no output needs, and its MSM, which takes longest.
fn call(lg_n: u32) -> (Call, ValueId) {
    let mut call = Call::default();
    let input = call.input_step(2, 1 << lg_n);
    let transformed = call.push(NttStep { input, plan: natural(lg_n, false, None) });
    call.push(NttStep { input, plan: natural(lg_n, true, None) });
    let (operation, inputs) = (PointwiseOperation::Multiply, vec![input, transformed]);
    let product = call.push(PointwiseStep { operation, inputs });
    let (group, object_id, offset) = (Group::G1, [0; 32], 0);
    let sums = call.push(MsmStep { input: product, group, object_id, offset });
    call.outputs = vec![sums];
    (call, sums)
}

fn modelled(executor: &dyn Executor, call: &Call, verify: Verification) -> ModelledTime {
    let program = call.program().unwrap();
    let inputs = program.ids().zip(&call.steps).filter_map(|(id, step)| {
        let is_input = matches!(step, Operation::Input(_));
        match program.value_type(id) {
            Some(ValueType::Vector(shape)) if is_input => Some(shape.elements()),
            _ => None,
        }
    });
    let encoding = ScalarEncoding::Canonical;
    let inputs: Vec<_> = inputs.map(|count| InputSpec::new(encoding, count)).collect();
    let outputs = call.outputs.iter().map(|&value| OutputSpec {
        value,
        kind: match program.value_type(value) {
            Some(ValueType::Points(_)) => OutputKind::Points,
            _ => OutputKind::Elements,
        },
    });
    let outputs = outputs.collect::<Vec<_>>();
    start_run(executor, program, &inputs, &outputs, verify).unwrap().plan().modelled
}

fn executors() -> Vec<&'static dyn Executor> {
    vec![&*EXECUTOR, crate::gpu::executor()]
}

#[test]
fn checks_and_longer_vectors_take_more_time() {
    for executor in executors() {
        let (small, sums) = call(12);
        let plain = modelled(executor, &small, Verification::None);
        assert!(plain.longest == sums && plain.total > Duration::ZERO, "{plain:?}");
        for verify in [Verification::Probabilistic, Verification::Full] {
            let checked = modelled(executor, &small, verify);
            assert!(checked.longest == sums && checked.total > plain.total, "{checked:?}");
        }
        let large = modelled(executor, &call(16).0, Verification::None);
        assert!(large.total > plain.total, "{large:?}, {plain:?}");
    }
}

/// Every output is copied to the caller.
#[test]
fn outputs_and_what_they_need_count() {
    for executor in executors() {
        let (mut call, _) = call(12);
        let both = call.push(DivideByLinearStep { input: ValueId(2), point: Fr::from(3) });
        let value = call.push(EvaluateStep { input: both, point: Fr::from(5).into() });
        let mut last = Duration::ZERO;
        for outputs in [vec![ValueId(0)], vec![ValueId(2)], vec![both], vec![both, both]] {
            call.outputs = outputs;
            let time = modelled(executor, &call, Verification::None).total;
            assert!(time > last, "{:?}: {time:?} after {last:?}", call.outputs);
            last = time;
        }
        call.outputs = vec![value];
        let longest = call.push(NttStep { input: value, plan: natural(20, false, None) });
        call.outputs.push(longest);
        assert_eq!(modelled(executor, &call, Verification::None).longest, longest);
    }
}

/// The host computes a program that no GPU has memory for.
#[test]
fn values_that_fit_no_gpu_take_as_long_as_on_the_host() {
    let executor = crate::gpu::executor();
    let call = call(32).0;
    let time = modelled(executor, &call, Verification::None);
    assert_eq!(time, modelled(&executor.host, &call, Verification::None));
}

#[test]
fn threads_share_the_work_of_the_cpu() {
    let [one, four] = [1, 4].map(|threads| CpuEngine::new(threads).unwrap());
    let vectors = VectorWork { products: 1 << 20, bytes: 96 << 20, is_scan: false };
    for work in [
        EngineWork::Msm { group: Group::G1, n: 1 << 18, vectors: 1 },
        EngineWork::Msm { group: Group::G2, n: 1 << 22, vectors: 3 },
        EngineWork::Ntt { field: FieldId::Bls12381Fr, lg_n: 20, rows: 1 },
        EngineWork::Ntt { field: FieldId::Bls12381Fr, lg_n: 10, rows: 100 },
        EngineWork::Vectors(vectors),
        EngineWork::Transfer { bytes: 32 << 20 },
    ] {
        let (one, four) = (one.modelled_time(&work), four.modelled_time(&work));
        let ratio = one.as_secs_f64() / four.as_secs_f64();
        assert!((3.0..=4.1).contains(&ratio), "{work:?}: {ratio}");
    }
    // A thread transforms a short row alone.
    let row = EngineWork::Ntt { field: FieldId::Bls12381Fr, lg_n: 10, rows: 1 };
    assert_eq!(one.modelled_time(&row), four.modelled_time(&row));
    let nothing = EngineWork::Msm { group: Group::G1, n: 0, vectors: 1 };
    assert_eq!(one.modelled_time(&nothing), Duration::ZERO);
}

/// Against medians in `benches/RESULTS.md`, on two threads.
#[test]
fn the_cpus_time_is_within_20_percent() {
    let engine = CpuEngine::new(2).unwrap();
    let msm = |lg_n: u32| EngineWork::Msm { group: Group::G1, n: 1 << lg_n, vectors: 1 };
    let ntt = |lg_n| EngineWork::Ntt { field: FieldId::Bls12381Fr, lg_n, rows: 1 };
    for (work, measured_ms) in [
        (msm(10), 6.9),
        (msm(14), 76.9),
        (msm(18), 907.0),
        (msm(20), 3460.0),
        (ntt(16), 9.8),
        (ntt(20), 212.0),
    ] {
        let ratio = engine.modelled_time(&work).as_secs_f64() * 1e3 / measured_ms;
        assert!((0.8..=1.2).contains(&ratio), "{work:?}: {ratio:.2} of {measured_ms} ms");
    }
}

mod h200 {
    //! Against `benches/results/h200.jsonl`.

    use std::collections::BTreeMap;

    use capstan::{
        curve::Group,
        device::DeviceLimits,
        msm::ResidentMsms,
        ntt::{transform_time, vector_time},
    };

    const RESULTS: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/results/h200.jsonl"));
    const H200: DeviceLimits = DeviceLimits::H200;
    /// The memory that the daemon takes of an H200.
    const MEMORY: u64 = 126 << 30;

    /// The value of a field of a line.
    fn field<'a>(line: &'a str, name: &str) -> &'a str {
        let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap();
        rest.split([',', '}']).next().unwrap().trim_matches('"')
    }

    /// The last recorded medians by lg_n.
    fn medians(op: &str, mode: &str, batch: u32) -> BTreeMap<u32, f64> {
        let found = RESULTS.lines().filter(|line| {
            let batch = batch.to_string();
            (field(line, "op"), field(line, "mode"), field(line, "batch")) == (op, mode, &*batch)
        });
        let all = found.map(|line| {
            (field(line, "lg_n").parse().unwrap(), field(line, "median").parse().unwrap())
        });
        all.collect()
    }

    /// Modelled by measured time of each size from 2^16 on, which must be within 20 %.
    fn check(what: &str, measured_ms: &BTreeMap<u32, f64>, modelled_ms: impl Fn(u32) -> f64) {
        let sizes: Vec<_> = measured_ms.range(16..).collect();
        assert!(!sizes.is_empty(), "no figures of {what}");
        for (&lg_n, measured) in sizes {
            let ratio = modelled_ms(lg_n) / measured;
            assert!(
                (0.8..=1.2).contains(&ratio),
                "{what} of 2^{lg_n}: {ratio:.2} of {measured} ms"
            );
        }
    }

    #[test]
    fn msms_are_within_20_percent() {
        for (group, op) in [(Group::G1, "msm_g1"), (Group::G2, "msm_g2")] {
            let measured = medians(op, "tables_resident", 1);
            assert!(measured.contains_key(&16) && measured.contains_key(&24));
            check(op, &measured, |lg_n| {
                let msms = ResidentMsms { group, n: 1 << lg_n, vectors: 1 };
                msms.modelled_time(MEMORY, &H200).as_secs_f64() * 1e3
            });
        }
        let measured = medians("msm_g1", "tables_resident", 1000)[&10];
        let msms = ResidentMsms { group: Group::G1, n: 1 << 10, vectors: 1000 };
        let ratio = msms.modelled_time(MEMORY, &H200).as_secs_f64() * 1e3 / measured;
        assert!((0.8..=1.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn transforms_are_within_20_percent() {
        for mode in ["nr", "rn", "nn", "rr", "inverse_nr", "coset_nr", "inverse_coset_rn"] {
            for batch in [1, 256] {
                let measured = medians("ntt", mode, batch);
                check(mode, &measured, |lg_n| {
                    transform_time(lg_n, batch, &H200).as_secs_f64() * 1e3
                });
            }
        }
    }

    /// Vector operations, of less interest, at 2^24 elements.
    #[test]
    fn vector_operations_are_within_a_third() {
        for (op, mode, products, bytes, is_scan) in [
            ("fr_add", "device", 0, 96, false),
            ("fr_multiply", "device", 1, 96, false),
            ("fr_scale", "device", 1, 64, false),
            ("fr_multiply_subtract", "device", 1, 128, false),
            ("fr_linear_combination", "2_vectors", 2, 96, false),
            ("fr_linear_combination", "4_vectors", 4, 160, false),
            ("fr_linear_combination", "8_vectors", 8, 288, false),
            ("fr_powers", "device", 1, 32, true),
            ("fr_invert", "device", 4, 64, true),
            ("fr_evaluate", "device", 1, 32, true),
            ("fr_divide_by_linear", "device", 3, 64, true),
        ] {
            // The last size measured.
            let (_, bytes_per_ns) = medians(op, mode, 1).pop_last().unwrap();
            let bytes: u64 = bytes << 24;
            let measured_ns = bytes as f64 / bytes_per_ns;
            let modelled = vector_time(products << 24, bytes, is_scan, &H200);
            let ratio = modelled.as_nanos() as f64 / measured_ns;
            assert!((0.66..=1.34).contains(&ratio), "{op}, {mode}: {ratio:.2} of {measured_ns} ns");
        }
    }

    /// Half the multiprocessors take twice as long where throughput counts, and half the clock
    /// always does.
    #[test]
    fn other_gpus_are_scaled() {
        let half = DeviceLimits { multiprocessors: 66, ..H200 };
        let slow = DeviceLimits { clock_khz: H200.clock_khz / 2, ..H200 };
        let msms = ResidentMsms { group: Group::G1, n: 1 << 24, vectors: 1 };
        let times: [&dyn Fn(&DeviceLimits) -> f64; 3] = [
            &|limits| msms.modelled_time(MEMORY, limits).as_secs_f64(),
            &|limits| transform_time(24, 1, limits).as_secs_f64(),
            &|limits| vector_time(1 << 24, 96 << 24, false, limits).as_secs_f64(),
        ];
        for time in times {
            let of = |limits| time(limits) / time(&H200);
            assert!((1.9..=2.0).contains(&of(&half)), "{}", of(&half));
            assert!((1.999..=2.001).contains(&of(&slow)), "{}", of(&slow));
        }
    }
}
