//! A layer that finds out who makes each call and for which tenant, and refuses calls of unknown
//! callers and tenants.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::Either;
use tonic::{
    body::Body,
    codegen::http::{Request, Response, header::AUTHORIZATION},
};
use tower::Service;

use super::refusals::{RefusedAttempt, record_refusal, record_unknown_tenant};
use crate::error::{CredentialProblem, Error};
use crate::grpc::{calls::status::status_of, connections::connection::Peer, state::ServerState};

/// Path prefix of the calls that need no credentials: Kubernetes' probes have none.
const OPEN_PATH_PREFIX: &str = "/grpc.health.v1.Health/";

/// Adds the [`Caller`](crate::identity::Caller) and its [`Tenant`](crate::tenant::Tenant) to each
/// request, or answers with the error `Unauthenticated` or `TenantUnknown`.
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
            let known = caller.map_err(|problem| {
                record_refusal(problem, &RefusedAttempt::of(&request));
                Error::Unauthenticated(problem)
            });
            let known = known.and_then(|caller| {
                if let Some(peer) = Peer::of(request.extensions()).filter(|_| caller.is_proxied()) {
                    peer.carry_others();
                }
                let tenant = self.state.tenants.find(caller.tenant.as_deref(), &caller.subject);
                let tenant = tenant.inspect_err(|error| {
                    record_unknown_tenant(&caller, error, &RefusedAttempt::of(&request));
                })?;
                Ok((caller, tenant))
            });
            match known {
                Ok((caller, tenant)) => {
                    request.extensions_mut().insert(caller);
                    request.extensions_mut().insert(tenant);
                }
                Err(error) => return Either::Right(ready(Ok(status_of(error).into_http()))),
            }
        }
        // Nothing below may see or log a token.
        request.headers_mut().remove(AUTHORIZATION);
        Either::Left(self.inner.call(request))
    }
}
