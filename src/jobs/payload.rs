//! How a job follows its payload: pieces in order, as they land.

use std::{ops::Range, sync::Arc};

use zeroize::Zeroizing;

use super::Wake;
use crate::{
    buffer::{Arrival, Listener},
    error::Result,
};

/// A payload and the job's ear on it.
pub struct Payload {
    arrival: Arc<Arrival>,
    _listener: Arc<Listener>,
}

impl Payload {
    /// Follows `arrival`, waking the job when something happens to it.
    pub fn new(arrival: Arc<Arrival>, wake: Wake) -> Self {
        let listener: Arc<Listener> = Arc::new(move || wake.wake());
        arrival.listen(&listener);
        Self { arrival, _listener: listener }
    }

    /// True where [`Payload::take`] has an answer.
    pub fn ready(&self, range: Range<u64>) -> bool {
        self.arrival.has(range) || self.arrival.failure().is_some()
    }

    /// The bytes of `range`, in `buffer`; `None` where they have not come yet.
    ///
    /// Errors: what the upload failed with.
    pub fn take(
        &self,
        range: Range<u64>,
        mut buffer: Zeroizing<Vec<u8>>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        if !self.arrival.has(range.clone()) {
            return self.arrival.failure().map_or(Ok(None), Err);
        }
        buffer.resize((range.end - range.start) as usize, 0);
        self.arrival.read(range.start, &mut buffer);
        Ok(Some(buffer))
    }
}
