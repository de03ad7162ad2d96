//! A worker whose process takes long to end, as it does while the driver of a GPU releases it.

use std::{io, net::SocketAddr, process::Child, ptr, thread, time::Duration};

use libc::{
    PTRACE_DETACH, PTRACE_EVENT_EXIT, PTRACE_O_TRACEEXIT, PTRACE_SEIZE, WIFSTOPPED, c_int, c_uint,
    c_ulong, pid_t,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    daemon::{LoggedDaemon, METRICS, metric, spawn_on_gpus, stop},
    emulated,
    workers::{RESTARTS, USED, wait_for_successors, wait_until, workers},
};

/// A process whose first thread stops as it exits, with all files open. This thread, its tracer,
/// lets it go on.
struct HeldProcess(pid_t);

#[allow(unsafe_code)]
impl HeldProcess {
    fn seize(process: Pid) -> Self {
        let held = Self(process.as_raw_nonzero().get());
        held.trace(PTRACE_SEIZE, PTRACE_O_TRACEEXIT as c_ulong);
        held
    }

    /// Waits until its first thread exits.
    fn wait_for_exit(&self) {
        let mut status = 0;
        // SAFETY: it writes one integer.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) };
        assert_eq!(waited, self.0, "{}", io::Error::last_os_error());
        assert!(WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_EXIT, "{status:x}");
    }

    fn release(self) {
        self.trace(PTRACE_DETACH, 0);
    }

    fn trace(&self, request: c_uint, data: c_ulong) {
        // SAFETY: these requests touch no memory of this process.
        let done = unsafe { libc::ptrace(request, self.0, ptr::null_mut::<()>(), data) };
        assert_eq!(done as c_int, 0, "{}", io::Error::last_os_error());
    }
}

fn check_that_none_serves(daemon: &Child, metrics: SocketAddr) {
    assert_eq!((metric(metrics, USED), metric(metrics, RESTARTS)), (0, 0));
    assert_eq!(workers(daemon).len(), 2);
}

#[test]
fn a_successor_starts_while_the_lost_worker_ends_and_serves_after_that() {
    if emulated::driver().is_none() {
        return println!("skipped: the lost worker would keep the memory of its GPU");
    }
    let flags = [&["--engine", "cuda", "--cuda-devices", "0"], &METRICS[..]].concat();
    let daemon = spawn_on_gpus(&flags, &[]);
    daemon.wait_until_gpus_serve();
    let metrics = daemon.metrics();
    let LoggedDaemon { child, log, .. } = daemon;
    let tested = || log.lock().unwrap().matches("self_test: close").count();
    assert_eq!(tested(), 1);
    let [lost] = *workers(&child) else { panic!("one worker") };
    let held = HeldProcess::seize(lost);
    kill_process(lost, Signal::KILL).unwrap();
    held.wait_for_exit();
    wait_until("a successor", || workers(&child).len() == 2);
    let successor = workers(&child)[1];
    wait_until("a tested GPU", || tested() == 2);
    // The daemon would let it serve within milliseconds.
    for _ in 0..20 {
        check_that_none_serves(&child, metrics);
        thread::sleep(Duration::from_millis(10));
    }
    held.release();
    wait_for_successors(&child, metrics, 1, 1);
    assert_eq!(workers(&child), [successor]);
    stop(child);
}
