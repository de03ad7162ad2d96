//! Who calls: tokens, JSON Web Tokens, client certificates and the users of the Unix socket, each
//! presented to a running server, right and wrong.

pub mod authority;
mod certificates;
mod handshakes;
mod issuer;
mod jwts;
mod open_server;
mod tenants;
mod tokens;

use crate::rig as daemon;

use capstan::{
    client::{Client, ClientBuilder, ClientError, Code, GetInfoResponse},
    server::{Engines, ServerSettings},
};

use crate::identity::daemon::{TestServer, retry_until_ok};

fn start(settings: ServerSettings) -> TestServer {
    TestServer::with_engines(settings, Engines::cpu(1, "a test").unwrap())
}

fn http(server: &TestServer) -> ClientBuilder {
    Client::builder(format!("http://{}", server.address)).connections(1)
}

/// Connects and makes a call. Returns how the server knows the caller, and its tenant.
async fn caller(builder: ClientBuilder) -> Result<(String, String), ClientError> {
    Ok(caller_of(&builder.connect().await?.info().await?))
}

fn caller_of(info: &GetInfoResponse) -> (String, String) {
    let caller = info.caller.clone().expect("servers name the caller");
    (caller.subject, caller.tenant)
}

fn known(subject: &str, tenant: &str) -> (String, String) {
    (subject.to_owned(), tenant.to_owned())
}

/// The reason for which the server refuses a client; it must be UNAUTHENTICATED.
async fn refusal(builder: ClientBuilder) -> String {
    let error = caller(builder).await.expect_err("the server refuses");
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    error.reason_text().to_owned()
}

/// Waits until the server answers a client in another way, after its files were changed.
async fn until_answer(what: &str, builder: &ClientBuilder, expected: Result<&str, &str>) {
    retry_until_ok(what, async || {
        let answer = caller(builder.clone()).await;
        let answer = answer.map(|(subject, _)| subject);
        let answer = answer.map_err(|error| error.reason_text().to_owned());
        let is_expected = answer.as_ref().map(String::as_str).map_err(String::as_str) == expected;
        if is_expected { Ok(()) } else { Err(answer) }
    })
    .await;
}
