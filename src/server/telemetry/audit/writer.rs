//! Writes the lines of the audit log from a separate thread, so that no call waits for the disk.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::super::{LogThrottle, metrics::AUDIT_LOST_TOTAL};

/// Lines that wait for the file: about 1.5 MB.
const LINES_MAX: usize = 4096;

/// The queue of lines before the thread that writes them.
pub struct AuditQueue {
    messages: SyncSender<AuditMessage>,
    requests: Arc<WriterRequests>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

enum AuditMessage {
    Line(Vec<u8>),
    /// Makes the thread look at its requests. Not needed if the queue is full.
    Wake,
}

/// What the thread does next, apart from writing lines.
#[derive(Default)]
struct WriterRequests {
    reopen: AtomicBool,
    /// End once the queue is empty.
    stop: AtomicBool,
}

impl AuditQueue {
    /// Opens the file and starts the thread.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_file(path)?;
        let (queue, messages, end) = Self::without_writer(LINES_MAX);
        let requests = queue.requests.clone();
        let writer = AuditWriter { path: path.to_owned(), file, is_line_torn: false, requests };
        let run = move || {
            writer.run(&messages);
            drop(end);
        };
        thread::Builder::new().name("capstan-audit".into()).spawn(run)?;
        Ok(queue)
    }

    /// A queue of `lines_max` lines, and the ends of its channels that the thread holds.
    fn without_writer(lines_max: usize) -> (Self, Receiver<AuditMessage>, SyncSender<()>) {
        let (messages, received) = sync_channel(lines_max);
        let (end, ended) = sync_channel(0);
        let queue = Self { messages, requests: Arc::default(), ended: ended.into() };
        (queue, received, end)
    }

    /// Queues a line. If the queue is full, the line is lost: a slow disk must not stop the server.
    pub fn send(&self, line: Vec<u8>) {
        static LOST: LogThrottle = LogThrottle::new();
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.messages.try_send(AuditMessage::Line(line))
        {
            AUDIT_LOST_TOTAL.add(1);
            if let Some(suppressed) = LOST.pass() {
                tracing::error!(suppressed, "a line of the audit log is lost: its file is slow");
            }
        }
    }

    /// Makes the thread open the file again.
    pub fn reopen(&self) {
        self.requests.reopen.store(true, Ordering::Release);
        self.wake();
    }

    /// Waits until all lines are written and the thread has ended.
    pub fn stop(&self, timeout: Duration) {
        self.requests.stop.store(true, Ordering::Release);
        self.wake();
        if self.ended.lock().recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(?timeout, "lines of the audit log are lost: its file is slow");
        }
    }

    fn wake(&self) {
        // If the queue is full, the thread is awake.
        let _full = self.messages.try_send(AuditMessage::Wake);
    }
}

/// Opens the file, which only its owner may read if it is new. Lines are appended, so that a tool
/// may truncate it.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

struct AuditWriter {
    path: PathBuf,
    file: File,
    /// The file ends with a part of a line, the rest of which could not be written.
    is_line_torn: bool,
    requests: Arc<WriterRequests>,
}

impl AuditWriter {
    fn run(mut self, messages: &Receiver<AuditMessage>) {
        loop {
            let message = match messages.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) if self.requests.stop.load(Ordering::Acquire) => return,
                Err(_) => match messages.recv() {
                    Ok(message) => message,
                    Err(_) => return,
                },
            };
            if self.requests.reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            if let AuditMessage::Line(line) = message {
                self.write(&line);
            }
        }
    }

    fn reopen(&mut self) {
        match open_file(&self.path) {
            Ok(file) => {
                self.file = file;
                self.is_line_torn = false;
                tracing::info!("opened the audit log again");
            }
            Err(error) => {
                tracing::error!(%error, "cannot open the audit log again: the old file is used");
            }
        }
    }

    fn write(&mut self, line: &[u8]) {
        static FAILED: LogThrottle = LogThrottle::new();
        if let Err(error) = self.try_write(line) {
            AUDIT_LOST_TOTAL.add(1);
            if let Some(suppressed) = FAILED.pass() {
                tracing::error!(%error, suppressed, "a line of the audit log cannot be written");
            }
        }
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_line_torn {
            self.file.write_all(b"\n")?;
            self.is_line_torn = false;
        }
        let mut written = 0;
        while written < line.len() {
            match self.file.write(&line[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_line_torn = written > 0;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Instant};

    use super::*;
    use crate::telemetry::metrics::metrics_of;

    /// A timeout that only a hang reaches.
    const HANGING: Duration = Duration::from_secs(60);

    #[test]
    fn lines_that_a_full_queue_does_not_take_are_counted() {
        let (queue, _messages, _end) = AuditQueue::without_writer(2);
        let text = metrics_of(|| (0..5).for_each(|_| queue.send(b"line\n".to_vec())));
        assert!(text.contains("capstan_audit_lost_total 3"), "{text}");
    }

    #[test]
    fn lines_go_to_a_new_file_after_the_old_one_was_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, old] = ["audit", "audit.1"].map(|name| folder.path().join(name));
        let queue = AuditQueue::open(&path).unwrap();
        queue.send(b"one\n".to_vec());
        let begun = Instant::now();
        while fs::read(&path).unwrap().is_empty() {
            assert!(begun.elapsed() < HANGING, "a line is not written");
            thread::yield_now();
        }
        fs::rename(&path, &old).unwrap();
        queue.reopen();
        queue.send(b"two\n".to_vec());
        queue.stop(HANGING);
        assert_eq!(fs::read_to_string(&old).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn a_line_after_a_torn_one_begins_a_new_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        fs::write(&path, "to").unwrap();
        let (file, requests) = (open_file(&path).unwrap(), Arc::default());
        let mut writer = AuditWriter { path: path.clone(), file, is_line_torn: true, requests };
        writer.write(b"one\n");
        writer.write(b"two\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "to\none\ntwo\n");
    }
}
