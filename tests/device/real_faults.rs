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
    daemon::{LoggedDaemon, METRICS, capstand, stop},
    workers::{Expected, SetOnDrop, wait_for_successors, wait_until, workers},
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

/// A worker of each device suffers each fault. Prints how long its device does not serve.
#[test]
fn faults_of_real_gpus_cost_no_call() {
    let Some(driver) = env::var_os(SETTING) else {
        return println!("skipped: {SETTING} names no driver");
    };
    let driver = driver.into_string().unwrap();
    let flags = ["--engine", "cuda", "--cuda-driver", &driver, "--cuda-timeout-ms", "2000"];
    let flags = [&flags[..], &METRICS].concat();
    let daemon = LoggedDaemon::ready(&mut capstand(&flags, &[]));
    let target = daemon.target();
    let metrics = daemon.metrics();
    let child = daemon.child;
    let devices = workers(&child).len();
    let (expected, calls, is_over) = (Expected::new(), AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        for _ in 0..8 {
            scope.spawn(|| expected.call_until(&target, &calls, &is_over));
        }
        let mut restarts = 0;
        for (fault, signal) in FAULTS {
            for _ in 0..devices {
                thread::sleep(LOAD);
                // The oldest worker: its successor is the newest, so each device is hit once.
                let victim = workers(&child)[0];
                let before = calls.load(Ordering::Relaxed);
                kill_process(victim, signal).unwrap();
                let begun = Instant::now();
                wait_until("the worker's end", || test_kill_process(victim).is_err());
                let ended = begun.elapsed();
                restarts += 1;
                wait_for_successors(&child, metrics, restarts, devices);
                let serving = begun.elapsed();
                let calls = calls.load(Ordering::Relaxed) - before;
                println!(
                    "{fault}: ended after {ended:.2?}, serving after {serving:.2?}, {calls} calls"
                );
            }
        }
        thread::sleep(LOAD);
    });
    println!("{} rounds of calls on {devices} GPUs, all right", calls.load(Ordering::Relaxed));
    stop(child);
}
