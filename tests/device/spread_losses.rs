//! Workers that are lost while they compute parts of a call, and GPUs whose workers cannot start.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    sync::{Arc, OnceLock},
};

use capstan::{
    client::{ClientError, Fr, G1Projective, NttOptions, ProgramBuilder, ProgramRun},
    curve::G1Affine,
    telemetry::{self, StatusAnswer},
};

use crate::{
    daemon::{binary, metric},
    daemon_jobs::{MsmData, N},
    spread::SpreadServer,
    spread_rows::{ROWS, random_rows, row_transform, transform_rows, transforms_in_place},
    workers::wait_until,
};

const REPEATED_RUNS: &str = "capstan_repeated_runs_total";
const QUARANTINES: &str = "capstan_quarantines_total";
/// At its first kernel.
const LOSE_THE_FIRST_GPU: &str = "launch@0:1:700";

/// The value of a metric of all servers in this process.
fn own_metric(name: &str) -> u64 {
    static LISTENER: OnceLock<SocketAddr> = OnceLock::new();
    let listener = LISTENER.get_or_init(|| {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let status = || StatusAnswer::Unavailable("a test".into());
        let status = Arc::new(move |_| Box::pin(async move { status() }) as _);
        telemetry::install_metrics(address, Arc::new(|| Ok(())), status, Arc::default(), None)
            .unwrap()
    });
    metric(*listener, name)
}

/// Makes a call that loses a GPU, and waits until that serves again.
fn lose_the_first_gpu_during(spread: &SpreadServer, call: impl FnOnce()) {
    let before = spread.workers();
    spread.faults.plan(LOSE_THE_FIRST_GPU, "");
    call();
    spread.wait_for_successors(&before);
}

#[test]
fn lost_workers_cost_no_divided_program_unless_it_overwrites_its_input() {
    // So that workers of later losses cannot start.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("capstand");
    symlink(binary(), &program).unwrap();
    let spread = SpreadServer::start_with_workers_of("spread-losses", program.clone());
    let Some(spread) = spread else { return };
    for call in [transform_a_batch, compute_several_outputs] {
        let repeated = own_metric(REPEATED_RUNS);
        lose_the_first_gpu_during(&spread, || call(&spread));
        assert!(own_metric(REPEATED_RUNS) > repeated, "no run began again");
    }
    let (quarantines, before) = (own_metric(QUARANTINES), spread.workers());
    fs::remove_file(&program).unwrap();
    spread.faults.plan(LOSE_THE_FIRST_GPU, "");
    transform_in_place_in_vain(&spread);
    // A GPU whose workers end as soon as they start pauses, and serves again when one can start.
    wait_until("a quarantine", || own_metric(QUARANTINES) > quarantines);
    symlink(binary(), &program).unwrap();
    spread.wait_for_successors(&before);
    transforms_in_place(&spread);
    spread.server.stop();
}

fn transform_a_batch(spread: &SpreadServer) {
    let values = random_rows(7);
    let mut rows = values.clone();
    let options = NttOptions { batch: ROWS as u32, ..NttOptions::default() };
    let done = spread.client.ntt(&mut rows, options).unwrap();
    assert!(rows == transform_rows(&values), "a wrong transform");
    assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
}

fn compute_several_outputs(spread: &SpreadServer) {
    let msms = MsmData::<G1Affine>::new();
    let bases = spread.client.put_bases(&msms.points).unwrap();
    let scalars = &msms.scalars[..N];
    let mut program = ProgramBuilder::new();
    let input = program.input(N as u64).unwrap();
    let sums = [(); 2].map(|()| program.msm(&bases, input).unwrap());
    let total = program.evaluate(input, Fr::from(1)).unwrap();
    let program = program.build().unwrap();
    let run = ProgramRun::new(&program).input(input, scalars);
    let run = run.send_points(sums[0]).send(total).send_points(sums[1]);
    let done = spread.client.run(run).unwrap();
    let expected: Vec<G1Projective> = msms.sums(scalars, N);
    for sum in sums {
        assert_eq!(done.points(sum).unwrap(), expected);
    }
    assert_eq!(done.vector(total).unwrap(), [scalars.iter().sum::<Fr>()]);
    assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
}

/// The lost worker may have overwritten some of its rows.
fn transform_in_place_in_vain(spread: &SpreadServer) {
    let client = spread.client_without_retries();
    let (program, input, transformed) = row_transform();
    let mut vector = client.alloc_vector(random_rows(8).len()).unwrap();
    assert!(vector.is_shared());
    vector.copy_from_slice(&random_rows(8));
    let refused = client.run(ProgramRun::new(&program).in_place(input, transformed, vector));
    let Err(ClientError::Refused(refusal)) = refused else { panic!("accepted: {refused:?}") };
    assert_eq!(refusal.reason_text, "DEVICE_LOST");
}
