//! Jobs: admission, scheduling, cancellation, and the work of programs and of imports of bases and
//! matrices.

mod admission;
mod backlog;
mod bases;
mod decode_points;
mod early_points;
mod host;
mod import;
mod program;
mod program_input;
mod residency;
mod scheduler;
mod waiting_msms;

pub use admission::{
    AdmissionPermit, AdmittedJob, Budget, JobPermit, admit, admit_small, charge, check_share,
    merge_permits,
};
pub use backlog::Backlog;
pub use bases::{JobBases, UncheckedBases};
pub use early_points::{EarlyPoints, PointsOfOutput};
pub use host::ComputeHost;
pub use import::{
    ImportJob, Imported, ImportedBases, ImportedContent, MatrixImport, ObjectImport, PointsImport,
};
pub use program::{JobReport, ProgramJob, ProgramJobOutput, ProgramOutput, ProgramWork};
pub use program_input::ProgramJobInput;
pub use residency::ResidencyJob;
use scheduler::SENIORITY_AGE;
pub use scheduler::{FinishedJob, JobOwner, JobPriority, JobTicket, JobWaker, JobWork, Scheduler};
