//! The messages of Capstan's contract, which `scripts/generate` generates from `proto/`, and their
//! checks. The only package that uses prost.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, clippy::unwrap_used)]

mod checked_codec;
pub mod decode;
mod enums;
mod list_limits;
mod message_reader;
mod outgoing_frames;
mod parts;
mod status;
pub mod steps;

/// Generated messages, clients and servers of package `capstan.v1`.
// Comments of the contract are not written for rustdoc: `a[i]` is not a link, `<w>` is not HTML.
#[allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("generated/capstan.v1.rs");
}

/// Descriptors of `proto/`, for gRPC reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("generated/capstan.bin");

use std::fmt;

/// The metadata that names a call, in requests and responses.
pub const REQUEST_ID_METADATA: &str = "x-request-id";

/// The metadata that names a call's priority.
pub const PRIORITY_METADATA: &str = "capstan-priority";
/// The metadata of requests by which proxies choose a server: those with the same value reach the
/// same one.
pub const AFFINITY_METADATA: &str = "capstan-affinity";
/// The metadata of responses that names the server: another one, or one that has restarted, does
/// not know the caller's uploads. In a request, it names the only server that may serve the call.
pub const INSTANCE_HEADER: &str = "capstan-instance";

/// The codec that generated code uses.
pub use checked_codec::CheckedCodec as MessageCodec;
pub use list_limits::check_lists;
pub use message_reader::{ChunkedRequest, DecodedMessage, MessageReader};
pub use outgoing_frames::{ChunkMessage, OutgoingFrames};
pub use status::{FieldViolation, OTHER_SERVER, code_of, input_status, refusal};

/// Bytes of a message or a part of one.
pub fn encoded_bytes(message: &impl DecodedMessage) -> u64 {
    message.encoded_len() as u64
}

/// A message as it is sent: fields in the order of their numbers, and none that is unknown.
pub fn encoded(message: &impl DecodedMessage) -> Vec<u8> {
    message.encode_to_vec()
}

/// The id of a program, by its [`encoded`] message.
pub fn program_id(encoded: &[u8]) -> [u8; 32] {
    blake3::derive_key("capstan v1 program", encoded)
}

// Payloads may be secret witness data: `Debug` prints their sizes only.
impl fmt::Debug for v1::Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk {{ offset: {}, data: {} bytes }}", self.offset, self.data.len())
    }
}

impl fmt::Debug for v1::OpenRegionResponse {
    /// Without the token, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenRegionResponse {{ bytes: {} }}", self.bytes)
    }
}

impl fmt::Debug for v1::InlineVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InlineVector {{ encoding: {}, data: {} bytes }}", self.encoding, self.data.len())
    }
}
