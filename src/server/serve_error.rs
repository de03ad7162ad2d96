//! Why a server cannot start or serve.

use std::io;

/// Why a server failed to start or to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {0}")]
    Listen(io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The data directory cannot be used, or threads cannot be started.
    #[error(transparent)]
    Start(#[from] crate::error::Error),
    /// TLS or the transport failed.
    #[error("transport: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The reflection service refused its descriptors.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}
