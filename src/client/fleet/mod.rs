//! One client of many servers. A separate type, because a [`Client`] belongs to one server, as do
//! its vectors, shared memory and limits. A [`Fleet`] chooses among clients and adds what needs
//! several.
//!
//! - `members`: the servers, their health, and rendezvous hashing.
//! - `calls`: calls that move to another server.
//! - `bases`: bases on one server, on replicas, or cut over several. `msm`, `ntt`: jobs on one or
//!   several servers. `slices`: parts of scalars. `programs`: programs of objects that a fleet
//!   holds.

mod bases;
mod calls;
mod members;
mod msm;
mod ntt;
mod programs;
mod slices;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use self::members::Members;
pub use self::{bases::FleetBases, members::FleetServer};
use super::{ClientBuilder, error::Result};

const PATIENCE: Duration = Duration::from_secs(30);

/// A client of several servers that share nothing. Bases go to the server that a hash of their id
/// chooses (rendezvous hashing), jobs go to the server that has their bases, and both move to
/// another server if theirs is lost or drains: that costs time, but never a result. A call that
/// has no answer is repeated, so a server may compute a job whose result nobody reads.
///
/// Cheap to clone; clones share the connections.
///
/// ```no_run
/// # async fn lesson(points: Vec<capstan::curve::G1Affine>, scalars: Vec<capstan::curve::Fr>)
/// # -> Result<(), capstan::client::ClientError> {
/// use capstan::client::{Client, Fleet};
///
/// let servers = ["http://10.0.0.1:7654", "http://10.0.0.2:7654", "http://10.0.0.3:7654"];
/// let fleet = Fleet::builder(servers.map(Client::builder)).replicas(2).connect().await?;
/// let bases = fleet.put_bases(points).await?;
/// let sum = fleet.msm(&bases, &scalars).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<FleetParts>,
}

struct FleetParts {
    members: Arc<Members>,
    replicas: usize,
    deadline: Option<Duration>,
    patience: Duration,
    /// The place of the next call without a key.
    next_place: AtomicUsize,
}

/// Configures a [`Fleet`].
#[derive(Clone)]
pub struct FleetBuilder {
    servers: Vec<ClientBuilder>,
    replicas: usize,
    deadline: Option<Duration>,
    patience: Duration,
}

impl Fleet {
    /// Connects to servers with default settings.
    ///
    /// Errors: those of [`FleetBuilder::connect`].
    pub async fn connect(servers: impl IntoIterator<Item = ClientBuilder>) -> Result<Self> {
        Self::builder(servers).connect().await
    }

    /// Returns a builder that configures the fleet. Each server has its own settings. For a DNS
    /// name with several addresses, pass what [`ClientBuilder::resolve`] returns.
    pub fn builder(servers: impl IntoIterator<Item = ClientBuilder>) -> FleetBuilder {
        FleetBuilder {
            servers: servers.into_iter().collect(),
            replicas: 1,
            deadline: None,
            patience: PATIENCE,
        }
    }

    /// The servers, with their state at the moment.
    pub fn servers(&self) -> Vec<FleetServer> {
        self.inner.members.list()
    }

    /// Replaces the servers, after a DNS name has got other addresses for example. Servers with the
    /// same target keep their connections; calls on the others end undisturbed.
    ///
    /// Errors: those of [`FleetBuilder::connect`]; the servers are then the same as before.
    pub async fn set_servers(
        &self,
        servers: impl IntoIterator<Item = ClientBuilder>,
    ) -> Result<()> {
        self.inner.members.replace(servers.into_iter().collect()).await
    }
}

impl FleetBuilder {
    /// How many servers may serve the same bases: 1 by default. A call goes to the next of them,
    /// which gets the bases first, if it has clearly fewer of the fleet's calls in progress.
    /// Batches of several vectors are spread over all of them.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas.max(1);
        self
    }

    /// Time limit of each call, moves to other servers included, unless the call's options set one.
    /// Unlimited by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long a call waits while no server is up: 30 s by default.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Connects to all servers. Those that are down are used once they are up.
    ///
    /// Errors: `InvalidSetting` if a server's settings are unusable or there is no server; the
    /// error of the first one if none is up.
    pub async fn connect(self) -> Result<Fleet> {
        let Self { servers, replicas, deadline, patience } = self;
        let members = Members::connect(servers).await?;
        let next_place = AtomicUsize::new(0);
        let parts = FleetParts { members, replicas, deadline, patience, next_place };
        Ok(Fleet { inner: Arc::new(parts) })
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fleet({:?})", self.inner.members)
    }
}
