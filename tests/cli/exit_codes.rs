//! Exit codes, error messages and cancellation.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileTypeExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ark_bls12_381::Fr;
use ark_ff::{BigInteger, PrimeField};
use capstan::server::{ServerSettings, TlsFiles};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use serde_json::Value;

use crate::cli::{
    CEREMONY, CliFixture, canonical, command,
    common::{points, scalars, serve},
    run,
    tls_files::CertifiedFiles,
};

/// A timeout that only a hang reaches.
const HANGING: Duration = Duration::from_secs(60);

#[test]
fn info_prints_text_and_json() {
    let cli = CliFixture::new();
    let text = cli.ok(&["info"]).text();
    for word in ["capstand 0.", "engine cpu", "bytes in flight", "largest ntt 2^"] {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    let json = cli.json(&["info"]);
    assert_eq!(json["engine"], "cpu");
    assert_eq!(json["draining"], false);
    assert!(json["limits"]["bytes_in_flight"].as_u64().unwrap() > 0);
}

#[test]
fn a_deadline_of_any_length_is_kept() {
    let cli = CliFixture::new();
    for deadline in ["1h", "11408y", "12000y", "500000000000y"] {
        cli.ok(&["info", "--deadline", deadline]);
    }
}

#[test]
fn lines_that_cannot_be_printed_cost_no_result_and_no_exit_code() {
    let cli = CliFixture::new();
    let id = cli.put(&points(4));
    let values = cli.file("values", canonical(&scalars(4)));
    let line = ["msm", "--bases", &id, "--scalars", &values];
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let without_notes = command(&cli.server.target, &line).stderr(full()).output().unwrap();
    assert_eq!(without_notes.status.code(), Some(0));
    assert!(!without_notes.stdout.is_empty());
    let without_result = command(&cli.server.target, &line).stdout(full()).output().unwrap();
    assert_eq!(without_result.status.code(), Some(73));
    let wrong = ["msm", "--bases", &id, "--scalars", "/nonexistent"];
    let unexplained = command(&cli.server.target, &wrong).stderr(full()).output().unwrap();
    assert_eq!(unexplained.status.code(), Some(66));
}

#[test]
fn usage_errors_are_json_if_it_is_asked_for() {
    for (line, words) in [
        (&["msm", "--json"][..], ["required arguments", "--bases"]),
        (&["--json", "info", "--nothing"][..], ["unexpected argument", "--nothing"]),
        (&["--json"][..], ["requires a subcommand", "demo"]),
        (&["bench", "--json", "--sizes", "40"][..], ["--sizes", "numbers from 0 to 26"]),
    ] {
        let wrong = run("http://127.0.0.1:1", line, &[]);
        let error: Value = serde_json::from_str(&wrong.err).unwrap();
        assert_eq!((wrong.code, &error["error"]["exit"]), (2, &2.into()));
        let message = error["error"]["message"].as_str().unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert!(!message.contains("Usage:") && !message.contains('\n'), "{message}");
    }
    let help = run("http://127.0.0.1:1", &["--json", "--help"], &[]);
    assert!(help.code == 0 && help.text().contains("Usage:"), "{}", help.err);
}

/// Runs a command that cannot write to files. Its standard output is a file, too.
fn without_file_space(cli: &CliFixture, line: &[&str]) -> (Option<i32>, String) {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -f 0 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_capstan")])
        .args(line);
    shell.env("CAPSTAN_SERVER", &cli.server.target).stdin(Stdio::null());
    let stdout = File::create(cli.path("stdout")).unwrap();
    let output = shell.stdout(stdout).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_file_that_exceeds_the_limit_of_the_system_is_an_error_and_keeps_the_old_one() {
    let cli = CliFixture::new();
    let values = cli.file("values", canonical(&scalars(4)));
    let id = cli.put(&points(4));
    let old = cli.file("old", "# old\n");
    let entries = || fs::read_dir(cli.files.path()).unwrap().count();
    let _first = without_file_space(&cli, &["info"]);
    let before = entries();
    for line in [
        &["ntt", &values, "--out", &old][..],
        &["msm", "--bases", &id, "--scalars", &values, "--out", &old],
        &["bases", "export", &id, &old],
        &["token", "new", "--name", "a", "--file", &old],
    ] {
        let (code, problem) = without_file_space(&cli, line);
        assert_eq!(code, Some(73), "{line:?}: {problem}");
        assert!(problem.contains(&old) && problem.contains("too large"), "{line:?}: {problem}");
        assert_eq!((fs::read_to_string(&old).unwrap().as_str(), entries()), ("# old\n", before));
    }
    for line in [&["info"][..], &["completions", "bash"]] {
        let (code, problem) = without_file_space(&cli, line);
        assert_eq!(code, Some(73), "{line:?}: {problem}");
        assert!(problem.contains("standard output"), "{line:?}: {problem}");
    }
}

#[test]
fn outputs_that_are_not_files_are_written_to() {
    let cli = CliFixture::new();
    let values = cli.file("values", canonical(&scalars(4)));
    let transform = |out: &str| cli.ok(&["ntt", &values, "--out", out]);
    let expected = transform("-").out;
    assert_eq!(transform("/dev/stdout").out, expected);
    assert!(transform("/dev/null").out.is_empty());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let pipe = cli.path("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Open before the command writes, so that neither side waits for the other one.
    let read_write = OFlags::RDWR | OFlags::NONBLOCK;
    let mut reader = File::from(open(&pipe, read_write, Mode::empty()).unwrap());
    transform(pipe.to_str().unwrap());
    let mut read = vec![0; expected.len()];
    reader.read_exact(&mut read).unwrap();
    assert_eq!(read, expected);
    assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    cli.fails(&["ntt", &values, "--out", "/dev/full"], 73, &["cannot write /dev/full"]);
}

#[test]
fn https_requires_the_ca_certificate() {
    let certified = CertifiedFiles::new("127.0.0.1");
    let tls = Some(certified.files.clone());
    let cli = CliFixture::with(serve(ServerSettings { tls, ..ServerSettings::default() }));
    let authority = cli.file("ca.pem", &certified.certificate_pem);
    let trusting = ["--ca-certificate", &authority];
    assert_eq!(cli.json(&[&["info"], &trusting[..]].concat())["engine"], "cpu");
    cli.fails(&["info"], 69, &["certificate", "--ca-certificate"]);
    let plain = [&["info", "--server", "http://127.0.0.1:1"], &trusting[..]].concat();
    cli.fails(&plain, 2, &["CA certificate", "http://127.0.0.1:1", "https"]);
}

/// A server whose certificate is its own authority, and the options that trust it.
fn with_certificate(year: i32, name: &str) -> (CliFixture, String) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(year, 1, 1));
    let key = KeyPair::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let tls = Some(TlsFiles { certificate: certificate.clone(), key: key_file, client_ca: None });
    let cli = CliFixture::with(serve(ServerSettings { tls, ..ServerSettings::default() }));
    let authority = cli.file("ca.pem", fs::read(certificate).unwrap());
    (cli, authority)
}

#[test]
fn the_cause_of_a_missing_connection_is_told_apart() {
    let (expired, authority) = with_certificate(2002, "127.0.0.1");
    let info = |authority| ["info", "--ca-certificate", authority];
    let fails = |cli: &CliFixture, line: &[&str], words: &[&str]| {
        cli.fails(line, 69, words);
        let other = cli.run(line).err;
        assert!(!other.contains("with --ca-certificate") && !other.contains("is capstand running"));
    };
    fails(&expired, &info(&authority), &["expired", "renew the server's certificate"]);
    let (named, authority) = with_certificate(3000, "other.example");
    fails(&named, &info(&authority), &["cannot trust", "a name that its certificate has"]);
    let plain = named.server.target.replace("https://", "http://");
    fails(&named, &["info", "--server", &plain], &["uses TLS: specify https://"]);
    let cli = CliFixture::new();
    let encrypted = cli.server.target.replace("http://", "https://");
    let line = ["info", "--server", &encrypted, "--ca-certificate", &authority];
    fails(&cli, &line, &["does not use TLS: specify http://"]);
}

#[test]
fn files_that_are_not_certificates_or_keys_are_named_with_the_cause() {
    let cli = CliFixture::new();
    let text = cli.file("text", "sesame");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let encrypted = cli.file("encrypted.key", encrypted);
    let (_server, authority) = with_certificate(3000, "127.0.0.1");
    let line = ["info", "--ca-certificate", &text];
    cli.fails(&line, 65, &[&text, "has no certificate in PEM"]);
    let line = ["info", "--tls-cert", &authority, "--tls-key", &encrypted];
    cli.fails(&line, 65, &[&encrypted, "is encrypted"]);
    let line = ["info", "--tls-cert", &text, "--tls-key", &authority];
    cli.fails(&line, 65, &[&authority, "has no private key in PEM"]);
}

#[test]
fn files_of_text_may_begin_with_a_byte_order_mark() {
    let cli = CliFixture::new();
    let marked = |name: &str, text: &str| cli.file(name, format!("\u{feff}{text}"));
    let numbers = marked("numbers", "1 2 3 4\n");
    let decimal = ["ntt", &numbers, "--encoding", "decimal"];
    cli.ok(&decimal);
    cli.ok(&[&decimal[..], &["--field", "babybear"]].concat());
    let integer = marked("integer", "12\n");
    assert_eq!(cli.ok(&["int", "mul", &integer, &integer]).text(), "144\n");
    let setup = marked("setup.json", &fs::read_to_string(CEREMONY).unwrap());
    cli.ok(&["bases", "import", &setup, "--set", "lagrange"]);
    let step = r#"{"name": "f", "constant": {"elements": [1, 2]}}"#;
    let program = format!(r#"{{"steps": [{step}], "outputs": ["f"]}}"#);
    cli.ok(&["run", &marked("program.json", &program)]);
    cli.ok(&["info", "--token-file", &marked("token", "capstan_sesame\n")]);
    let (served, authority) = with_certificate(3000, "127.0.0.1");
    let pem = fs::read_to_string(authority).unwrap();
    let authority = served.file("marked.pem", format!("\u{feff}{pem}"));
    served.ok(&["info", "--ca-certificate", &authority]);
}

#[test]
fn bad_data_is_reported_with_field_and_index() {
    let cli = CliFixture::new();
    let id = cli.put(&points(4));
    // Refused by the server: the third scalar is r.
    let mut values = canonical(&scalars(4));
    values[64..96].copy_from_slice(&Fr::MODULUS.to_bytes_le());
    let over = cli.file("over", &values);
    let line = ["msm", "--bases", &id, "--scalars", &over];
    cli.fails(&line, 65, &["over", "[2]", "not canonical", "reduce"]);
    cli.ok(&[&line[..], &["--reduce"]].concat());
    let error = cli.run(&[&line[..], &["--json"]].concat()).err;
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["exit"], 65);
    assert_eq!(error["error"]["index"], 2);
    assert_eq!(error["error"]["reason"], "NOT_CANONICAL");
    // Refused before anything is sent: text, lengths, shapes.
    let text = cli.file("text", "1 2 x 4");
    let line = ["msm", "--bases", &id, "--scalars", &text, "--encoding", "decimal"];
    cli.fails(&line, 65, &["text: scalars[2]: expected decimal digits"]);
    let line = ["msm", "--bases", &id, "--scalars", &text];
    cli.fails(&line, 65, &["7 bytes are not a whole number of 32-byte scalars", "--encoding"]);
    let few = cli.file("few", canonical(&scalars(3)));
    let line = ["msm", "--bases", &id, "--scalars", &few];
    cli.fails(&line, 65, &["3 scalars, but 1 x 4 are needed", "--length 3"]);
    cli.fails(&["ntt", &few], 65, &["3 elements", "--pad"]);
    // A point of the ceremony with one bit flipped.
    let broken = fs::read_to_string(CEREMONY).unwrap().replacen("0xad3eb50", "0xad3eb51", 1);
    let broken = cli.file("broken.json", broken);
    cli.fails(
        &["bases", "import", &broken],
        65,
        &["broken.json: g1_monomial[1]: not in the subgroup"],
    );
    cli.fails(&["bases", "import", &text], 65, &["text: not a KZG trusted setup"]);
    let zeros = cli.file("zeros", [0; 192]);
    cli.fails(&["bases", "import", &zeros], 2, &["raw with 2", "specify --format and --group"]);
}

#[test]
fn exit_codes_tell_failures_apart() {
    let cli = CliFixture::new();
    let id = cli.put(&points(4));
    cli.fails(&["msm"], 2, &["--bases"]);
    cli.fails(&["bench", "--sizes", "40"], 2, &["numbers from 0 to 26"]);
    cli.fails(&["info", "--server", "nonsense"], 2, &[]);
    cli.fails(&["msm", "--bases", &id, "--scalars", "/nowhere"], 66, &["cannot read /nowhere"]);
    let file = cli.file("scalars", canonical(&scalars(4)));
    let line = ["msm", "--bases", &id, "--scalars", &file, "--out", "/nowhere/sum"];
    cli.fails(&line, 73, &["cannot write /nowhere/sum"]);
    cli.fails(
        &["bases", "import", CEREMONY, "--deadline", "1ms"],
        75,
        &["deadline passed", "--deadline"],
    );
    cli.fails(&["drain"], 77, &["ADMIN_ONLY", "Unix socket"]);
    // Nothing listens there.
    let unreachable = "http://127.0.0.1:1";
    let words = ["cannot reach", unreachable, "is capstand running", "--server"];
    cli.fails(&["info", "--server", unreachable], 69, &words);
}

#[test]
fn refuses_bases_above_the_limit_and_drains_over_a_unix_socket() {
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("capstan.sock");
    let settings = ServerSettings {
        unix_socket: Some(socket.clone()),
        store_bytes_max: 1000,
        ..ServerSettings::default()
    };
    let cli = CliFixture::with(serve(settings));
    let import = ["bases", "import", CEREMONY, "--set", "lagrange"];
    cli.fails(&import, 77, &["STORE", "too small for this request"]);
    let target = format!("unix:{}", socket.display());
    let drained = run(&target, &["drain", "--grace", "12000y", "--json"], &[]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    assert_eq!(serde_json::from_slice::<Value>(&drained.out).unwrap()["jobs"], 0);
}

#[test]
fn a_closed_stdout_causes_no_panic() {
    for line in [["completions", "bash"], ["completions", "zsh"]] {
        let mut child = command("http://127.0.0.1:1", &line).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
        let script = run("http://127.0.0.1:1", &line, &[]);
        assert!(script.text().contains("bases"), "{line:?}");
    }
}

/// Kills the child on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
#[cfg(unix)]
fn signals_cancel_jobs_on_the_server() {
    let cli = CliFixture::new();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let line = ["bench", "--sizes", "14", "--concurrency", "8", "--duration", "60s"];
        let mut child = KillOnDrop(command(&cli.server.target, &line).spawn().unwrap());
        let jobs = || cli.json(&["info"])["load"]["jobs"].as_u64().unwrap();
        until("jobs run", || jobs() > 0);
        let pid = child.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(child.0.wait().unwrap().code(), Some(code));
        until("the jobs are gone", || jobs() == 0);
    }
}

fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < HANGING, "{what}: not within {HANGING:?}");
    }
}
