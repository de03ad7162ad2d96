//! Memory that a server shares with a client on the same host, and how the client gets it; files of
//! stored objects, which other processes of the server map.

mod descriptor;
#[cfg(feature = "server")]
mod file_faults;
#[cfg(feature = "server")]
mod mapped_file;
mod memory;
#[cfg(feature = "server")]
mod sealed_memory;
#[cfg(feature = "server")]
mod shared_object;

#[cfg(feature = "client")]
pub use descriptor::receive_descriptor;
#[cfg(feature = "server")]
pub use descriptor::send_descriptor;
#[cfg(feature = "server")]
pub use file_faults::outlive_signals;
#[cfg(feature = "server")]
pub use mapped_file::MappedFile;
pub use memory::SharedMemory;
#[cfg(feature = "server")]
pub use memory::{DeviceAccess, DeviceBytes};
#[cfg(feature = "server")]
pub use sealed_memory::SealedMemory;
#[cfg(feature = "server")]
pub use shared_object::SharedObject;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Sizes are multiples of this: a huge page.
#[cfg(feature = "server")]
pub const REGION_ALIGNMENT: u64 = 2 << 20;

/// The socket that hands out regions, for a server on the Unix socket `server`.
pub fn socket_path(server: &Path) -> PathBuf {
    let mut path = OsString::from(server);
    path.push(".regions");
    path.into()
}
