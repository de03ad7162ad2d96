//! Calls that stay open, and metadata of many fields: both take memory without a payload.

use std::time::Duration;

use capstan::server::{AuthSettings, ProxySettings, ServerSettings};
use http::request::Builder;
use http_body_util::Full;
use tokio::{task::JoinSet, time::timeout};
use tonic::{Request, body::Body};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::ServiceExt;

use crate::{
    daemon::{TEST_TIMEOUT, client_without_deadlines, reason, retry_until_ok, unix_channel},
    messages::StallingBody,
    table::{World, settings},
};

const RESOURCE_EXHAUSTED: &str = "8";

fn request(origin: &http::Uri, method: &str) -> Builder {
    let uri = format!("{origin}{method}");
    http::Request::post(uri).header("content-type", "application/grpc")
}

/// Health checks need no credentials, and a watch does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_has_few_open_watches() {
    let world = World::new(settings()).await;
    let watch = async |client: &_, origin: &_| {
        let client: &hyper_util::client::legacy::Client<_, Body> = client;
        let message = Body::new(Full::from(&[0; 5][..]));
        let request = request(origin, "grpc.health.v1.Health/Watch").body(message);
        client.request(request.expect("a request")).await.expect("an answer")
    };
    let is_refused = |answer: &http::Response<_>| {
        answer.headers().get("grpc-status").is_some_and(|status| status == RESOURCE_EXHAUSTED)
    };
    let (client, origin) = client_without_deadlines(world.daemon.address);
    let mut open: Vec<http::Response<hyper::body::Incoming>> = Vec::new();
    for _ in 0..20 {
        open.push(watch(&client, &origin).await);
    }
    let refused = open.iter().filter(|answer| is_refused(answer)).count();
    assert!((16..20).contains(&refused), "{refused} of 20 were refused");
    // Another connection has its own, and these are free after the end.
    let (other, _) = client_without_deadlines(world.daemon.address);
    assert!(!is_refused(&watch(&other, &origin).await));
    drop(open);
    retry_until_ok("watches end", async || match watch(&client, &origin).await {
        answer if is_refused(&answer) => Err("refused"),
        _ => Ok(()),
    })
    .await;
    drop((client, other));
    world.assert_healthy("open watches").await;
}

/// Local users may have many watches on a connection, since some of them are proxies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_user_leaves_health_checks_to_others() {
    const CONNECTIONS: usize = 32;
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("capstan.sock");
    let mut world =
        World::new(ServerSettings { unix_socket: Some(socket.clone()), ..settings() }).await;
    world.resources.descriptors_max += 2 * CONNECTIONS;
    let mut open = Vec::new();
    'all: for _ in 0..CONNECTIONS {
        let channel = unix_channel(&socket).await;
        for _ in 0..64 {
            let mut request = Request::new(HealthCheckRequest::default());
            let pad = "p".repeat(15_000).parse().expect("text");
            request.metadata_mut().insert("x-pad", pad);
            match HealthClient::new(channel.clone()).watch(request).await {
                Ok(watch) => open.push((channel.clone(), watch)),
                Err(refused) => {
                    assert_eq!(reason(&refused), "HEALTH_CHECKS");
                    break 'all;
                }
            }
        }
    }
    assert!((500..64 * CONNECTIONS).contains(&open.len()), "{} watches are open", open.len());
    let check = HealthClient::new(world.channel.clone()).check(HealthCheckRequest::default()).await;
    check.expect("another address is answered");
    drop(open);
    world.assert_healthy("watches of a local user").await;
}

/// A proxy on the host makes calls for strangers, so it is no operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_behind_a_local_proxy_are_refused_like_others() {
    /// Those of all callers take 96 MiB.
    const CALL_BYTES: usize = 100 << 10;
    const CONNECTIONS: usize = 18;
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("capstan.sock");
    let proxies = Some(ProxySettings {
        subjects: vec![format!("uid:{}", rustix::process::getuid().as_raw())],
        caller_header: "x-caller".into(),
        tenant_header: "x-tenant".into(),
    });
    let auth = AuthSettings { proxies, ..AuthSettings::default() };
    let unix_socket = Some(socket.clone());
    let limits = ServerSettings { idle_timeout: Duration::from_secs(24 * 3600), ..settings() };
    let mut world = World::new(ServerSettings { unix_socket, auth, ..limits }).await;
    world.resources.descriptors_max += 2 * CONNECTIONS;
    let origin = http::Uri::from_static("http://localhost/");
    let mut calls = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let channel = unix_channel(&socket).await;
        for _ in 0..64 {
            let request = request(&origin, "capstan.v1.Admin/GetInfo").header("x-caller", "bob");
            let fields = 0..CALL_BYTES / 261;
            let request = fields.fold(request, |it, field| it.header(format!("x{field}"), "1"));
            let request = request.body(Body::new(StallingBody(Some(vec![0; 3].into()))));
            calls.spawn(channel.clone().oneshot(request.expect("a request")));
        }
    }
    // All others wait for the rest of their messages.
    let refused = timeout(TEST_TIMEOUT, calls.join_next()).await.expect("a call is refused");
    let refused = refused.expect("calls").expect("no panic").expect("an answer");
    assert_eq!(refused.headers()["grpc-status"], RESOURCE_EXHAUSTED);
    calls.shutdown().await;
    world.assert_healthy("callers behind a local proxy").await;
}

/// A field takes far more memory than its name and value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_metadata_count_as_the_memory_that_they_take() {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(ServerSettings { idle_timeout, ..settings() }).await;
    let (client, origin) = client_without_deadlines(world.daemon.address);
    let mut calls = JoinSet::new();
    for fields in [10, 100] {
        let request = request(&origin, "grpc.health.v1.Health/Check");
        let request = (0..fields).fold(request, |it, field| it.header(format!("x{field}"), "1"));
        let request = request.body(Body::new(StallingBody(Some(vec![0; 3].into()))));
        let (client, request) = (client.clone(), request.expect("a request"));
        calls.spawn(async move { (fields, client.request(request).await) });
    }
    // The other one waits for the rest of its message.
    let (fields, answer) = calls.join_next().await.expect("calls").expect("no panic");
    assert_eq!(fields, 100);
    assert_eq!(answer.expect("an answer").headers()["grpc-status"], RESOURCE_EXHAUSTED);
    calls.shutdown().await;
    world.assert_healthy("many fields").await;
}
