//! Long work of jobs that yield: one piece at a time on a device, so that a short job of another
//! tenant waits for one piece at most.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::device::{DeviceFault, Event};

/// A job that yields waits for the device for this long before others may run.
const YIELD_INTERVAL: Duration = Duration::from_millis(1);

/// The end of the last long piece of work on one device, of any job.
#[derive(Default)]
pub struct LongWork(Mutex<Option<Event>>);

impl LongWork {
    /// Notes the end of a piece that has just been launched.
    pub fn record(&self, end: Event) {
        *self.0.lock() = Some(end);
    }

    pub fn last_end(&self) -> Option<Event> {
        self.0.lock().clone()
    }

    /// Whether the last piece has not ended.
    pub fn is_pending(&self) -> Result<bool, DeviceFault> {
        self.last_end().map_or(Ok(false), |end| Ok(!end.is_reached()?))
    }
}

/// The wait of one job for long work.
#[derive(Default)]
pub struct LongWait {
    since: Option<Instant>,
}

impl LongWait {
    /// Waits for `end` for `YIELD_INTERVAL` at most. Returns whether it is reached.
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
            Some(end) => end.wait_at_most(YIELD_INTERVAL)?,
            None => true,
        };
        if is_reached {
            self.since = None;
        }
        Ok(is_reached)
    }
}
