//! A worker process as the server sees it: its sockets, and its end.

use std::{
    ffi::OsString,
    io::{self, PipeReader, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{
    link::{WorkerLink, WorkerLost},
    message::{
        ControlRequest, LaneOutcome, LaneReply, LaneRequest, WorkerHello, WorkerSettings,
        WorkerTask,
    },
    reply::UnsuitableReply,
    sent_objects::SentObjects,
    socket,
};
use crate::{
    engine::{JobControl, cuda::GpuFacts},
    error::EngineError as Error,
    exec::BusyPoll,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    telemetry,
};

/// The name of workers in lists of processes.
const PROCESS_NAME: &str = "capstand";

/// The interval at which a waiting job looks at its cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(5);

/// A cancellation is repeated at this interval: the worker ignores one for a run that it has not
/// registered.
const CANCEL_AGAIN: Duration = Duration::from_millis(100);

/// A worker that answers pings, but not the request, is lost after this many times the time that it
/// was expected to take.
const PATIENCE_TIMES: u32 = 10;

/// Time for a worker to take a request from its socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a request has no answer.
#[derive(Debug)]
pub enum RequestFailure {
    /// The worker was lost before the request was sent.
    LostBefore,
    /// The worker was lost while it had the request. Its process has ended.
    LostMeanwhile,
    /// The server could not send it.
    NotSent(Error),
}

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
    process: WorkerProcess,
    descriptor: OwnedFd,
    socket: UnixStream,
}

/// A worker's process. Its supervisor waits for its end.
pub struct WorkerProcess {
    pub child: Child,
    /// Ends when the process begins to end. The driver releases the GPU after that, which can take
    /// a second, and only then the process has ended.
    liveness: PipeReader,
}

/// A worker that can serve, and its process.
pub struct ReadyWorker {
    pub worker: LiveWorker,
    pub process: WorkerProcess,
}

/// A process that serves.
pub struct LiveWorker {
    pub facts: GpuFacts,
    pub link: WorkerLink,
    idle_lanes: Mutex<Vec<UnixStream>>,
    pub objects: SentObjects,
    /// The time limit of one piece of work.
    piece_timeout: Duration,
    busy_poll: BusyPoll,
    /// Requests that have no answer yet.
    requests: AtomicUsize,
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
        let (liveness, writer) = io::pipe()?;
        let child = Command::new(&command.program)
            .arg0(PROCESS_NAME)
            .args(&command.arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            // Signals from a terminal are for the server, which drains.
            .process_group(0)
            .spawn()?;
        let started = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(io::Error::from)
            .and_then(|process| {
                socket::send(&socket, task, Some(writer.as_fd())).map(|()| process)
            });
        let process = WorkerProcess { child, liveness };
        match started {
            Ok(descriptor) => Ok(Self { process, descriptor, socket }),
            Err(error) => {
                process.end();
                Err(error)
            }
        }
    }

    /// Waits for the worker's first message.
    pub fn hello(&self, timeout: Duration) -> io::Result<WorkerHello> {
        self.socket.set_read_timeout(Some(timeout))?;
        Ok(socket::receive(&self.socket)?.message)
    }

    /// Ends the process: it is not needed any more.
    pub fn end(self) {
        self.process.end();
    }

    /// The worker, which has said that it is ready.
    pub fn into_ready(self, facts: GpuFacts, settings: &WorkerSettings) -> ReadyWorker {
        let worker = LiveWorker {
            link: WorkerLink::new(facts.index, self.descriptor, self.socket),
            facts,
            idle_lanes: Mutex::default(),
            objects: SentObjects::default(),
            piece_timeout: settings.timeout,
            busy_poll: BusyPoll::new(settings.busy_poll),
            requests: AtomicUsize::new(0),
            backlog_us: AtomicU64::new(0),
        };
        ReadyWorker { worker, process: self.process }
    }
}

impl WorkerProcess {
    /// Waits until the process begins to end: it was killed, or exits.
    pub fn wait_for_loss(&mut self) {
        // A worker never writes to the pipe: one that does is lost as well.
        let _ended = self.liveness.read_exact(&mut [0]);
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills the process, and waits until it has ended.
    pub fn end(mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl LiveWorker {
    /// Sends a request on a lane and waits for the answer, of which `suits` takes what the request
    /// asked for. A worker whose answer does not suit the request is lost. When `control` stops the
    /// job, cancels `run` and goes on waiting: the worker stops at its next check. A worker that
    /// takes longer than `expected` plus the time limit of one piece of work must answer on its
    /// control socket. The worker itself enforces the limit on a piece.
    pub fn request<T>(
        &self,
        request: &LaneRequest,
        run: Option<u64>,
        control: &JobControl,
        expected: Duration,
        suits: impl FnOnce(LaneOutcome) -> Result<T, UnsuitableReply>,
    ) -> Result<T, RequestFailure> {
        let lane = self.take_lane()?;
        let patience = self.piece_timeout.saturating_add(expected);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answered = self.answer(&lane, request, run, control, patience);
        self.requests.fetch_sub(1, Ordering::Relaxed);
        let taken = answered.and_then(|LaneReply { outcome, faults }| {
            faults.iter().for_each(|class| telemetry::count_device_fault(class.name()));
            suits(outcome).map_err(|problem| self.link.lose(&problem))
        });
        let taken = taken.map_err(|WorkerLost| {
            self.link.wait_for_end();
            RequestFailure::LostMeanwhile
        })?;
        self.idle_lanes.lock().push(lane);
        Ok(taken)
    }

    fn answer(
        &self,
        lane: &UnixStream,
        request: &LaneRequest,
        run: Option<u64>,
        control: &JobControl,
        patience: Duration,
    ) -> Result<LaneReply, WorkerLost> {
        let sent = Instant::now();
        socket::send(lane, request, None).map_err(|error| self.link.lose_by_error(&error))?;
        if self.requests.load(Ordering::Relaxed) == 1 {
            self.busy_poll.wait(|| socket::is_readable(lane));
        }
        let mut heard = Instant::now();
        let mut cancelled_at: Option<Instant> = None;
        loop {
            match socket::receive(lane) {
                Ok(received) => return Ok(received.message),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.link.lose(&error)),
            }
            let may_cancel = cancelled_at.is_none_or(|at| at.elapsed() > CANCEL_AGAIN);
            if let Some(run) = run.filter(|_| may_cancel && control.check().is_err()) {
                cancelled_at = Some(Instant::now());
                // If the worker is lost, its end closes the lane, too.
                let _cancelled = self.link.control(&ControlRequest::Cancel(run), None);
            }
            if heard.elapsed() > patience {
                let ping = ControlRequest::Ping;
                let _answered = self.link.control_within(self.piece_timeout, &ping, None)?;
                heard = Instant::now();
            }
            if sent.elapsed() > PATIENCE_TIMES * patience {
                return Err(self.link.lose_by_timeout(&"it answers pings only"));
            }
        }
    }

    fn take_lane(&self) -> Result<UnixStream, RequestFailure> {
        if self.link.is_lost() {
            return Err(RequestFailure::LostBefore);
        }
        if let Some(lane) = self.idle_lanes.lock().pop() {
            return Ok(lane);
        }
        let open = || -> io::Result<[UnixStream; 2]> {
            let (lane, theirs) = UnixStream::pair()?;
            lane.set_read_timeout(Some(CANCEL_CHECK))?;
            lane.set_write_timeout(Some(SEND_TIMEOUT))?;
            Ok([lane, theirs])
        };
        let failed = |reason: String| {
            RequestFailure::NotSent(Error::Internal(format!("no lane to a worker: {reason}")))
        };
        let [lane, theirs] = open().map_err(|error| failed(error.to_string()))?;
        let opened = self.link.control(&ControlRequest::OpenLane, Some(theirs.as_fd()));
        match opened.map_err(|WorkerLost| RequestFailure::LostBefore)? {
            Ok(_) => Ok(lane),
            Err(reason) => Err(failed(reason)),
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{
        device::DeviceLimits,
        worker::message::{AdvanceRequest, ControlReply},
    };

    /// A worker whose driver blocks in a call: it answers pings, but not its lane.
    #[test]
    fn a_worker_that_answers_pings_only_is_killed() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let [(socket, control), (lane, _silent)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        lane.set_read_timeout(Some(CANCEL_CHECK)).unwrap();
        let facts = GpuFacts {
            index: 0,
            name: String::new(),
            limits: DeviceLimits::H200,
            memory_bytes: 0,
            arena_bytes: 0,
        };
        let worker = LiveWorker {
            link: WorkerLink::new(0, process, socket),
            facts,
            idle_lanes: Mutex::new(vec![lane]),
            objects: SentObjects::default(),
            piece_timeout: Duration::from_millis(20),
            busy_poll: BusyPoll::default(),
            requests: AtomicUsize::new(0),
            backlog_us: AtomicU64::new(0),
        };
        let answer_pings = thread::spawn(move || {
            let mut pings = 0;
            while let Ok(ping) = socket::receive::<ControlRequest>(&control) {
                assert!(matches!(ping.message, ControlRequest::Ping));
                socket::send(&control, &ControlReply::Done, None).unwrap();
                pings += 1;
            }
            pings
        });
        let request = AdvanceRequest { run: 1, begin: None, arrived: Vec::new(), yields: false };
        let request = LaneRequest::Advance(Box::new(request));
        let control = JobControl::default();
        let lost = worker.request(&request, None, &control, Duration::ZERO, Ok);
        assert!(matches!(lost, Err(RequestFailure::LostMeanwhile)));
        assert!(worker.link.is_lost());
        // Killed: it would sleep for ten minutes.
        assert!(!child.wait().unwrap().success());
        drop(worker);
        assert!(answer_pings.join().unwrap() > 0);
    }
}
