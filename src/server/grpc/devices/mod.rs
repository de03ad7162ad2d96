//! What devices hold: bases that are warmed, pinned and evicted.

pub mod device_query;
pub mod pins;
pub mod preload;
pub mod preload_file;
pub mod residency;
pub mod residency_report;
pub mod residency_snapshot;
