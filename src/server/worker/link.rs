//! The control socket of a worker process, and the process's end.

use std::{
    fmt::Display,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Signal, pidfd_send_signal},
};
use tracing::{error, warn};

use super::{
    message::{ControlReply, ControlRequest},
    socket,
};
use crate::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    telemetry,
};

/// While a killed process has not ended, an error is logged at this interval. Releasing a GPU
/// usually takes half a second to a second.
const END_WARNING: Duration = Duration::from_secs(60);

/// Time for answers on the control socket: its requests do not wait for the GPU.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// The worker has been killed, or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLost;

/// A process, which ends when its socket is closed.
pub struct WorkerLink {
    device: u32,
    process: OwnedFd,
    socket: Mutex<UnixStream>,
    is_lost: AtomicBool,
}

impl WorkerLink {
    pub fn new(device: u32, process: OwnedFd, socket: UnixStream) -> Self {
        Self { device, process, socket: Mutex::new(socket), is_lost: AtomicBool::new(false) }
    }

    /// Sends a request, and waits for the answer; the inner result has the reason if the worker
    /// could not do it.
    pub fn control(
        &self,
        request: &ControlRequest,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Result<ControlReply, String>, WorkerLost> {
        self.control_within(CONTROL_TIMEOUT, request, file)
    }

    /// Like [`Self::control`], with another time limit. A worker that exceeds it is killed.
    pub fn control_within(
        &self,
        timeout: Duration,
        request: &ControlRequest,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Result<ControlReply, String>, WorkerLost> {
        if self.is_lost() {
            return Err(WorkerLost);
        }
        let answered = {
            let socket = self.socket.lock();
            let timeout = Some(timeout.max(Duration::from_millis(1)));
            socket
                .set_read_timeout(timeout)
                .and_then(|()| socket.set_write_timeout(timeout))
                .and_then(|()| socket::send(&socket, request, file))
                .and_then(|()| socket::receive(&socket))
        };
        match answered.map_err(|error| self.lose_by_error(&error))?.message {
            ControlReply::Failed(reason) => Ok(Err(reason)),
            reply => Ok(Ok(reply)),
        }
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Kills the worker, which has ended or does not do what it should.
    pub fn lose(&self, reason: &dyn Display) -> WorkerLost {
        self.kill_once(reason);
        WorkerLost
    }

    /// Like [`Self::lose`], for a worker that does not answer in time.
    pub fn lose_by_timeout(&self, reason: &dyn Display) -> WorkerLost {
        if self.kill_once(reason) {
            telemetry::WORKER_TIMEOUTS_TOTAL.add(1);
        }
        WorkerLost
    }

    /// Kills the worker unless it is lost already. Returns whether it was not.
    fn kill_once(&self, reason: &dyn Display) -> bool {
        let is_first = !self.is_lost.swap(true, Ordering::AcqRel);
        if is_first {
            warn!(device = self.device, %reason, "a worker is lost");
            kill(self.process.as_fd());
        }
        is_first
    }

    /// Like [`Self::lose`], after an error of one of the worker's sockets.
    pub fn lose_by_error(&self, error: &io::Error) -> WorkerLost {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.lose_by_timeout(&"it does not answer in time")
            }
            _ => self.lose(error),
        }
    }

    /// Waits for the end of a lost worker: until then, its device may write to the memory of the
    /// request that it had.
    pub fn wait_for_end(&self) {
        while !has_ended(self.process.as_fd(), END_WARNING) {
            // The job waits and keeps its memory. Jobs on other devices go on.
            error!(device = self.device, "a worker does not end although it was killed");
        }
    }

    /// Ends the process: it is not needed any more, or has begun to end.
    pub fn end(&self) {
        self.is_lost.store(true, Ordering::Release);
        kill(self.process.as_fd());
    }

    /// Waits until the process has ended, and with it its use of the GPU. False if it has not
    /// within `timeout`.
    pub fn ends_within(&self, timeout: Duration) -> bool {
        has_ended(self.process.as_fd(), timeout)
    }
}

/// Waits until the process has ended. False if it has not within `timeout`.
fn has_ended(process: BorrowedFd<'_>, timeout: Duration) -> bool {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        // The descriptor of a process is readable once the process has ended.
        let polled = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left));
        match polled {
            Err(Errno::INTR) => {}
            Ok(ended) => return ended > 0,
            Err(_) => {
                thread::sleep(timeout);
                return false;
            }
        }
    }
}

fn kill(process: BorrowedFd<'_>) {
    // Fails if it has ended.
    let _ended = pidfd_send_signal(process, Signal::KILL);
}
