//! Memory for payloads: zeroed when released, filled out of order, bounded in fragments.

mod arrival;
mod ranges;
mod reaper;

pub use arrival::Arrival;
pub use ranges::Ranges;
pub use reaper::bury;
