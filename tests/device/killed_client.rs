//! A client whose process ends in the middle of a call.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use capstan::wire::v1;
use rustix::process::{Signal, kill_process};

use crate::{
    daemon::{cli_binary, stop},
    hostile_regions::LocalDaemon,
    wire::{load, until_load},
    workers::{Expected, workers},
};

/// The client's process ends while the worker has its call. Another client keeps its region.
#[test]
fn a_client_that_is_killed_during_a_call_on_a_gpu_leaves_no_memory() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let daemon = LocalDaemon::start().await;
        let before = workers(&daemon.child);
        let [worker] = before[..] else { panic!("one worker") };
        let kept = daemon.region().await;
        let kept_bytes = load(&daemon.channel).await.region_bytes;
        let mut killed = Command::new(cli_binary())
            .args(["bench", "--op", "ntt", "--shared", "--sizes", "10", "--concurrency", "1"])
            .args(["--duration", "60s", "--server", &format!("unix:{}", daemon.socket.display())])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let computes = |load: &v1::Load| load.jobs == 1 && load.region_bytes > kept_bytes;
        until_load(&daemon.channel, "it computes in shared memory", computes).await;
        // This call or the next one does not end.
        kill_process(worker, Signal::STOP).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        until_load(&daemon.channel, "the worker has a call", computes).await;
        killed.kill().unwrap();
        assert_eq!(killed.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        kill_process(worker, Signal::CONT).unwrap();
        let is_free = |load: &v1::Load| {
            load.region_bytes == kept_bytes && load.bytes_in_flight == 0 && load.jobs == 0
        };
        until_load(&daemon.channel, "the memory of the call is free", is_free).await;
        daemon.transform_in(kept, &Expected::new()).await;
        assert_eq!(workers(&daemon.child), before, "the worker was lost");
        stop(daemon.child);
    });
}
