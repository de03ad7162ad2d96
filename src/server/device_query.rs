//! What responses say of the devices.

use std::sync::Arc;

use tokio::{sync::Mutex, task::spawn_blocking, time::Instant};

use crate::{
    error::{Error, Result},
    exec::Executor,
};

/// Asks the devices for a `T`, once at a time, however many calls ask: NVML takes milliseconds per
/// GPU, and a worker answers one question after the other.
pub struct DeviceQuery<T> {
    last: Arc<Mutex<Option<DeviceAnswer<T>>>>,
    ask: fn(&dyn Executor) -> T,
}

struct DeviceAnswer<T> {
    /// When the query began.
    begun: Instant,
    answer: T,
}

impl<T: Clone + Send + 'static> DeviceQuery<T> {
    pub fn new(ask: fn(&dyn Executor) -> T) -> Self {
        Self { last: Arc::default(), ask }
    }

    /// The answer at this call, or later. Calls that arrive during a query share the next one.
    pub async fn query(&self, executor: Arc<dyn Executor>) -> Result<T> {
        let arrived = Instant::now();
        let mut last = self.last.clone().lock_owned().await;
        if let Some(shared) = last.as_ref().filter(|last| last.begun > arrived) {
            return Ok(shared.answer.clone());
        }
        let ask = self.ask;
        // The query holds the lock to its end, also if the call is cancelled.
        let query = spawn_blocking(move || {
            let begun = Instant::now();
            let answer = ask(&*executor);
            *last = Some(DeviceAnswer { begun, answer: answer.clone() });
            answer
        });
        query.await.map_err(|_| Error::Internal("querying the devices panicked".into()))
    }
}
