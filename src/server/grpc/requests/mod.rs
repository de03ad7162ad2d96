//! What a call receives: bodies and uploads.

pub mod receive;
pub mod streamed_body;
pub mod streamed_uploads;
pub mod unary_body;
