//! How payloads travel: in messages, over several connections, and through memory that a server on
//! the same host shares.

pub mod copy_pool;
pub mod download;
pub mod frames;
pub mod mapped_region;
pub mod payload;
pub mod region;
pub mod staged_transfer;
pub mod striped_upload;
pub mod upload;
pub mod vector_call;
