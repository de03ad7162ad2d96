//! Who calls: credentials, and how callers without valid ones are refused.

pub mod authenticate;
pub mod call_origin;
pub mod credentials;
pub mod refusals;
pub mod reload;
