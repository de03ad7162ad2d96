//! Connections: how they are accepted and closed, and what a peer may take of the server.

pub mod connection;
pub mod connection_calls;
pub mod connection_limits;
pub mod handshake;
pub mod header_backlog;
pub mod header_blocks;
pub mod listen;
pub mod metrics_certificate;
pub mod pace;
pub mod tls;
