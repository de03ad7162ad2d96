//! Memory that a server shares with a client on the same host, and how the client gets it; files of
//! stored objects, which other processes of the server map.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

mod descriptor;
mod file_faults;
mod mapped_file;
mod memory;
mod sealed_memory;
mod shared_object;

pub use descriptor::{receive_descriptor, send_descriptor};
pub use file_faults::outlive_signals;
pub use mapped_file::MappedFile;
pub use memory::{DeviceAccess, DeviceBytes, SharedMemory};
pub use sealed_memory::SealedMemory;
pub use shared_object::SharedObject;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use capstan_math::{curve, sparse};

/// Sizes are multiples of this: a huge page.
pub const REGION_ALIGNMENT: u64 = 2 << 20;

/// The socket that hands out regions, for a server on the Unix socket `server`.
pub fn socket_path(server: &Path) -> PathBuf {
    let mut path = OsString::from(server);
    path.push(".regions");
    path.into()
}
