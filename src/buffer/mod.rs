//! Payload memory: budgeted, filled out of order, limited in fragments, zeroed on release.

mod arrival;
mod counter;
mod group;
mod held;
mod ranges;
mod reaper;
mod segment;
mod source;

pub use arrival::{Arrival, Listener};
pub use counter::{Charge, Counter};
pub use group::lend;
pub use held::{Held, Room};
pub use ranges::Ranges;
pub use reaper::bury;
pub use source::{Part, Sink, Source};
