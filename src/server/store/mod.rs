//! Data kept between calls: bases, matrices and programs, named by content hash; vectors, uploads
//! and regions, by random id.

mod objects;
mod programs;
mod regions;
mod uploads;

pub use objects::{
    DataDirError, ObjectCheck, ObjectData, ObjectStore, StoreCharge, StoredObject, StoredPoints,
    unix_time_s,
};
pub use programs::ProgramStore;
pub use regions::{RegionToken, Regions};
pub use uploads::{
    KeptVectors, StoredUpload, UploadHeader, UploadLimits, UploadOutcome, UploadOwner,
    UploadStreamGuard, UploadUseGuard, Uploads,
};
