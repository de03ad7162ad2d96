//! Why a server cannot start or serve.

use std::io;

use super::{
    DataDirError, callers::reload::CredentialFileError, devices::preload_file::PreloadFileError,
};

/// Why a server failed to start or to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {0}")]
    Listen(io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Memory is missing, or threads cannot be started.
    #[error(transparent)]
    Start(#[from] crate::error::ServiceError),
    /// The data directory cannot be read or written, or another daemon uses it.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A file of certificates, tokens, keys or tenants cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialFileError),
    /// The file of bases to preload cannot be used.
    #[error("preload: {0}")]
    Preload(#[from] PreloadFileError),
    /// The server would serve anyone beyond the loopback, and `insecure` does not allow that.
    #[error(
        "refusing to serve everyone beyond the loopback: configure tokens or client certificates, \
         or set insecure"
    )]
    Exposed,
    /// The transport failed.
    #[error("transport: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The reflection service refused its descriptors.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}
