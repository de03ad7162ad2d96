//! Data kept between calls: bases and programs, named by content hash; vectors, uploads and
//! regions, by random id.

mod bases;
mod programs;
mod regions;
mod uploads;

pub use bases::{BasesStore, StoreCharge, StoredBases, unix_time_s};
pub use programs::ProgramStore;
pub use regions::{RegionToken, Regions};
pub use uploads::{
    KeptVectors, StoredUpload, UploadHeader, UploadOutcome, UploadOwner, UploadStreamGuard,
    UploadUseGuard, Uploads,
};
