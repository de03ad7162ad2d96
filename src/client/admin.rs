//! The server's state, and its shutdown.

use std::time::Duration;

use tonic::Code;

use super::{Client, Result, call::CallFuture};
use crate::wire::v1::{DrainRequest, DrainResponse, GetInfoRequest, GetInfoResponse};

impl Client {
    /// Returns the server's version, engine, devices, limits and load.
    pub async fn info(&self) -> Result<GetInfoResponse> {
        self.info_boxed().await
    }

    fn info_boxed(&self) -> CallFuture<'_, GetInfoResponse> {
        Box::pin(async move {
            let send = |request| async move { self.admin().get_info(request).await };
            self.begin_call(None)?.unary(GetInfoRequest {}, send).await
        })
    }

    /// Whether the server refuses new work. If it may not tell this caller, it is alive, at least.
    pub(crate) async fn is_draining(&self) -> Result<bool> {
        match self.info_boxed().await {
            Ok(info) => Ok(info.draining),
            Err(error) if error.code() == Code::PermissionDenied => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Drains the server: it refuses new work and exits when accepted jobs are done, at the latest
    /// after `grace` (zero: the server's `drain_grace_s`). Returns the number of unfinished jobs.
    ///
    /// Errors: `Refused` with reason `ADMIN_ONLY` unless the target is the server's administrative
    /// socket, or, if it has none, its Unix socket, or the server sets `admin_over_tcp`.
    pub async fn drain(&self, grace: Duration) -> Result<u32> {
        let drained: CallFuture<'_, DrainResponse> = Box::pin(async move {
            let deadline = self.begin_call(None)?.deadline;
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            let request = deadline.request(DrainRequest { grace_ms });
            deadline.response(self.admin().drain(request)).await
        });
        Ok(drained.await?.jobs)
    }
}
