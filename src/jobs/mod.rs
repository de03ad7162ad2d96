//! Jobs: admission, scheduling, cancellation, and the work of MSMs, NTTs and imports of bases.

mod admission;
mod host;
mod import;
mod msm;
mod msm_check;
mod ntt;
mod payload;
mod scheduler;

pub use admission::{AdmissionPermit, AdmittedJob, Budget, admit};
pub use host::ComputeHost;
pub use import::{BasesImport, ImportJob, ImportedBases};
pub use msm::{JobBases, MsmJob, MsmOutput, MsmWork, check_count};
pub use ntt::{NttJob, NttOutput, NttWork};
pub use scheduler::{FinishedJob, JobTiming, JobWaker, JobWork, Scheduler};
