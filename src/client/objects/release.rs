//! Releases uploads and vectors that a call leaves behind.

use std::time::Duration;

use tokio::{runtime::Handle, time::sleep};

use crate::wire::v1::{ReleaseRequest, release_request::Id};
use crate::{Client, UploadKey, call::CallDeadline, connection::affinity::CallRoute};

const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which the messages of a dropped call have arrived at the server.
const STRAGGLER_WAIT: Duration = Duration::from_millis(500);

/// The release of an object below this size is not awaited. A larger one would count against the
/// server's limits during the next call, and its transfer takes far longer than the wait.
const AWAITED_BYTES: u64 = 256 << 20;

/// Releases an upload or vector when dropped, however the call ends.
pub(crate) struct ReleaseOnDrop {
    client: Client,
    pub route: CallRoute,
    /// `None` leaves the object on the server.
    pub id: Option<UploadKey>,
}

impl ReleaseOnDrop {
    pub fn new(client: &Client, id: UploadKey, route: &CallRoute) -> Self {
        Self { client: client.clone(), route: route.clone(), id: Some(id) }
    }

    /// Releases an object of `bytes` bytes, and waits for that if it is large. Failures are
    /// ignored: the server drops unused objects itself.
    pub async fn release_sized(mut self, bytes: u64) {
        if bytes < AWAITED_BYTES {
            self.release_later();
        } else if let Some(id) = self.id.take() {
            release(&self.client, id, &self.route).await;
        }
    }

    /// Releases the object while the caller continues.
    pub fn release_later(mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let (client, route) = (self.client.clone(), self.route.clone());
            runtime.spawn(async move { release(&client, id, &route).await });
        }
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // Outside a runtime there is no connection, either.
        if let (Some(id), Ok(runtime)) = (self.id, Handle::try_current()) {
            let (client, route) = (self.client.clone(), self.route.clone());
            runtime.spawn(async move {
                release(&client, id, &route).await;
                // A stripe in flight on another connection may have reopened the upload.
                sleep(STRAGGLER_WAIT).await;
                release(&client, id, &route).await;
            });
        }
    }
}

async fn release(client: &Client, id: UploadKey, route: &CallRoute) {
    let deadline = CallDeadline::new(Some(RELEASE_TIMEOUT));
    let request = deadline.request(ReleaseRequest { id: Some(Id::UploadId(id.to_bytes())) });
    if let Err(error) = deadline.response(client.store(route).release(request)).await {
        tracing::debug!(%error, "upload not released");
    }
}
