//! Ports for daemons that restart at the same address.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
};

/// Below the ports that systems give to connections, which could take one during a restart.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that no one listens at. Processes begin at different ports.
pub fn stable_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    loop {
        let port = FIRST + (start + NEXT.fetch_add(7, Ordering::Relaxed) % COUNT) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
