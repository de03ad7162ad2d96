//! Jobs: admission, scheduling, cancellation, and the work of MSMs, NTTs, programs and imports of
//! bases.

mod admission;
mod host;
mod import;
mod msm;
mod msm_payload;
mod ntt;
mod payload;
mod program;
mod report;
mod scheduler;
mod waiting_msms;

pub use admission::{AdmissionPermit, AdmittedJob, Budget, admit};
pub use host::ComputeHost;
pub use import::{BasesImport, ImportJob, ImportedBases};
pub use msm::{JobBases, MsmJob, MsmOutput, MsmSpec, MsmWork, UncheckedBases, check_count};
pub use ntt::{NttJob, NttSpec, NttWork};
pub use program::{ProgramJob, ProgramJobInput, ProgramJobOutput, ProgramOutput, ProgramWork};
pub use report::JobReport;
pub use scheduler::{FinishedJob, JobTicket, JobWaker, JobWork, Scheduler};
