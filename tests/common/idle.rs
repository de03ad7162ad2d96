//! Waits until a server holds nothing.

use std::time::Duration;

use capstan::client::Client;
use tokio::time::{Instant, sleep};

/// A timeout that only memory or a job that is left behind reaches.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the server has no jobs and no bytes in flight, which include uploads and vectors.
pub async fn until_idle(client: &Client) {
    let begun = Instant::now();
    loop {
        let load = client.info().await.unwrap().load.unwrap();
        if load.jobs == 0 && load.bytes_in_flight == 0 {
            return;
        }
        assert!(begun.elapsed() < IDLE_TIMEOUT, "left behind: {load:?}");
        sleep(Duration::from_millis(20)).await;
    }
}
