//! `capstan token`, and the credentials that the other commands send.

use std::{fs, os::unix::fs::PermissionsExt};

use capstan::server::{AuthSettings, ServerSettings, TlsFiles};
use serde_json::Value;

use crate::cli::{CliFixture, command, common::serve, tls_files::CertifiedFiles};

/// A server that accepts the tokens of a file, and the file's path.
fn with_tokens() -> (CliFixture, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    fs::write(&path, "# Ours.\n").unwrap();
    let auth = AuthSettings { tokens: Some(path.clone()), ..AuthSettings::default() };
    let cli = CliFixture::with(serve(ServerSettings { auth, ..ServerSettings::default() }));
    (cli, path.display().to_string(), folder)
}

#[test]
fn a_new_token_logs_in_until_it_is_revoked() {
    let (cli, tokens, _folder) = with_tokens();
    cli.fails(&["info"], 77, &["CREDENTIALS_MISSING", "--token-file", "CAPSTAN_TOKEN"]);
    let new = ["token", "new", "--name", "ci", "--tenant", "provers", "--file", &tokens];
    let token = cli.ok(&[&new[..], &["--expires-in", "90d"]].concat()).text();
    assert!(token.starts_with("capstan_") && token.lines().count() == 1, "{token}");
    cli.fails(&new, 65, &[&tokens, "an earlier entry has the same name"]);
    let text = fs::read_to_string(&tokens).unwrap();
    assert!(text.starts_with("# Ours.\n") && !text.contains(token.trim()), "{text}");

    // The server notices the change by itself.
    let file = cli.file("token", &token);
    let info = ["info", "--json", "--token-file", &file];
    let begun = std::time::Instant::now();
    while cli.run(&info).code != 0 {
        assert!(begun.elapsed().as_secs() < 60, "{}", cli.run(&info).err);
    }
    let known: Value = serde_json::from_slice(&cli.ok(&info).out).unwrap();
    assert_eq!(known["caller"]["subject"], "token:ci");
    assert_eq!(known["caller"]["tenant"], "provers");
    let mut by_variable = command(&cli.server.target, &["info"]);
    let output = by_variable.env("CAPSTAN_TOKEN", token.trim()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("caller token:ci, tenant provers\n"), "{text}");

    let listed = cli.ok(&["token", "list", "--file", &tokens]).text();
    assert!(listed.contains("ci") && listed.contains("provers") && !listed.contains("never"));
    let listed = cli.json(&["token", "list", "--file", &tokens]);
    assert_eq!(listed[0]["name"], "ci");
    cli.ok(&["token", "revoke", "--name", "ci", "--file", &tokens]);
    assert_eq!(fs::read_to_string(&tokens).unwrap(), "# Ours.\n");
    cli.fails(&["token", "revoke", "--name", "ci", "--file", &tokens], 2, &["no token has this"]);
    while cli.run(&info).code == 0 {
        assert!(begun.elapsed().as_secs() < 120, "still accepted");
    }
    cli.fails(&info, 77, &["CREDENTIALS_INVALID"]);
}

#[test]
fn tokens_are_printed_once_and_files_keep_their_permissions() {
    let cli = CliFixture::new();
    let done = cli.ok(&["token", "new", "--name", "a \"b\""]);
    let token = String::from_utf8(done.out.clone()).unwrap();
    let entry = done.err;
    assert!(entry.starts_with("[[tokens]]\nname = 'a \"b\"'\nsha256 = \""), "{entry}");
    assert!(!entry.contains(token.trim()), "{entry}");
    let json = cli.json(&["token", "new", "--name", "a"]);
    assert!(json["token"].as_str().unwrap().starts_with("capstan_"), "{json}");
    assert_eq!(json["sha256"].as_str().unwrap().len(), 64);

    let made = cli.path("made.toml");
    let path = made.display().to_string();
    cli.ok(&["token", "new", "--name", "a", "--file", &path]);
    fs::set_permissions(&made, fs::Permissions::from_mode(0o640)).unwrap();
    cli.ok(&["token", "new", "--name", "b", "--file", &path]);
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o640);
    let left: Vec<_> = fs::read_dir(cli.files.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(cli.json(&["token", "list", "--file", &path]).as_array().unwrap().len(), 2);

    cli.fails(&["token", "new", "--name", "a\u{202e}b"], 2, &["name must be"]);
    for time in ["7974y", "12000y", "500000000000y"] {
        let line = ["token", "new", "--name", "a", "--expires-in", time];
        cli.fails(&line, 2, &["--expires-in ends after the year 9999"]);
    }
    let nowhere = ["token", "new", "--name", "a", "--file", "/nowhere/tokens.toml"];
    cli.fails(&nowhere, 73, &["cannot write /nowhere/tokens.toml"]);
    cli.fails(&["token", "list", "--file", "/nowhere"], 66, &["cannot read /nowhere"]);
    cli.fails(&["token", "revoke", "--name", "a", "--file", "/nowhere"], 66, &["cannot read"]);
}

#[test]
fn tokens_stay_off_the_network_in_plain_text() {
    let cli = CliFixture::new();
    let token = cli.file("token", "capstan_sesame\n");
    let line = ["info", "--server", "http://192.0.2.1:1", "--token-file", &token];
    cli.fails(&line, 2, &["token: would be sent in plain text"]);
    assert!(!cli.run(&line).err.contains("sesame"));
    cli.fails(&["info", "--token-file", "/nowhere"], 66, &["cannot read /nowhere"]);
    cli.fails(&["info", "--tls-cert", &token], 2, &["--tls-key"]);
}

#[test]
fn a_client_certificate_logs_in() {
    let certified = CertifiedFiles::new("localhost");
    let certificate = certified.files.certificate.display().to_string();
    let key = certified.files.key.display().to_string();
    // The certificate is its own authority.
    let client_ca = Some(certified.files.certificate.clone());
    let tls = Some(TlsFiles { client_ca, ..certified.files.clone() });
    let cli = CliFixture::with(serve(ServerSettings { tls, ..ServerSettings::default() }));
    let server = cli.server.target.replace("127.0.0.1", "localhost");
    let line = ["info", "--json", "--server", &server, "--ca-certificate", &certificate];
    cli.fails(&line, 69, &["requires a client certificate", "--tls-cert", "--tls-key"]);
    let named = cli.ok(&[&line[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat());
    let known: Value = serde_json::from_slice(&named.out).unwrap();
    assert_eq!(known["caller"]["subject"], "cert:localhost");
}
