//! Kernels that fail on a real GPU, under load. `faulty_driver.c` says how its library is built:
//!
//! `CAPSTAN_TEST_FAULTY_DRIVER=/path/faulty.so cargo test --release --test device real_faults`

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process, test_kill_process};

use crate::{
    daemon::{capstand, free_address, metric, ready, stop},
    workers::{Expected, USED, wait_until, workers},
};

const SETTING: &str = "CAPSTAN_TEST_FAULTY_DRIVER";

/// The load before each fault.
const LOAD: Duration = Duration::from_secs(2);

/// What happens to a worker, and the signal that causes it.
const FAULTS: [(&str, Signal); 3] = [
    ("killed", Signal::KILL),
    ("a kernel traps", Signal::USR1),
    ("a kernel never ends", Signal::USR2),
];

/// Each worker of the host suffers each fault. Prints how long its device does not serve.
#[test]
fn faults_of_real_gpus_cost_no_call() {
    let Some(driver) = env::var_os(SETTING) else {
        return println!("skipped: {SETTING} names no driver");
    };
    let driver = driver.into_string().unwrap();
    let metrics = free_address();
    let flags = ["--engine", "cuda", "--cuda-driver", &driver, "--cuda-timeout-ms", "2000"];
    let listen = metrics.to_string();
    let flags = [&flags[..], &["--metrics-listen", &listen]].concat();
    let (child, _, address) = ready(&mut capstand(&flags, &[]));
    let address = format!("http://{address}");
    let devices = workers(&child).len();
    let (expected, calls, is_over) = (Expected::new(), AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| expected.call_until(&address, &calls, &is_over));
        }
        let mut restarts = 0;
        for device in 0..devices {
            for (fault, signal) in FAULTS {
                thread::sleep(LOAD);
                let victim = workers(&child)[device.min(workers(&child).len() - 1)];
                let before = calls.load(Ordering::Relaxed);
                kill_process(victim, signal).unwrap();
                let begun = Instant::now();
                wait_until("the worker's end", || test_kill_process(victim).is_err());
                let ended = begun.elapsed();
                restarts += 1;
                wait_until("a successor", || {
                    metric(metrics, "capstan_worker_restarts_total") == restarts
                        && metric(metrics, USED) == devices as u64
                });
                let serving = begun.elapsed();
                let calls = calls.load(Ordering::Relaxed) - before;
                println!(
                    "{fault}: ended after {ended:.2?}, serving after {serving:.2?}, {calls} calls"
                );
            }
        }
        thread::sleep(LOAD);
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{} rounds of calls on {devices} GPUs, all right", calls.load(Ordering::Relaxed));
    stop(child);
}
