//! The administrative socket: operators get in, nobody else does, and only they drain.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use capstan::{client::Client, error::Reason, server::ServerSettings, wire::v1};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::{Code, transport::Endpoint};

use crate::service::daemon::{
    TestServer, admin, load, reason, retry_until_ok, store, unix_channel,
};

/// A server with both sockets, two connections in total, and one for the default tenant.
struct SmallServer {
    server: TestServer,
    unix: PathBuf,
    admin: PathBuf,
    _folder: TempDir,
}

impl SmallServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (unix, admin, tenants) = (path("unix"), path("admin"), path("tenants.toml"));
        fs::write(&tenants, "[tenants.default]\nconnections_max = 1\n").unwrap();
        let server = TestServer::start(ServerSettings {
            unix_socket: Some(unix.clone()),
            admin_socket: Some(admin.clone()),
            tenants: Some(tenants),
            connections_max: 2,
            ..ServerSettings::default()
        });
        Self { server, unix, admin, _folder: folder }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_gets_in_when_all_other_connections_are_taken() {
    let small = SmallServer::start();
    let mode = fs::metadata(&small.admin).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let held = small.server.channel().await;
    // The last one is reserved for the Unix socket. Its call exceeds the tenant's limit.
    let local = unix_channel(&small.unix).await;
    let refused = admin(&local).get_info(v1::GetInfoRequest {}).await.unwrap_err();
    assert_eq!(reason(&refused), "TENANT_QUOTA");
    assert!(!answers(&small.unix).await, "has a third connection");
    for _ in 0..2 {
        let operator = unix_channel(&small.admin).await;
        assert_eq!(load(&operator).await.connections, 2);
    }
    drop((held, local));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_to_the_administrative_socket_take_none_of_the_others() {
    let small = SmallServer::start();
    let mut operators = Vec::new();
    // The server accepts a connection before it refuses the next one.
    while operators.len() < 16 {
        let operator = unix_channel(&small.admin).await;
        load(&operator).await;
        operators.push(operator);
    }
    assert!(!answers(&small.admin).await, "has no limit");
    assert_eq!(load(&small.server.channel().await).await.connections, 1);
    operators.pop();
    retry_until_ok("free a connection", async || match answers(&small.admin).await {
        true => Ok(()),
        false => Err("is not answered"),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_administrative_socket_drains_and_it_serves_nothing_else() {
    let small = SmallServer::start();
    let drain = || v1::DrainRequest { grace_ms: 1 };
    let refused = {
        let local = unix_channel(&small.unix).await;
        admin(&local).drain(drain()).await.unwrap_err()
    };
    assert_eq!((refused.code(), &*reason(&refused)), (Code::PermissionDenied, "ADMIN_ONLY"));
    let client = async || Client::connect(format!("http://{}", small.server.address)).await;
    let remote = retry_until_ok("connect over TCP", client).await;
    let refused = remote.drain(Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::AdminOnly));
    let operator = unix_channel(&small.admin).await;
    let refused = store(&operator).list(v1::ListRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    admin(&operator).drain(drain()).await.unwrap();
    small.server.ended().await.unwrap();
    assert!(!small.admin.exists());
}

/// Whether a call over a new connection to `path` is answered.
async fn answers(path: &Path) -> bool {
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector_lazy(connector);
    admin(&channel).get_info(v1::GetInfoRequest {}).await.is_ok()
}
