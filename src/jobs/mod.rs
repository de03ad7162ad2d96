//! Jobs: who may start one, in what order they run, how they stop, and what they do.

mod admission;
mod combination;
mod host;
mod import;
mod msm;
mod ntt;
mod payload;
mod scheduler;

pub use admission::{Admitted, Budget, Permit, admit};
pub use host::Host;
pub use import::{ImportWork, Imported};
pub use msm::{JobBases, MsmCheck, MsmJob, MsmOutput, MsmWork, check_count};
pub use ntt::{NttCheck, NttJob, NttOutput, NttWork};
pub use scheduler::{Scheduler, Spent, Ticket, Wake, Work};
