//! Long pieces of work on one device. Of the jobs that yield (`JobControl::yields`), one piece at a
//! time is launched, and only if none is pending, so that a short job of another tenant waits for
//! one piece at most.
//!
//! An MSM that yields, also one of a program, takes passes of about 2.5 ms, and a program launches
//! a step only when its last one has ended. Between pieces, each frees its thread every
//! millisecond. Passes are that short only then, because each of them costs two thirds of a
//! millisecond. Work that is already on the GPU is not shortened. An MSM of several vectors keeps
//! the passes that it was planned with. An elimination over GF(2) is launched in pieces of about 3
//! ms, the next one while the last one runs, or one after the other if it yields. One in blocks of
//! columns is launched panel by panel, but a worker process learns only before it begins whether it
//! yields. Other steps are not divided.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::device::{DeviceFault, Event};

/// A job waits for the device for this long before it checks whether it is cancelled, or lets
/// others run.
const WAIT_INTERVAL: Duration = Duration::from_millis(1);

/// The long pieces on one device, of all jobs.
#[derive(Clone, Default)]
pub struct LongWork(Arc<Mutex<LongWorkState>>);

#[derive(Default)]
struct LongWorkState {
    is_launching: bool,
    /// The ends of pieces, some of which may be reached.
    ends: Vec<Event>,
}

/// The right of a job that yields to launch a piece. No other such job launches one meanwhile.
pub struct LongPiece(LongWork);

impl LongWork {
    /// Notes the end of a piece that has just been launched.
    pub fn record(&self, end: Event) {
        let mut state = self.0.lock();
        state.ends.retain(|end| !end.is_reached().unwrap_or(false));
        state.ends.push(end);
    }

    /// The end of a piece that is pending.
    pub fn pending_end(&self) -> Result<Option<Event>, DeviceFault> {
        self.0.lock().pending_end()
    }

    /// Begins a piece of a job that yields. `None` while another one is pending or being launched.
    pub fn begin(&self) -> Result<Option<LongPiece>, DeviceFault> {
        let mut state = self.0.lock();
        if state.is_launching || state.pending_end()?.is_some() {
            return Ok(None);
        }
        state.is_launching = true;
        drop(state);
        Ok(Some(LongPiece(self.clone())))
    }
}

impl LongWorkState {
    fn pending_end(&self) -> Result<Option<Event>, DeviceFault> {
        for end in &self.ends {
            if !end.is_reached()? {
                return Ok(Some(end.clone()));
            }
        }
        Ok(None)
    }
}

impl LongPiece {
    /// Notes where the piece, which has been launched, ends.
    pub fn end_at(self, end: Event) {
        self.0.record(end);
    }
}

impl Drop for LongPiece {
    fn drop(&mut self) {
        self.0.0.lock().is_launching = false;
    }
}

/// How long one job has waited for the device without a pause.
#[derive(Default)]
pub struct LongWait {
    since: Option<Instant>,
}

impl LongWait {
    /// Waits for `end` for `WAIT_INTERVAL` at most. Returns whether it is reached.
    ///
    /// Errors: `Hang` if the job has waited for longer than `timeout`, in all calls, and the device
    /// does not go on.
    pub fn wait(&mut self, end: Option<Event>, timeout: Duration) -> Result<bool, DeviceFault> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_reached = match end {
            Some(end) if since.elapsed() > timeout => {
                end.synchronize()?;
                true
            }
            Some(end) => end.wait_at_most(WAIT_INTERVAL)?,
            None => true,
        };
        if is_reached {
            self.since = None;
        }
        Ok(is_reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_at_a_time_launches_a_piece() {
        let work = LongWork::default();
        let first = work.begin().unwrap();
        assert!(first.is_some());
        assert!(work.begin().unwrap().is_none());
        // The launch has failed, for example.
        drop(first);
        assert!(work.clone().begin().unwrap().is_some());
    }
}
