//! One upload: its header, its payload, and the streams and jobs that use it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{header::UploadHeader, slot::UploadSlot};
use crate::{
    buffer::{Quota, QuotaPermit, UploadBuffer},
    error::{EngineError, Error, FieldProblem, Limit, Result},
    store::StoredObject,
    sync::Mutex,
    telemetry,
    tenant::TenantId,
    wire::decode::{UploadContent, VectorUploadHeader},
};

/// How long an upload without a byte and without a stream is kept.
const EMPTY_TTL: Duration = Duration::from_millis(500);
/// An upload with open streams is kept this many times longer: each stream is timed separately, and
/// ended if it is too slow, but new ones could follow for ever.
const STREAMED_TTLS: u32 = 3;

#[derive(Clone)]
pub enum UploadOutcome {
    /// The vector is complete. The upload itself holds it.
    Vector,
    /// The object is in the store.
    Object(Arc<StoredObject>),
}

/// Limits of each upload.
#[derive(Clone, Copy)]
pub struct UploadLimits {
    /// Streams that carry it at the same time.
    pub streams_max: u64,
    /// An incomplete upload is renewed only by bytes that arrive at this rate.
    pub bytes_per_second_min: u64,
}

pub struct StoredUpload {
    pub header: UploadHeader,
    pub payload: Arc<UploadBuffer>,
    bytes_per_second_min: u64,
    streams: Mutex<UploadStreams>,
    /// Open streams.
    stream_slots: Arc<Quota>,
    outcome: watch::Sender<Option<Result<UploadOutcome>>>,
    slot: UploadSlot,
}

struct UploadStreams {
    open: u32,
    /// Streams that their senders ended properly.
    ended: u32,
    /// Jobs that read the upload.
    uses: u32,
    /// The call that would have ended the upload is gone.
    is_abandoned: bool,
    /// The idle time begins here.
    last_use: Instant,
    /// Bytes received until then.
    received: u64,
}

impl StoredUpload {
    pub(super) fn new(
        header: UploadHeader,
        payload: Arc<UploadBuffer>,
        slot: UploadSlot,
        UploadLimits { streams_max, bytes_per_second_min }: UploadLimits,
    ) -> Self {
        let last_use = Instant::now();
        let received = 0;
        let streams =
            UploadStreams { open: 0, ended: 0, uses: 0, is_abandoned: false, last_use, received };
        let upload = Self {
            header,
            payload,
            bytes_per_second_min,
            streams: Mutex::new(streams),
            stream_slots: Quota::new(Limit::UploadStreams, streams_max),
            outcome: watch::Sender::new(None),
            slot,
        };
        upload.conclude_if_complete();
        upload
    }

    /// The header of a vector.
    ///
    /// Errors: `Mismatch` if the upload is of another object.
    pub fn vector(&self) -> Result<&VectorUploadHeader> {
        match &self.header {
            UploadHeader::Vector(vector) => Ok(vector),
            UploadHeader::Object(object) => {
                let held = match object.content {
                    UploadContent::Bases(_) => "an unfinished upload of bases".into(),
                    UploadContent::Matrix(_) => "an unfinished upload of a matrix".into(),
                };
                Err(Error::Mismatch { held, needed: "a vector".into() })
            }
        }
    }

    /// Begins a stream that carries chunks of the upload.
    ///
    /// Errors: `Exhausted` if too many are open.
    pub fn begin_stream(self: &Arc<Self>) -> Result<UploadStreamGuard> {
        let slot = self.stream_slots.acquire(1).inspect_err(telemetry::count_refusal)?;
        let mut streams = self.streams.lock();
        streams.open += 1;
        streams.is_abandoned = false;
        Ok(UploadStreamGuard { upload: self.clone(), is_open: true, _slot: slot })
    }

    pub(super) fn tenant(&self) -> TenantId {
        self.slot.tenant
    }

    /// Resets the idle time of a complete upload. That of an incomplete one is reset only if bytes
    /// have arrived since it began, at the least rate or faster: so nobody keeps the memory of an
    /// upload without sending it.
    fn renew(&self, streams: &mut UploadStreams) {
        let now = Instant::now();
        let received = self.payload.received();
        let elapsed = now.saturating_duration_since(streams.last_use).as_secs_f64();
        let fresh = received.saturating_sub(streams.received);
        let is_fast = fresh > 0 && fresh as f64 >= elapsed * self.bytes_per_second_min as f64;
        if is_fast || self.payload.is_complete() {
            streams.last_use = now;
            streams.received = received;
        }
    }

    /// Resets the idle time: see [`Self::renew`].
    pub(super) fn touch(&self) {
        self.renew(&mut self.streams.lock());
    }

    /// Records that the call that would have ended the upload is gone. Complete or not, the upload
    /// is then kept as long as a broken one, so that the caller can resume.
    pub fn mark_abandoned(&self) {
        let mut streams = self.streams.lock();
        streams.is_abandoned = true;
        self.renew(&mut streams);
    }

    /// Sets the outcome. Later calls have no effect.
    pub fn set_outcome(&self, outcome: Result<UploadOutcome>) {
        let failure = outcome.as_ref().err().cloned();
        let is_first = self.outcome.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(outcome);
            is_first
        });
        if let Some(failure) = failure.filter(|_| is_first) {
            self.payload.fail(match failure {
                Error::Engine(failure) => failure,
                // Its writers get the outcome: see `or_failure`.
                _ => EngineError::Cancelled,
            });
        }
    }

    /// What writers get: the upload's failure, or else the error of the write.
    fn or_failure(&self, error: EngineError) -> Error {
        let failure =
            self.outcome.borrow().as_ref().and_then(|outcome| outcome.as_ref().err().cloned());
        failure.unwrap_or(error.into())
    }

    pub async fn concluded(&self) -> Result<UploadOutcome> {
        let mut outcome = self.outcome.subscribe();
        let concluded = outcome.wait_for(Option::is_some).await;
        concluded.ok().and_then(|outcome| outcome.clone()).unwrap_or(Err(Error::CANCELLED))
    }

    /// Registers a job that reads the upload, so that a complete vector is not idle.
    pub fn begin_use(self: &Arc<Self>) -> UploadUseGuard {
        self.streams.lock().uses += 1;
        UploadUseGuard { upload: self.clone() }
    }

    /// Writes a chunk and returns how many of its bytes are new.
    ///
    /// Errors: those of [`Self::write_piece`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        self.write_piece(offset, bytes, 0)
    }

    /// Writes a piece of a chunk, of which `rest` bytes follow, and returns how many of the bytes
    /// are new. A chunk that exceeds the payload is refused at its first piece.
    ///
    /// Errors: like [`UploadBuffer::write`]; `Invalid` if the payload lies in a region.
    pub fn write_piece(&self, offset: u64, bytes: &[u8], rest: u64) -> Result<u64> {
        if self.payload.is_in_region() {
            return Err(Error::field("message.chunk", FieldProblem::OutOfRange));
        }
        let end = offset.checked_add((bytes.len() as u64).saturating_add(rest));
        let max = self.payload.len();
        if end.is_none_or(|end| end > max) {
            return Err(Error::field("chunk", FieldProblem::TooLarge { max }));
        }
        let fresh = self.payload.write(offset, bytes).map_err(|error| self.or_failure(error))?;
        self.conclude_if_complete();
        Ok(fresh)
    }

    /// Receives what the client has written to a region, and returns how many of these bytes are
    /// new.
    ///
    /// Errors: like [`UploadBuffer::receive_written`]; `Invalid` if the payload lies in no region.
    pub fn receive_written(&self, offset: u64, len: u64) -> Result<u64> {
        if !self.payload.is_in_region() {
            return Err(Error::field("message.written", FieldProblem::OutOfRange));
        }
        let fresh =
            self.payload.receive_written(offset, len).map_err(|error| self.or_failure(error))?;
        self.conclude_if_complete();
        Ok(fresh)
    }

    /// Concludes a complete vector. Objects are concluded by their import job.
    fn conclude_if_complete(&self) {
        if matches!(self.header, UploadHeader::Vector(_)) && self.payload.is_complete() {
            self.set_outcome(Ok(UploadOutcome::Vector));
        }
    }

    /// `None` for a complete upload that a stream or a job uses. An incomplete one is idle while
    /// too few bytes arrive: neither jobs that wait for it nor streams keep it. `late` is how late
    /// the server is: as much time does not count, now or later.
    pub(super) fn idle_for(&self, now: Instant, late: Duration) -> Option<Duration> {
        let mut streams = self.streams.lock();
        streams.last_use = now.min(streams.last_use + late);
        match self.payload.is_complete() {
            true if streams.open > 0 || streams.uses > 0 => return None,
            false if streams.open > 0 => self.renew(&mut streams),
            _ => {}
        }
        Some(now.saturating_duration_since(streams.last_use))
    }

    pub(super) fn ttl(&self, broken_ttl: Duration, vector_ttl: Duration) -> Duration {
        let streams = self.streams.lock();
        match self.payload.received() {
            _ if self.payload.is_complete() && !streams.is_abandoned => vector_ttl,
            _ if streams.open > 0 => broken_ttl * STREAMED_TTLS,
            0 => broken_ttl.min(EMPTY_TTL),
            _ => broken_ttl,
        }
    }
}

/// A stream that carries chunks of an upload. If it is dropped without [`UploadStreamGuard::end`],
/// the stream broke, and its sender may resume the upload.
pub struct UploadStreamGuard {
    upload: Arc<StoredUpload>,
    is_open: bool,
    _slot: QuotaPermit,
}

impl UploadStreamGuard {
    pub fn upload(&self) -> &Arc<StoredUpload> {
        &self.upload
    }

    /// Ends the stream properly. If all streams have ended and bytes are missing, the upload fails.
    pub fn end(mut self) {
        self.is_open = false;
        let upload = &self.upload;
        let all_ended = {
            // At once, so that one of two streams that end at the same time sees that both have.
            let mut streams = upload.streams.lock();
            streams.open -= 1;
            upload.renew(&mut streams);
            streams.ended += 1;
            streams.open == 0 && streams.ended >= upload.header.streams()
        };
        if all_ended && !upload.payload.is_complete() {
            let (expected, got) = (upload.payload.len(), upload.payload.received());
            let problem = FieldProblem::Length { expected, got };
            upload.set_outcome(Err(Error::field("chunk", problem)));
        }
    }
}

impl Drop for UploadStreamGuard {
    fn drop(&mut self) {
        if self.is_open {
            let mut streams = self.upload.streams.lock();
            streams.open -= 1;
            self.upload.renew(&mut streams);
            // If the sender resumes, its streams are counted from zero.
            streams.ended = 0;
        }
    }
}

pub struct UploadUseGuard {
    upload: Arc<StoredUpload>,
}

impl UploadUseGuard {
    pub fn upload(&self) -> &Arc<StoredUpload> {
        &self.upload
    }
}

impl Drop for UploadUseGuard {
    fn drop(&mut self) {
        let mut streams = self.upload.streams.lock();
        streams.uses -= 1;
        self.upload.renew(&mut streams);
    }
}
