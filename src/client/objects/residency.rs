//! Where bases reside on the server's devices.

use crate::wire::v1;
use crate::{
    BasesId, BasesResidency, Client, ResidencyAction, call::CallFuture,
    connection::affinity::AffinityKey, error::Result,
};

impl Client {
    /// Warms, pins, unpins or evicts bases on devices, and waits until that is done. Returns what
    /// each device holds then; nothing if the server has no GPUs. `devices` are numbers of GPUs, as
    /// [`Self::info`] reports them; empty means all that serve.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`; with code `RESOURCE_EXHAUSTED` and reason
    /// `DEVICE_MEMORY`, `PINNED_BASES` or `TENANT_QUOTA` if there is no room; with code
    /// `INVALID_ARGUMENT` for a device that the server does not have.
    pub async fn set_residency(
        &self,
        id: BasesId,
        action: ResidencyAction,
        devices: &[u32],
    ) -> Result<Vec<BasesResidency>> {
        let changed: CallFuture<'_, v1::SetResidencyResponse> = Box::pin(async move {
            let route = &self.route(|| AffinityKey::of_bases(id));
            let send = |request| async move { self.store(route).set_residency(request).await };
            let request = v1::SetResidencyRequest {
                object_id: id.to_bytes(),
                action: action.into(),
                devices: devices.to_vec(),
            };
            self.begin_call(None)?.unary(request, send).await
        });
        Ok(changed.await?.devices)
    }
}
