//! A worker process as the server sees it: its sockets, and its end.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{
    link::{WorkerLink, WorkerLost, kill},
    message::{ControlRequest, LaneReply, LaneRequest, ReadyGpu, WorkerHello, WorkerTask},
    sent_bases::SentBases,
    socket,
};
use crate::{engine::JobControl, telemetry};

/// The interval at which a waiting job looks at its cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(5);

/// Time for answers on the control socket: its requests do not wait for the GPU.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// How worker processes are started.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The program, which calls [`serve`](super::serve) with its standard input.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A process that has been started and may not have opened its GPU yet.
pub struct StartedWorker {
    pub child: Child,
    process: OwnedFd,
    socket: UnixStream,
}

/// A process that serves.
pub struct LiveWorker {
    pub gpu: ReadyGpu,
    pub link: WorkerLink,
    idle_lanes: Mutex<Vec<UnixStream>>,
    pub bases: SentBases,
    /// The modelled time of the runs that it has, in microseconds.
    backlog_us: AtomicU64,
}

/// A share of a worker's backlog, until it is dropped.
pub struct BacklogShare<'a> {
    worker: &'a LiveWorker,
    us: u64,
}

impl StartedWorker {
    /// Starts a process for `task`. Its standard input is the control socket.
    pub fn start(command: &WorkerCommand, task: &WorkerTask) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let child = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            // Signals from a terminal are for the server, which drains.
            .process_group(0)
            .spawn()?;
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let worker = Self { child, process, socket };
        socket::send(&worker.socket, task, None)?;
        Ok(worker)
    }

    /// Waits for the worker's first message.
    pub fn hello(&self, timeout: Duration) -> io::Result<WorkerHello> {
        self.socket.set_read_timeout(Some(timeout))?;
        Ok(socket::receive(&self.socket)?.message)
    }

    pub fn kill(&self) {
        kill(self.process.as_fd());
    }

    /// The worker, which has said that it is ready, and its process.
    pub fn into_live(self, gpu: ReadyGpu) -> io::Result<(LiveWorker, Child)> {
        self.socket.set_read_timeout(Some(CONTROL_TIMEOUT))?;
        let worker = LiveWorker {
            link: WorkerLink::new(gpu.facts.index, self.process, self.socket),
            gpu,
            idle_lanes: Mutex::default(),
            bases: SentBases::default(),
            backlog_us: AtomicU64::new(0),
        };
        Ok((worker, self.child))
    }
}

impl LiveWorker {
    /// Sends a request on a lane and waits for the answer. When `control` stops the job, cancels
    /// `run` and goes on waiting: the worker stops at its next check. Kills a worker that has not
    /// answered in time.
    pub fn request(
        &self,
        request: &LaneRequest,
        run: Option<u64>,
        control: &JobControl,
        timeout: Duration,
    ) -> Result<LaneReply, WorkerLost> {
        let lane = self.take_lane()?;
        let begun = Instant::now();
        socket::send(&lane, request, None).map_err(|error| self.link.lose(&error))?;
        let mut is_cancelled = run.is_none();
        let reply: LaneReply = loop {
            match socket::receive(&lane) {
                Ok(received) => break received.message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.link.lose(&error)),
            }
            if !is_cancelled && control.check().is_err() {
                is_cancelled = true;
                let run = run.unwrap_or_default();
                let _done = self.link.control(&ControlRequest::Cancel(run), None)?;
            }
            if begun.elapsed() > timeout {
                return Err(self.link.lose(&"no answer in time"));
            }
        };
        reply.faults.iter().for_each(|class| telemetry::count_device_fault(class.name()));
        self.idle_lanes.lock().push(lane);
        Ok(reply)
    }

    fn take_lane(&self) -> Result<UnixStream, WorkerLost> {
        if self.link.is_lost() {
            return Err(WorkerLost);
        }
        if let Some(lane) = self.idle_lanes.lock().pop() {
            return Ok(lane);
        }
        let open = || -> io::Result<[UnixStream; 2]> {
            let (lane, theirs) = UnixStream::pair()?;
            lane.set_read_timeout(Some(CANCEL_CHECK))?;
            Ok([lane, theirs])
        };
        let [lane, theirs] = open().map_err(|error| self.link.lose(&error))?;
        match self.link.control(&ControlRequest::OpenLane, Some(theirs.as_fd()))? {
            Ok(_) => Ok(lane),
            Err(reason) => Err(self.link.lose(&reason)),
        }
    }

    /// Counts a run of this modelled time as part of the backlog.
    pub fn add_to_backlog(&self, time: Duration) -> BacklogShare<'_> {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
        self.backlog_us.fetch_add(us, Ordering::Relaxed);
        BacklogShare { worker: self, us }
    }

    /// The modelled time of the runs that it has.
    pub fn backlog(&self) -> Duration {
        Duration::from_micros(self.backlog_us.load(Ordering::Relaxed))
    }
}

impl Drop for BacklogShare<'_> {
    fn drop(&mut self) {
        self.worker.backlog_us.fetch_sub(self.us, Ordering::Relaxed);
    }
}
