//! Jobs: who may start one, in what order they run, and how they stop.

mod admission;
mod scheduler;

pub use admission::{Budget, Permit, admit};
pub use scheduler::{Scheduler, Spent, Ticket, Wake, Work};
