//! Messages that a call sends before its job has ended.

use tokio::sync::mpsc::UnboundedReceiver;

use crate::jobs::PointsOfOutput;

/// Points that the job sends before its end, and the messages that carry them.
pub struct EarlyMessages<T> {
    pub points: UnboundedReceiver<PointsOfOutput>,
    pub message: fn(PointsOfOutput) -> T,
}

impl<T> EarlyMessages<T> {
    /// The next message; `None` if there will be none.
    pub async fn next(&mut self) -> Option<T> {
        self.points.recv().await.map(self.message)
    }
}
