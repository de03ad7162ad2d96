//! The audit log of the daemon: what is in it, and that it neither stops nor fills anything.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread::{JoinHandle, sleep, spawn},
    time::{Duration, Instant},
};

use ark_ec::AffineRepr;
use capstan::{
    client::{Client, ClientProgram, Fr, G1Affine, ProgramBuilder, ProgramRun, VectorValue},
    error::Reason,
    identity::{BearerToken, TokenEntry, add_token},
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::daemon::{
    authority::{Authority, files_in, write_client_ca, write_server},
    daemon_process::{DaemonProcess, HANGING},
    http, keep_busy, start, start_without_metrics,
};

/// The object of lines that only tell how many events were suppressed.
const STOPS: &str = "the daemon stops";

/// A folder with a file of tokens and the path of an audit log.
struct AuditedFiles {
    folder: TempDir,
    tokens: String,
}

impl AuditedFiles {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.toml").to_str().unwrap().to_owned();
        fs::write(&tokens, "").unwrap();
        Self { folder, tokens }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn token(&self, name: &str, tenant: &str) -> BearerToken {
        let token = BearerToken::generate().unwrap();
        let (name, tenant, hash) = (name.into(), Some(tenant.into()), token.hash());
        let entry = TokenEntry { name, tenant, hash, expires: None };
        let text = fs::read_to_string(&self.tokens).unwrap();
        fs::write(&self.tokens, add_token(&text, &entry).unwrap()).unwrap();
        token
    }
}

fn lines(path: impl AsRef<Path>) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn actions(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["action"].as_str().unwrap()).collect()
}

fn powers() -> (ClientProgram, VectorValue) {
    let mut program = ProgramBuilder::new();
    let powers = program.powers(Fr::from(1), Fr::from(2), 4).unwrap();
    (program.build().unwrap(), powers)
}

/// A pipe as the audit log. It takes 64 KiB while nobody reads it; then a write to it blocks.
struct AuditPipe {
    path: String,
    opened: JoinHandle<File>,
}

impl AuditPipe {
    fn new(files: &AuditedFiles) -> Self {
        let path = files.path("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let pipe = path.clone();
        // Waits until the daemon opens it.
        Self { path, opened: spawn(move || File::open(pipe).unwrap()) }
    }

    /// Reads the pipe until the daemon has closed it; the thread returns the number of lines.
    fn count_lines(self) -> JoinHandle<usize> {
        let mut reader = self.opened.join().unwrap();
        spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text.lines().count()
        })
    }
}

/// Makes calls that leave a line of about 250 bytes each.
async fn make_calls(daemon: &DaemonProcess, calls: usize) {
    let (program, _) = powers();
    let client = daemon.client().connect().await.unwrap();
    for _ in 0..calls {
        client.put_program(&program).await.unwrap();
    }
}

/// Waits until `is_so`.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANGING, "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// What callers do, in the order in which they do it.
#[test]
fn the_audit_log_tells_who_did_what() {
    let files = AuditedFiles::new();
    let (audit, tenants) = (files.path("audit.jsonl"), files.path("tenants.toml"));
    let (token, stranger) = (files.token("ci", "a"), files.token("old", "gone"));
    fs::write(&tenants, "[tenants.a]\n").unwrap();
    let flags = ["--auth-tokens", &files.tokens, "--audit-log", &audit, "--tenants", &tenants];
    // Hides everything in the log that is about calls.
    let quiet = ["--log-level", "error,capstand=info"];
    let mut daemon = start_without_metrics(&[&flags[..], &quiet].concat());
    let client = Client::builder(daemon.target()).retries(0);
    let points = [G1Affine::generator(); 2];
    Runtime::new().unwrap().block_on(async {
        client.clone().connect().await.expect_err("has no token");
        let stranger = client.clone().token(stranger.text()).connect().await.unwrap();
        let refused = stranger.info().await.unwrap_err();
        assert_eq!(refused.reason(), Some(Reason::TenantUnknown));
        let client = client.token(token.text()).connect().await.unwrap();
        let bases = client.put_bases(&points).await.unwrap();
        let sum = client.msm(&bases, &[Fr::from(1), Fr::from(2)][..]).await.unwrap();
        assert_eq!(sum, G1Affine::generator() * Fr::from(3));
        client.release(bases.id()).await.unwrap();
        let vector = client.put_vector(&[Fr::from(7)][..]).await.unwrap();
        client.get_vector(&vector).await.unwrap();
        client.release_vector(vector.id).await.unwrap();
        let (program, powers) = powers();
        client.put_program(&program).await.unwrap();
        client.put_program(&program).await.unwrap();
        client.run(ProgramRun::new(&program).keep(powers)).await.unwrap();
        let refused = client.drain(Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.reason(), Some(Reason::AdminOnly));
    });
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    // A client makes several calls when it connects. Lines about those that were suppressed follow.
    let mut events = lines(&audit);
    events.retain(|event| event["object"] != STOPS);
    let expected = [
        ("refused_login", "", "", ""),
        ("refused_tenant", "token:old", "gone", ""),
        ("put", "token:ci", "a", "bases "),
        ("use", "token:ci", "a", "bases "),
        ("release", "token:ci", "a", "bases "),
        ("put", "token:ci", "a", "vector "),
        ("use", "token:ci", "a", "vector "),
        ("release", "token:ci", "a", "vector "),
        ("put", "token:ci", "a", "program "),
        ("put", "token:ci", "a", "program "),
        // That `run` keeps.
        ("put", "token:ci", "a", "vector "),
        ("refused_admin", "token:ci", "a", "drain"),
    ];
    assert_eq!(actions(&events), expected.map(|(action, ..)| action), "{events:?}");
    for (event, (_, caller, tenant, object)) in events.iter().zip(expected) {
        assert_eq!((&event["caller"], &event["tenant"]), (&caller.into(), &tenant.into()));
        assert!(event["object"].as_str().unwrap().starts_with(object), "{event}");
        assert!(event["remote"].as_str().unwrap().starts_with("127.0.0.1:"), "{event}");
        assert!(!event["request_id"].as_str().unwrap().is_empty(), "{event}");
    }
    let existed = |index: usize| events[index]["object"].as_str().unwrap().ends_with("existed");
    assert!(!existed(8) && existed(9), "{events:?}");
    let text = fs::read_to_string(&audit).unwrap();
    assert!(![token, stranger].iter().any(|token| text.contains(token.text())), "has a token");
    assert_eq!(fs::metadata(&audit).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_audit_log_tells_who_opens_shared_memory_and_who_drains() {
    let files = AuditedFiles::new();
    let (audit, socket) = (files.path("audit.jsonl"), files.path("socket"));
    let mut daemon = start_without_metrics(&["--audit-log", &audit, "--unix-socket", &socket]);
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(format!("unix:{socket}")).await.unwrap();
        client.alloc_vector(1 << 10).await.unwrap();
        client.drain(Duration::ZERO).await.unwrap();
    });
    assert_eq!(daemon.wait(), Some(0), "a drained daemon ends");
    let events = lines(&audit);
    assert_eq!(actions(&events), ["open_region", "drain"], "{events:?}");
    let caller = format!("uid:{}", rustix::process::getuid().as_raw());
    for (event, object) in events.iter().zip(["region ", "server, grace_ms "]) {
        assert_eq!(event["caller"], *caller, "{event}");
        assert!(event["object"].as_str().unwrap().starts_with(object), "{event}");
        assert!(event.get("remote").is_none(), "{event}");
    }
}

#[test]
fn a_stranger_cannot_fill_the_audit_log() {
    let files = AuditedFiles::new();
    let audit = files.path("audit.jsonl");
    let flags = ["--auth-tokens", &files.tokens, "--audit-log", &audit];
    let mut daemon = start_without_metrics(&flags);
    let client = Client::builder(daemon.target()).retries(0);
    let attempts = 200;
    Runtime::new().unwrap().block_on(async {
        for _ in 0..attempts {
            client.clone().connect().await.expect_err("has no token");
        }
    });
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    let events = lines(&audit);
    // One line every ten seconds: even a busy machine needs less than ten minutes.
    assert!((2..60).contains(&events.len()), "{events:?}");
    let suppressed: u64 = events.iter().filter_map(|event| event["suppressed"].as_u64()).sum();
    let written = events.iter().filter(|event| event["object"] != STOPS).count();
    assert!(written as u64 + suppressed >= attempts, "{events:?}");
}

/// TLS refuses both before there is a call.
#[test]
fn a_missing_and_an_untrusted_client_certificate_are_audited_and_cannot_fill_the_log() {
    let authority = Authority::new("a");
    let stranger = Authority::new("another").spiffe("spiffe://example.org/stranger");
    // One daemon each: refusals from one address share a line.
    for (presented, problem) in [(None, "needs a token"), (Some(stranger), "not signed")] {
        let files = AuditedFiles::new();
        let audit = files.path("audit.jsonl");
        let tls = files_in(files.folder.path());
        write_server(&tls, &authority.server());
        write_client_ca(&tls, &authority);
        let [certificate, key, client_ca] =
            ["certificate.pem", "key.pem", "client_ca.pem"].map(|name| files.path(name));
        let flags = ["--tls-certificate", &certificate, "--tls-key", &key];
        let flags = [&flags[..], &["--tls-client-ca", &client_ca, "--audit-log", &audit]].concat();
        let mut daemon = start_without_metrics(&flags);
        let client = Client::builder(format!("https://{}", daemon.address()));
        let client = client.ca_certificate(authority.pem()).retries(0).connections(1);
        let client = match &presented {
            Some(certificate) => certificate.present(client),
            None => client,
        };
        Runtime::new().unwrap().block_on(async {
            for _ in 0..20 {
                let info = async { client.clone().connect().await?.info().await };
                info.await.expect_err("the handshake fails");
            }
        });
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait(), Some(0));
        let events = lines(&audit);
        let first = events.first().expect("a refusal leaves a line");
        assert_eq!((&first["action"], &first["caller"]), (&"refused_login".into(), &"".into()));
        let object = first["object"].as_str().unwrap();
        assert!(object.starts_with("TLS handshake: ") && object.contains(problem), "{object}");
        assert!(first["remote"].as_str().unwrap().starts_with("127.0.0.1:"), "{first}");
        // One line every ten seconds, and one about those that were suppressed.
        let suppressed: u64 = events.iter().filter_map(|event| event["suppressed"].as_u64()).sum();
        assert!(events.len() < 20 && suppressed > 0, "{events:?}");
    }
}

#[test]
fn a_rotated_audit_log_is_opened_again_on_a_hangup() {
    let files = AuditedFiles::new();
    let [audit, old] = ["audit.jsonl", "audit.jsonl.1"].map(|name| files.path(name));
    let token = files.token("ci", "a");
    let flags = ["--auth-tokens", &files.tokens, "--audit-log", &audit];
    let mut daemon = start_without_metrics(&flags);
    let client = Client::builder(daemon.target()).token(token.text());
    let (program, _) = powers();
    let put_program = || {
        let put = async { client.clone().connect().await.unwrap().put_program(&program).await };
        Runtime::new().unwrap().block_on(put).unwrap();
    };
    put_program();
    wait_until("the first line is not written", || !lines(&audit).is_empty());
    fs::rename(&audit, &old).unwrap();
    daemon.signal(Signal::HUP);
    daemon.until("opened the audit log again");
    put_program();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!((actions(&lines(&old)), actions(&lines(&audit))), (vec!["put"], vec!["put"]));
}

#[test]
fn an_audit_log_that_blocks_stops_no_call_and_loses_nothing_at_a_stop() {
    let files = AuditedFiles::new();
    let pipe = AuditPipe::new(&files);
    let mut daemon = start_without_metrics(&["--audit-log", &pipe.path]);
    let calls = 1000;
    Runtime::new().unwrap().block_on(make_calls(&daemon, calls));
    let lines = pipe.count_lines();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(lines.join().unwrap(), calls);
}

#[test]
fn a_second_signal_loses_no_line_of_the_audit_log() {
    let files = AuditedFiles::new();
    let pipe = AuditPipe::new(&files);
    let flags = ["--idle-timeout-ms", "3600000", "--drain-grace-s", "3600"];
    let mut daemon = start_without_metrics(&[&flags[..], &["--audit-log", &pipe.path]].concat());
    let (runtime, calls) = (Runtime::new().unwrap(), 1000);
    runtime.block_on(make_calls(&daemon, calls));
    runtime.block_on(keep_busy(daemon.target()));
    daemon.signal(Signal::TERM);
    daemon.until("draining");
    daemon.signal(Signal::TERM);
    daemon.until("exiting at once");
    // Until now, most lines wait in the daemon.
    let lines = pipe.count_lines();
    assert_eq!(daemon.wait(), Some(130));
    assert_eq!(lines.join().unwrap(), calls);
}

#[test]
fn lines_that_a_full_disk_refuses_are_counted_and_logged() {
    let mut daemon = start(&["--audit-log", "/dev/full"]);
    let address = daemon.metrics_address();
    let (program, _) = powers();
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(daemon.target()).await.unwrap();
        client.put_program(&program).await.unwrap();
    });
    let line = daemon.until("cannot be written");
    assert!(line.contains("ERROR") && line.contains("No space left"), "{line}");
    let counted = || http(address, "GET /metrics").contains("capstan_audit_lost_total 1");
    wait_until("the lost line is not counted", counted);
}
