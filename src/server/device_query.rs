//! What `GetInfo` says of the devices.

use std::sync::Arc;

use tokio::{sync::Mutex, task::spawn_blocking, time::Instant};

use crate::{
    engine::DeviceInfo,
    error::{Error, Result},
    exec::Executor,
};

/// Queries the devices once at a time, however many calls ask: NVML takes milliseconds per GPU, and
/// a worker answers one question after the other.
#[derive(Default)]
pub struct DeviceQuery(Arc<Mutex<Option<DeviceAnswer>>>);

struct DeviceAnswer {
    /// When the query began.
    begun: Instant,
    devices: Vec<DeviceInfo>,
}

impl DeviceQuery {
    /// The devices as they are at this call, or later. Calls that arrive during a query share the
    /// next one.
    pub async fn query(&self, executor: Arc<dyn Executor>) -> Result<Vec<DeviceInfo>> {
        let arrived = Instant::now();
        let mut last = self.0.clone().lock_owned().await;
        if let Some(answer) = last.as_ref().filter(|answer| answer.begun > arrived) {
            return Ok(answer.devices.clone());
        }
        // The query holds the lock to its end, also if the call is cancelled.
        let query = spawn_blocking(move || {
            let begun = Instant::now();
            let devices = executor.devices();
            *last = Some(DeviceAnswer { begun, devices: devices.clone() });
            devices
        });
        query.await.map_err(|_| Error::Internal("querying the devices panicked".into()))
    }
}
