//! Data kept between calls: bases, named by content hash; vectors and uploads, by random id.

mod bases;
mod uploads;

pub use bases::{BasesStore, StoreCharge, StoredBases, unix_time_s};
pub use uploads::{
    StoredUpload, UploadHeader, UploadOutcome, UploadStreamGuard, UploadUseGuard, Uploads,
};
