//! What all calls have: a context, memory, a deadline, records.

pub mod call;
pub mod call_memory;
pub mod call_record;
pub mod deadline;
pub mod request_id;
pub mod status;
