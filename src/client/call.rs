//! Deadline and retry of one call.

use std::{future::Future, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Request, Response, Status};

use super::error::{Error, Result};

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// What a call comes to. Boxed where it is made: the body of an async function is compiled by every
/// crate that awaits it, and behind these are the requests and all that carries them.
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T>>;

/// The clock and the patience of one call, whatever requests it takes.
pub(crate) struct Call {
    started: Instant,
    deadline: Option<Instant>,
    retries_left: u32,
    backoff: Duration,
}

impl Call {
    pub fn new(deadline: Option<Duration>, retries: u32) -> Self {
        let started = Instant::now();
        // A deadline too far to be written down is none.
        let deadline = deadline.and_then(|deadline| started.checked_add(deadline));
        Self { started, deadline, retries_left: retries, backoff: BACKOFF_FIRST }
    }

    /// Since the call began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// A request that carries what is left of the deadline.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        request
    }

    /// The answer, before the deadline.
    pub async fn within<T>(
        &self,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        self.bounded(async { Ok(answer.await?.into_inner()) }).await
    }

    /// `work`, cut off at the deadline.
    pub async fn bounded<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.deadline {
            // The server keeps the same deadline: whichever is seen first, it is that one.
            Some(deadline) => timeout_at(deadline, work).await.map_err(|_| Error::Deadline)?,
            None => work.await,
        }
    }

    /// Waits until it makes sense to try again after `error`; gives it back where it makes none, or
    /// where the deadline would pass meanwhile.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        if !error.is_retryable() || self.retries_left == 0 {
            return Err(error);
        }
        self.retries_left -= 1;
        let wait = match error.retry_after() {
            // Not all at once.
            Some(after) => after + after.mul_f64(0.25 * random()),
            None => self.backoff.mul_f64(0.5 + random()),
        };
        self.backoff = (2 * self.backoff).min(BACKOFF_MAX);
        if self.deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
            return Err(error);
        }
        sleep(wait).await;
        Ok(())
    }
}

/// 0 to 1, for jitter.
fn random() -> f64 {
    let mut byte = [128];
    // Without randomness everybody waits as long: no harm.
    let _ = getrandom::fill(&mut byte);
    f64::from(byte[0]) / 256.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Status;

    use super::{Call, Error};

    fn unavailable() -> Error {
        Status::unavailable("gone").into()
    }

    #[tokio::test]
    async fn patience_is_bounded() {
        let mut call = Call::new(None, 2);
        assert!(call.pause(unavailable()).await.is_ok());
        assert!(call.pause(unavailable()).await.is_ok());
        assert!(call.pause(unavailable()).await.is_err());
    }

    #[tokio::test]
    async fn what_cannot_succeed_is_not_repeated() {
        let mut call = Call::new(None, 2);
        assert!(call.pause(Status::invalid_argument("no").into()).await.is_err());
        assert!(call.pause(Status::resource_exhausted("never").into()).await.is_err());
    }

    #[tokio::test]
    async fn no_pause_beyond_the_deadline() {
        let mut call = Call::new(Some(Duration::from_millis(10)), 9);
        assert!(matches!(call.pause(unavailable()).await, Err(Error::Refused(_))));
        let late = call.bounded(std::future::pending::<Result<(), Error>>()).await;
        assert!(matches!(late, Err(Error::Deadline)));
    }
}
