//! The page `/status` and its report, to everyone and to administrators.

use std::{fs, net::SocketAddr, path::Path};

use capstan::{
    client::{Client, Fr, NttOptions},
    identity::{BearerToken, TokenEntry, add_token},
};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::daemon::{
    daemon_process::DaemonProcess, http, http_with, metrics_listener::https_with, start,
    tls_files::CertifiedFiles,
};

/// The daemon, and the address of its page.
fn start_with_page(flags: &[&str]) -> (DaemonProcess, SocketAddr) {
    let daemon = start(&[&["--engine", "cpu"][..], flags].concat());
    let page = daemon.metrics_address();
    (daemon, page)
}

/// Adds a token of the caller `name` to the file.
fn add(path: &Path, name: &str, tenant: &str) -> BearerToken {
    let token = BearerToken::generate().unwrap();
    let (name, tenant) = (name.into(), Some(tenant.into()));
    let entry = TokenEntry { name, tenant, hash: token.hash(), expires: None };
    let text = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, add_token(&text, &entry).unwrap()).unwrap();
    token
}

fn report(address: SocketAddr, authorization: Option<&str>) -> Result<Value, String> {
    let header = authorization.map(|value| format!("authorization: {value}\r\n"));
    let answer = http_with(address, "GET /status.json", &header.unwrap_or_default());
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => {
            Ok(serde_json::from_str(body).unwrap())
        }
        _ => Err(answer),
    }
}

fn transform(daemon: &DaemonProcess, token: Option<&str>) {
    Runtime::new().unwrap().block_on(async {
        let mut builder = Client::builder(daemon.target());
        if let Some(token) = token {
            builder = builder.token(token);
        }
        let client = builder.connect().await.unwrap();
        client.ntt(&mut [Fr::from(1); 8], NttOptions::default()).await.unwrap();
    });
}

#[test]
fn the_page_and_its_report_show_the_last_jobs() {
    let (daemon, address) = start_with_page(&[]);
    for (path, kind) in
        [("/status", "text/html"), ("/status.js", "text/javascript"), ("/status.css", "text/css")]
    {
        let answer = http(address, &format!("GET {path}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        let head = answer.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase();
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    }
    let before = report(address, None).unwrap();
    assert_eq!(before["not_ready"], Value::Null);
    assert_eq!(before["devices"][0]["kind"], "cpu");
    assert_eq!(before["jobs"].as_array().unwrap().len(), 0);
    transform(&daemon, None);
    let after = report(address, None).unwrap();
    for job in [&after["jobs"][0], &after["slow_jobs"][0]] {
        assert_eq!((&job["call"], &job["lg_n"]), (&"ntt".into(), &3.into()), "{after}");
        assert!(job["compute_us"].as_u64().is_some_and(|time| time > 0), "{after}");
    }
    assert_eq!(after["slow_jobs"][0]["steps"][1]["operation"], "ntt", "{after}");
    assert!(!after.to_string().contains("anonymous"), "names callers: {after}");
}

#[test]
fn administrators_see_tenants_and_callers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let (ops, ada) = (add(&path, "ops", "default"), add(&path, "ada", "provers"));
    let flags = ["--auth-tokens", path.to_str().unwrap(), "--status-admins", "token:ops"];
    let (daemon, address) = start_with_page(&flags);
    transform(&daemon, Some(ada.text()));
    let bearer = |token: &BearerToken| format!("Bearer {}", token.text());
    let seen = report(address, Some(&bearer(&ops))).unwrap();
    assert_eq!(seen["administrator"], "token:ops");
    assert_eq!(seen["jobs"][0]["owner"]["caller"], "token:ada", "{seen}");
    assert_eq!(seen["jobs"][0]["owner"]["tenant"], "provers", "{seen}");
    assert_eq!(seen["tenants"][0]["name"], "default", "{seen}");
    let strangers = report(address, None).unwrap();
    assert!(strangers.get("tenants").is_none(), "{strangers}");
    assert!(!strangers.to_string().contains("ada"), "{strangers}");
    for refused in [bearer(&ada), "Bearer x".into(), "Basic x".into()] {
        let answer = report(address, Some(&refused)).unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{refused}: {answer}");
    }
}

#[test]
fn administrators_send_their_token_by_https() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let (ops, ada) = (add(&path, "ops", "default"), add(&path, "ada", "provers"));
    let own = CertifiedFiles::new("localhost");
    let (certificate, key) = (&own.files.certificate, &own.files.key);
    let tls = ["--tls-certificate", certificate.to_str().unwrap(), "--metrics-tls"];
    let tls = [&tls[..], &["--tls-key", key.to_str().unwrap()]].concat();
    let flags = ["--auth-tokens", path.to_str().unwrap(), "--status-admins", "token:ops"];
    let (_daemon, address) = start_with_page(&[&tls[..], &flags].concat());
    let answer = |token: &str| {
        let header = format!("authorization: Bearer {token}\r\n");
        https_with(address, "/status.json", &header, &own.certificate_pem).unwrap()
    };
    let seen = answer(ops.text());
    assert!(seen.starts_with("HTTP/1.1 200 "), "{seen}");
    assert!(seen.contains(r#""administrator":"token:ops""#), "{seen}");
    for refused in [ada.text(), "x"] {
        let answer = answer(refused);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
}
