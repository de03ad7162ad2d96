//! Opens regions, and finds places in them for the payloads of calls.

use std::io;

use capstan_region::socket_path;
use tonic::Code;

use super::mapped_region::{ClientRegion, is_crowded, map_region, unix_socket};
use crate::wire::v1;
use crate::{
    Client,
    call::{CallBudget, CallFuture},
    connection::connect_cause::ConnectCause,
    error::ClientError,
    staging::StagedMemory,
};

impl Client {
    /// Opens a region of at least `bytes` bytes. `None` if the server shares no memory, or is busy
    /// with other clients that ask for some.
    ///
    /// Errors: `Refused`; `CannotConnect` if the server does not hand out the memory.
    pub(crate) fn open_region(&self, bytes: u64) -> CallFuture<'_, Option<ClientRegion>> {
        Box::pin(async move {
            self.check_process()?;
            let Some(socket) = unix_socket(&self.inner.target) else { return Ok(None) };
            let request = v1::OpenRegionRequest { bytes };
            // Shared memory is that of one server, without a proxy.
            let route = &self.free_route();
            let send = |request| async move { self.store(route).open_region(request).await };
            // One retry, for a region that is being released: ordinary memory will do.
            let mut call = CallBudget::new(self.inner.deadline, 1);
            let opened = match call.unary(request, send).await {
                Ok(opened) => opened,
                Err(error) if shares_nothing(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let path = socket_path(&socket);
            match map_region(&path, &opened, bytes).await {
                Ok(region) => Ok(Some(region)),
                // Only the server's own socket is in this container.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) if is_crowded(&error) => Ok(None),
                Err(error) => {
                    let target = format!("unix:{}", path.display());
                    let (problem, cause) = (error.to_string(), ConnectCause::of(&error, &target));
                    Err(ClientError::CannotConnect { target, problem, cause })
                }
            }
        })
    }

    /// Memory for payloads of `bytes` bytes. `None` if the server shares none, or not yet: payloads
    /// then travel in messages.
    pub(crate) fn staged_memory(&self, bytes: u64) -> Option<StagedMemory> {
        let pool = &self.inner.staging;
        if !pool.may_hold(bytes) {
            return None;
        }
        let taken = pool.take(bytes as usize);
        if taken.is_none()
            && let Some(size) = pool.begin_opening(bytes)
        {
            let client = self.clone();
            tokio::spawn(async move {
                let opened = client.open_region(size).await;
                client.inner.staging.end_opening(opened.ok().flatten());
            });
        }
        taken
    }
}

/// Whether the server has no memory to share, or does not know regions.
fn shares_nothing(error: &ClientError) -> bool {
    matches!(error.code(), Code::ResourceExhausted | Code::PermissionDenied | Code::Unimplemented)
}
