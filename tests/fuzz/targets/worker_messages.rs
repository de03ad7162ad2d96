//! Messages between the server and its worker processes. A worker that has lost its mind must not
//! take the server with it.

use std::sync::Arc;

use bytes::Bytes;
use capstan::{
    buffer::{PayloadPool, UploadBuffer},
    curve::{
        G1Affine,
        points::{BadElement, CurvePoint, MsmSums},
        scalars::ScalarEncoding,
    },
    device::DeviceLimits,
    engine::{DeviceResidency, ResidencyChange, StageTime, cuda::GpuFacts},
    error::{EngineError, FieldProblem},
    exec::{RunCall, RunReport},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    region::DeviceAccess,
    wire::decode,
    worker::{
        failure::WorkerFailure,
        message::{
            AdvanceRequest, Advanced, ArrivedBytes, AwaitedInput, CallToRun, ControlReply,
            ControlRequest, LaneOutcome, LaneReply, LaneRequest, MapRequest, NamedBases,
            NamedObjects, PlacedOutput, PlacedVector, ResidencyRequest, ResidentNumber, RunState,
            SumsOfOutput, WorkerHello, WorkerTask, WrittenBytes,
        },
        reply::OutputProgress,
        socket,
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    driver::{MemoryBound, Target},
    rig::{messages, programs},
};

const COUNT: u64 = 4;
/// Bytes of the output that is a vector.
const PLACED: u64 = 32 * COUNT;

/// An NTT whose values are sent, and an MSM of them.
fn call() -> RunCall {
    let id = Bytes::from(vec![7; 32]);
    let steps = [programs::input(1, COUNT), programs::ntt(0, 2)];
    let msm = [programs::msm::<G1Affine>(1, &id, 0)];
    let program = decode::program(programs::program(steps.into_iter().chain(msm)));
    let program = Arc::new(program.expect("a program"));
    let input = InputSpec::new(ScalarEncoding::Canonical, COUNT);
    RunCall::new(program, &[input], &outputs(), false).expect("a call")
}

fn outputs() -> [OutputSpec; 2] {
    let output = |value, kind| OutputSpec { value: ValueId(value), kind };
    [output(1, OutputKind::Elements), output(2, OutputKind::Points)]
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    socket::append(message, Vec::new()).expect("a message")
}

/// What decodes is encoded and decoded again.
fn decoded<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let message: T = socket::decode(bytes).ok()?;
    let bytes = encoded(&message);
    let again: T = socket::decode(&bytes).expect("an encoded message");
    assert_eq!(encoded(&again), bytes);
    Some(message)
}

fn gpu() -> GpuFacts {
    GpuFacts {
        index: 1,
        name: String::new(),
        limits: DeviceLimits::H200,
        memory_bytes: 1 << 20,
        arena_bytes: 1 << 20,
    }
}

/// The first byte selects the message.
fn check(input: &[u8]) {
    let Some((selector, bytes)) = input.split_first() else { return };
    match selector % 6 {
        0 => drop(decoded::<LaneReply>(bytes).map(|reply| take(reply.outcome))),
        1 => drop(decoded::<ControlReply>(bytes)),
        2 => drop(decoded::<WorkerHello>(bytes)),
        3 => drop(decoded::<LaneRequest>(bytes)),
        4 => drop(decoded::<ControlRequest>(bytes)),
        _ => drop(decoded::<WorkerTask>(bytes)),
    }
}

/// Does with an outcome what the server does.
fn take(outcome: LaneOutcome) {
    if let LaneOutcome::Checked(_) = outcome {
        if let Ok(Ok(Err(bad))) = outcome.into_checked(3, PLACED) {
            assert!(bad.index < 3);
        }
        return;
    }
    if let LaneOutcome::Residency(_) = outcome {
        let gpu = gpu();
        if let Ok(Ok(held)) = outcome.into_residency(&gpu) {
            assert!(held.device == 1 && held.bytes <= gpu.arena_bytes);
        }
        return;
    }
    let call = call();
    let mut progress = [Some(PLACED), None].map(OutputProgress::new);
    let advanced = match outcome.into_advanced(&call, &mut progress) {
        Ok(Ok(advanced)) => advanced,
        Ok(Err(failure)) => return drop(failure.into_error(&call.program)),
        Err(unsuitable) => return assert!(!unsuitable.to_string().is_empty()),
    };
    let pool = PayloadPool::new(0, 0).expect("memory");
    let payload = UploadBuffer::new(&pool, PLACED, vec![]);
    payload.place(0..PLACED).expect("memory");
    for WrittenBytes { output, bytes } in advanced.written {
        assert_eq!(output, 0, "only the first output is a vector");
        payload.mark_written(bytes);
    }
    for SumsOfOutput { output, sums } in advanced.early_sums {
        assert_eq!(output, 1, "only the second output is points");
        assert!(sums.len() == 1 && sums.are_on_curve());
    }
    let received = payload.received();
    let missing: u64 = payload.missing().iter().map(|range| range.end - range.start).sum();
    assert_eq!(received + missing, PLACED);
    match advanced.state {
        RunState::Awaits(None) => {}
        RunState::Awaits(Some(AwaitedInput { input, elements })) => {
            assert!(input == 0 && elements.end <= COUNT);
        }
        RunState::Done(finished) => {
            assert_eq!((finished.points.len(), finished.steps.len()), (2, 3));
            assert_eq!(missing, 0, "an output is not complete");
            let sums = finished.points[1].as_ref().expect("sums");
            assert!(sums.len() == 1 && sums.are_on_curve());
        }
    }
}

fn advanced(state: RunState) -> LaneReply {
    let written = [64..PLACED, 0..64].map(|bytes| WrittenBytes { output: 0, bytes }).into();
    let modelled_total = std::time::Duration::from_micros(300);
    let early_sums = vec![SumsOfOutput { output: 1, sums: sums() }];
    let advanced = Advanced { modelled_total, longest_step: 1, written, early_sums, state };
    LaneReply { outcome: LaneOutcome::Advanced(advanced), faults: vec![] }
}

fn sums() -> MsmSums {
    G1Affine::into_sums(vec![messages::points::<G1Affine>(1)[0].into()])
}

fn finished() -> RunReport {
    let mut report = call().new_report("cuda", "gpu 0".into());
    for step in &mut report.steps {
        step.duration = std::time::Duration::from_millis(1);
        step.method = "radix 4".into();
    }
    report.points[1] = Some(sums());
    report.executor.stages.push(StageTime { name: "sort", duration: std::time::Duration::ZERO });
    report
}

fn begun() -> LaneRequest {
    let piece = |start| capstan::buffer::SharedPiece { memory: 1, start, len: PLACED };
    let [elements, points] = outputs();
    let encoding = ScalarEncoding::Canonical;
    let vector = Some(PlacedVector { encoding, pieces: vec![piece(0)] });
    let spec = InputSpec::new(encoding, COUNT);
    let begin = CallToRun {
        program: call().program.clone(),
        inputs: vec![spec],
        outputs: vec![
            PlacedOutput { spec: elements, vector, is_early: false },
            PlacedOutput { spec: points, vector: None, is_early: true },
        ],
        objects: NamedObjects {
            bases: vec![NamedBases { object: 1, start: 0, len: COUNT }],
            matrices: vec![2],
        },
        is_checked: false,
        time_left: None,
        time_on_host_max: std::time::Duration::MAX,
    };
    let arrived = vec![ArrivedBytes { input: 0, start: 0, pieces: vec![piece(PLACED)] }];
    LaneRequest::Advance(Box::new(AdvanceRequest {
        run: 1,
        begin: Some(begin),
        arrived,
        yields: true,
    }))
}

fn seed(selector: u8, message: &impl Serialize) -> Vec<u8> {
    let mut bytes = encoded(message);
    bytes.insert(0, selector);
    bytes
}

#[test]
fn worker_messages() {
    let failed = |failure| LaneReply { outcome: LaneOutcome::Failed(failure), faults: vec![] };
    let problem = FieldProblem::NotCanonical;
    let held = DeviceResidency { device: 1, bytes: 4096, tables: 2, pinned: true };
    let change = ResidencyChange::Pin { bytes_max: 4096 };
    let residency = ResidencyRequest { objects: vec![1, 2], change };
    let awaits = AwaitedInput { input: 0, elements: 1..3 };
    let valid = LaneOutcome::Checked(Ok(PLACED));
    let wrong = LaneOutcome::Checked(Err(BadElement { index: 2, problem }));
    let refused = WorkerFailure::Element { step: 1, field: "elements".into(), index: 3, problem };
    let unusable = WorkerHello::Unusable { reason: "none".into(), is_on_a_gpu_host: true };
    let map = MapRequest {
        memory: 1,
        bytes: 4096,
        pinned_bytes: 0,
        access: DeviceAccess::Read,
        is_watched: true,
    };
    let map = ControlRequest::Map(map);
    let seeds = vec![
        seed(0, &advanced(RunState::Awaits(None))),
        seed(0, &advanced(RunState::Awaits(Some(awaits)))),
        seed(0, &advanced(RunState::Done(Box::new(finished())))),
        seed(0, &failed(refused)),
        seed(0, &failed(WorkerFailure::Engine(EngineError::Internal("text".into())))),
        seed(0, &LaneReply { outcome: valid, faults: vec![] }),
        seed(0, &LaneReply { outcome: wrong, faults: vec![] }),
        seed(0, &LaneReply { outcome: LaneOutcome::Residency(held), faults: vec![] }),
        seed(1, &ControlReply::Failed("text".into())),
        seed(1, &ControlReply::Bases(vec![ResidentNumber { object: 3, residency: held }])),
        seed(2, &unusable),
        seed(3, &begun()),
        seed(3, &LaneRequest::SetResidency(residency)),
        seed(4, &map),
        seed(5, &WorkerTask::CountDevices(None)),
    ];
    let memory = MemoryBound { per_byte: 512, always: 256 << 10 };
    Target { name: "worker_messages", seeds, words: &[], check, cases: 20_000, memory }.run();
}
