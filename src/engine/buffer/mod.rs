//! Payload memory: budgeted, filled out of order, limited in fragments, zeroed on release.

mod byte_size;
mod outgoing;
mod payload_memory;
mod payload_view;
mod pool;
mod quota;
mod range_set;
mod region;
mod source_sink;
mod system_limit;
mod upload_buffer;
mod wiper;

pub use byte_size::ByteSize;
pub use payload_view::PayloadView;
pub use pool::{PayloadPool, payload_file_bytes};
pub use quota::{Quota, QuotaPermit};
pub use range_set::RangeSet;
pub use region::{RegionSlice, SharedRegion};
pub use source_sink::{
    ByteSink, ByteSource, DestinationSlices, SharedPiece, Shifted, SourceSlices,
};
pub use system_limit::no_memory;
pub use upload_buffer::{ProgressListener, UploadBuffer};
pub use wiper::Wiper;
