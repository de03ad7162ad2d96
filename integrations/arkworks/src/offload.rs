//! Servers and their settings.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use capstan::client::{
    BasesHandle, ClientError, CurvePoint, MsmOptions, PutOptions, ScalarInput, Verification,
    blocking::BlockingClient,
};
use parking_lot::Mutex;
use tracing::warn;

use crate::{
    keys::{BasesSlice, PinnedKey},
    pins::{G1_PINS, G2_PINS, PinTable, PinnedBases},
};

const THREAD_NAME: &str = "capstan-offload";

/// How MSMs are sent to a server.
#[derive(Debug, Clone)]
pub struct OffloadOptions {
    /// MSMs over fewer bases run locally, and slices with fewer bases are not pinned. The default
    /// is 4096: from there on, a call over 10 Gbit/s is faster than 16 local cores (README of
    /// Capstan, "Remote against local").
    pub msm_min: usize,
    /// Time limit of one MSM, retries included; then it runs locally. 30 s by default.
    pub deadline: Duration,
    /// After a failure, all MSMs run locally for this time, so that a prover waits for a server
    /// that is down only once. 30 s by default.
    pub pause: Duration,
    /// How the server checks sums before it sends them; not at all by default.
    pub verify: Verification,
    /// Store pinned bases in the server's data directory, so that they survive its restart.
    pub persist: bool,
}

impl Default for OffloadOptions {
    fn default() -> Self {
        Self {
            msm_min: 4096,
            deadline: Duration::from_secs(30),
            pause: Duration::from_secs(30),
            verify: Verification::None,
            persist: false,
        }
    }
}

/// Why bases could not be pinned. Never contains scalars.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// The call failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system has no thread left for the call.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The server sent another number of sums than one.
    #[error("the server sent {0} sums, expected one")]
    SumCount(usize),
    /// The client panicked. The panic's message was printed.
    #[error("the client panicked")]
    Panicked,
}

/// A server that computes MSMs of this process. Cheap to clone.
#[derive(Clone)]
pub struct Offload(Arc<Server>);

impl Offload {
    pub(crate) fn new(client: BlockingClient, options: OffloadOptions) -> Self {
        Self(Arc::new(Server { client: Some(client), options, failed_at: Mutex::new(None) }))
    }

    /// Puts the points of `key` on the server, which checks each of them, and sends MSMs over them
    /// there as long as the returned value lives. Points that the server already has are not sent
    /// again. Slices with fewer than [`OffloadOptions::msm_min`] points are left out.
    ///
    /// Errors: those of `Client::put_bases`. Nothing is pinned then, but bases that the server
    /// has accepted stay there.
    pub fn pin<'a, K: PinnedKey + ?Sized>(
        &self,
        key: &'a K,
    ) -> Result<PinnedBases<'a>, OffloadError> {
        let pinned = PinnedBases::new();
        for bases in key.bases() {
            match bases {
                BasesSlice::G1(points) => self.pin_slice(&G1_PINS, pinned.pin(), points)?,
                BasesSlice::G2(points) => self.pin_slice(&G2_PINS, pinned.pin(), points)?,
            }
        }
        Ok(pinned)
    }

    fn pin_slice<A: CurvePoint>(
        &self,
        table: &PinTable<A>,
        pin: u64,
        points: &[A],
    ) -> Result<(), OffloadError> {
        if points.is_empty() || points.len() < self.0.options.msm_min {
            return Ok(());
        }
        let handle = self.0.put(points)?;
        table.insert(pin, points, handle, self.0.clone());
        Ok(())
    }
}

/// A server, and whether it failed shortly before.
pub(crate) struct Server {
    /// Taken by `drop`.
    client: Option<BlockingClient>,
    options: OffloadOptions,
    failed_at: Mutex<Option<Instant>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let client = self.client.take();
        // The client's runtime panics if it is dropped on a thread of another runtime.
        let _ = thread::Builder::new().name(THREAD_NAME.into()).spawn(move || drop(client));
    }
}

impl Server {
    fn client(&self) -> &BlockingClient {
        self.client.as_ref().expect("only `drop` takes the client")
    }

    /// Whether MSMs over `len` bases are to be sent now.
    pub fn takes(&self, len: usize) -> bool {
        let is_paused = self.failed_at.lock().is_some_and(|at| at.elapsed() < self.options.pause);
        len > 0 && len >= self.options.msm_min && !is_paused
    }

    /// Logs the failure of a call and begins a pause.
    pub fn pause_after(&self, error: &OffloadError) {
        *self.failed_at.lock() = Some(Instant::now());
        let pause_ms = self.options.pause.as_millis() as u64;
        warn!(%error, pause_ms, "an offloaded MSM failed and runs locally");
    }

    pub fn msm<A: CurvePoint>(
        &self,
        bases: &BasesHandle<A>,
        scalars: ScalarInput<'_>,
    ) -> Result<A::Group, OffloadError> {
        let (verify, deadline) = (self.options.verify, Some(self.options.deadline));
        let options = MsmOptions { verify, deadline, ..Default::default() };
        let result = on_own_thread(|| self.client().msm_with(bases, scalars, options))?;
        match result.points.as_slice() {
            [sum] => Ok(*sum),
            sums => Err(OffloadError::SumCount(sums.len())),
        }
    }

    fn put<A: CurvePoint>(&self, points: &[A]) -> Result<BasesHandle<A>, OffloadError> {
        let options = PutOptions { persist: self.options.persist, ..Default::default() };
        on_own_thread(|| self.client().put_bases_with(options, points))
    }
}

/// Runs a call of the blocking client. Provers also run on threads of async runtimes, on which the
/// client would panic; and a panic here must not end a prover.
fn on_own_thread<T: Send>(
    call: impl FnOnce() -> Result<T, ClientError> + Send,
) -> Result<T, OffloadError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(THREAD_NAME.into());
        let answer = thread.spawn_scoped(scope, call)?.join();
        Ok(answer.map_err(|_panic| OffloadError::Panicked)??)
    })
}
