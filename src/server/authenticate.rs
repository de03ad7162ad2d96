//! A layer that finds out who makes each call, and refuses calls of unknown callers.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::Either;
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response, header::AUTHORIZATION},
};
use tower::Service;

use super::{connection::Peer, state::ServerState};
use crate::error::{CredentialProblem, Error};

/// Path prefix of the calls that need no credentials: Kubernetes' probes have none.
const OPEN_PATH_PREFIX: &str = "/grpc.health.v1.Health/";

/// Adds a [`Caller`](crate::identity::Caller) to each request, or answers UNAUTHENTICATED.
#[derive(Clone)]
pub struct AuthenticationService<S> {
    pub inner: S,
    pub state: Arc<ServerState>,
}

impl<S> Service<Request<Body>> for AuthenticationService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if !request.uri().path().starts_with(OPEN_PATH_PREFIX) {
            let caller = match Peer::of(request.extensions()) {
                Some(peer) => self.state.credentials.caller(peer, request.headers()),
                None => Err(CredentialProblem::Missing),
            };
            match caller {
                Ok(caller) => drop(request.extensions_mut().insert(caller)),
                Err(problem) => {
                    let remote = Peer::of(request.extensions()).and_then(|peer| peer.remote);
                    self.state.refusals.record(problem, remote);
                    let status = Status::from(Error::Unauthenticated(problem));
                    return Either::Right(ready(Ok(status.into_http())));
                }
            }
        }
        // Nothing below may see or log a token.
        request.headers_mut().remove(AUTHORIZATION);
        Either::Left(self.inner.call(request))
    }
}
