//! Worker processes, one per GPU: a fault of a GPU ends its process, and no other.
//!
//! In the server, [`WorkerExecutor`] gives runs to the workers of a pool; a supervisor
//! starts and replaces them. A large MSM or program is divided among several workers. [`serve`] is
//! the worker's side. A worker maps the server's payload memory, so messages say where bytes lie
//! and carry none.
//!
//! The daemon advances runs in workers piece by piece, instead of handing them over, so that
//! fairness, cancellation and deadlines are decided in one place, and a run on a worker is the same
//! trait (`RunInProgress`) as one in the daemon's process. A request and its answer cross a lane, a
//! socket for one request at a time. That costs two thread wake-ups. The last answer leaves before
//! the run's memory on the GPU is released; a run that the daemon sends after that answer begins
//! after the release.
//!
//! Workers plan nothing. What a run takes is a pure function of the call and of models
//! (`EngineModel`), so the daemon admits calls without asking a worker, even while none serves.

mod device_bases;
mod executor;
pub mod failure;
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
pub mod sent_objects;
mod serve;
mod settings;
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
