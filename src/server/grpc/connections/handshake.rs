//! TLS handshakes of accepted connections, in tasks next to the loop that accepts others.
//!
//! The listener does TLS itself, not tonic, so that certificates are replaced while connections
//! stay open, and one timer covers the handshake and the HTTP/2 preface inside of it.

use std::{io, net::SocketAddr, sync::Arc};

use futures_util::{Stream, StreamExt, stream};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{rustls, server::TlsStream};

use super::connection::LimitedConnection;
use crate::error::CredentialProblem;
use crate::grpc::{
    callers::refusals::{RefusedAttempt, record_refusal},
    state::ServerState,
};

type TlsConnection = LimitedConnection<TlsStream<TcpStream>>;

/// The connections of `accepted` whose handshake succeeds. Each one uses the certificate that is
/// current when it is accepted. The limit on open connections includes those in a handshake.
pub fn tls(
    accepted: impl Stream<Item = io::Result<LimitedConnection<TcpStream>>>,
    state: Arc<ServerState>,
) -> impl Stream<Item = io::Result<TlsConnection>> {
    let handshakes = JoinSet::<Option<TlsConnection>>::new();
    let begun = (Box::pin(accepted), handshakes, state);
    stream::unfold(begun, |(mut accepted, mut handshakes, state)| async {
        loop {
            tokio::select! {
                Some(ended) = handshakes.join_next() => match ended {
                    Ok(Some(connection)) => {
                        return Some((Ok(connection), (accepted, handshakes, state)));
                    }
                    Ok(None) => {}
                    Err(error) => tracing::error!(%error, "a TLS handshake panicked"),
                },
                connection = accepted.next() => {
                    if let Ok(connection) = connection? {
                        handshakes.spawn(complete(connection, state.clone()));
                    }
                }
            }
        }
    })
}

async fn complete(
    connection: LimitedConnection<TcpStream>,
    state: Arc<ServerState>,
) -> Option<TlsConnection> {
    let remote = connection.remote();
    let completed = connection.complete_tls(state.credentials.tls()?).await;
    completed.inspect_err(|error| record_failure(error, remote)).ok()
}

/// A refused certificate is a refused caller; other failures are usually noise, such as a scan.
fn record_failure(error: &io::Error, remote: Option<SocketAddr>) {
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    let problem = match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(InvalidCertificate(_)) => CredentialProblem::UntrustedCertificate,
        Some(NoCertificatesPresented) => CredentialProblem::Missing,
        _ => return tracing::debug!(%error, "a TLS handshake failed"),
    };
    let attempt = RefusedAttempt { what: "TLS handshake", request_id: "", remote };
    record_refusal(problem, &attempt);
}
