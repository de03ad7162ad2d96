//! The Rust client: takes and returns arkworks types, over one or more connections.
//!
//! ```no_run
//! # async fn lesson(points: Vec<capstan::curve::G1Affine>, scalars: Vec<capstan::curve::Fr>)
//! # -> Result<(), capstan::client::ClientError> {
//! use capstan::client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7654").await?;
//! let bases = client.put_bases(&points).await?; // sent once, then referred to by id
//! let sum = client.msm(&bases, &scalars).await?;
//! # Ok(()) }
//! ```
//!
//! Dropping the future of a call cancels it on both sides. The server enforces the call's deadline,
//! too. Calls are retried only if the server is unavailable or temporarily full.
//!
//! - `connect`: targets, TLS, connections. `options`, `types`: parameters and results of calls.
//! - `bases`, `vectors`: the store. `msm`, `ntt`: jobs. `blocking`: a client without async.
//! - `payload`, `upload`, `striped_upload`, `download`: resumable transfers over several
//!   connections.
//! - `call`: deadlines and retries. `error`: errors. `convert`: conversion from and to messages.

mod bases;
pub mod blocking;
mod call;
mod connect;
mod convert;
mod copy_pool;
mod download;
mod error;
mod msm;
mod ntt;
mod options;
mod payload;
mod striped_upload;
mod types;
mod upload;
mod vectors;

use std::{sync::Arc, time::Duration};

pub use tonic::Code;

use self::call::CallFuture;
pub use self::{
    connect::ClientBuilder,
    error::{ClientError, Refusal, Result},
    ntt::EncodedNttResult,
    options::{MsmOptions, NttOptions, Progress, PutOptions, ScalarInput},
    types::{
        BasesHandle, BasesId, BasesInfo, Direction, EncodedMsmResult, Execution, MsmResult,
        NttReport, Order, Timing, UploadKey, VectorInfo, Verification,
    },
};
use crate::wire::v1;
pub use crate::{
    curve::{
        Fr, G1Affine, G1Projective, G2Affine, G2Projective, Group,
        points::{CurvePoint, PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    error::{FieldProblem, Reason},
    wire::v1::{GetInfoResponse, Gpu, MsmPlan},
};

/// A connected client. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<connect::Connections>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {} connections)", self.inner.target, self.inner.channels.len())
    }
}

impl Client {
    /// Connects to `http://host:port`, `https://host:port` or `unix:/path` with default settings.
    ///
    /// Errors: `InvalidSetting`, `CannotConnect`.
    pub async fn connect(target: impl Into<String>) -> Result<Self> {
        Self::builder(target).connect().await
    }

    /// Returns a builder that configures the connection.
    pub fn builder(target: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(target.into())
    }

    /// Returns the server's version, engine, devices, limits and load.
    pub async fn info(&self) -> Result<GetInfoResponse> {
        self.get_info().await
    }

    fn get_info(&self) -> CallFuture<'_, GetInfoResponse> {
        Box::pin(async move {
            let mut call = self.begin_call(None);
            loop {
                let mut admin = self.admin();
                let request = call.request(v1::GetInfoRequest {});
                match call.response(admin.get_info(request)).await {
                    Ok(info) => return Ok(info),
                    Err(error) => call.wait_before_retry(error).await?,
                }
            }
        })
    }

    /// Drains the server: it refuses new work and exits when accepted jobs are done, at the latest
    /// after `grace` (zero: the server's `drain_grace_s`). Returns the number of unfinished jobs.
    ///
    /// Errors: `Refused` with reason `ADMIN_ONLY` over TCP unless the server sets `admin_over_tcp`.
    pub async fn drain(&self, grace: Duration) -> Result<u32> {
        self.drain_boxed(grace).await
    }

    fn drain_boxed(&self, grace: Duration) -> CallFuture<'_, u32> {
        Box::pin(async move {
            let call = self.begin_call(None);
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            let request = call.request(v1::DrainRequest { grace_ms });
            Ok(call.response(self.admin().drain(request)).await?.jobs)
        })
    }
}
