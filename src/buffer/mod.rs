//! Payload memory: budgeted, filled out of order, limited in fragments, zeroed on release.

mod group;
mod pinned;
mod pool;
mod quota;
mod range_set;
mod region;
mod segment;
mod source_sink;
mod upload_buffer;
mod wiper;

pub use pinned::{PinnedRead, PinnedWrite};
pub use pool::PayloadPool;
pub use quota::{Quota, QuotaPermit};
pub use range_set::RangeSet;
pub use region::{RegionSlice, SharedRegion};
pub use source_sink::{ByteSink, ByteSource, PayloadView, Shifted};
pub use upload_buffer::{ProgressListener, UploadBuffer};
pub use wiper::Wiper;
