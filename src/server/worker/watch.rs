//! The thread that ties the lives of a worker and its server together: the worker ends when the
//! server closes the socket, and the server learns at once that the worker begins to end.

use std::{io, os::unix::net::UnixStream, sync::mpsc, thread, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tracing::{debug, warn};

use super::{
    message::WorkerTask,
    restricted,
    socket::{self, Received},
};
use crate::{device::separate_descriptors, engine::cuda::exit_without_handlers};

/// The pause after a system call failed that waits for the daemon's end.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Receives the worker's task, and watches the server from then on, even while the GPU is opened
/// and tested.
///
/// The thread that receives it shares no descriptors with the others, so that it alone has the pipe
/// that comes with the task. If the process is killed, the pipe is closed as soon as this thread
/// has ended. The descriptors of the other threads take longer: as the driver's are closed, it
/// releases the GPU.
///
/// Errors: those of the socket.
pub fn receive_task(socket: UnixStream) -> io::Result<WorkerTask> {
    let (sender, task) = mpsc::channel();
    let watch = move || {
        if let Err(error) = separate_descriptors() {
            debug!(%error, "the daemon learns late that this worker ends");
        }
        let received = socket::receive(&socket);
        let (task, _liveness) = match received {
            Ok(Received { message, file }) => (Ok(message), file),
            Err(error) => (Err(error), None),
        };
        if let Ok(WorkerTask::Serve(task)) = &task
            && task.settings.is_restricted
        {
            // This thread exists already, so it does not inherit the restriction of the thread that
            // serves, which reports it if this fails.
            let _reported_there = restricted::restrict_files(task.settings.driver.as_deref());
        }
        if sender.send(task).is_ok() {
            end_with_server(&socket);
        }
    };
    thread::Builder::new().name("capstan-watch".into()).spawn(watch)?;
    task.recv().map_err(io::Error::other)?
}

/// Ends this process when the server closes the socket.
fn end_with_server(socket: &UnixStream) -> ! {
    let mut closed = [PollFd::new(socket, PollFlags::RDHUP)];
    while let Err(error) = poll(&mut closed, None) {
        if error != Errno::INTR {
            warn!(%error, "cannot wait for the end of the daemon");
            thread::sleep(WATCH_AGAIN);
        }
    }
    // Lanes may be computing, and nobody waits for what they do.
    exit_without_handlers(0);
}
