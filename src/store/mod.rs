//! Data kept between calls: bases, named by content hash; vectors and uploads, by random id.

mod bases;
mod disk;
mod uploads;

pub use bases::{BasesStore, Room, StoredBases, now_s};
pub use uploads::{Header, Outcome, StreamGuard, Upload, Uploads, UseGuard};
