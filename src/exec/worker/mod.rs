//! Worker processes, one per GPU: a fault of a GPU ends its process, and no other.
//!
//! In the server, [`WorkerExecutor`] gives runs to the workers of a pool; a supervisor
//! starts and replaces them. A large MSM or program is divided among several workers. [`serve`] is
//! the worker's side. A worker maps the server's payload memory, so messages say where bytes lie
//! and carry none.

mod device_bases;
mod executor;
pub mod failure;
mod finished;
mod link;
mod mapped;
mod mapped_objects;
mod memories;
pub mod message;
pub mod pool;
pub mod process;
pub mod reply;
mod residency;
mod restricted;
pub mod run;
pub mod running;
pub mod sent_bases;
mod sent_matrices;
mod sent_objects;
mod serve;
mod settings;
mod shares;
pub mod socket;
mod spread;
pub mod start;
mod supervisor;
mod watch;

pub use executor::WorkerExecutor;
pub use message::WorkerSettings;
pub use process::WorkerCommand;
pub use restricted::has_landlock;
pub use serve::serve;
pub use settings::{SpreadPolicy, WorkerPoolSettings};
pub use supervisor::{NoWorkers, start_pool};
