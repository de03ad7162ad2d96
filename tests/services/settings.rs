//! The daemon's settings: sources, checks, and the printed configuration.

use std::{fs, path::Path, time::Duration};

use capstan::{
    config::{Config, ConfigProblem, EngineChoice, SettingValues, command},
    server::ServerSettings,
    telemetry::LogFormat,
};

const NOTHING: [(&str, &str); 0] = [];

fn read(flags: &[&str], env: &[(&str, &str)]) -> Result<SettingValues, Vec<ConfigProblem>> {
    // An empty file, so that one in /etc is not read.
    let empty = tempfile::NamedTempFile::new().unwrap();
    let path = empty.path().to_str().unwrap();
    let own = if flags.contains(&"--config") { vec![] } else { vec!["--config", path] };
    let line = ["capstand"].iter().chain(&own).chain(flags);
    let flags = command().try_get_matches_from(line).unwrap();
    SettingValues::read(&flags, env.iter().map(|(k, v)| (k.into(), v.into())))
}

fn config(flags: &[&str], env: &[(&str, &str)]) -> Result<Config, String> {
    let joined = |problems: Vec<ConfigProblem>| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    read(flags, env).and_then(|values| values.check()).map_err(joined)
}

/// What `--check-config` reports, a problem in each line.
fn check_all(flags: &[&str]) -> String {
    let problems = read(flags, &NOTHING).and_then(|values| values.check_all()).unwrap_err();
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// The name of a setting, and a part of what is reported of it.
type Report<'a> = [&'a str; 2];

/// Fails unless `error` has one line for each of `want`, and no other line.
fn assert_reports(error: &str, want: &[Report<'_>]) {
    for [setting, problem] in want {
        let is_reported = |line: &str| line.starts_with(setting) && line.contains(problem);
        let reports = error.lines().filter(|line| is_reported(line)).count();
        assert_eq!(reports, 1, "{setting} {problem}: {error}");
    }
    assert_eq!(error.lines().count(), want.len(), "{error}");
}

fn with_file(text: &str, flags: &[&str], env: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capstand.toml");
    fs::write(&path, text).unwrap();
    let flags = [&["--config", path.to_str().unwrap()], flags].concat();
    config(&flags, env).map_err(|e| e.replace(path.to_str().unwrap(), "FILE"))
}

#[test]
fn defaults_equal_the_servers_defaults() {
    let config = config(&[], &NOTHING).unwrap();
    let expected = ServerSettings {
        bytes_in_flight_max: config.server.bytes_in_flight_max,
        connection_bytes_in_flight_max: config.server.bytes_in_flight_max / 2,
        region_bytes_max: config.server.region_bytes_max,
        store_bytes_max: config.server.store_bytes_max,
        ..ServerSettings::default()
    };
    assert_eq!(config.server, expected);
    assert!(config.server.bytes_in_flight_max >= 256 << 20);
    assert_eq!(config.metrics_listen, Some(([127, 0, 0, 1], 9464).into()));
}

#[test]
fn later_sources_override_earlier_ones() {
    let file = "jobs_max = 100\nconnection_jobs_max = 1\nidle_timeout_ms = 20\n";
    let env = [("CAPSTAN_JOBS_MAX", "101"), ("CAPSTAN_IDLE_TIMEOUT_MS", "21"), ("HOME", "/")];
    let server = with_file(file, &["--jobs-max", "102"], &env).unwrap().server;
    assert_eq!((server.jobs_max, server.connection_jobs_max), (102, 1));
    assert_eq!(server.idle_timeout, Duration::from_millis(21));
}

#[test]
fn reads_every_kind_from_a_file() {
    let file = r#"
        listen = "none"
        unix_socket = "/run/x"
        unix_mode = 0o600
        store_bytes_max = "3 MiB"
        bytes_in_flight_max = 1_073_741_824
        reflection = false
        log_format = "json"
        log_level = "warn,capstan=trace"
        engine = "cuda"
        cuda_driver = "/opt/libcuda.so"
        cuda_devices = "1,3"
        cuda_devices_min = 2
        cuda_memory_percent = 50
        cuda_pinned_bytes = "0 MiB"
    "#;
    let config = with_file(file, &["--admin-over-tcp"], &NOTHING).unwrap();
    let server = &config.server;
    assert_eq!((server.listen, server.unix_mode), (None, 0o600));
    assert_eq!(server.unix_socket.as_deref(), Some(Path::new("/run/x")));
    assert_eq!((server.store_bytes_max, server.bytes_in_flight_max), (3 << 20, 1 << 30));
    assert_eq!((server.reflection, server.admin_over_tcp), (false, true));
    assert_eq!((config.log_format, config.engine), (LogFormat::Json, EngineChoice::Cuda));
    assert_eq!(config.log_level, "warn,capstan=trace");
    let cuda = &config.cuda;
    assert_eq!(cuda.driver.as_deref(), Some(Path::new("/opt/libcuda.so")));
    assert_eq!((cuda.devices.as_slice(), cuda.memory_percent), (&[1, 3][..], 50));
    assert_eq!((cuda.devices_min, cuda.pinned_bytes), (2, 0));
}

#[test]
fn problems_name_setting_source_and_range() {
    let file = "jbs_max = 1\n[server]\nlisten = 1\n";
    let error = with_file(file, &[], &[("CAPSTAN_LISTE", "x")]).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(error.contains("jbs_max (FILE): no such setting; did you mean jobs_max?"), "{error}");
    assert!(error.contains("server (FILE): no such setting"), "{error}");
    let unknown = "liste (environment CAPSTAN_LISTE): no such setting; did you mean listen?";
    assert!(error.contains(unknown), "{error}");

    let file = "jobs_max = -1\nworkers = 1.5\nstore_bytes_max = [1]\n";
    let error = with_file(file, &["--threads", "many"], &[("CAPSTAN_LISTEN", "x")]).unwrap_err();
    for want in [
        r#"jobs_max = "-1" (FILE): must be 1 to 1000000 jobs"#,
        r#"workers = "1.5" (FILE): must be 0 to 64 jobs, 0 for two per GPU, or two without GPUs"#,
        r#"store_bytes_max = "[list]" (FILE): must be 1 MiB to 64 TiB, or auto"#,
        r#"threads = "many" (--threads): must be 0 to 4096 threads"#,
        r#"listen = "x" (environment CAPSTAN_LISTEN): must be IP:PORT, [IPv6]:PORT or HOST:PORT"#,
    ] {
        assert!(error.contains(want), "{want} is not in:\n{error}");
    }
    assert_eq!(error.lines().count(), 5, "{error}");
}

#[test]
fn refuses_files_that_are_not_toml_or_do_not_exist() {
    // The path may be relative to the test's working directory.
    let error = with_file("jobs_max = \n", &[], &NOTHING).unwrap_err();
    assert!(error.contains("FILE") || error.contains("capstand.toml"), "{error}");
    let error = config(&["--config", "/nonexistent/x.toml"], &NOTHING).unwrap_err();
    assert!(error.contains("/nonexistent/x.toml"), "{error}");
}

#[test]
fn ignores_variables_that_are_not_settings() {
    let env = [
        ("CAPSTAN_SERVER", "x"),
        ("CAPSTAN_TOKEN", "x"),
        ("CAPSTAN_NVCC", "x"),
        ("CAPSTAN_LOG", "debug"),
        ("CAPSTAN_FATBINS", "x"),
        // Set by Kubernetes for a service named capstan.
        ("CAPSTAN_SERVICE_HOST", "10.0.0.1"),
        ("CAPSTAN_PORT", "tcp://10.0.0.1:7654"),
        ("CAPSTAN_PORT_7654_TCP_ADDR", "10.0.0.1"),
    ];
    config(&[], &env).unwrap();
    assert!(config(&[], &[("CAPSTAN_PORT", "7654")]).unwrap_err().contains("no such setting"));
}

#[test]
fn refuses_settings_that_contradict_each_other() {
    let otlp = match cfg!(feature = "otlp") {
        true => "must begin with http:// or https://",
        false => "built without the feature otlp",
    };
    let jwks: &[&str] = &["--auth-jwks", "/nonexistent", "--auth-jwt-issuer", "a"];
    let table: [(&[&str], &str); 23] = [
        (&["--listen", "none"], "unix_socket"),
        (&["--listen", "none", "--admin-socket", "/x"], "unix_socket"),
        (&["--admin-socket", "/x", "--unix-socket", "/x"], "also the path of unix_socket"),
        (&["--admin-socket", "/x", "--admin-over-tcp"], "must be false"),
        (&["--metrics-listen", "127.0.0.1:7654"], "listen"),
        (&["--metrics-tls"], "requires tls_certificate"),
        (&["--metrics-tenants"], "requires tenants"),
        (&["--otlp-endpoint", "localhost:4317"], otlp),
        (&["--connection-jobs-max", "300"], "at most jobs_max = 256"),
        (&["--bytes-in-flight-max", "1 GiB", "--connection-bytes-in-flight-max", "2 GiB"], "1 GiB"),
        (
            &["--http2-connection-window-bytes", "1 MiB", "--http2-stream-window-bytes", "2 MiB"],
            "http2_stream_window_bytes = \"2 MiB\"",
        ),
        (&["--message-payload-bytes-max", "8 MiB", "--bytes-in-flight-max", "8 MiB"], "4 MiB"),
        (&["--tls-key", "/nonexistent"], "requires tls_certificate"),
        (&["--tls-key", "/nonexistent", "--tls-certificate", "/nonexistent"], "No such file"),
        (&["--tls-client-ca", "/nonexistent"], "requires tls_certificate"),
        (&["--auth-tokens", "/nonexistent"], "No such file"),
        (jwks, "requires auth_jwt_audience"),
        (&[jwks, &["--auth-jwt-audience", "b"]].concat(), "No such file"),
        (&["--auth-jwt-issuer", "a"], "requires auth_jwks"),
        (&["--auth-proxies", "anonymous"], "must name callers that are known"),
        (&["--listen", "none", "--unix-socket", "/x", "--auth-tokens", "/x"], "requires listen"),
        (
            &["--listen", "0.0.0.0:7654"],
            "set auth_tokens, auth_jwks or tls_client_ca, or set insec",
        ),
        (&["--listen", "[::]:7654"], "other hosts can reach this address"),
    ];
    for (flags, want) in table {
        let error = config(flags, &NOTHING).unwrap_err();
        assert!(error.contains(want), "{flags:?}: {error}");
    }
}

#[test]
fn every_problem_is_reported_at_once_and_none_twice() {
    const NO_FILE: &str = "No such file";
    let table: [(&str, &[&str], &[Report<'_>]); 3] = [
        (
            "jbs_max = 1\nworkers = 65\n",
            &[
                "--listen=0.0.0.0:0",
                "--metrics-tls",
                "--tls-certificate=/nonexistent",
                "--auth-jwks=/nonexistent",
                "--tenants=/nonexistent",
            ],
            &[
                ["jbs_max", "did you mean jobs_max?"],
                ["workers", "must be 0 to 64 jobs"],
                ["tls_certificate", "requires tls_key"],
                ["auth_jwks", "requires auth_jwt_issuer"],
                ["auth_jwks", "requires auth_jwt_audience"],
                ["tenants", NO_FILE],
            ],
        ),
        (
            "",
            &[
                "--tls-certificate=/nonexistent",
                "--tls-key=/nonexistent",
                "--tls-client-ca=/nonexistent",
                "--auth-tokens=/nonexistent",
            ],
            &[
                ["tls_certificate", NO_FILE],
                ["tls_key", NO_FILE],
                ["tls_client_ca", NO_FILE],
                ["auth_tokens", NO_FILE],
            ],
        ),
        // Whether the other limit is exceeded is not known.
        ("jobs_max = \"x\"\n", &["--connection-jobs-max=300"], &[["jobs_max", "must be"]]),
    ];
    for (file, flags, want) in table {
        assert_reports(&with_file(file, flags, &NOTHING).unwrap_err(), want);
    }
    let unread = ["--config", "/nonexistent/x.toml", "--connection-jobs-max=300"];
    let error = config(&unread, &NOTHING).unwrap_err();
    assert!(error.lines().count() == 1 && error.contains(NO_FILE), "{error}");
}

#[test]
fn a_default_follows_the_limit_that_it_must_not_exceed() {
    let server = |flags: &[&str]| config(flags, &NOTHING).unwrap().server;
    assert_eq!(server(&["--jobs-max=32"]).connection_jobs_max, 32);
    assert_eq!(server(&["--bytes-in-flight-max=1 MiB"]).message_payload_bytes_max, 512 << 10);
    let windows = |flag: &str| {
        let server = server(&[flag]);
        (server.http2_stream_window_bytes, server.http2_connection_window_bytes)
    };
    assert_eq!(windows("--http2-connection-window-bytes=1 MiB"), (1 << 20, 1 << 20));
    assert_eq!(windows("--http2-stream-window-bytes=32 MiB"), (32 << 20, 32 << 20));
    // Proxies: the window of a connection is that of its streams, up to 64 MiB.
    for flag in ["--shared-connections", "--auth-proxies=uid:33"] {
        assert_eq!(windows(flag), (4 << 20, 64 << 20));
    }
    let printed = read(&["--jobs-max=32", "--shared-connections"], &NOTHING).unwrap().to_toml();
    for line in ["# connection_jobs_max = 32\n", "# http2_connection_window_bytes = \"64 MiB\"\n"] {
        assert!(printed.contains(line), "{printed}");
    }
}

#[test]
fn refuses_an_administrative_socket_at_the_path_of_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let here = std::env::current_dir().unwrap().join("x");
    let regions = "the socket that hands out regions";
    for (admin, want) in [
        (path("x"), "the path of unix_socket"),
        (path("./x"), "the path of unix_socket"),
        (path("link/x"), "the path of unix_socket"),
        (path("sub/../x"), "the path of unix_socket"),
        (path("x.regions"), regions),
        (path("link//x.regions"), regions),
    ] {
        let flags = ["--unix-socket", &path("x"), "--admin-socket", &admin];
        let error = config(&flags, &NOTHING).unwrap_err();
        assert!(error.contains("admin_socket") && error.contains(want), "{admin}: {error}");
    }
    let relative = ["--unix-socket", "x", "--admin-socket", here.to_str().unwrap()];
    assert!(config(&relative, &NOTHING).is_err(), "{relative:?}");
    // Without regions, there is no third socket.
    let flags = ["--unix-socket", "/x", "--admin-socket", "/x.regions", "--region-bytes-max", "0"];
    config(&flags, &NOTHING).unwrap();
    config(&["--unix-socket", &path("x"), "--admin-socket", &path("y")], &NOTHING).unwrap();
}

/// A certificate and its key as PEM.
fn certified() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn with_tls<T>(certificate: &str, key: &str, work: impl FnOnce(&[&str]) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = (write("certificate.pem", certificate), write("key.pem", key));
    work(&["--tls-certificate", &certificate, "--tls-key", &key])
}

#[test]
fn every_entry_that_would_be_left_out_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let hash = "1f".repeat(32);
    let token = |name, hash| format!("[[tokens]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n");
    let tokens = [token("a", hash.as_str()), token("b", "1f"), token("c", &hash)].concat();
    let usable = format!(r#"{{ "kty": "OKP", "crv": "Ed25519", "x": "{}" }}"#, "A".repeat(43));
    let short = r#"{ "kty": "OKP", "crv": "Ed25519", "x": "AA" }"#;
    let keys = format!(r#"{{ "keys": [{usable}, {short}, 7] }}"#);
    let (certificate, key) = certified();
    let broken = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let client_ca = write("ca.pem", &[broken, &certificate].concat());
    let (tokens, keys) = (write("tokens.toml", &tokens), write("jwks.json", &keys));
    let jwt = ["--auth-jwks", &keys, "--auth-jwt-issuer=a", "--auth-jwt-audience=b"];
    let files = [&jwt[..], &["--auth-tokens", &tokens, "--tls-client-ca", &client_ca]].concat();
    let left_out = [
        ["tls_client_ca", "ca.pem\" (--tls-client-ca): certificate 1 cannot be used"],
        ["auth_tokens", "tokens.toml\" (--auth-tokens): entry 2: sha256 must be 64"],
        ["auth_tokens", "entry 3: an earlier entry has the same sha256"],
        ["auth_jwks", "jwks.json\" (--auth-jwks): keys[1] cannot be used"],
        ["auth_jwks", "keys[2] cannot be used"],
    ];
    with_tls(&certificate, &key, |tls| {
        let flags = [tls, &files].concat();
        config(&flags, &NOTHING).expect("the daemon starts without these entries");
        assert_reports(&check_all(&flags), &left_out);
        // Together with a problem of two values, and of one value alone.
        let jobs = ["connection_jobs_max", "--connection-jobs-max=300"];
        for [setting, flag] in [jobs, ["workers", "--workers=65"]] {
            let error = check_all(&[&flags[..], &[flag]].concat());
            assert_reports(&error, &[&left_out[..], &[[setting, "must be"]]].concat());
        }
    });
    // No file hides another one, or the entries of another one.
    fs::write(&client_ca, "sesame").unwrap();
    with_tls("sesame", "sesame", |tls| {
        let unusable = [
            ["tls_certificate", "has no certificate in PEM"],
            ["tls_key", "has no private key in PEM"],
            ["tls_client_ca", "has no certificate in PEM"],
        ];
        let error = check_all(&[tls, &files].concat());
        assert_reports(&error, &[&unusable[..], &left_out[1..]].concat());
    });
}

#[test]
fn serves_other_hosts_only_with_credentials_or_if_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.toml");
    fs::write(&tokens, "").unwrap();
    let everywhere = |more: &[&str]| config(&[&["--listen", "0.0.0.0:0"], more].concat(), &NOTHING);
    assert!(everywhere(&["--insecure"]).unwrap().server.insecure);
    assert!(everywhere(&["--auth-tokens", tokens.to_str().unwrap()]).is_ok());
    assert!(config(&["--listen", "[::ffff:127.0.0.1]:0"], &NOTHING).is_ok());
    // Encryption alone says nothing about who calls.
    let (certificate, key) = certified();
    let error = with_tls(&certificate, &key, everywhere).unwrap_err();
    assert!(error.contains("nothing says who may call"), "{error}");
    let client_ca = folder.path().join("ca.pem");
    fs::write(&client_ca, &certificate).unwrap();
    let client_ca = ["--tls-client-ca", client_ca.to_str().unwrap()];
    let config = with_tls(&certificate, &key, |tls| everywhere(&[tls, &client_ca].concat()));
    assert!(config.unwrap().server.authenticates());
}

#[test]
fn never_prints_keys_or_tokens() {
    let (certificate, key) = certified();
    let secret = key.lines().nth(1).unwrap();
    with_tls(&certificate, &key, |flags| {
        assert!(!format!("{:?}", config(flags, &NOTHING).unwrap()).contains(secret));
        assert!(!read(flags, &NOTHING).unwrap().to_toml().contains(secret));
    });
    // A token instead of its hash.
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.toml");
    fs::write(&tokens, "[[tokens]]\nname = \"ci\"\nsha256 = \"capstan_sesame\"\n").unwrap();
    let read = config(&["--auth-tokens", tokens.to_str().unwrap()], &NOTHING);
    assert!(!format!("{:?}", read.unwrap()).contains("sesame"));
}

#[test]
fn refuses_certificates_and_keys_that_the_listener_would_refuse() {
    let ((certificate, key), (_, another)) = (certified(), certified());
    let half = &certificate[..certificate.len() / 2];
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (certificate, key, problem) in [
        ("sesame", key.as_str(), "has no certificate in PEM"),
        (half, &key, "is not valid PEM"),
        (&certificate, "sesame", "has no private key in PEM"),
        (&certificate, &certificate, "has no private key in PEM"),
        (&certificate, encrypted, "is encrypted"),
        (&certificate, &another, "cannot be used with tls_key"),
    ] {
        let error = with_tls(certificate, key, |flags| config(flags, &NOTHING)).unwrap_err();
        assert!(error.contains(problem), "{problem}: {error}");
        assert!(!error.contains("sesame"), "{problem}: {error}");
    }
    // Some editors write a byte order mark.
    let [certificate, key] = [certificate, key].map(|pem| format!("\u{feff}{pem}"));
    with_tls(&certificate, &key, |flags| config(flags, &NOTHING)).unwrap();
}

#[test]
fn a_file_of_bases_to_preload_must_be_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("preload.toml");
    let preload = ["--preload", file.to_str().unwrap()];
    let with_data = [&preload[..], &["--data-dir", "/data"]].concat();
    let error = config(&with_data, &NOTHING).unwrap_err();
    assert!(error.contains("preload = ") && error.contains("No such file"), "{error}");
    fs::write(&file, "[[bases]]\nid = \"12\"\n").unwrap();
    let error = config(&with_data, &NOTHING).unwrap_err();
    assert!(error.contains("bases[0].id: must be 64 hex digits"), "{error}");
    fs::write(&file, format!("[[bases]]\nid = \"{}\"\npin = true\n", "1f".repeat(32))).unwrap();
    let server = config(&with_data, &NOTHING).unwrap().server;
    assert_eq!(server.preload.as_deref(), Some(file.as_path()));
    let error = config(&preload, &NOTHING).unwrap_err();
    assert!(error.contains("requires data_dir"), "{error}");
}

#[test]
fn printed_configuration_reads_back() {
    let printed = read(&[], &NOTHING).unwrap().to_toml();
    assert!(printed.lines().all(|line| line.is_empty() || line.starts_with("# ")), "{printed}");
    let set: String = printed
        .lines()
        .filter(|line| line.contains(" = "))
        .fold(String::new(), |text, line| text + line.trim_start_matches("# ") + "\n");
    let settings = command()
        .get_arguments()
        .filter(|argument| argument.get_help_heading() == Some("Settings"))
        .count();
    assert_eq!(set.lines().count(), settings, "{set}");
    let config = with_file(&set, &[], &NOTHING).unwrap();
    assert_eq!(config.server.http2_frame_bytes_max, 256 << 10);

    let flags = ["--data-dir", r#"/a "b" \c"#, "--jobs-max", "99", "--unix-mode=600"];
    let printed = read(&flags, &NOTHING).unwrap().to_toml();
    let server = with_file(&printed, &[], &NOTHING).unwrap().server;
    assert_eq!(server.data_dir.as_deref(), Some(Path::new(r#"/a "b" \c"#)));
    assert_eq!((server.jobs_max, server.unix_mode), (99, 0o600));
}
