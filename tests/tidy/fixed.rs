//! Tests run in parallel, also those of several checkouts: none takes a fixed port, a folder that
//! all processes share, or a name or an address made from a process id.

use regex::Regex;

use crate::{
    report,
    source::{File, prose_files},
};

const USE_PORT_0: &str =
    "use port 0 and the address that the log names, or tests/common/stable_port.rs";

/// Regexes, and what to write instead. Ports below 1000 are allowed: tests use them as unreachable
/// addresses.
const BANNED: [(&str, &str); 7] = [
    (r"(127(\.\d+){3}|0\.0\.0\.0|localhost|\[[0-9a-f:.]*\]):[1-9][0-9_]{3,}", USE_PORT_0),
    (r"\[(127(, \d+){3}|0, 0, 0, 0|0; 4)\]\)?(\.into\(\))?, [1-9][0-9_]{3,}", USE_PORT_0),
    (r#""(127(\.\d+){3}|0\.0\.0\.0|localhost|::1?)"(\.\w+\(\))?, [1-9][0-9_]{3,}"#, USE_PORT_0),
    (
        r"\b(LOCALHOST|UNSPECIFIED|Ipv[46]Addr::new\([^()]*\))\)?(\.into\(\))?, [1-9][0-9_]{3,}",
        USE_PORT_0,
    ),
    (r"(?i)\b(\w+_)?port(: (u16|int) =| ?=|:) ?[1-9][0-9_]{3,}", USE_PORT_0),
    (r"\bprocess::id\(\)|\bgetpid\(\)", "ids repeat: use tempfile, or port 0"),
    (r"/tmp/|/var/tmp/|/dev/shm/|\btemp_dir\(\)|\bgettempdir\(\)", "use a folder of tempfile"),
];

/// Lines that may have them: nothing listens at their addresses, and their process ids do not name
/// anything shared.
const ALLOWED: &[(&str, &str)] = &[
    // These settings and URLs are parsed, and not used.
    ("src/client/transfer/mapped_region.rs", r#"unix_socket("http://localhost:7654")"#),
    ("tests/services/client_faults.rs", r#"for target in ["127.0.0.1:7654", "ftp://x", ""]"#),
    ("tests/services/settings.rs", "Some(([127, 0, 0, 1], 9464).into())"),
    ("tests/services/settings.rs", r#"&["--metrics-listen", "127.0.0.1:7654"]"#),
    ("tests/services/settings.rs", r#"&["--otlp-endpoint", "localhost:4317"]"#),
    ("tests/services/settings.rs", r#"&["--listen", "0.0.0.0:7654"]"#),
    ("tests/services/settings.rs", r#"&["--listen", "[::]:7654"]"#),
    // Part of a finding.
    ("src/cli/doctor/host/ports.rs", "let address = SocketAddr::from(([127, 0, 0, 1], 7654));"),
    // Replaced by addresses that are free.
    ("python/tests/test_documents.py", r#"replace("http://127.0.0.1:7654", daemon.target)"#),
    ("tests/proxies/proxy.rs", r#"replace("0.0.0.0:7654 ssl", "#),
    ("tests/cli/groth16.rs", r#"replace("/tmp/", &folder)"#),
    // The test's own process.
    ("src/cli/doctor/host/sockets.rs", "assert_eq!(daemon.id, std::process::id());"),
    ("tests/device/spread.rs", "children(std::process::id())"),
    // The start of a search that skips ports in use.
    ("deploy/tests/ports.py", "begin = os.getpid()"),
    ("tests/common/stable_port.rs", "let begin = std::process::id()"),
];

/// Contains the patterns that it bans.
const EXEMPT: &str = "tests/tidy/fixed.rs";

/// Folders and files that only tests, benchmarks and checks of examples use.
const TESTS: [&str; 6] =
    ["tests/", "benches/", "examples/common/", "examples/check", "python/tests/", "deploy/tests/"];

/// The part of a file that only tests run, with empty lines instead of the rest.
fn test_code(File { path, text }: &File) -> String {
    if path.ends_with(".md") || path == EXEMPT {
        return String::new();
    }
    let is_test_module = path.ends_with("/tests.rs") || path.contains("/tests/");
    if is_test_module || TESTS.iter().any(|start| path.starts_with(start)) {
        return text.clone();
    }
    let begin = text.find("#[cfg(test)]\nmod ").filter(|_| path.ends_with(".rs"));
    begin.map_or_else(String::new, |at| "\n".repeat(text[..at].matches('\n').count()) + &text[at..])
}

/// Complaints about a file. Removes from `unused` what allows one of its lines.
fn complaints(file: &File, unused: &mut Vec<(&str, &str)>) -> Vec<String> {
    let banned = BANNED.map(|(regex, advice)| (Regex::new(regex).expect("a valid regex"), advice));
    let mut found = Vec::new();
    for (at, line) in test_code(file).lines().enumerate() {
        let is_here = |(path, text): &(&str, &str)| *path == file.path && line.contains(text);
        let hits = banned.iter().filter(|(regex, _)| regex.is_match(line));
        let hits = hits.map(|(_, advice)| format!("{}:{}: {advice}", file.path, at + 1));
        let hits: Vec<_> = hits.collect();
        if !hits.is_empty() && ALLOWED.iter().any(is_here) {
            unused.retain(|allowed| !is_here(allowed));
        } else {
            found.extend(hits);
        }
    }
    found
}

#[test]
fn tests_share_no_fixed_ports_folders_or_process_ids() {
    let mut unused = ALLOWED.to_vec();
    let mut found = Vec::new();
    for file in prose_files() {
        found.extend(complaints(&file, &mut unused));
    }
    let stale = unused.iter().map(|(path, text)| format!("{path}: no line needs {text:?}"));
    found.extend(stale);
    report(found);
}

#[test]
fn fixed_ports_and_names_are_found_in_tests_only() {
    let found = |path: &str, text: &str| {
        let file = File { path: path.into(), text: text.into() };
        complaints(&file, &mut Vec::new())
    };
    for line in [
        r#"TcpListener::bind("127.0.0.1:9464")"#,
        r#"start(&["--listen", "[::1]:20_000"])"#,
        r#"let text = "metrics_listen = \"0.0.0.0:9464\"";"#,
        "SocketAddr::from(([127, 0, 0, 1], 7654))",
        "SocketAddr::from(([127, 0, 0, 1].into(), 7654))",
        "TcpListener::bind((Ipv4Addr::LOCALHOST, 7654))",
        "SocketAddr::from((Ipv4Addr::new(127, 64, 0, 1), 9464))",
        r#"probe.bind(("127.0.0.1", 9464))"#,
        r#"TcpListener::bind(("localhost", 9464))"#,
        r#"TcpListener::bind("127.0.0.2:9464")"#,
        "SocketAddr::from(([127, 0, 0, 2], 9464))",
        "SocketAddr::from(([0; 4], 9464))",
        "SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 9464)",
        "SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 9464)",
        "const PORT: u16 = 9464;",
        "let metrics_port = 9464;",
        "Settings { port: 9_464 }",
        r#"format!("capstan-{}", std::process::id())"#,
        r#"fs::create_dir("/tmp/capstan")"#,
    ] {
        for path in ["tests/a.rs", "src/a/tests.rs", "src/a/tests/b.rs", "b/c/tests/a.rs"] {
            assert_eq!(found(path, line).len(), 1, "{path}: {line}");
        }
        assert_eq!(found("src/a.rs", line).len(), 0, "{line}");
        let module = format!("\n#[cfg(test)]\nmod tests {{\n{line}\n}}\n");
        let [complaint] = &found("src/a.rs", &module)[..] else { panic!("{line}") };
        assert!(complaint.starts_with("src/a.rs:4: "), "{complaint}");
    }
    for line in [
        r#"TcpListener::bind("127.0.0.1:0")"#,
        r#"const UNREACHABLE: &str = "http://127.0.0.1:1";"#,
        "SocketAddr::from(([127, 0, 0, 1], 0))",
        r#"format!("127.0.0.1:{port}")"#,
        "let port = 0;",
        "let report = 2000;",
    ] {
        assert_eq!(found("tests/a.rs", line).len(), 0, "{line}");
    }
}
