//! Deadline and retries of one call.
//!
//! The futures of calls are boxed: the body of an async function is compiled by every crate that
//! awaits it, and behind a call is all of tonic.

use std::time::Duration;

use capstan_math::error::Reason;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Request, Response, Status};

use super::error::{ClientError, Result};

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// The longest time that gRPC's header for deadlines can express: 8 digits of hours.
const DEADLINE_MAX: Duration = Duration::from_secs(99_999_999 * 3600);

/// A call's future. Boxed, because otherwise every crate that awaits it would compile the bodies of
/// all async functions below it, tonic's included.
pub(crate) type CallFuture<'a, T> = BoxFuture<'a, Result<T>>;

/// Start and deadline of one call, across all its requests.
#[derive(Clone, Copy)]
pub(crate) struct CallDeadline {
    started: Instant,
    deadline: Option<Instant>,
}

pub(crate) struct CallBudget {
    pub deadline: CallDeadline,
    retries_left: u32,
    refusals_only: bool,
    /// Whether the caller has other servers, so that a draining one is not asked again.
    leaves_draining: bool,
    /// Whether a device of the server was lost during the call.
    has_lost_device: bool,
    backoff: Duration,
}

impl CallDeadline {
    /// A deadline `limit` from now; none if `limit` is `None` or too long to represent.
    pub fn new(limit: Option<Duration>) -> Self {
        let started = Instant::now();
        let limit = limit.filter(|limit| *limit <= DEADLINE_MAX);
        Self { started, deadline: limit.and_then(|limit| started.checked_add(limit)) }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Wraps `message` in a request that carries the time left until the deadline.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        request
    }

    pub async fn response<T>(
        &self,
        response: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        self.until_deadline(async { Ok(response.await?.into_inner()) }).await
    }

    pub async fn until_deadline<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.deadline {
            // The server enforces the same deadline; the code is the same on either side.
            Some(deadline) => {
                timeout_at(deadline, work).await.map_err(|_| ClientError::DeadlineExceeded)?
            }
            None => work.await,
        }
    }
}

impl CallBudget {
    pub fn new(limit: Option<Duration>, retries: u32) -> Self {
        let deadline = CallDeadline::new(limit);
        Self {
            deadline,
            retries_left: retries,
            refusals_only: false,
            leaves_draining: false,
            has_lost_device: false,
            backoff: BACKOFF_FIRST,
        }
    }

    /// For callers that have other servers: a draining one is not asked again.
    pub fn leave_draining(&mut self, leaves: bool) {
        self.leaves_draining = leaves;
    }

    /// For calls whose lost attempts may still run and interfere with a retry: retries only if the
    /// server refused to start the call.
    pub fn retry_refusals_only(&mut self) {
        self.refusals_only = true;
    }

    /// Sends `message`, again after errors that may be temporary.
    pub async fn unary<M: Clone, T, F: Future<Output = Result<Response<T>, Status>>>(
        &mut self,
        message: M,
        send: impl Fn(Request<M>) -> F,
    ) -> Result<T> {
        loop {
            let request = self.deadline.request(message.clone());
            match self.deadline.response(send(request)).await {
                Ok(response) => return Ok(response),
                Err(error) => self.wait_before_retry(error).await?,
            }
        }
    }

    /// Waits until a call through shared memory, which failed with `error`, may be repeated in
    /// messages. A server that has restarted does not know the memory, and one that is reached over
    /// TCP does not use it.
    pub async fn wait_before_messages(&mut self, error: ClientError) -> Result<()> {
        let is_unknown = error.field().is_some_and(|field| field.ends_with("region_id"));
        if is_unknown || error.reason() == Some(Reason::LocalOnly) {
            return Ok(());
        }
        self.wait_before_retry(error).await
    }

    /// Waits before a retry. Returns `error` if it is permanent, no retries are left, or the
    /// deadline would pass during the wait.
    pub async fn wait_before_retry(&mut self, error: ClientError) -> Result<()> {
        let may_repeat = !self.refusals_only || error.is_before_start();
        let is_left = self.leaves_draining && error.reason() == Some(Reason::Draining);
        if !error.is_retryable() || !may_repeat || is_left || self.retries_left == 0 {
            return Err(error);
        }
        if error.reason() == Some(Reason::DeviceLost) {
            // The call may be the cause: it must not make one server after the other fail.
            if self.has_lost_device {
                return Err(error);
            }
            self.has_lost_device = true;
        }
        self.retries_left -= 1;
        let wait = match error.retry_after() {
            // Jitter, so that clients do not retry all at once.
            Some(after) => after + after.mul_f64(0.25 * jitter()),
            None => self.backoff.mul_f64(0.5 + jitter()),
        };
        self.backoff = (2 * self.backoff).min(BACKOFF_MAX);
        let is_too_late = |deadline: Instant| {
            let end = Instant::now().checked_add(wait);
            end.is_none_or(|end| end >= deadline)
        };
        if self.deadline.deadline.is_some_and(is_too_late) {
            return Err(error);
        }
        sleep(wait).await;
        Ok(())
    }
}

/// Uniform in [0, 1), for jitter.
fn jitter() -> f64 {
    let mut byte = [128];
    // If the system has no randomness, all waits are equal, which does no harm.
    let _ = getrandom::fill(&mut byte);
    f64::from(byte[0]) / 256.0
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, time::Duration};

    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::{CallBudget, CallDeadline, ClientError, DEADLINE_MAX};

    fn unavailable() -> ClientError {
        Status::unavailable("gone").into()
    }

    #[tokio::test]
    async fn limits_the_number_of_retries() {
        let mut call = CallBudget::new(None, 2);
        assert!(call.wait_before_retry(unavailable()).await.is_ok());
        assert!(call.wait_before_retry(unavailable()).await.is_ok());
        assert!(call.wait_before_retry(unavailable()).await.is_err());
    }

    #[tokio::test]
    async fn does_not_retry_permanent_errors() {
        let mut call = CallBudget::new(None, 2);
        assert!(call.wait_before_retry(Status::invalid_argument("no").into()).await.is_err());
        assert!(call.wait_before_retry(Status::resource_exhausted("never").into()).await.is_err());
    }

    #[tokio::test]
    async fn repeats_only_refused_calls_if_told_so() {
        let mut call = CallBudget::new(None, 2);
        call.retry_refusals_only();
        assert!(call.wait_before_retry(unavailable()).await.is_err());
        let refused = |reason| {
            let mut details = ErrorDetails::new();
            details.set_error_info(reason, "capstan", HashMap::new());
            details.set_retry_info(Some(Duration::ZERO));
            Status::with_error_details(Code::ResourceExhausted, "full", details)
        };
        assert!(call.wait_before_retry(refused("DEVICE_MEMORY").into()).await.is_err());
        assert!(call.wait_before_retry(refused("JOBS").into()).await.is_ok());
    }

    #[tokio::test]
    async fn repeats_a_call_that_loses_devices_once_only() {
        let lost = || {
            let mut details = ErrorDetails::new();
            details.set_error_info("DEVICE_LOST", "capstan", HashMap::new());
            details.set_retry_info(Some(Duration::ZERO));
            Status::with_error_details(Code::Unavailable, "lost", details).into()
        };
        let mut call = CallBudget::new(None, 9);
        assert!(call.wait_before_retry(lost()).await.is_ok());
        assert!(call.wait_before_retry(unavailable()).await.is_ok());
        assert!(call.wait_before_retry(lost()).await.is_err());
    }

    #[tokio::test]
    async fn deadlines_that_no_request_can_express_are_unlimited() {
        let timeout = |limit| CallDeadline::new(Some(limit)).request(()).metadata().len();
        assert_eq!((timeout(Duration::from_secs(1)), timeout(DEADLINE_MAX)), (1, 1));
        assert_eq!((timeout(2 * DEADLINE_MAX), timeout(Duration::MAX)), (0, 0));
    }

    #[tokio::test]
    async fn a_retry_delay_of_any_length_ends_a_call_that_has_a_deadline() {
        for delay_s in [1 << 20, i64::MAX as u64] {
            let ClientError::Refused(mut full) = Status::resource_exhausted("full").into() else {
                panic!("a status of a server is a refusal");
            };
            full.retry_after = Some(Duration::from_secs(delay_s));
            let mut call = CallBudget::new(Some(Duration::from_secs(1 << 10)), 9);
            assert!(call.wait_before_retry(ClientError::Refused(full)).await.is_err());
        }
    }

    #[tokio::test]
    async fn does_not_wait_past_the_deadline() {
        let mut call = CallBudget::new(Some(Duration::from_millis(10)), 9);
        let refused = call.wait_before_retry(unavailable()).await;
        assert!(matches!(refused, Err(ClientError::Refused(_))));
        let late =
            call.deadline.until_deadline(std::future::pending::<Result<(), ClientError>>()).await;
        assert!(matches!(late, Err(ClientError::DeadlineExceeded)));
    }
}
