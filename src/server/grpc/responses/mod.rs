//! What a call sends, and readers that take it too slowly.

pub mod response;
pub mod response_queue;
pub mod result_stream;
pub mod transport_parts;
pub mod unread_responses;
