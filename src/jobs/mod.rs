//! Jobs: admission, scheduling, cancellation, and the work of MSMs, NTTs and imports of bases.

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
