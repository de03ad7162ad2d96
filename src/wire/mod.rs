//! The messages of `proto/`, generated at build time. Only this module knows prost.

#[cfg(feature = "server")]
pub mod decode;

/// Generated messages, clients and servers of package `capstan.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("capstan.v1");
}

/// The compiled `proto/`, for reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/capstan.bin"));

use std::fmt;

// Payloads may be witness: nothing of them is printed.
impl fmt::Debug for v1::Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk {{ offset: {}, data: {} bytes }}", self.offset, self.data.len())
    }
}

impl fmt::Debug for v1::InlineVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InlineVector {{ encoding: {}, data: {} bytes }}", self.encoding, self.data.len())
    }
}
