//! Programs that a GPU has no memory for, which the host runs if that does not take too long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ark_ff::Field;
use capstan::{
    curve::{
        Fr,
        scalars::{ScalarEncoding, decode_fr},
    },
    engine::{JobControl, cuda::GpuPolicy},
    error::{EngineError, Limit, Result},
    exec::{ElementSink, GpuExecutor, RunOperands, start_run},
    program::{OutputKind, OutputSpec},
    verify::Verification,
};

use crate::{
    gpu,
    rig::{Call, powers},
    vec_sink::VecSink,
};

const LENGTH: usize = 1 << 10;

/// What a run made, and its modelled times before the first step and at the end.
struct Moved {
    elements: Vec<Fr>,
    modelled: [Duration; 2],
}

/// Runs a program that makes powers of 3.
fn run(executor: &GpuExecutor, time_on_host_max: Option<Duration>) -> Result<Moved> {
    let mut call = Call::default();
    let (base, first) = (Fr::from(3), Fr::from(1));
    let value = call.push(powers(first, base, LENGTH as u64));
    let outputs = vec![OutputSpec { value, kind: OutputKind::Elements }];
    let mut run = start_run(executor, call.program()?, &[], &outputs, Verification::None)?;
    if let Some(max) = time_on_host_max {
        run.limit_time_on_host(max);
    }
    let before = run.plan().modelled.total;
    let encoding = ScalarEncoding::Montgomery;
    let sink = VecSink::new(32 * LENGTH);
    let sinks = [Some(ElementSink { encoding, sink: &sink })];
    let operands = RunOperands { sinks: &sinks, ..RunOperands::default() };
    while run.step(&operands, &JobControl::default())?.is_none() {}
    let modelled = [before, run.plan().modelled.total];
    let mut elements = vec![Fr::default(); LENGTH];
    decode_fr(encoding, &sink.into_bytes(), false, &mut elements).expect("canonical");
    Ok(Moved { elements, modelled })
}

#[test]
fn programs_move_to_a_host_that_is_fast_enough() {
    let has_memory = Arc::new(AtomicBool::new(true));
    let gate = has_memory.clone();
    let executor =
        gpu::open(10, Arc::new(move || gate.load(Ordering::Acquire)), GpuPolicy::default());
    let powers: Vec<_> = (0..LENGTH as u64).map(|power| Fr::from(3).pow([power])).collect();

    let Moved { elements, modelled } = run(&executor, Some(Duration::ZERO)).unwrap();
    assert!(elements == powers, "on the GPU");
    assert_eq!(modelled[0], modelled[1]);
    let time_on_gpu = modelled[0];

    has_memory.store(false, Ordering::Release);
    for max in [None, Some(Duration::from_secs(1))] {
        let Moved { elements, modelled } = run(&executor, max).unwrap();
        assert!(elements == powers, "on the host, at most {max:?}");
        assert_eq!(modelled[0], time_on_gpu);
        assert_ne!(modelled[1], time_on_gpu);
    }
    match run(&executor, Some(Duration::ZERO)) {
        Err(EngineError::Exhausted { limit: Limit::DeviceMemory, .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a run on the host that was to take no time"),
    }
}
