//! Uploads in progress, and vectors, which are uploads that are complete.
//!
//! An upload exists from its first header on. Any number of streams may carry pieces of it, one
//! after another or at once; it ends when it is used up, released, given up, or left alone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::StoredBases;
use crate::{
    buffer::{Arrival, Charge, Counter},
    error::{Error, Limit, Problem, Result},
    telemetry,
    wire::decode::{BasesUpload, UploadId, VectorUpload},
};

/// How long an upload without a byte or a stream is kept.
const EMPTY_TTL: Duration = Duration::from_millis(500);

/// What an upload is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// A vector, kept as it came.
    Vector(VectorUpload),
    /// Bases, checked and named by their content.
    Bases(BasesUpload),
}

impl Header {
    /// The id that the client chose.
    pub fn id(&self) -> UploadId {
        match self {
            Self::Vector(vector) => vector.id,
            Self::Bases(bases) => bases.id,
        }
    }

    /// Bytes of the payload.
    ///
    /// Errors: `Invalid` where that many cannot be counted.
    pub fn bytes(&self) -> Result<u64> {
        match self {
            Self::Vector(vector) => vector.bytes(),
            Self::Bases(bases) => bases.bytes(),
        }
    }

    fn streams(&self) -> u32 {
        match self {
            Self::Vector(vector) => vector.streams,
            Self::Bases(bases) => bases.streams,
        }
    }

    /// True where both describe the same payload; a resumed upload may use other streams.
    fn same_payload(&self, other: &Self) -> bool {
        let mut other = other.clone();
        match &mut other {
            Self::Vector(vector) => vector.streams = self.streams(),
            Self::Bases(bases) => bases.streams = self.streams(),
        }
        *self == other
    }
}

/// What an upload became.
#[derive(Clone)]
pub enum Outcome {
    /// The vector is complete; it is the upload itself.
    Vector,
    /// The bases are in the store.
    Bases(Arc<StoredBases>),
}

/// An upload in progress, or a vector.
pub struct Upload {
    /// What it was announced as.
    pub header: Header,
    /// Its bytes.
    pub arrival: Arc<Arrival>,
    streams: Mutex<Streams>,
    outcome: watch::Sender<Option<Result<Outcome>>>,
    _slot: Charge,
}

struct Streams {
    open: u32,
    /// Ended by their sender, all pieces said.
    ended: u32,
    /// Jobs that read it.
    uses: u32,
    /// The call that it was to end with is gone.
    abandoned: bool,
    touched: Instant,
}

impl Upload {
    fn new(header: Header, arrival: Arc<Arrival>, slot: Charge) -> Self {
        let touched = Instant::now();
        let streams = Streams { open: 0, ended: 0, uses: 0, abandoned: false, touched };
        Self {
            header,
            arrival,
            streams: Mutex::new(streams),
            outcome: watch::Sender::new(None),
            _slot: slot,
        }
    }

    /// Registers a stream that carries pieces.
    pub fn attach(self: &Arc<Self>) -> StreamGuard {
        let mut streams = self.streams();
        streams.open += 1;
        streams.abandoned = false;
        StreamGuard { upload: self.clone(), broken: true }
    }

    /// The call that it was to end with is gone. Its caller may come back to it for as long as to
    /// one that broke off, be it complete or not.
    pub fn abandon(&self) {
        let mut streams = self.streams();
        streams.abandoned = true;
        streams.touched = Instant::now();
    }

    /// Says what became of it. The first word stays.
    pub fn conclude(&self, outcome: Result<Outcome>) {
        let failure = outcome.as_ref().err().cloned();
        let first = self.outcome.send_if_modified(|held| {
            let first = held.is_none();
            if first {
                *held = Some(outcome);
            }
            first
        });
        if let Some(failure) = failure.filter(|_| first) {
            self.arrival.fail(failure);
        }
    }

    /// Waits for what becomes of it.
    ///
    /// Errors: what it failed with.
    pub async fn concluded(&self) -> Result<Outcome> {
        let mut outcome = self.outcome.subscribe();
        let concluded = outcome.wait_for(Option::is_some).await;
        concluded.ok().and_then(|outcome| outcome.clone()).unwrap_or(Err(Error::Cancelled))
    }

    /// Registers a job that reads it: a vector is not idle meanwhile.
    pub fn begin_use(self: &Arc<Self>) -> UseGuard {
        self.streams().uses += 1;
        UseGuard { upload: self.clone() }
    }

    /// Takes in a piece.
    ///
    /// Errors: as [`Arrival::write`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        let fresh = self.arrival.write(offset, bytes)?;
        self.check_complete();
        Ok(fresh)
    }

    /// A vector is concluded by its last byte; bases by whoever checks them.
    fn check_complete(&self) {
        if matches!(self.header, Header::Vector(_)) && self.arrival.is_complete() {
            self.conclude(Ok(Outcome::Vector));
        }
    }

    fn idle_for(&self, now: Instant) -> Option<Duration> {
        let streams = self.streams();
        // A job that follows an arrival which nobody carries on must not wait for ever.
        let used = streams.open > 0 || streams.uses > 0 && self.arrival.is_complete();
        (!used).then(|| now.saturating_duration_since(streams.touched))
    }

    /// How long it is kept while nobody uses it.
    fn ttl(&self, broken: Duration, vector: Duration) -> Duration {
        match self.arrival.received() {
            _ if self.arrival.is_complete() && !self.streams().abandoned => vector,
            0 => broken.min(EMPTY_TTL),
            _ => broken,
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that carries pieces of an upload. Dropping it without [`StreamGuard::ended`] means that
/// it broke, and its sender may come back.
pub struct StreamGuard {
    upload: Arc<Upload>,
    broken: bool,
}

impl StreamGuard {
    /// What the stream carries.
    pub fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    /// The sender has said all its pieces. If all streams have and bytes are missing, the upload is
    /// truncated.
    pub fn ended(mut self) {
        self.broken = false;
        let upload = self.upload.clone();
        let all_said = {
            let mut streams = upload.streams();
            streams.ended += 1;
            streams.open == 1 && streams.ended >= upload.header.streams()
        };
        if all_said && !upload.arrival.is_complete() {
            let (expected, got) = (upload.arrival.len(), upload.arrival.received());
            let problem = Problem::Length { expected, got };
            upload.conclude(Err(Error::field("chunk", problem)));
        }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let mut streams = self.upload.streams();
        streams.open -= 1;
        streams.touched = Instant::now();
        if self.broken {
            // The sender will come back with as many streams as it announces, counted anew.
            streams.ended = 0;
        }
    }
}

/// A job that reads an upload.
pub struct UseGuard {
    upload: Arc<Upload>,
}

impl UseGuard {
    /// What is read.
    pub fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        let mut streams = self.upload.streams();
        streams.uses -= 1;
        streams.touched = Instant::now();
    }
}

/// All uploads and vectors.
pub struct Uploads {
    all: Mutex<HashMap<UploadId, Arc<Upload>>>,
    slots: Arc<Counter>,
}

impl Uploads {
    /// Room for `uploads_max`.
    pub fn new(uploads_max: u64) -> Self {
        let slots = Counter::new(Limit::Uploads, uploads_max);
        Self { all: Mutex::default(), slots }
    }

    /// The upload of that header: the one that is under way, or a new one, for which `admit` is
    /// asked. True where it is new.
    ///
    /// Errors: `UploadConflict` where the id is in use with another header; `Exhausted`; what
    /// `admit` says.
    pub fn open(
        &self,
        header: &Header,
        admit: impl FnOnce(u64) -> Result<Vec<Charge>>,
    ) -> Result<(Arc<Upload>, bool)> {
        let mut all = self.all();
        if let Some(upload) = all.get(&header.id()) {
            return match upload.header.same_payload(header) {
                true => Ok((upload.clone(), false)),
                false => Err(Error::UploadConflict),
            };
        }
        let slot = self.slot()?;
        let bytes = header.bytes()?;
        let arrival = Arc::new(Arrival::new(bytes, admit(bytes)?));
        let upload = Arc::new(Upload::new(header.clone(), arrival, slot));
        upload.check_complete();
        all.insert(header.id(), upload.clone());
        Ok((upload, true))
    }

    /// Takes in a vector that the server made.
    ///
    /// Errors: `Exhausted`; `UploadConflict` where the id is in use.
    pub fn insert(&self, vector: VectorUpload, arrival: Arc<Arrival>) -> Result<()> {
        let (id, slot) = (vector.id, self.slot()?);
        let upload = Arc::new(Upload::new(Header::Vector(vector), arrival, slot));
        upload.check_complete();
        let mut all = self.all();
        if all.contains_key(&id) {
            return Err(Error::UploadConflict);
        }
        all.insert(id, upload);
        Ok(())
    }

    fn slot(&self) -> Result<Charge> {
        self.slots.take(1).inspect_err(telemetry::refused)
    }

    /// An upload or vector by id.
    ///
    /// Errors: `NotFound`.
    pub fn get(&self, id: UploadId) -> Result<Arc<Upload>> {
        let upload = self.all().get(&id).cloned().ok_or(Error::NotFound)?;
        upload.streams().touched = Instant::now();
        Ok(upload)
    }

    /// Forgets an upload; one that is not complete is given up with `Cancelled`. Jobs that run on
    /// it keep it.
    ///
    /// Errors: `NotFound`.
    pub fn release(&self, id: UploadId) -> Result<()> {
        let upload = self.all().remove(&id).ok_or(Error::NotFound)?;
        upload.conclude(Err(Error::Cancelled));
        Ok(())
    }

    /// Forgets an upload if it still is that one.
    pub fn remove(&self, upload: &Arc<Upload>) {
        let mut all = self.all();
        if all.get(&upload.header.id()).is_some_and(|held| Arc::ptr_eq(held, upload)) {
            all.remove(&upload.header.id());
        }
    }

    /// Gives up what nobody has used for a while: uploads that are incomplete or abandoned after
    /// `broken`, vectors after `vector`, and very soon what has no byte, for there is nothing to
    /// resume: a header can come after its client gave up and released it over another connection.
    /// Returns how many.
    pub fn sweep(&self, broken: Duration, vector: Duration) -> usize {
        let now = Instant::now();
        let mut stale = Vec::new();
        self.all().retain(|_, upload| {
            let ttl = upload.ttl(broken, vector);
            let keep = upload.idle_for(now).is_none_or(|idle| idle < ttl);
            if !keep {
                stale.push((upload.clone(), ttl));
            }
            keep
        });
        for (upload, ttl) in &stale {
            upload.conclude(Err(Error::Idle(*ttl)));
        }
        stale.len()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.slots.used()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<UploadId, Arc<Upload>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
