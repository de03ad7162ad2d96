//! Lesson 1: connect, and ask the server what it is.
//!
//! `cargo run --release --example 01_connect_and_info`

mod common;

use std::time::Duration;

use capstan::client::{Client, Result};

#[tokio::main]
async fn main() -> Result<()> {
    // In earnest, `capstand` runs somewhere. Here it runs in this process, on a free port.
    let server = common::server();

    // http://host:port, https://host:port or unix:/path. The builder knows more: certificates,
    // the number of connections that large payloads are spread over, a deadline for each call.
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
    println!("  {} jobs at a time, NTTs up to 2^{}", limits.jobs, limits.ntt_lg_n);
    assert!(!info.draining, "a fresh server takes work");
    Ok(())
}
