//! The control socket of a worker process, and the process's end.

use std::{
    fmt::Display,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use rustix::process::{Signal, pidfd_send_signal};
use tracing::warn;

use super::{
    message::{ControlReply, ControlRequest},
    socket,
};

/// The worker's process has ended or has been killed: what it computed is lost.
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

    /// Sends a request, and waits for the answer; the inner result has the reason if the worker could
    /// not do it.
    pub fn control(
        &self,
        request: &ControlRequest,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Result<ControlReply, String>, WorkerLost> {
        if self.is_lost() {
            return Err(WorkerLost);
        }
        let socket = self.socket.lock();
        let answered = socket::send(&socket, request, file).and_then(|()| socket::receive(&socket));
        match answered.map_err(|error| self.lose(&error))?.message {
            ControlReply::Failed(reason) => Ok(Err(reason)),
            reply => Ok(Ok(reply)),
        }
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Kills the worker: it has ended, or does not do what it should.
    pub fn lose(&self, reason: &dyn Display) -> WorkerLost {
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            warn!(device = self.device, %reason, "a worker is lost");
            kill(self.process.as_fd());
        }
        WorkerLost
    }

    /// Notes that the process has ended.
    pub fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Ends the process: it is not needed any more.
    pub fn end(&self) {
        self.mark_lost();
        kill(self.process.as_fd());
    }
}

pub fn kill(process: BorrowedFd<'_>) {
    // Fails if it has ended.
    let _ended = pidfd_send_signal(process, Signal::KILL);
}
