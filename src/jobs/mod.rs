//! Jobs: admission, scheduling, cancellation, and the work of MSMs, NTTs and imports of bases.

mod admission;
mod host;
mod import;
mod msm;
mod msm_check;
mod ntt;
mod payload;
mod report;
mod scheduler;

pub use admission::{AdmissionPermit, AdmittedJob, Budget, admit};
pub use host::ComputeHost;
pub use import::{BasesImport, ImportJob, ImportedBases};
pub use msm::{JobBases, MsmJob, MsmOutput, MsmWork, check_count};
pub use ntt::{NttJob, NttWork};
pub use report::JobReport;
pub use scheduler::{FinishedJob, JobTicket, JobWaker, JobWork, Scheduler};
