//! How a job follows its payload: pieces in order, as they land.

use std::{ops::Range, sync::Arc};

use zeroize::Zeroizing;

use super::Wake;
use crate::{
    buffer::{Arrival, Listener, Part, Source},
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

    /// The bytes of `range`, where they are; `None` where they have not come yet.
    ///
    /// Errors: what the upload failed with.
    pub fn part(&self, range: Range<u64>) -> Result<Option<Part<'_>>> {
        match Part::landed(&self.arrival, range) {
            None => self.arrival.failure().map_or(Ok(None), Err),
            part => Ok(part),
        }
    }

    /// The same, copied.
    ///
    /// Errors: as above.
    pub fn bytes(&self, range: Range<u64>) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let len = (range.end - range.start) as usize;
        let Some(part) = self.part(range)? else { return Ok(None) };
        let mut bytes = Zeroizing::new(vec![0; len]);
        part.read(0, &mut bytes);
        Ok(Some(bytes))
    }
}
