//! Calls that move to another server if theirs is lost.

use std::time::Duration;

use capstan_math::error::Reason;
use tokio::time::{Instant, timeout_at};

use super::{Fleet, members::Candidates};
use crate::{
    Client,
    call::CallFuture,
    error::{ClientError, Result},
};

impl Fleet {
    /// Runs `work` on the server of `key`, and on another one if that is lost meanwhile: calls with
    /// the same key go to the same server while it is up. `work` gets the server's client, and must
    /// do all of a job that depends on vectors which the server keeps.
    ///
    /// Errors: those of `work`, unless another server can repeat it; the last one if no server is
    /// up for the fleet's patience.
    pub async fn call<T, F>(&self, key: &str, work: impl Fn(Client) -> F + Send + Sync) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let candidates = self.candidates(Some(key.as_bytes()), 0);
        self.call_within(candidates, None, |client, _| work(client)).await
    }

    pub(super) fn candidates<'a>(&self, key: Option<&'a [u8]>, place: usize) -> Candidates<'a> {
        Candidates { key, place, replicas: self.inner.replicas }
    }

    /// Runs `work` with the time that is left until `limit` has passed.
    pub(super) fn call_within<'a, T, F>(
        &'a self,
        candidates: Candidates<'a>,
        limit: Option<Duration>,
        work: impl Fn(Client, Option<Duration>) -> F + Send + Sync + 'a,
    ) -> CallFuture<'a, T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        Box::pin(async move {
            let members = &self.inner.members;
            let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
            let left = || deadline.map(|at| at.saturating_duration_since(Instant::now()));
            // A call that loses every server may be the cause.
            let mut losses_left = members.count() + 1;
            let mut last_error = None;
            let mut without_server: Option<Instant> = None;
            loop {
                let Some(call) = members.choose(candidates) else {
                    let since = *without_server.get_or_insert_with(Instant::now);
                    let is_late = left().is_some_and(|left| left.is_zero());
                    if is_late || since.elapsed() >= self.inner.patience {
                        return Err(last_error.unwrap_or_else(|| self.no_server()));
                    }
                    members.wait().await;
                    continue;
                };
                without_server = None;
                let attempt = async {
                    tokio::select! {
                        biased;
                        done = work(call.client.clone(), left()) => done,
                        error = call.member.until_silent() => Err(error),
                    }
                };
                let done = match deadline {
                    Some(at) => {
                        timeout_at(at, attempt).await.unwrap_or(Err(ClientError::DeadlineExceeded))
                    }
                    None => attempt.await,
                };
                let error = match done {
                    Err(error) if is_lost(&error) && losses_left > 0 => error,
                    done => return done,
                };
                losses_left -= 1;
                let target = call.member.target();
                tracing::warn!(target, %error, "a server is lost: its call moves to another one");
                members.mark_down(&call.member);
                last_error = Some(error);
            }
        })
    }

    fn no_server(&self) -> ClientError {
        let servers = self.servers();
        let targets: Vec<_> = servers.iter().map(|server| server.target.as_str()).collect();
        ClientError::cannot_connect(targets.join(", "), "no server of the fleet is up")
    }
}

/// Whether the server is gone, will be, or has only just started, rather than full or of another
/// opinion.
fn is_lost(error: &ClientError) -> bool {
    match error {
        ClientError::ConnectionLost(_) | ClientError::CannotConnect { .. } => true,
        ClientError::Refused(refusal) => {
            let is_gone = matches!(
                refusal.reason,
                Some(Reason::Draining | Reason::Loading | Reason::OtherServer)
            );
            // Proxies give no reason.
            let is_proxy =
                refusal.code == tonic::Code::Unavailable && refusal.reason_text.is_empty();
            is_gone || is_proxy
        }
        _ => false,
    }
}
