//! The servers of a fleet: which of them are up, and which one serves a key.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use crate::{
    Client, ClientBuilder,
    error::{ClientError, Result},
};

/// A server that is up is asked again after this time while a call waits for it.
const ASKED_EVERY: Duration = Duration::from_secs(2);
/// A server that does not answer for this long while a call waits for it is down. An overloaded one
/// answers late, and would have even more to do if its calls were repeated.
const SILENCE: Duration = Duration::from_secs(10);
/// A server that is down is up once it answers within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
const RECOVERY_PAUSE_FIRST: Duration = Duration::from_millis(100);
const RECOVERY_PAUSE_MAX: Duration = Duration::from_secs(2);
/// A call goes to the next replica if that has fewer calls in progress by this number: it may have
/// to put the bases there first.
const REPLICA_LEAD: usize = 2;

/// A server, as [`super::Fleet::servers`] returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetServer {
    /// Its target.
    pub target: String,
    /// Whether calls may go there.
    pub is_up: bool,
    /// Number of this fleet's calls that it is serving.
    pub calls: usize,
}

pub(super) struct Member {
    builder: ClientBuilder,
    /// `None` until the first connection.
    client: Mutex<Option<Client>>,
    is_up: AtomicBool,
    is_recovering: AtomicBool,
    calls: AtomicUsize,
    /// The last question of [`Self::until_silent`].
    last_answer: tokio::sync::Mutex<Option<Answer>>,
}

struct Answer {
    at: Instant,
    /// Whether there was one.
    is_answer: bool,
}

/// A call of a member, counted until it is dropped.
pub(super) struct MemberCall {
    pub member: Arc<Member>,
    pub client: Client,
}

impl Drop for MemberCall {
    fn drop(&mut self) {
        self.member.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which servers a call may go to.
#[derive(Clone, Copy)]
pub(super) struct Candidates<'a> {
    /// `None` if all servers are equal.
    pub key: Option<&'a [u8]>,
    /// The place of the key's first server in the order of all. Parts of one object have different
    /// places, so that they are on different servers.
    pub place: usize,
    pub replicas: usize,
}

pub(super) struct Members {
    all: RwLock<Vec<Arc<Member>>>,
    /// Notified when a server comes up.
    comes_up: Notify,
}

impl Member {
    fn new(builder: ClientBuilder) -> Arc<Self> {
        let (client, is_up, is_recovering, calls, last_answer) = Default::default();
        Arc::new(Self { builder, client, is_up, is_recovering, calls, last_answer })
    }

    pub fn target(&self) -> &str {
        self.builder.target()
    }

    fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Connects if there is no connection yet, and asks the server whether it takes work.
    async fn try_to_use(&self) -> Result<()> {
        let connected = self.client.lock().clone();
        let client = match connected {
            Some(client) => client,
            None => {
                let client = self.builder.clone().for_fleet().connect().await?;
                self.client.lock().get_or_insert(client).clone()
            }
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.is_draining());
        match answer.await {
            Ok(Ok(false)) => Ok(()),
            Ok(Ok(true)) => Err(self.lost("the server is draining")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.lost("the server does not answer")),
        }
    }

    fn lost(&self, problem: &str) -> ClientError {
        ClientError::cannot_connect(self.target(), problem)
    }

    /// Ends when the server does not answer over a new connection: those of a long upload may be
    /// full. Never ends while it answers. Calls of one server ask together.
    pub async fn until_silent(&self) -> ClientError {
        loop {
            sleep(ASKED_EVERY).await;
            let mut last = self.last_answer.lock().await;
            let is_answer = match &*last {
                Some(last) if last.at.elapsed() < ASKED_EVERY => last.is_answer,
                _ => {
                    let is_answer = self.answers().await;
                    *last = Some(Answer { at: Instant::now(), is_answer });
                    is_answer
                }
            };
            if !is_answer {
                return self.lost("the server does not answer");
            }
        }
    }

    /// Whether the server answers, even if it refuses this caller.
    async fn answers(&self) -> bool {
        let builder = self.builder.clone().connections(1).connect_timeout(SILENCE);
        let silence = |error| {
            matches!(error, ClientError::CannotConnect { .. } | ClientError::ConnectionLost(_))
        };
        !builder.connect().await.is_err_and(silence)
    }
}

impl Members {
    /// Connects to all servers at once.
    ///
    /// Errors: `InvalidSetting` of any server, also if there is none; that of a server if none is
    /// up.
    pub async fn connect(builders: Vec<ClientBuilder>) -> Result<Arc<Self>> {
        let members = Arc::new(Self { all: RwLock::default(), comes_up: Notify::new() });
        members.replace(builders).await?;
        Ok(members)
    }

    /// Replaces the servers. Those with a known target keep their connections.
    pub async fn replace(self: &Arc<Self>, builders: Vec<ClientBuilder>) -> Result<()> {
        if builders.is_empty() {
            return Err(ClientError::setting("servers", "must have at least one"));
        }
        let known = self.all.read().clone();
        let mut all: Vec<Arc<Member>> = Vec::new();
        for builder in builders {
            if all.iter().any(|member| member.target() == builder.target()) {
                continue;
            }
            let old = known.iter().find(|member| member.target() == builder.target()).cloned();
            all.push(old.unwrap_or_else(|| Member::new(builder)));
        }
        let answers = all.iter().map(async |member| match member.is_up() {
            true => Ok(()),
            false => member.try_to_use().await,
        });
        let answers = futures_util::future::join_all(answers).await;
        let mut first_error = None;
        for (member, answer) in all.iter().zip(answers) {
            match answer {
                Ok(()) => member.is_up.store(true, Ordering::Relaxed),
                Err(error @ ClientError::InvalidSetting { .. }) => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error.filter(|_| !all.iter().any(|member| member.is_up())) {
            return Err(error);
        }
        *self.all.write() = all.clone();
        all.iter().filter(|member| !member.is_up()).for_each(|member| self.recover(member));
        self.comes_up.notify_waiters();
        Ok(())
    }

    pub fn list(&self) -> Vec<FleetServer> {
        let server = |member: &Arc<Member>| FleetServer {
            target: member.target().to_owned(),
            is_up: member.is_up(),
            calls: member.calls.load(Ordering::Relaxed),
        };
        self.all.read().iter().map(server).collect()
    }

    pub fn count(&self) -> usize {
        self.all.read().len()
    }

    /// Takes the server that is to serve a call; `None` if none is up.
    pub fn choose(&self, candidates: Candidates<'_>) -> Option<MemberCall> {
        let all = self.all.read();
        let mut order: Vec<_> = all.iter().collect();
        let replicas = match candidates.key {
            Some(key) => {
                order.sort_by_cached_key(|member| score(key, member.target()));
                candidates.replicas
            }
            None => order.len(),
        };
        let count = order.len().max(1);
        order.rotate_left(candidates.place % count);
        let up = order.into_iter().filter(|member| member.is_up()).take(replicas.max(1));
        let lead = if candidates.key.is_some() { REPLICA_LEAD } else { 0 };
        let load = |(rank, member): &(usize, &Arc<Member>)| {
            member.calls.load(Ordering::Relaxed) + lead * rank
        };
        let (_, member) = up.enumerate().min_by_key(load)?;
        let client = member.client.lock().clone()?;
        member.calls.fetch_add(1, Ordering::Relaxed);
        Some(MemberCall { member: member.clone(), client })
    }

    /// Waits until a server comes up, or a little.
    pub async fn wait(&self) {
        tokio::select! {
            () = self.comes_up.notified() => {}
            () = sleep(RECOVERY_PAUSE_FIRST) => {}
        }
    }

    /// No more calls go to a server until it answers again.
    pub fn mark_down(self: &Arc<Self>, member: &Arc<Member>) {
        member.is_up.store(false, Ordering::Relaxed);
        self.recover(member);
    }

    /// Asks a server in the background until it is up or the fleet is dropped.
    fn recover(self: &Arc<Self>, member: &Arc<Member>) {
        if member.is_recovering.swap(true, Ordering::Relaxed) {
            return;
        }
        let (members, member) = (Arc::downgrade(self), Arc::downgrade(member));
        tokio::spawn(recover(members, member));
    }
}

async fn recover(members: Weak<Members>, member: Weak<Member>) {
    let mut pause = RECOVERY_PAUSE_FIRST;
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(RECOVERY_PAUSE_MAX);
        let (Some(members), Some(member)) = (members.upgrade(), member.upgrade()) else { return };
        match member.try_to_use().await {
            Ok(()) => {
                member.is_recovering.store(false, Ordering::Relaxed);
                member.is_up.store(true, Ordering::Relaxed);
                members.comes_up.notify_waiters();
                return;
            }
            Err(error) => tracing::debug!(target = member.target(), %error, "server still down"),
        }
    }
}

/// Rendezvous hashing: the server with the lowest score has the key. If a server is lost, only its
/// keys move.
fn score(key: &[u8], target: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key.len() as u64).to_le_bytes()).update(key).update(target.as_bytes());
    hasher.finalize().into()
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::score;

    /// The servers of a key, best first.
    fn order(key: u64, servers: &[String]) -> Vec<usize> {
        let mut order: Vec<_> = (0..servers.len()).collect();
        order.sort_by_key(|server| score(&key.to_le_bytes(), &servers[*server]));
        order
    }

    #[test]
    fn only_the_keys_of_a_lost_server_move() {
        let servers: Vec<_> = (0..5).map(|number| format!("http://10.0.0.{number}:1")).collect();
        let mut keys = [0; 5];
        for key in 0..5000 {
            let all = order(key, &servers);
            keys[all[0]] += 1;
            // Without the last server, the order of the others is the same.
            let rest: Vec<_> = all.into_iter().filter(|server| *server != 4).collect();
            assert_eq!(order(key, &servers[..4]), rest);
        }
        assert!(keys.iter().all(|keys| (800..1200).contains(keys)), "{keys:?}");
    }
}
