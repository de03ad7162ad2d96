//! The Rust client: arkworks types in and out, over any number of connections.
//!
//! ```no_run
//! # async fn lesson(points: Vec<capstan::curve::G1Affine>, scalars: Vec<capstan::curve::Fr>)
//! # -> Result<(), capstan::client::Error> {
//! use capstan::client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7654").await?;
//! let bases = client.put_bases(&points).await?; // sent once, known by id afterwards
//! let sum = client.msm(&bases, &scalars).await?;
//! # Ok(()) }
//! ```
//!
//! Dropping the future of a call cancels it, here and on the server. Deadlines travel with the
//! call. Calls are repeated by themselves only where the server was not available or full for the
//! moment.
//!
//! - `connect`: targets, TLS, connections. `options`, `types`: what callers choose and get.
//! - `bases`, `vectors`: the store. `msm`, `ntt`: jobs. `blocking`: all of it without async.
//! - `payload`, `upload`, `stripes`, `download`: bytes in chunks over several connections, resumed.
//! - `call`: deadline and retry. `error`: why a call failed. `convert`: from and to messages.

mod bases;
pub mod blocking;
mod call;
mod connect;
mod convert;
mod copying;
mod download;
mod error;
mod msm;
mod ntt;
mod options;
mod payload;
mod stripes;
mod types;
mod upload;
mod vectors;

use std::{sync::Arc, time::Duration};

pub use tonic::Code;

use self::call::Answer;
pub use self::{
    connect::Builder,
    error::{Error, Refusal, Result},
    ntt::NttBytes,
    options::{MsmOptions, NttOptions, Progress, PutOptions, ScalarInput},
    types::{
        BasesHandle, BasesId, BasesInfo, Direction, Execution, Msm, MsmBytes, NttReport, Order,
        Timing, UploadId, VectorInfo, Verify,
    },
};
use crate::wire::v1;
pub use crate::{
    curve::{
        Fr, G1Affine, G1Projective, G2Affine, G2Projective, Group,
        points::{CurvePoint, PointEncoding, ResultEncoding},
        scalars::ScalarEncoding,
    },
    error::Problem,
    wire::v1::{GetInfoResponse, Gpu, MsmPlan},
};

/// A connected client. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<connect::Inner>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {} connections)", self.inner.target, self.inner.channels.len())
    }
}

impl Client {
    /// Connects to `http://host:port`, `https://host:port` or `unix:/path`, with defaults.
    ///
    /// Errors: `Setting`, `Connect`.
    pub async fn connect(target: impl Into<String>) -> Result<Self> {
        Self::builder(target).connect().await
    }

    /// Chooses more before connecting.
    pub fn builder(target: impl Into<String>) -> Builder {
        Builder::new(target.into())
    }

    /// What the server is: version, engine, devices, limits, load.
    pub async fn info(&self) -> Result<GetInfoResponse> {
        self.ask().await
    }

    fn ask(&self) -> Answer<'_, GetInfoResponse> {
        Box::pin(async move {
            let mut call = self.start(None);
            loop {
                let mut admin = self.admin();
                let request = call.request(v1::GetInfoRequest {});
                match call.within(admin.get_info(request)).await {
                    Ok(info) => return Ok(info),
                    Err(error) => call.pause(error).await?,
                }
            }
        })
    }

    /// Takes the server down gently: it refuses new work and exits when accepted jobs are done, at
    /// the latest after `grace` (zero: what the server was configured with). Returns how many jobs
    /// it still has.
    ///
    /// Errors: `Refused`, reason `ADMIN_ONLY`, but for the server's Unix socket.
    pub async fn drain(&self, grace: Duration) -> Result<u32> {
        self.begin_drain(grace).await
    }

    fn begin_drain(&self, grace: Duration) -> Answer<'_, u32> {
        Box::pin(async move {
            let call = self.start(None);
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            let request = call.request(v1::DrainRequest { grace_ms });
            Ok(call.within(self.admin().drain(request)).await?.jobs)
        })
    }
}
