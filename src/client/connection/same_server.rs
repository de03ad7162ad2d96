//! The server that the connections of a client reach. Behind a load balancer, they may reach
//! several, which do not know each other's uploads and bases.
//!
//! Some balancers choose a server for each connection, others for each call by its key. In the
//! first case, connections that reach another server than the first one are not used. In the second
//! case, all connections are equal. Which case it is is found out, not configured: when a
//! connection shows another server than the first one, the client asks both connections with the
//! same key. Equal answers mean that calls are routed by their keys.
//!
//! Lanes name the server that they expect, so a lane on a wrong server is refused by the server.
//! The client could not notice it in time: the response to an upload comes at its end, and a server
//! with some of the chunks would wait for the others.

use std::{
    process,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use capstan_math::error::Reason;
use parking_lot::RwLock;
use tokio::time::timeout;
use tonic::{
    Request, Status, body::Body, codegen::http, metadata::MetadataMap, transport::Channel,
};

use super::affinity::CallRoute;
use crate::wire::{
    INSTANCE_HEADER, OTHER_SERVER, refusal,
    v1::{self, store_client::StoreClient},
};

const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The server of the first connection, and which other connections reach it.
pub(crate) struct SameServer {
    /// `None` until the first connection has a response that names its server.
    instance: RwLock<Option<http::HeaderValue>>,
    /// One per connection.
    is_elsewhere: Vec<AtomicBool>,
    /// Whether a balancer chooses a server for each call.
    is_routed: AtomicBool,
    first: OnceLock<Channel>,
    /// The key of all questions.
    key: CallRoute,
    /// The process that opened the connections.
    pub process: u32,
}

/// What a response says about its connection.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Expected,
    /// Another server than that of the first connection.
    Differs,
}

impl SameServer {
    pub fn new(connections: usize, key: CallRoute) -> Self {
        let is_elsewhere = (0..connections).map(|_| AtomicBool::new(false)).collect();
        let (instance, is_routed, first) = Default::default();
        Self { instance, is_elsewhere, is_routed, first, key, process: process::id() }
    }

    /// The status of all calls if this process is a fork of the one that opened the connections.
    pub fn refusal_in_fork(&self) -> Option<Status> {
        let problem = "the client belongs to the parent process: connect again after a fork";
        (self.process != process::id()).then(|| Status::failed_precondition(problem))
    }

    /// Sets the first connection.
    pub fn set_first(&self, channel: &Channel) {
        // It is set once.
        let _ = self.first.set(channel.clone());
    }

    /// The server of the first connection, if that names itself.
    pub fn instance(&self) -> Option<http::HeaderValue> {
        self.instance.read().clone()
    }

    /// Whether calls with different keys may reach different servers over one connection.
    pub fn is_routed(&self) -> bool {
        self.is_routed.load(Ordering::Relaxed)
    }

    /// The key of calls that find out which server a connection reaches.
    pub fn key(&self) -> &CallRoute {
        &self.key
    }

    /// The connection to use for lane `lane`: the first one instead of one that reaches another
    /// server.
    pub fn connection(&self, lane: usize) -> usize {
        let connection = lane % self.is_elsewhere.len();
        if self.is_elsewhere[connection].load(Ordering::Relaxed) { 0 } else { connection }
    }

    fn find(&self, connection: usize, found: &http::HeaderValue) -> Finding {
        if self.is_routed() || self.instance.read().as_ref() == Some(found) {
            return Finding::Expected;
        }
        if connection == 0 {
            self.move_to(found);
            return Finding::Expected;
        }
        if self.instance.read().is_some() { Finding::Differs } else { Finding::Expected }
    }

    /// The first connection reaches another server from now on: the others may have moved with it.
    fn move_to(&self, instance: &http::HeaderValue) {
        *self.instance.write() = Some(instance.clone());
        self.is_elsewhere.iter().for_each(|lane| lane.store(false, Ordering::Relaxed));
    }

    /// Concludes from what the first connection and another one answer to the same question, after
    /// a call has found `found` on the other one. Returns whether that call's response counts.
    fn conclude(
        &self,
        connection: usize,
        found: &http::HeaderValue,
        [first, other]: [Option<http::HeaderValue>; 2],
    ) -> bool {
        let (Some(first), Some(other)) = (first, other) else { return false };
        if first != other {
            self.is_elsewhere[connection].store(true, Ordering::Relaxed);
            return false;
        }
        self.move_to(&first);
        if first != *found {
            self.is_routed.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Replaces a response that a wrong server sent by an error after which the call is repeated.
    pub async fn check(
        &self,
        connection: usize,
        channel: &Channel,
        sent: &SentHeaders,
        response: http::Response<Body>,
    ) -> http::Response<Body> {
        let Some(found) = response.headers().get(INSTANCE_HEADER).cloned() else { return response };
        if self.find(connection, &found) == Finding::Differs {
            let questions = async {
                let first = self.first.get().unwrap_or(channel);
                tokio::join!(self.ask(first, sent), self.ask(channel, sent))
            };
            let answers = timeout(QUESTION_TIMEOUT, questions).await.unwrap_or_default();
            if !self.conclude(connection, &found, answers.into()) {
                return Status::unavailable("a connection has reached another server").into_http();
            }
        }
        // Servers that know this metadata have refused the call.
        if sent.instance.as_ref().is_some_and(|wanted| *wanted != found) {
            return other_server().into_http();
        }
        response
    }

    /// The server that a connection reaches with the key of all questions.
    async fn ask(&self, channel: &Channel, sent: &SentHeaders) -> Option<http::HeaderValue> {
        let id = Some(v1::stat_request::Id::UploadId(Bytes::new()));
        let mut request = Request::new(v1::StatRequest { id });
        let mut headers = http::HeaderMap::new();
        self.key.add_to(&mut headers);
        if let Some(authorization) = &sent.authorization {
            headers.insert(http::header::AUTHORIZATION, authorization.clone());
        }
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        // No upload has this id.
        let answer = StoreClient::new(channel.clone()).stat(request).await;
        let metadata = match answer {
            Ok(answer) => answer.metadata().clone(),
            Err(status) => status.metadata().clone(),
        };
        metadata.into_headers().get(INSTANCE_HEADER).cloned()
    }
}

/// Headers of a request that decide about its response.
pub(crate) struct SentHeaders {
    pub authorization: Option<http::HeaderValue>,
    /// The only server that may serve the call.
    pub instance: Option<http::HeaderValue>,
}

/// What the servers of this version answer to a call for another one.
fn other_server() -> Status {
    refusal(Reason::OtherServer, OTHER_SERVER, None, Some(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(instance: &'static str) -> http::HeaderValue {
        http::HeaderValue::from_static(instance)
    }

    fn server() -> SameServer {
        SameServer::new(3, CallRoute::default())
    }

    #[test]
    fn a_connection_to_another_server_is_not_used() {
        let server = server();
        let finds = |connection, found| server.find(connection, &name(found));
        assert_eq!(finds(1, "b"), Finding::Expected, "the first connection decides");
        assert_eq!([finds(0, "a"), finds(1, "a")], [Finding::Expected, Finding::Expected]);
        assert_eq!(finds(2, "b"), Finding::Differs);
        let answers = ["a", "b"].map(|instance| Some(name(instance)));
        assert!(!server.conclude(2, &name("b"), answers), "the call is repeated");
        assert_eq!([0, 1, 2, 3, 4, 5].map(|lane| server.connection(lane)), [0, 1, 0, 0, 1, 0]);
        // The first connection has been opened again.
        assert_eq!([finds(0, "b"), finds(2, "b")], [Finding::Expected, Finding::Expected]);
        assert_eq!(finds(1, "a"), Finding::Differs);
        assert_eq!([0, 1, 2].map(|lane| server.connection(lane)), [0, 1, 2]);
        assert!(!server.conclude(1, &name("a"), [Some(name("b")), None]), "no answer, no use");
        assert!(!server.is_routed());
    }

    #[test]
    fn connections_whose_balancer_chooses_by_key_are_all_used() {
        let server = server();
        assert_eq!(server.find(0, &name("a")), Finding::Expected);
        assert_eq!(server.find(2, &name("b")), Finding::Differs);
        assert!(server.conclude(2, &name("b"), [Some(name("a")), Some(name("a"))]));
        assert!(server.is_routed());
        assert_eq!([0, 1, 2].map(|lane| server.connection(lane)), [0, 1, 2]);
        assert_eq!(server.find(1, &name("c")), Finding::Expected);
        assert_eq!(server.instance(), Some(name("a")));
    }

    #[test]
    fn a_server_that_has_restarted_is_not_taken_for_several() {
        let server = server();
        assert_eq!(server.find(0, &name("a")), Finding::Expected);
        assert_eq!(server.find(1, &name("b")), Finding::Differs);
        assert!(server.conclude(1, &name("b"), [Some(name("b")), Some(name("b"))]));
        assert!(!server.is_routed());
        assert_eq!(server.instance(), Some(name("b")));
    }
}
