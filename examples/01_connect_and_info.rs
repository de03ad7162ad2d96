//! Lesson 1: connect to a server and read its version, engine, devices and limits.
//!
//! `cargo run --release --example 01_connect_and_info`

mod common;

use std::time::Duration;

use capstan::client::{Client, Result};

#[tokio::main]
async fn main() -> Result<()> {
    // Usually `capstand` is already running. Here a server runs in this process, on a free port.
    let server = common::server();

    // http://host:port, https://host:port or unix:/path. The builder also sets certificates, the
    // number of connections for large payloads, and a deadline for each call.
    let client = Client::builder(&server.target)
        .connections(2)
        .deadline(Duration::from_secs(60))
        .connect()
        .await?;

    let info = client.info().await?;
    println!("capstan {} with engine {}: {}", info.version, info.engine, info.engine_reason);
    for device in &info.devices {
        println!("  {}: {} units", device.name, device.units);
    }
    let limits = info.limits.unwrap_or_default();
    println!("  up to {} jobs, NTTs up to 2^{}", limits.jobs, limits.ntt_lg_n);
    assert!(!info.draining, "a new server accepts work");
    Ok(())
}
