//! Payload memory: budgeted, filled out of order, limited in fragments, zeroed on release.

mod background_drop;
mod group;
mod pinned;
mod quota;
mod range_set;
mod segment;
mod source_sink;
mod upload_buffer;

pub use background_drop::drop_in_background;
pub use group::lend_pinned;
pub use pinned::{PinnedRead, PinnedWrite};
pub use quota::{Quota, QuotaPermit};
pub use range_set::RangeSet;
pub use source_sink::{ByteSink, ByteSource, PayloadView};
pub use upload_buffer::{ProgressListener, UploadBuffer};
