//! The server that the connections of a client reach. Behind a load balancer, they may reach
//! several, which do not know each other's uploads and bases.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tonic::{Status, body::Body, codegen::http};

use crate::wire::INSTANCE_HEADER;

/// The server of the first connection, and which other connections reach it.
pub(crate) struct SameServer {
    /// `None` until the first connection has a response that names its server.
    instance: RwLock<Option<http::HeaderValue>>,
    /// One per connection.
    is_elsewhere: Vec<AtomicBool>,
}

impl SameServer {
    pub fn new(connections: usize) -> Self {
        let is_elsewhere = (0..connections).map(|_| AtomicBool::new(false)).collect();
        Self { instance: RwLock::default(), is_elsewhere }
    }

    /// Whether the server of the first connection names itself.
    pub fn is_named(&self) -> bool {
        self.instance.read().is_some()
    }

    /// The connection to use for lane `lane`: the first one instead of one that reaches another
    /// server.
    pub fn connection(&self, lane: usize) -> usize {
        let connection = lane % self.is_elsewhere.len();
        if self.is_elsewhere[connection].load(Ordering::Relaxed) { 0 } else { connection }
    }

    /// Replaces a response that another server sent by an error after which the call is repeated.
    pub fn check(&self, connection: usize, response: http::Response<Body>) -> http::Response<Body> {
        let Some(found) = response.headers().get(INSTANCE_HEADER) else { return response };
        if self.instance.read().as_ref() == Some(found) {
            return response;
        }
        if connection == 0 {
            // Another server from now on: the others may have moved with this connection.
            *self.instance.write() = Some(found.clone());
            self.is_elsewhere.iter().for_each(|lane| lane.store(false, Ordering::Relaxed));
            return response;
        }
        if !self.is_named() {
            return response;
        }
        self.is_elsewhere[connection].store(true, Ordering::Relaxed);
        Status::unavailable("a connection has reached another server").into_http()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(instance: &'static str) -> http::Response<Body> {
        let mut response = http::Response::new(Body::empty());
        response.headers_mut().insert(INSTANCE_HEADER, instance.parse().unwrap());
        response
    }

    #[test]
    fn a_connection_to_another_server_is_not_used() {
        let server = SameServer::new(3);
        let passes = |connection, instance| {
            let response = server.check(connection, response(instance));
            !response.headers().contains_key("grpc-status")
        };
        assert!(passes(1, "b"), "the first connection decides");
        assert!(passes(0, "a") && passes(1, "a") && !passes(2, "b"));
        assert_eq!([0, 1, 2, 3, 4, 5].map(|lane| server.connection(lane)), [0, 1, 0, 0, 1, 0]);
        // The first connection has been opened again.
        assert!(passes(0, "b") && passes(2, "b") && !passes(1, "a"));
        assert_eq!([0, 1, 2].map(|lane| server.connection(lane)), [0, 0, 2]);
        let unnamed = http::Response::new(Body::empty());
        assert!(!server.check(2, unnamed).headers().contains_key("grpc-status"));
    }
}
